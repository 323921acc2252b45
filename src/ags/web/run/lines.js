// @ts-check
/** Text of any length with the numbers of its lines; only what is in sight is in the document. */
import { useMemo } from "preact/hooks";
import { html } from "../ui.js";
import { Place, Rows } from "./rows.js";
import { plain } from "./text.js";

const CHUNK = 40;
const LINE = 18;
const LONGEST = 4000;

/** @param {{text: string, label: string, numbers?: boolean, atEnd?: boolean}} props */
export function Lines({ text, label, numbers = true, atEnd = false }) {
  const lines = useMemo(() => plain(text).replace(/\n$/, "").split("\n"), [text]);
  const place = useMemo(() => {
    const made = new Place(atEnd);
    made.follows = atEnd;
    return made;
  }, [label]);
  const width = `${String(lines.length).length + 1}ch`;
  const chunk = (/** @type {number} */ index) => lines.slice(index * CHUNK, (index + 1) * CHUNK);
  return html`<${Rows} count=${Math.ceil(lines.length / CHUNK)} place=${place} label=${label} kind="lines" total=${lines.length} unit="new lines"
    estimate=${(/** @type {number} */ index) => LINE * chunk(index).length}
    keyOf=${(/** @type {number} */ index) => index}
    row=${(/** @type {number} */ index) => chunk(index).map((line, n) => html`<div class="line" dir="ltr">
      ${numbers && html`<span class="line-number" style=${{ width }} aria-hidden="true">${index * CHUNK + n + 1}</span>`}
      <span class="line-text">${line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line}</span></div>`)} />`;
}
