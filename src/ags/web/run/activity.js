// @ts-check
/** What a run does, live. */
import { useMemo } from "preact/hooks";
import { asks } from "../store.js";
import { Empty, html, Spinner, Trouble } from "../ui.js";
import { problemOf } from "../api.js";
import { estimate, ItemRow } from "./items.js";
import { Rows } from "./rows.js";

/** @param {{feed: import("./feed.js").Feed, run: any}} props */
export function Activity({ feed, run }) {
  feed.version.value;
  const { items } = feed.log;
  if (feed.problem.value) return html`<div class="tab-pad"><${Trouble} problem=${problemOf(feed.problem.value)} /></div>`;
  if (!items.length) return html`<${Nothing} state=${feed.state.value} run=${run} />`;
  return html`<${Rows} count=${items.length} place=${feed.place} label="Activity" kind="activity" total=${feed.log.last}
    estimate=${(/** @type {number} */ index) => estimate(items[index])}
    keyOf=${(/** @type {number} */ index) => items[index].key}
    row=${(/** @type {number} */ index) => html`<${Kept} feed=${feed} item=${items[index]} rev=${items[index].rev} open=${feed.open.has(items[index].key)} />`} />`;
}

/**
 * Drawn anew only if it changed: most rows do not when others come.
 * @param {{feed: import("./feed.js").Feed, item: import("./events.js").Item, rev: number, open: boolean}} props
 */
function Kept({ feed, item, rev, open }) {
  const waiting = item.kind === "ask" ? asks.value.find((each) => each.run_id === feed.id && each.id === item.fields.id) : null;
  return useMemo(
    () => html`<${ItemRow} item=${item} waiting=${waiting} rev=${rev} open=${open} toggle=${() => feed.toggle(item.key)} />`,
    [item, rev, open, waiting],
  );
}

/** @param {{state: string, run: any}} props */
function Nothing({ state, run }) {
  if (state === "connecting") return html`<div class="tab-pad"><${Spinner} label="Loading" /></div>`;
  if (run.state === "queued" || run.state === "preparing") {
    return html`<${Empty} title="It is being prepared"><p>The workspace is made and the sandbox is built. What the agent says and does will be here.</p><//>`;
  }
  return html`<${Empty} title="Nothing has happened yet"><p>What the agent says and does will be here.</p><//>`;
}
