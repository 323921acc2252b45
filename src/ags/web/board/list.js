// @ts-check
// The rows themselves. Scrolling draws only this anew, not the whole board.
import { useRef } from "preact/hooks";
import { projects } from "../store.js";
import { html, isNarrow } from "../ui.js";
import { GroupRow, HeadRow, RunRow } from "./rows.js";
import { lastPart } from "./sift.js";
import { useWindow } from "./window.js";

/** @typedef {import("../store.js").Row} Row */
/** @typedef {import("./sift.js").Entry} Entry */

// As board.css has them.
const HEIGHT = 30;
const NARROW_HEIGHT = 64;
const heightNow = () => (isNarrow.value ? NARROW_HEIGHT : HEIGHT);

/** @param {Row} row */
function projectName(row) {
  const known = row.project_id && projects.value.get(row.project_id);
  return known ? known.name : lastPart(row.project);
}

/** Put the focus on a run's row, wherever that is. @param {Entry[]} entries @param {string} id */
export function showRow(entries, id) {
  const link = document.getElementById(`row-${id}`);
  if (link) return link.focus();
  // Out of the window: scrolled to first, so that there is something to focus.
  const at = entries.findIndex((entry) => entry.id === id);
  const box = document.querySelector(".rows");
  box?.scrollTo({ top: at * heightNow() - 100 });
  box?.dispatchEvent(new Event("scroll")); // the browser's own comes with the next frame
  queueMicrotask(() => document.getElementById(`row-${id}`)?.focus());
}

/** @typedef {{row: Row, within: boolean, index: number, project: string, chosen: boolean, onCursor: (id: string) => void}} Drawn */

/** Rows as they were drawn last: one that is the same object again is not compared any further. */
function useDrawn() {
  const drawn = useRef(/** @type {Map<string, {props: Drawn, node: any}>} */ (new Map()));
  const before = drawn.current;
  drawn.current = new Map();
  return (/** @type {Drawn} */ props) => {
    const known = before.get(props.row.id);
    const isSame = known && Object.entries(props).every(([name, value]) => known.props[/** @type {keyof Drawn} */ (name)] === value);
    const node = isSame ? known.node : html`<${RunRow} key=${props.row.id} ...${props} />`;
    drawn.current.set(props.row.id, { props, node });
    return node;
  };
}

/** @param {{entries: Entry[], cursor: string, onCursor: (id: string) => void, children?: any}} props */
export function List({ entries, cursor, onCursor, children }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const { from, to, above, below } = useWindow(place, entries.length, heightNow());
  const draw = useDrawn();
  const shown = entries.slice(from, to).map((entry, at) => {
    const index = from + at;
    if (entry.kind === "head") return html`<${GroupRow} key=${entry.id} group=${entry.group} rows=${entry.rows} index=${index} />`;
    const { row, within } = entry;
    return draw({ row, within, index, project: projectName(row), chosen: entry.id === cursor, onCursor });
  });
  return html`<div class="rows" ref=${place}>
    ${entries.length > 0 && html`<div role="table" aria-label="Runs" aria-rowcount=${entries.length + 1}>
      <div role="rowgroup" class="heads-group"><${HeadRow} /></div>
      <div role="rowgroup" style=${{ paddingTop: `${above}px`, paddingBottom: `${below}px` }}>${shown}</div>
    </div>`}
    ${children}
  </div>`;
}
