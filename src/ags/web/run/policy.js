// @ts-check
/** A rule for what was refused, put into the policy's text as a person would. */
import { call } from "../api.js";

/** @typedef {{host: string, port: number, scheme: string, reason: string}} Refused */

// Other reasons are somebody's will, or nothing that a rule could change.
const BY_RULE = ["not-listed", "port", "method", "path", "ask-timeout", "ask-full", "ask-used", "ask-denied"];
const USUAL = /** @type {Record<number, string>} */ ({ 443: "tls", 80: "http" });
// The name is the agent's choice: nothing in it may mean anything in YAML.
const HOST = /^[a-z0-9_-]+(\.[a-z0-9_-]+)+$/;
const MOST_NAME = 253;

/** @param {Refused} refused */
export function couldAllow({ host, port, reason }) {
  return BY_RULE.includes(reason) && host.length <= MOST_NAME && HOST.test(host) && Number.isInteger(port);
}

/** @param {Refused} refused */
export function ruleFor({ host, port, scheme }) {
  const protocol = (USUAL[port] ?? "raw") === scheme ? "" : `, protocol: ${scheme === "tls" || scheme === "http" ? scheme : "raw"}`;
  return `{host: ${host}, ports: [${port}]${protocol}}`;
}

/**
 * The text with one more rule; null where its list is written in a way that we leave alone.
 * @param {string} text
 * @param {string} rule
 * @returns {string | null}
 */
export function withRule(text, rule) {
  const lines = text.split("\n");
  const at = lines.findIndex((line) => /^["']?domains["']?\s*:/.test(line));
  if (at < 0) return `${text}${text && !text.endsWith("\n") ? "\n" : ""}domains:\n  - ${rule}\n`;
  if (!/^domains:\s*(#.*)?$/.test(lines[at])) return null;
  const next = lines.slice(at + 1).find((line) => /^\s*[^\s#]/.test(line));
  const indent = /^(\s*)- /.exec(next ?? "")?.[1] ?? "  ";
  lines.splice(at + 1, 0, `${indent}- ${rule}`);
  return lines.join("\n");
}

/**
 * For good, in the policy of the run's client. The server reads it before it takes it.
 * @param {Refused} refused
 * @param {string} client
 * @returns {Promise<{file: string, reloaded: string[]} | null>} null if the person has to write it
 */
export async function allowAlways(refused, client) {
  const whose = client && client !== "default" ? `?client=${encodeURIComponent(client)}` : "";
  const { text, revision } = await call("GET", `/settings/policy${whose}`);
  const changed = withRule(text, ruleFor(refused));
  if (changed === null) return null;
  return call("PUT", `/settings/policy${whose}`, { text: changed, revision });
}
