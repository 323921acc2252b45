// @ts-check
// A text field with numbered lines, and what is wrong with which of them.
import { useRef } from "preact/hooks";
import { classes, Code, html } from "../ui.js";

const FEWEST = 16;

/** @typedef {{line: number | null, what: string, hint: string}} Mistake */

/**
 * @param {{text: string, onText: (text: string) => void, problems: Mistake[], label: string,
 *   place: {current: HTMLTextAreaElement | null}}} props
 */
export function Editor({ text, onText, problems, label, place }) {
  const gutter = useRef(/** @type {HTMLDivElement | null} */ (null));
  const lines = text.split("\n").length;
  const wrong = new Set(problems.map((each) => each.line));
  const typed = (/** @type {Event} */ event) => onText(/** @type {HTMLTextAreaElement} */ (event.target).value);
  // The numbers are no part of the field: they follow it.
  const scrolled = () => {
    if (gutter.current && place.current) gutter.current.scrollTop = place.current.scrollTop;
  };
  const goTo = (/** @type {number} */ line) => select(place.current, text, line);
  return html`<div class="editor">
      <div class="gutter" aria-hidden="true" ref=${gutter}>
        ${Array.from({ length: Math.max(lines, FEWEST) }, (_, index) => html`<span
          class=${classes(index >= lines && "beyond", wrong.has(index + 1) && "wrong")}>${index + 1}</span>`)}
      </div>
      <textarea ref=${place} aria-label=${label} aria-describedby="policy-problems" aria-invalid=${problems.length > 0 || undefined}
        value=${text} onInput=${typed} onScroll=${scrolled} wrap="off" rows=${FEWEST} spellcheck=${false}
        autocomplete="off" autocapitalize="off"></textarea>
    </div>
    <div id="policy-problems" role="status"><ul class="problems">
      ${problems.map((each) => html`<li>
        ${each.line !== null
          ? html`<button type="button" class="button quiet" onClick=${() => goTo(Number(each.line))}>line ${each.line}</button>`
          : html`<span class="whole">the file</span>`}
        <span><span class="error">${each.what}</span>${each.hint && html`<span class="hint"> — <${Code} text=${each.hint} /></span>`}</span>
      </li>`)}
    </ul></div>`;
}

/** @param {HTMLTextAreaElement | null} field @param {string} text @param {number} line */
function select(field, text, line) {
  if (!field) return;
  const before = text.split("\n").slice(0, line - 1);
  const start = before.reduce((sum, each) => sum + each.length + 1, 0);
  const end = text.indexOf("\n", start);
  field.focus();
  field.setSelectionRange(start, end < 0 ? text.length : end);
}
