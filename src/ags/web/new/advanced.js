// @ts-check
// What few runs need to say, and what a run will be able to reach.
import { useState } from "preact/hooks";
import { html, SelectField, TextField, Trouble } from "../ui.js";

/** @typedef {import("./form.js").Form} Form */

const LIMITS = /** @type {const} */ ([
  ["memory", "Memory", "2G, 50% or none"],
  ["cpus", "Processors", "1.5 or none"],
  ["pids", "Processes", "4096 or none"],
  ["timeout", "Time", "90s, 10m or none"],
]);

const ASK = [
  { value: "", label: "As the policy says" },
  { value: "yes", label: "Ask me" },
  { value: "no", label: "Refuse" },
];

/** Whether anything here was chosen. @param {Form} form */
function isChanged(form) {
  const { memory, cpus, pids, timeout, allow, publish, ask, backend } = form;
  return !form.network || [memory, cpus, pids, timeout, allow, publish, ask, backend].some(Boolean);
}

/** @param {{form: Form, set: (changes: Partial<Form>) => void, backends: string[]}} props */
export function Advanced({ form, set, backends }) {
  const changed = isChanged(form);
  const [open, setOpen] = useState(changed);
  const typed = (/** @type {keyof Form} */ name) => ({ value: form[name], onInput: (/** @type {string} */ text) => set({ [name]: text }) });
  const toggled = (/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.target).open);
  const ticked = (/** @type {Event} */ event) => set({ network: /** @type {HTMLInputElement} */ (event.target).checked });
  return html`<details class="advanced" open=${open} onToggle=${toggled}><summary>Advanced${changed && html`<span class="faint"> · changed</span>`}</summary>
    <div class="advanced-body">
      <div class="four">${LIMITS.map(([name, label, example]) => html`<${TextField} label=${label} placeholder=${example} ...${typed(name)} />`)}</div>
      <p class="hint">Limits that are empty are as your settings say.</p>
      <label class="tick"><input type="checkbox" checked=${form.network} onChange=${ticked} /> It has a network, behind the fence</label>
      <${TextField} label="Allow these hosts as well" rows=${2} mono disabled=${!form.network} spellcheck=${false} ...${typed("allow")}
        hint="One per line or with commas, such as api.example.com or *.example.com. Only for this run." />
      <div class="three">
        <${SelectField} label="When it wants more" value=${form.ask} disabled=${!form.network} options=${ASK} onChange=${(/** @type {any} */ ask) => set({ ask })} />
        <${TextField} label="Publish ports" hint="Of servers it starts, to look at them." placeholder="5173, 8000" inputmode="numeric" ...${typed("publish")} />
        <${SelectField} label="Backend" value=${form.backend} options=${[{ value: "", label: "As your settings say" }, ...backends]}
          onChange=${(/** @type {string} */ backend) => set({ backend })} />
      </div>
    </div>
  </details>`;
}

const WHOSE = /** @type {Record<string, string>} */ ({ "built-in": "Always", user: "Your policy", client: "The client's policy", run: "Only this run" });

/** What of a host, where it is not all. @param {import("./form.js").Rule} rule */
function detail(rule) {
  const usual = rule.ports.every((port) => port === 443 || port === 80);
  const reads = rule.methods.length > 0 && rule.methods.every((method) => method === "GET" || method === "HEAD");
  return [reads ? "read only" : rule.methods.join(" "), rule.paths.join(" "), !usual && `port ${rule.ports.join(", ")}`].filter(Boolean).join(" · ");
}

/** @param {{rules: import("./form.js").Rule[]}} props */
function Rules({ rules }) {
  return html`<ul>${rules.map((rule) => html`<li><span class="mono">${rule.host}</span> <span class="faint">${detail(rule)}</span></li>`)}</ul>`;
}

/** @param {{reach: import("./form.js").Reachable | null, problem: import("../api.js").Problem | null, form: Form}} props */
export function Reach({ reach, problem, form }) {
  if (problem) return html`<h2>What it will reach</h2><${Trouble} problem=${problem} />`;
  if (!reach) return null;
  if (!form.network || !reach.network) {
    return html`<h2>What it will reach</h2><p>Nothing: this run has no network.</p>`;
  }
  const asks = form.ask ? form.ask === "yes" : reach.ask;
  const groups = Map.groupBy(reach.rules, (rule) => `${WHOSE[rule.layer] || rule.layer}${rule.service && `: ${rule.service}`}`);
  return html`<h2>What it will reach</h2>
    ${groups.size === 0 && html`<p>No host at all.</p>`}
    ${[...groups].map(([whose, rules]) => html`<section><h3>${whose}</h3><${Rules} rules=${rules} /></section>`)}
    ${reach.pending.length > 0 && html`<p>And what these name when it starts: ${reach.pending.join(", ")}.</p>`}
    ${reach.host_services.length > 0 && html`<p>On this machine: port ${reach.host_services.join(", ")}.</p>`}
    <p class="faint">${asks ? "Whatever else it tries is held, and you are asked." : "Whatever else it tries is refused, and noted."}${" "}
      It sees the project and its tools, not your home, keys or other projects.</p>`;
}
