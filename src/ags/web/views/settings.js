// @ts-check
// Settings: one page for each kind, with a head that is the same for all.
import { Notices } from "../asks.js";
import { useKeys } from "../keys.js";
import { go } from "../store.js";
import { Empty, html, Tabs } from "../ui.js";
import { Agents } from "../settings/agents.js";
import { Clients } from "../settings/clients.js";
import { Doctor } from "../settings/doctor.js";
import { Policy } from "../settings/policy.js";
import { Secrets } from "../settings/secrets.js";

const PARTS = [
  { id: "policy", label: "Policy", hotkey: "p", part: Policy },
  { id: "secrets", label: "Secrets", hotkey: "s", part: Secrets },
  { id: "clients", label: "Clients", hotkey: "c", part: Clients },
  { id: "agents", label: "Agents", hotkey: "a", part: Agents },
  { id: "doctor", label: "Doctor", hotkey: "d", part: Doctor },
];

/** @param {{tab: string, query: Record<string, string>}} props */
export function Settings({ tab, query }) {
  useKeys(PARTS.map(({ id, label, hotkey }) => ({
    key: hotkey, label, group: "Settings", run: () => go(`/settings/${id}`),
  })));
  const shown = PARTS.find((each) => each.id === tab);
  const items = PARTS.map(({ id, label, hotkey }) => ({ id, label, hotkey, href: `/settings/${id}` }));
  const client = query.client || "";
  return html`<div class="page settings">
    <header class="settings-head"><h1>Settings</h1><span class="grow"></span>
      <span class="faint wide-only">When a run asks:</span><${Notices} /></header>
    <${Tabs} items=${items} current=${tab} label="Settings" />
    ${shown
      ? html`<${shown.part} key=${`${tab} ${client}`} client=${client} />`
      : html`<${Empty} title="There is no such page"><p><a href="/settings">Settings</a></p><//>`}
  </div>`;
}
