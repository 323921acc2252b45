// @ts-check
/** Going from change to change, line to line and file to file by keys. */

import { sideOf } from "./line.js";
import { cellsOf, isChange } from "./rows.js";

/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./diff.js").Shown} Shown */
/** @typedef {import("./state.js").Reviewing} Reviewing */
/** @typedef {import("./cells.js").FileChange} FileChange */

/** Pixels that are in sight. @param {Shown} shown */
function sight({ view }) {
  const { scrollTop = 0, clientHeight = 0 } = view.scroller.current ?? {};
  return { from: scrollTop, to: scrollTop + clientHeight };
}

/** The file that was gone to, unless it was scrolled out of sight. @param {Reviewing} model @param {Shown} shown */
function wentTo(model, shown) {
  const { rows, view } = shown;
  const { from, to } = sight(shown);
  const went = model.went.value;
  const isSeen = went !== null && rows.slice(view.at(from + 1), view.at(to - 1) + 1).some((row) => row.file === went);
  return isSeen ? went : null;
}

/** The file at which the person is. @param {Reviewing} model @param {Shown} shown @returns {FileChange | null} */
export function fileHere(model, shown) {
  const top = shown.rows[shown.view.at(sight(shown).from + 1)];
  return wentTo(model, shown) ?? top?.file ?? null;
}

/** Where the person is: the row that was gone to, unless it was scrolled out of sight. @param {Reviewing} model @param {Shown} shown */
function here(model, shown) {
  const { rows, view } = shown;
  const { from, to } = sight(shown);
  const [went, file] = [wentTo(model, shown), fileHere(model, shown)];
  const selection = model.selection.value;
  const at = selection && (!went || went.path === selection.path)
    ? rows.findIndex((row) => row.file.path === selection.path && cellsOf(row).some((cell) => cell[selection.side] === selection.head))
    : -1;
  if (at >= 0 && view.top(at + 1) > from && view.top(at) < to) return { at, isChosen: true };
  let first = view.at(from + 1);
  while (first < rows.length - 1 && rows[first].file !== file) first++;
  return { at: first, isChosen: false };
}

/** @param {Reviewing} model @param {Shown} shown @param {number} at @param {boolean} [isMore] */
function choose(model, shown, at, isMore = false) {
  const row = shown.rows[at];
  const cells = cellsOf(row);
  const before = model.selection.value;
  if (isMore && before && before.path === row.file.path) {
    const cell = cells.find((each) => each[before.side]);
    if (cell) model.selection.value = { ...before, head: cell[before.side] };
  } else {
    const cell = cells.findLast((each) => each.kind !== "context") ?? cells[0];
    const side = sideOf(cell);
    model.selection.value = { path: row.file.path, side, anchor: cell[side], head: cell[side] };
  }
  shown.view.reveal(at);
  model.went.value = row.file;
}

/** @param {Row[]} rows @param {number} at */
const begins = (rows, at) => isChange(rows[at]) && !(at && isChange(rows[at - 1]) && rows[at - 1].file === rows[at].file);

/** What was written rather than what it replaced, if there is both. @param {Row[]} rows @param {number} at */
function newest(rows, at) {
  let next = at;
  while (next < rows.length && rows[next].file === rows[at].file && isChange(rows[next])) {
    if (cellsOf(rows[next]).some((cell) => cell.kind === "added")) return next;
    next++;
  }
  return at;
}

/** The next change in this direction; whether there was one. @param {Reviewing} model @param {Shown} shown @param {1 | -1} step */
export function toChange(model, shown, step) {
  const { rows } = shown;
  const from = here(model, shown);
  let at = from.at;
  if (from.isChosen) {
    // From within a change, back means to the one before it.
    while (step < 0 && at > 0 && !begins(rows, at) && isChange(rows[at])) at--;
    at += step;
  }
  for (; at >= 0 && at < rows.length; at += step) {
    if (!begins(rows, at)) continue;
    choose(model, shown, newest(rows, at));
    shown.view.reveal(at);
    return true;
  }
  return false;
}

/** @param {Reviewing} model @param {Shown} shown @param {1 | -1} step @param {boolean} isMore */
export function toLine(model, shown, step, isMore) {
  const from = here(model, shown);
  for (let at = from.isChosen ? from.at + step : from.at; at >= 0 && at < shown.rows.length; at += step) {
    const cells = cellsOf(shown.rows[at]);
    const side = isMore ? model.selection.value?.side : undefined;
    if (cells.length && (!side || cells.some((cell) => cell[side]))) return choose(model, shown, at, isMore);
  }
}

/** @param {Reviewing} model @param {Shown} shown @param {FileChange} file @param {number} [line] */
export function toFile(model, { rows, view }, file, line = 0) {
  const head = rows.findIndex((row) => row.type === "head" && row.file === file);
  const at = line ? rows.findIndex((row) => row.file === file && cellsOf(row).some((cell) => cell.new === line || cell.old === line)) : head;
  if (at > head) view.reveal(at);
  else view.reveal(head, "start");
  model.went.value = file;
}

/** @param {Reviewing} model @param {Shown} shown @param {1 | -1} step */
export function toNextFile(model, shown, step) {
  const files = model.diff.value?.files ?? [];
  const next = files[files.indexOf(fileHere(model, shown) ?? files[0]) + step];
  if (next) toFile(model, shown, next);
}
