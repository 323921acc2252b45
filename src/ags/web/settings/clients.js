// @ts-check
// Clients: whose work is kept apart, and what there is of each.
import { Empty, html, Spinner, Trouble } from "../ui.js";
import { forClient, useAsked } from "./asked.js";

/**
 * @typedef {{name: string, runs: number, working: number, homes: string[], secrets: string[], logins: boolean,
 *   policy: boolean, settings: string[], approved: string[]}} Client
 */

export function Clients() {
  const { data, problem } = useAsked("/settings/clients");
  if (problem) return html`<${Trouble} problem=${problem} />`;
  if (!data) return html`<${Spinner} label="Loading" />`;
  if (!data.items.length) return html`<${None} />`;
  return html`<div class="table-wrap"><table class="table">
      <thead><tr><th scope="col">Client</th><th scope="col" class="number">Runs</th><th scope="col" class="number">At work</th>
        <th scope="col">Policy</th><th scope="col">Secrets</th><th scope="col">Log-ins</th><th scope="col">Homes</th></tr></thead>
      <tbody>${data.items.map((/** @type {Client} */ each) => html`<${Row} key=${each.name} client=${each} />`)}</tbody>
    </table></div>
    <p class="hint">Nothing of one client is seen from another: files, history, homes, secrets, log-ins, networks. <code>ags client remove NAME</code> ends what is kept of one.</p>`;
}

/** @param {{client: Client}} props */
function Row({ client }) {
  return html`<tr>
    <th scope="row">${client.name}</th>
    <td class="number" data-label="Runs">${client.runs ? html`<a href=${forClient("/", client.name)}>${client.runs}</a>` : "0"}</td>
    <td class="number" data-label="At work">${client.working}</td>
    <td data-label="Policy"><a href=${forClient("/settings/policy", client.name)}>${client.policy ? "its own" : "yours; add to it"}</a></td>
    <td data-label="Secrets"><a href=${forClient("/settings/secrets", client.name)}>${client.secrets.length || "none"}</a></td>
    <td data-label="Log-ins">${client.logins ? "its own" : html`<span class="faint">none</span>`}</td>
    <td data-label="Homes">${client.homes.join(", ") || html`<span class="faint">none yet</span>`}</td>
  </tr>`;
}

function None() {
  return html`<${Empty} title="No clients yet">
    <p>A client's work never meets yours or another's: it has its own homes, secrets, log-ins and policy. Name one when you add a project or start a run, or in a terminal:</p>
    <pre>ags --client acme ~/src/acme</pre>
  <//>`;
}
