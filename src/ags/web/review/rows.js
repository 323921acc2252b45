// @ts-check
/** The diff as one flat list of rows, each with the height that it will have, nearly. */

import { bytesText } from "../run/text.js";
import { blocksOf, isWhole, runsOf } from "./cells.js";
import { columns, MOST, TAB } from "./text.js";

/** @typedef {import("./cells.js").FileChange} FileChange */
/** @typedef {import("./cells.js").Cell} Cell */
/** @typedef {import("./cells.js").Side} Side */
/** @typedef {import("./cells.js").Risk} Risk */
/** @typedef {import("./comments.js").Placed} Placed */
/** @typedef {import("./comments.js").Editing} Editing */

/** @typedef {{file: FileChange, height: number}} Common */
/** @typedef {Common & {type: "head"}} HeadRow */
/** @typedef {Common & {type: "note", text: string, isRisk: boolean, line: number | null}} NoteRow */
/** @typedef {Common & {type: "gap", from: number, to: number, heading: string}} GapRow Hidden lines by new numbers; `to` may be Infinity. */
/** @typedef {Common & {type: "line", cell: Cell}} LineRow */
/** @typedef {Common & {type: "pair", left: Cell | null, right: Cell | null}} PairRow */
/** @typedef {Common & {type: "comment", placed: Placed}} CommentRow */
/** @typedef {Common & {type: "edit", editing: Editing}} EditRow */
/** @typedef {Common & {type: "pad"}} PadRow */
/** @typedef {HeadRow | NoteRow | GapRow | LineRow | PairRow | CommentRow | EditRow | PadRow} Row */

/**
 * All lines of a file, and which of them are shown beside the diff's own (by number, both ends included).
 * @typedef {{cells: Cell[], shown: import("./text.js").Range[]}} Opened
 */
/**
 * @typedef {object} Shape What decides over the rows of one file.
 * @property {boolean} split
 * @property {number} columns Of a line of code; 0 if lines are not wrapped.
 * @property {boolean} folded
 * @property {Opened | null} opened
 * @property {Placed[]} comments
 * @property {Editing | null} editing
 * @property {Risk[]} risks
 */

export const LINE = 20;
const HEAD = 36;
const NOTE = 28;
const GAP = 28;
const PAD = 16;
const COMMENT = 90;
const EDIT = 170;
/** Git's own number of context lines: fewer at the end of a hunk mean that the file ends there. */
const CONTEXT = 3;

/** @param {FileChange} file @param {Shape} shape @returns {Row[]} */
export function rowsOf(file, shape) {
  /** @type {Row[]} */
  const top = [kept(file, { type: "head", file, height: HEAD })];
  if (shape.folded) return top;
  for (const risk of shape.risks) {
    top.push({ type: "note", file, height: NOTE, text: risk.reason, isRisk: true, line: risk.line });
  }
  for (const text of notes(file)) {
    top.push({ type: "note", file, height: NOTE, text, isRisk: false, line: null });
  }
  const hanging = new Hanging(file, shape);
  const body = [...bodyOf(file, shape)].flatMap((row) => [row, ...hanging.under(row)]);
  return [...top, ...hanging.left(), ...body, { type: "pad", file, height: PAD }];
}

/** @param {number | null} size */
const sized = (size) => (size === null ? "nothing" : bytesText(size));

/** What is said about a file beside its lines. @param {FileChange} file */
function* notes(file) {
  if (file.old_path !== null) yield `${file.kind} from ${file.old_path}`;
  const [before, after] = [parseInt(file.old_mode, 8), parseInt(file.new_mode, 8)];
  if (before && after && before !== after) yield `mode ${file.old_mode} → ${file.new_mode}`;
  else if (!before && after && after !== 0o100644) yield `mode ${file.new_mode}`;
  if (before === 0o160000 || after === 0o160000) {
    yield "a submodule: only the commit it stands at is part of the repository";
  } else if (file.binary) yield `binary: ${sized(file.old_size)} → ${sized(file.new_size)}`;
  else if (!file.left_out && !file.hunks.length && file.old_id !== file.new_id) {
    yield file.new_size || file.old_size ? "nothing but white space changed" : "empty";
  }
  if (file.left_out) yield `content left out: ${file.left_out}`;
}

/** @type {WeakMap<Editing, EditRow>} */
const edits = new WeakMap();

/** The same one for as long as it is written: another would take the cursor away. @param {FileChange} file @param {Editing} editing */
function editRow(file, editing) {
  let row = edits.get(editing);
  if (row?.file !== file) {
    row = { type: "edit", file, height: EDIT, editing };
    edits.set(editing, row);
  }
  return row;
}

/** Comments and the editor, which hang under the line they are about. */
class Hanging {
  /** @param {FileChange} file @param {Shape} shape */
  constructor(file, shape) {
    /** @type {Map<string, Row[]>} */
    this.waiting = new Map();
    for (const placed of shape.comments) {
      if (placed.comment.id !== shape.editing?.id) {
        const height = COMMENT + LINE * placed.comment.text.split("\n").length;
        this.hang(placed.line ? `${placed.comment.side}${placed.line}` : "", { type: "comment", file, height, placed });
      }
    }
    const editing = shape.editing;
    if (editing) this.hang(`${editing.side}${editing.end}`, editRow(file, editing));
  }

  /** @param {string} place @param {Row} row */
  hang(place, row) {
    this.waiting.set(place, [...(this.waiting.get(place) ?? []), row]);
  }

  /** @param {Row} row @returns {Row[]} */
  under(row) {
    if (!this.waiting.size) return [];
    return cellsOf(row).flatMap((cell) => [...this.take(`old${cell.old}`), ...this.take(`new${cell.new}`)]);
  }

