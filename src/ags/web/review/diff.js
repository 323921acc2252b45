// @ts-check
/** The changes of all files in one long list, of which only what can be seen is in the document. */

import { Component } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { counted, plainName } from "../run/text.js";
import { prefs } from "../store.js";
import { classes, html } from "../ui.js";
import { blocksOf } from "./cells.js";
import { CommentBox, Editor } from "./commenting.js";
import { FileHead } from "./head.js";
import { arrivals } from "./highlight.js";
import { Half, sideOf, Unified } from "./line.js";
import { fileHere } from "./moving.js";
import { cellOn, cellsOf, flattener, LINE } from "./rows.js";
import { MOST } from "./text.js";
import { useWindow } from "./window.js";

/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./cells.js").FileChange} FileChange */
/** @typedef {import("./state.js").Reviewing} Reviewing */
/** @typedef {import("./state.js").Selection} Selection */
/** @typedef {import("./window.js").Window<Row>} Window */
/** @typedef {{rows: Row[], view: Window}} Shown */

/** @type {import("./cells.js").Risk[]} */
const NO_RISKS = [];
/** @type {FileChange[]} */
const NO_FILES = [];
const STICKY = 36;
const NARROW = 600;
/** Pixels that numbers, signs and margins take beside the code. */
const BESIDE = { unified: 127, split: 84, narrow: 87 };
const STEP = 20;
/** Hidden lines up to which they are all shown at once. */
const FEW = 30;

/** @type {WeakMap<Row, number>} */
const keys = new WeakMap();
let lastKey = 0;

/** @param {Row} row */
function keyOf(row) {
  const key = keys.get(row) ?? ++lastKey;
  keys.set(row, key);
  return key;
}

/** The width of the pane and of a character in it. @param {{current: HTMLElement | null}} place */
function useSize(place) {
  const [size, setSize] = useState({ width: 0, character: 8 });
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    const probe = element.querySelector(".probe");
    const look = () => setSize({
      width: element.clientWidth,
      character: (probe?.getBoundingClientRect().width ?? 800) / 100 || 8,
    });
    look();
    const watch = new ResizeObserver(look);
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  return size;
}

/** How lines are laid out. Half a screen, or a phone's, is too narrow for lines that do not wrap. @param {{width: number, character: number}} size */
function layoutOf({ width, character }) {
  const narrow = width > 0 && width < NARROW;
  const split = prefs.diffMode.value === "split" && !narrow;
  const wrap = prefs.wrap.value || split || narrow;
  const room = split ? width / 2 - BESIDE.split : width - (narrow ? BESIDE.narrow : BESIDE.unified);
  const columns = wrap && width ? Math.max(10, Math.floor(room / character)) : 0;
  return { split, wrap, columns };
}

/** @param {{model: Reviewing, shown: {current: Shown | null}}} props */
export function DiffPane({ model, shown }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const size = useSize(place);
  const { split, wrap, columns } = layoutOf(size);
  const flatten = useMemo(flattener, []);
  // Before the width is known, all rows would be made for nothing.
  const files = (size.width && model.diff.value?.files) || NO_FILES;
  const [folds, viewed, opened] = [model.folds.value, model.viewed.value, model.opened.value];
  const [places, editing, risks] = [model.places.value, model.editing.value, model.risks.value];
  const rows = useMemo(() => flatten(files, (file) => ({
    split,
    columns,
    folded: model.isFolded(file),
    opened: opened.get(file.path) ?? null,
    comments: model.placesIn(file),
    editing: editing?.path === file.path ? editing : null,
    risks: risks.get(file.path) ?? NO_RISKS,
  })), [files, split, columns, folds, viewed, opened, places, editing, risks]);
  const longest = useMemo(() => longestLine(files, opened), [files, opened]);
  const view = useWindow(rows, STICKY, aboutOf);
  shown.current = { rows, view };
  // What is written can be seen, and so is in the document.
  useLayoutEffect(() => {
    const at = editing ? rows.findIndex((row) => row.type === "edit") : -1;
    // What is written in another tab moves nothing here.
    if (at >= 0 && document.hasFocus()) view.reveal(at);
  }, [editing]);
  const top = rows[view.at((view.scroller.current?.scrollTop ?? 0) + 1)] ?? rows[0];
  const current = fileHere(model, shown.current);
  useEffect(() => {
    // As it is by now: a key may have gone on since.
    const here = shown.current ? fileHere(model, shown.current) : current;
    model.current.value = here;
    // Out of sight, it is forgotten.
    if (model.went.value !== here) model.went.value = null;
  }, [current]);

  const hands = useSelecting(model, shown);
  const style = { "--longest": `${longest}ch`, "--pane": `${size.width}px` };
  return html`<div class=${classes("diff", split ? "split" : "unified", wrap ? "wrap" : "no-wrap")} style=${style}
      tabindex="0" role="region" aria-label="Changes" data-rows=${rows.length}
      ref=${(/** @type {HTMLDivElement | null} */ element) => { view.scroller.current = place.current = element; }} ...${hands}>
    <span class="probe" aria-hidden="true">${"0".repeat(100)}</span>
    ${top && html`<div class="sticky"><${FileHead} file=${top.file} model=${model} sticky /></div>`}
    <div class="diff-rows" style=${{ height: `${view.total}px` }}>
      <div class="seen" style=${{ transform: `translateY(${view.top(view.first)}px)` }}>
        ${rows.slice(view.first, view.last).map((row, at) => html`<${OneRow} key=${keyOf(row)} row=${row} at=${view.first + at}
          model=${model} view=${view} marks=${marksOf(row, model.selection.value)} colours=${arrivals.value}
          viewed=${row.type === "head" && viewed.has(row.file.path)} isWrapped=${wrap} />`)}
      </div>
    </div>
    ${model.isBeginning.value && html`<div class="review-wait">${model.outlook}</div>`}
  </div>`;
}

