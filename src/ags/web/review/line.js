// @ts-check
/** A line of code as it is shown. */

import { counted } from "../run/text.js";
import { html } from "../ui.js";
import { arrivals, tokensOf } from "./highlight.js";
import { MOST, pieces } from "./text.js";
import { changedWords } from "./words.js";

/** @typedef {import("./cells.js").Cell} Cell */
/** @typedef {import("./cells.js").Side} Side */

const SIGNS = { context: " ", added: "+", removed: "−" };
const SAID = { context: "", added: "added", removed: "removed" };
/** @type {WeakMap<Cell, import("./text.js").Range[]>} */
const words = new WeakMap();

/** The side on which a line is spoken about. @param {Cell} cell @returns {Side} */
export const sideOf = (cell) => (cell.kind === "removed" ? "old" : "new");

/** @param {Cell} cell */
function changesIn(cell) {
  const { pair } = cell;
  if (!pair) return [];
  let found = words.get(cell);
  if (!found) {
    const [before, after] = cell.kind === "removed" ? [cell, pair] : [pair, cell];
    const both = changedWords(before.text, after.text);
    words.set(before, both?.old ?? []);
    words.set(after, both?.new ?? []);
    found = words.get(cell) ?? [];
  }
  return found;
}

/** @param {{cell: Cell}} props */
export function Code({ cell }) {
  const tokens = tokensOf(cell.unit)?.[cell.at] ?? null;
  const isCut = cell.text.length > MOST && !cell.isWhole;
  const text = isCut ? cell.text.slice(0, MOST) : cell.text;
  return html`<span class="code">${isCut && html`<${Cut} cell=${cell} />`}${pieces(text, tokens, changesIn(cell)).map(({ text, name }) =>
    name ? html`<span class=${name}>${text}</span>` : text)}${cell.noNewline &&
    html`<span class="no-newline">no newline at the end</span>`}</span>`;
}

/** Before the line, where it cannot be missed: what is not shown may be what matters. @param {{cell: Cell}} props */
function Cut({ cell }) {
  const open = () => {
    cell.isWhole = true;
    arrivals.value++;
  };
  return html`<button type="button" class="cut-line" onClick=${open}>cut: show all ${counted(cell.text.length, "character")}</button>`;
}

/** @param {{cell: Cell, numbers: number[]}} props */
function Numbers({ cell, numbers }) {
  const side = sideOf(cell);
  return html`<span class="numbers" data-side=${side} data-line=${cell[side]} title="Comment: click, or drag over lines">
    ${numbers.map((number) => html`<span>${number || ""}</span>`)}</span>`;
}

/** @param {{cell: Cell}} props */
const Sign = ({ cell }) =>
  html`<span class="sign" aria-label=${SAID[cell.kind] || undefined} role=${SAID[cell.kind] ? "img" : undefined}>${SIGNS[cell.kind]}</span>`;

/** One line under the other. @param {{cell: Cell}} props */
export function Unified({ cell }) {
  return html`<${Numbers} cell=${cell} numbers=${[cell.old, cell.new]} /><${Sign} cell=${cell} /><${Code} cell=${cell} />`;
}

/** One half of two side by side. @param {{cell: Cell | null, side: Side, isMarked: boolean}} props */
export function Half({ cell, side, isMarked }) {
  if (!cell) return html`<span class="half none"></span>`;
  return html`<span class=${`half ${cell.kind}${isMarked ? " marked" : ""}`}>
    <${Numbers} cell=${cell} numbers=${[cell[side]]} /><${Sign} cell=${cell} /><${Code} cell=${cell} /></span>`;
}
