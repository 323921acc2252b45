// @ts-check
// What a policy opens and closes, as it was understood.
import { html } from "../ui.js";

/** @typedef {{host: string, ports: number[], methods: string[], paths: string[], layer: string, service: string}} Rule */
/**
 * @typedef {{ok: boolean, problems: import("./editor.js").Mistake[], rules: Rule[], deny: Rule[],
 *   ask: boolean | null, pending: string[], upstreams: {host: string, address: string, port: number | null}[],
 *   host_services: number[]}} Checked
 */

/** @param {{found: Checked | null, empty: boolean}} props */
export function Opens({ found, empty }) {
  const [title, body] = said(found, empty);
  return html`<aside class="opens" aria-label="What this file means"><h2>${title}</h2>${body}</aside>`;
}

/** @param {Checked | null} found @param {boolean} empty @returns {[string, any]} */
function said(found, empty) {
  if (empty) return ["What it opens", html`<p class="hint">What you write is read as you write it, and told here.</p>`];
  if (!found) return ["What it opens", html`<p class="hint">Reading it…</p>`];
  if (!found.ok) return ["What it opens", html`<p class="hint">It cannot be read yet. Runs keep to what is saved.</p>`];
  return ["What it opens", html`<${Meaning} found=${found} />`];
}

/** @param {{found: Checked}} props */
function Meaning({ found }) {
  const asks = found.ask === null ? null : found.ask ? "What is refused is held, and you are asked." : "Nobody is asked: what is refused is refused.";
  return html`
    ${![found.rules, found.pending, found.host_services].some((each) => each.length) && html`<p class="hint">Nothing beyond what is built in.</p>`}
    <${Rules} rules=${found.rules} />
    ${found.pending.map((name) => html`<p class="rule"><b>${name}</b> <span class="faint">its registry is asked of ${name} when a run starts</span></p>`)}
    ${found.host_services.map((port) => html`<p class="rule"><b>port ${port}</b> <span class="faint">of this machine</span></p>`)}
    ${found.upstreams.length > 0 && html`<h3>Dialled at a fixed address</h3><ul class="rules">${found.upstreams.map((each) => html`<li
      class="rule"><code>${each.host}</code> <span class="faint">at ${each.address}${each.port ? ` port ${each.port}` : ""}</span></li>`)}</ul>`}
    ${found.deny.length > 0 && html`<h3>Closed, whatever else opens it</h3><${Rules} rules=${found.deny} />`}
    ${asks && html`<p class="hint">${asks}</p>`}`;
}

/** By service, so that one that brings many hosts is one entry. @param {{rules: Rule[]}} props */
function Rules({ rules }) {
  const own = rules.filter((rule) => !rule.service);
  const services = [...new Set(rules.map((rule) => rule.service).filter(Boolean))];
  return html`<ul class="rules">
    ${own.map((rule) => html`<li class="rule"><${Line} rule=${rule} /></li>`)}
    ${services.map((name) => html`<li><details>
      <summary><b>${name}</b> <span class="faint">${hosts(rules, name)}</span></summary>
      ${rules.filter((rule) => rule.service === name).map((rule) => html`<div class="rule"><${Line} rule=${rule} /></div>`)}
    </details></li>`)}
  </ul>`;
}

/** @param {Rule[]} rules @param {string} service */
function hosts(rules, service) {
  const names = [...new Set(rules.filter((rule) => rule.service === service).map((rule) => rule.host))];
  return names.length > 2 ? `${names.slice(0, 2).join(", ")} and ${names.length - 2} more` : names.join(", ");
}

/** @param {{rule: Rule}} props */
function Line({ rule }) {
  const usual = !rule.ports.length || rule.ports.join() === "443,80";
  const more = [rule.methods.join(", "), rule.paths.join(" ")].filter(Boolean).join(" ");
  return html`<code>${rule.host}${usual ? "" : `:${rule.ports.join(",")}`}</code>${more && html` <span class="faint">${more}</span>`}`;
}