/** @param {Row} row */
function aboutOf(row) {
  const cells = cellsOf(row);
  return cells.length ? cells : [row.type === "head" ? row.file : row];
}

/** @param {FileChange[]} files @param {Map<string, import("./rows.js").Opened>} opened */
function longestLine(files, opened) {
  let most = 0;
  for (const file of files) for (const block of blocksOf(file)) most = Math.max(most, block.longest);
  for (const { cells } of opened.values()) for (const cell of cells) most = Math.max(most, cell.text.length);
  return Math.min(most, MOST) + 2;
}

/** Which of its sides are selected. @param {Row} row @param {Selection | null} selection */
function marksOf(row, selection) {
  if (!selection || selection.path !== row.file.path) return "";
  const cell = cellOn(row, selection.side);
  if (!cell || sideOf(cell) !== selection.side && cell.kind !== "context") return "";
  const [from, to] = [selection.anchor, selection.head].sort((one, other) => one - other);
  const number = cell[selection.side];
  return number >= from && number <= to ? selection.side : "";
}

/** @typedef {{row: Row, at: number, model: Reviewing, view: Window, marks: string, colours: number, viewed: boolean, isWrapped: boolean}} RowProps */

/** Drawn anew only if something about it changed: while scrolling, most rows stay as they are. @extends {Component<RowProps>} */
class OneRow extends Component {
  /** @param {RowProps} next */
  shouldComponentUpdate(next) {
    const now = this.props;
    return next.row !== now.row || next.at !== now.at || next.marks !== now.marks || next.viewed !== now.viewed
      || next.isWrapped !== now.isWrapped
      || (next.colours !== now.colours && lookOf(next.row) !== this.look);
  }

  /** @param {RowProps} props */
  render({ row, at, model, view, marks, isWrapped }) {
    this.look = lookOf(row);
    const isMeasured = row.type === "comment" || row.type === "edit" || row.type === "note"
      || (isWrapped && row.height > LINE) || (isWrapped && cellsOf(row).some((cell) => /[^\x20-\x7e]/.test(cell.text)));
    const measure = isMeasured && ((/** @type {Element | null} */ element) => view.measure(row, element));
    const kind = row.type === "line" ? ` ${row.cell.kind}${marks ? " marked" : ""}` : "";
    return html`<div class=${`diff-row as-${row.type}${kind}`} data-at=${at} ref=${measure || undefined}>
      ${content(row, model, marks)}</div>`;
  }
}

/** What may come later than the row itself: colours, and all of a long line. @param {Row} row */
function lookOf(row) {
  return cellsOf(row).map((cell) => `${cell.unit.tokens !== null} ${cell.isWhole === true}`).join();
}

