// @ts-check
// Whose settings are shown: the person's own, or a client's.
import { go } from "../store.js";
import { html, Select } from "../ui.js";
import { forClient, useAsked } from "./asked.js";

/** @param {{tab: string, client: string}} props */
export function Whose({ tab, client }) {
  const { data } = useAsked("/settings/clients");
  /** @type {string[]} */
  const names = (data?.items || []).map((/** @type {{name: string}} */ each) => each.name);
  if (client && !names.includes(client)) names.push(client);
  if (!names.length) return null;
  const options = [{ value: "", label: "your own work" }, ...names.map((name) => ({ value: name, label: `client ${name}` }))];
  const chosen = (/** @type {string} */ value) => go(forClient(`/settings/${tab}`, value));
  return html`<${Select} label="Whose" value=${client} options=${options} onChange=${chosen} />`;
}
