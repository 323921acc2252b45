// @ts-check
/** Allowing what was refused: in this run for an hour, or for good, which can be taken back. The server makes the rule. */
import { signal } from "@preact/signals";
import { call } from "../api.js";
import { ruled } from "../settings/asked.js";
import { failed, isOver, toast } from "../store.js";
import { address } from "./actions.js";

/** @typedef {{number: number, host: string, port: number, scheme: string, reason: string, method?: string, path?: string}} Refused */
/** @typedef {{rule: string, client: string}} Added */

// Other reasons are somebody's will, or nothing that a rule could change.
const BY_RULE = ["not-listed", "port", "method", "path", "ask-timeout", "ask-full", "ask-used", "ask-denied"];
const OF_PORT = ["not-listed", "port"];
const NAME = /^[a-z0-9_-]+(\.[a-z0-9_-]+)+$/;
const WHILE = 10 * 60 * 1000;
const HOUR = 3600;

/** What was added here, by what it is for: it can be taken back for a while. */
export const added = signal(/** @type {Map<string, Added>} */ (new Map()));
/** Of each client's policy as this page last left it: what others wrote since is not ours to undo. @type {Map<string, string>} */
const revisions = new Map();

/** @param {Refused} refused */
export function couldAllow({ host, port, reason }) {
  return BY_RULE.includes(reason) && NAME.test(host) && Number.isInteger(port);
}

/** All refusals that one rule is for: of a port or, where a rule looks inside, of such a request. @param {any} run @param {Refused} refused */
export const purposeOf = (run, { host, port, scheme, reason, method, path }) =>
  [run.client, scheme, `${host}:${port}`, ...(OF_PORT.includes(reason) ? [] : [method, path])].join(" ");

/** @param {string} purpose @param {Added} [one] */
function note(purpose, one) {
  const changed = new Map(added.value);
  if (one) changed.set(purpose, one);
  else changed.delete(purpose);
  added.value = changed;
}

/** In this run alone, which has to be at work. @param {any} run @param {Refused} refused */
export async function allowForAnHour(run, refused) {
  try {
    const body = { verdict: "for", seconds: HOUR };
    const { rule } = await call("POST", `${address(run)}/egress/${refused.number}/allow`, body);
    const detail = `${rule ? "In this run only. " : ""}The agent has to try again.`;
    toast(rule ? `${refused.host} is allowed for an hour` : `${refused.host} was allowed already`, { kind: "done", detail, seconds: 10 });
  } catch (error) {
    failed(error);
  }
}

/** @param {any} run @param {Refused} refused */
export async function allowAlways(run, refused) {
  try {
    const done = await call("POST", `${address(run)}/egress/${refused.number}/allow`, { verdict: "always" });
    revisions.set(run.client, done.revision);
    const told = { kind: /** @type {const} */ ("done"), detail: detailOf(run, done), seconds: 10 };
    if (!done.added) return void toast(`${refused.host} was allowed already`, told);
    const purpose = purposeOf(run, refused);
    note(purpose, { rule: done.rule, client: run.client });
    setTimeout(() => note(purpose), WHILE);
    toast(`${refused.host} is allowed from now on`, { ...told, undo: () => takeBack(purpose) });
  } catch (error) {
    failed(error);
  }
}

/** @param {any} run @param {{rule: string, unmoved: {run: string, cause: string}[]}} done */
function detailOf(run, { rule, unmoved }) {
  const whose = run.client ? `The policy of ${run.client}` : "Your policy";
  const deaf = unmoved.map((each) => `${each.run} keeps what it had: ${each.cause}.`);
  return [rule && `${whose} has ${rule}.`, !isOver(run) && "The agent has to try again.", ...deaf].filter(Boolean).join(" ");
}

/** @param {string} purpose */
export async function takeBack(purpose) {
  const one = added.value.get(purpose);
  if (!one) return;
  const whose = one.client ? `?client=${encodeURIComponent(one.client)}` : "";
  try {
    const done = await call("POST", `/settings/policy/withdraw${whose}`, { rule: one.rule, revision: revisions.get(one.client) });
    ruled.value++;
    revisions.set(one.client, done.revision);
    toast("Taken back", { kind: "done", detail: `${one.rule} is no longer in the policy.` });
  } catch (error) {
    failed(error);
  }
  note(purpose);
}