/** @param {Row} row @param {Reviewing} model @param {string} marks */
function content(row, model, marks) {
  switch (row.type) {
    case "line": return html`<${Unified} cell=${row.cell} />`;
    case "pair": return html`
      <${Half} cell=${row.left} side="old" isMarked=${isMarked(row.left, marks)} />
      <${Half} cell=${row.right} side="new" isMarked=${isMarked(row.right, marks)} />`;
    case "head": return html`<${FileHead} file=${row.file} model=${model} />`;
    case "note": return html`<${Note} row=${row} />`;
    case "gap": return html`<${Gap} row=${row} model=${model} />`;
    case "comment": return html`<${CommentBox} place=${row.placed} model=${model} />`;
    case "edit": return html`<${Editor} editing=${row.editing} model=${model} />`;
    default: return null;
  }
}

/** @param {import("./cells.js").Cell | null} cell @param {string} marks */
function isMarked(cell, marks) {
  return cell !== null && marks !== "" && (cell.kind === "context" || sideOf(cell) === marks);
}

/** @param {{row: import("./rows.js").NoteRow}} props */
function Note({ row }) {
  const where = row.line ? ` (line ${row.line})` : "";
  if (!row.isRisk) return html`<span>${plainName(row.text)}</span>`;
  return html`<span class="risk"><strong>Look at this:</strong> ${plainName(row.text)}${where}</span>`;
}

/** @param {{row: import("./rows.js").GapRow, model: Reviewing}} props */
function Gap({ row, model }) {
  const { file, from, to, heading } = row;
  const hidden = to - from + 1;
  /** @param {number} first @param {number} last @param {string} text */
  const button = (first, last, text) => html`<button type="button" onClick=${() => model.open(file, first, last)}>${text}</button>`;
  if (hidden <= FEW) return html`${button(from, to, `Show ${counted(hidden, "hidden line")}`)}<${Heading} text=${heading} />`;
  const isEnd = to === Infinity || !heading && to === model.opened.value.get(file.path)?.cells.length;
  return html`
    ${from > 1 && button(from, from + STEP - 1, `↓ ${STEP} more`)}
    ${!isEnd && button(to - STEP + 1, to, `↑ ${STEP} more`)}
    ${button(from, to, to === Infinity ? "All below" : `All ${counted(hidden, "hidden line")}`)}
    <${Heading} text=${heading} />`;
}

/** @param {{text: string}} props */
const Heading = ({ text }) => text && html`<span class="heading">${plainName(text)}</span>`;

/** Lines chosen by their numbers: click, shift-click, or drag. @param {Reviewing} model @param {{current: Shown | null}} shown */
function useSelecting(model, shown) {
  const drag = useRef(/** @type {{path: string, side: "old" | "new"} | null} */ (null));
  useEffect(() => {
    const end = () => {
      if (drag.current) model.write();
      drag.current = null;
    };
    window.addEventListener("mouseup", end);
    return () => window.removeEventListener("mouseup", end);
  }, []);
  return {
    onMouseDown: (/** @type {MouseEvent} */ event) => {
      const found = event.button === 0 && numberAt(event.target, shown.current);
      if (!found) return;
      event.preventDefault();
      const { path, side, line } = found;
      const before = model.selection.value;
      const isMore = event.shiftKey && before?.path === path && before.side === side;
      model.selection.value = { path, side, anchor: isMore ? before.anchor : line, head: line };
      drag.current = { path, side };
      model.went.value = model.file(path) ?? null;
    },
    onMouseMove: (/** @type {MouseEvent} */ event) => {
      const selection = model.selection.value;
      if (!drag.current || !selection) return;
      const line = lineAt(event.target, shown.current, drag.current);
      if (line && line !== selection.head) model.selection.value = { ...selection, head: line };
    },
  };
}

/** @param {EventTarget | null} target @param {Shown | null} shown */
function rowAt(target, shown) {
  const element = target instanceof Element ? target.closest(".diff-row") : null;
  return element instanceof HTMLElement ? shown?.rows[Number(element.dataset.at)] : undefined;
}

/** @param {EventTarget | null} target @param {Shown | null} shown */
function numberAt(target, shown) {
  const element = target instanceof Element ? target.closest(".numbers") : null;
  const row = rowAt(target, shown);
  if (!(element instanceof HTMLElement) || !row) return null;
  const side = /** @type {"old" | "new"} */ (element.dataset.side);
  return { path: row.file.path, side, line: Number(element.dataset.line) };
}

/** @param {EventTarget | null} target @param {Shown | null} shown @param {{path: string, side: "old" | "new"}} drag */
function lineAt(target, shown, { path, side }) {
  const row = rowAt(target, shown);
  return row?.file.path === path ? cellOn(row, side)?.[side] ?? 0 : 0;
}
