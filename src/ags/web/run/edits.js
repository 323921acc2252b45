// @ts-check
/** Changes that a tool call asks for, as small diffs. */
import { html } from "../ui.js";
import { oneLine, plain } from "./text.js";

const MOST_LINES = 300;
const MOST_SHOWN = 200;

/**
 * @typedef {{sort: "same" | "old" | "new", text: string}} Line
 * @typedef {{path: string, old: string, new: string}} Edit
 */

/**
 * The pairs of old and new text in an input, by the names that the agents use.
 * @param {unknown} input
 * @returns {Edit[]}
 */
export function editsOf(input) {
  if (!input || typeof input !== "object" || Array.isArray(input)) return [];
  const given = /** @type {Record<string, unknown>} */ (input);
  const path = firstText(given, ["file_path", "filePath", "notebook_path", "path"]);
  const parts = Array.isArray(given.edits) ? given.edits : [given];
  return parts.flatMap((part) => editOf(part, path));
}

/**
 * @param {unknown} part
 * @param {string} path
 * @returns {Edit[]}
 */
function editOf(part, path) {
  if (!part || typeof part !== "object") return [];
  const given = /** @type {Record<string, unknown>} */ (part);
  const before = firstText(given, ["old_string", "oldString", "oldText", "old_text"]);
  const after = firstText(given, ["new_string", "newString", "newText", "new_text", "new_source"]);
  const whole = firstText(given, ["content"]);
  if (before || after) return [{ path, old: before, new: after }];
  return whole && path ? [{ path, old: "", new: whole }] : [];
}

/**
 * @param {Record<string, unknown>} given
 * @param {string[]} names
 */
function firstText(given, names) {
  const name = names.find((each) => typeof given[each] === "string");
  return name ? plain(given[name]) : "";
}

/**
 * @param {Edit} edit
 * @returns {Line[]}
 */
export function linesOf(edit) {
  const old = split(edit.old);
  const now = split(edit.new);
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  const most = Math.min(old.length, now.length) - start;
  while (end < most && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const same = (/** @type {string} */ text) => /** @type {Line} */ ({ sort: "same", text });
  return [
    ...old.slice(0, start).map(same),
    ...between(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...old.slice(old.length - end).map(same),
  ];
}

/** @param {string} text */
function split(text) {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

/**
 * @param {string[]} old
 * @param {string[]} now
 * @returns {Line[]}
 */
function between(old, now) {
  if (!old.length || !now.length || old.length > MOST_LINES || now.length > MOST_LINES) {
    return [...old.map((text) => line("old", text)), ...now.map((text) => line("new", text))];
  }
  return walked(old, now, common(old, now));
}

/**
 * How many lines two tails have in common, by where each begins.
 * @param {string[]} old
 * @param {string[]} now
 */
function common(old, now) {
  const width = now.length + 1;
  const table = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const down = table[(i + 1) * width + j];
      const right = table[i * width + j + 1];
      table[i * width + j] = old[i] === now[j] ? table[(i + 1) * width + j + 1] + 1 : Math.max(down, right);
    }
  }
  return table;
}

/**
 * @param {string[]} old
 * @param {string[]} now
 * @param {Uint16Array} table
 * @returns {Line[]}
 */
function walked(old, now, table) {
  const width = now.length + 1;
  const found = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      found.push(line("same", old[i]));
      i += 1;
      j += 1;
    } else if (i < old.length && (j === now.length || table[(i + 1) * width + j] >= table[i * width + j + 1])) {
      found.push(line("old", old[i]));
      i += 1;
    } else {
      found.push(line("new", now[j]));
      j += 1;
    }
  }
  return found;
}

/**
 * @param {Line["sort"]} sort
 * @param {string} text
 * @returns {Line}
 */
function line(sort, text) {
  return { sort, text };
}

/** @param {Edit[]} edits */
export function countsOf(edits) {
  const lines = edits.flatMap(linesOf);
  return { added: lines.filter((each) => each.sort === "new").length, removed: lines.filter((each) => each.sort === "old").length };
}

const MARKS = { same: " ", old: "−", new: "+" };

/** @param {{edit: Edit}} props */
export function SmallDiff({ edit }) {
  const lines = linesOf(edit);
  const left = lines.length - MOST_SHOWN;
  return html`<figure class="edit">
    <figcaption>${oneLine(edit.path) || "edit"}</figcaption>
    <div class="edit-lines" dir="ltr">
      ${lines.slice(0, MOST_SHOWN).map((each) => html`<div class="edit-line edit-${each.sort}">
        <span class="edit-mark">${MARKS[each.sort]}</span><span>${each.text}</span></div>`)}
      ${left > 0 && html`<div class="edit-more">${left} more lines; the review has all of them</div>`}
    </div>
  </figure>`;
}
