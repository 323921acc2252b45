// @ts-check
// Secrets by name. Values are set where nobody looks over a browser's shoulder: in a terminal.
import { Code, Copy, Empty, html, Spinner, Trouble } from "../ui.js";
import { forClient, useAsked } from "./asked.js";
import { Whose } from "./whose.js";

/** @typedef {{name: string, env: string | null, hosts: string[], where: string, weakened: boolean}} Secret */

/** @param {{client: string}} props */
export function Secrets({ client }) {
  const { data, problem } = useAsked(forClient("/settings/secrets", client));
  const command = `ags secret set ${client ? `--client ${client} ` : ""}NAME`;
  return html`<div class="toolbar"><${Whose} tab="secrets" client=${client} /></div>
    ${problem ? html`<${Trouble} problem=${problem} />` : !data ? html`<${Spinner} label="Loading" />`
      : data.items.length ? html`<${Table} items=${data.items} />` : html`<${None} />`}
    <p class="hint">Agents see a placeholder. The value takes its place on the way out, for its own host alone. Keep or replace one in a terminal:</p>
    <div class="command"><code>${command}</code><${Copy} text=${command} /></div>`;
}

function None() {
  return html`<${Empty} title="No secrets yet">
    <p>Keep an agent's key under the name of its variable, and its runs can use it:</p>
    <pre>ags secret set ANTHROPIC_API_KEY</pre>
    <p>For a host of your own, add a <code>[[secret]]</code> to <code>~/.config/ags/config.toml</code> that says where it may go.</p>
  <//>`;
}

/** @param {{items: Secret[]}} props */
function Table({ items }) {
  return html`<div class="table-wrap"><table class="table">
    <thead><tr><th scope="col">Name</th><th scope="col">Inside</th><th scope="col">Goes to</th><th scope="col">Comes from</th></tr></thead>
    <tbody>${items.map((each) => html`<tr key=${each.name}>
      <th scope="row">${each.name}</th>
      <td data-label="Inside">${each.env ? html`<code>${each.env}</code>` : html`<span class="faint">not used</span>`}
        ${each.weakened && html` <span class="level warn">the value itself is inside</span>`}</td>
      <td data-label="Goes to">${each.hosts.length ? each.hosts.map((host) => html`<code class="host">${host}</code>`)
        : html`<span class="faint">${each.env ? "nowhere" : "nowhere: no [[secret]] names it"}</span>`}</td>
      <td data-label="Comes from"><${Code} text=${each.where} /></td>
    </tr>`)}</tbody>
  </table></div>`;
}