  /** @param {string} place */
  take(place) {
    const rows = this.waiting.get(place) ?? [];
    this.waiting.delete(place);
    return rows;
  }

  /** Of lines that are not there, at the top of the file. */
  *left() {
    for (const rows of this.waiting.values()) yield* rows;
  }
}

/** @param {Row | undefined} row @returns {Cell[]} */
export function cellsOf(row) {
  if (row?.type === "line") return [row.cell];
  if (row?.type !== "pair") return [];
  if (row.left === row.right) return row.left ? [row.left] : [];
  return [row.left, row.right].filter((cell) => cell !== null);
}

/** The cell of a row that is on a side. @param {Row | undefined} row @param {Side} side */
export function cellOn(row, side) {
  return cellsOf(row).find((cell) => cell[side] > 0) ?? null;
}

/** @param {Row} row */
export function isChange(row) {
  return cellsOf(row).some((cell) => cell.kind !== "context");
}

/** @param {FileChange} file @param {Shape} shape @returns {Generator<Row>} */
function* bodyOf(file, shape) {
  const blocks = blocksOf(file);
  let next = 1;
  for (const block of blocks) {
    const last = block.newFirst - 1;
    if (!isWhole(file)) yield* gap(file, shape, next, last, block.oldFirst - block.newFirst, block.heading);
    yield* (shape.split ? pairs : lines)(file, shape, block.cells);
    next = block.newNext;
  }
  const end = blocks.at(-1);
  if (!end || isWhole(file) || end.trailing < CONTEXT || isAll(file)) return;
  const last = shape.opened ? shape.opened.cells.length : Infinity;
  yield* gap(file, shape, next, last, end.oldNext - end.newNext, "");
}

/** Whether one hunk holds the whole file, by its size. @param {FileChange} file */
function isAll(file) {
  const [block, ...others] = blocksOf(file);
  if (others.length || block.newFirst !== 1) return false;
  const text = file.hunks[0].lines.filter((line) => line.kind !== "removed").map((line) => `${line.text}\n`).join("");
  return new TextEncoder().encode(text).length >= (file.new_size ?? Infinity);
}

/**
 * Lines between two hunks: those that were opened, and a row for the rest.
 * @param {FileChange} file @param {Shape} shape @param {number} from @param {number} to
 * @param {number} offset From a new number to the old one. @param {string} heading
 * @returns {Generator<Row>}
 */
function* gap(file, shape, from, to, offset, heading) {
  let next = from;
  const { cells, shown } = shape.opened ?? { cells: [], shown: [] };
  for (const [first, last] of shown) {
    const [start, end] = [Math.max(first, next), Math.min(last, to, cells.length)];
    if (start > end) continue;
    if (start > next) yield { type: "gap", file, height: GAP, from: next, to: start - 1, heading: "" };
    for (let number = start; number <= end; number++) cells[number - 1].old = number + offset;
    yield* (shape.split ? pairs : lines)(file, shape, cells.slice(start - 1, end));
    next = end + 1;
  }
  if (next <= to) yield { type: "gap", file, height: GAP, from: next, to, heading };
}

/** @param {FileChange} file @param {Shape} shape @param {Cell[]} cells @returns {Generator<Row>} */
function* lines(file, shape, cells) {
  for (const cell of cells) yield kept(cell, { type: "line", file, cell, height: tall(cell, shape.columns) });
}

/** @param {FileChange} file @param {Shape} shape @param {Cell[]} cells @returns {Generator<Row>} */
function* pairs(file, shape, cells) {
  for (const { context, removed, added } of runsOf(cells)) {
    if (context) {
      const height = tall(context, shape.columns);
      yield kept(context, { type: "pair", file, left: context, right: context, height });
    }
    for (let at = 0; at < Math.max(removed.length, added.length); at++) {
      const [left, right] = [removed[at] ?? null, added[at] ?? null];
      const height = Math.max(tall(left, shape.columns), tall(right, shape.columns));
      yield kept(/** @type {Cell} */ (left ?? right), { type: "pair", file, left, right, height });
    }
  }
}

/** The row that was there before, if it is still the same: so a view knows what it was looking at. @param {Cell | FileChange} owner @param {Row} row */
function kept(owner, row) {
  const before = owner.row;
  if (before && before.type === row.type && before.height === row.height) return before;
  owner.row = row;
  return row;
}

/** @param {Cell | null} cell @param {number} room */
function tall(cell, room) {
  if (!cell || !room || cell.text.length * TAB <= room) return LINE;
  return LINE * Math.max(1, Math.ceil(columns(cell.isWhole ? cell.text : cell.text.slice(0, MOST)) / room));
}

/**
 * The rows of all files, each file's made anew only if something about it changed.
 * @returns {(files: FileChange[], shapeOf: (file: FileChange) => Shape) => Row[]}
 */
export function flattener() {
  /** @type {WeakMap<FileChange, {shape: Shape, rows: Row[]}>} */
  const made = new WeakMap();
  return (files, shapeOf) => {
    /** @type {Row[]} */
    const all = [];
    for (const file of files) {
      const shape = shapeOf(file);
      let entry = made.get(file);
      if (!entry || !same(entry.shape, shape)) {
        entry = { shape, rows: rowsOf(file, shape) };
        made.set(file, entry);
      }
      for (const row of entry.rows) all.push(row);
    }
    return all;
  };
}

/** @param {Shape} one @param {Shape} other */
function same(one, other) {
  return one.split === other.split && one.columns === other.columns && one.folded === other.folded
    && one.opened === other.opened && one.comments === other.comments && one.editing === other.editing
    && one.risks === other.risks;
}
