// @ts-check
/** A diff as the server tells it, and its lines with what is known about each. */

/** @typedef {{kind: "context" | "added" | "removed", text: string, no_newline: boolean}} Line */
/** @typedef {{old_start: number, old_lines: number, new_start: number, new_lines: number, heading: string, lines: Line[]}} Hunk */
/**
 * @typedef {object} FileChange
 * @property {string} path
 * @property {string | null} path_base64
 * @property {string | null} old_path
 * @property {string} kind
 * @property {string} old_mode
 * @property {string} new_mode
 * @property {string} old_id
 * @property {string} new_id
 * @property {number | null} old_size
 * @property {number | null} new_size
 * @property {boolean} binary
 * @property {number} additions
 * @property {number} deletions
 * @property {string} left_out
 * @property {Hunk[]} hunks
 * @property {import("./rows.js").Row} [row] Its head.
 */
/** @typedef {{path: string, line: number | null, sort: string, reason: string}} Risk */
/** @typedef {{run: string, old: string, new: string, files: FileChange[], stat: {files: number, additions: number, deletions: number}, risks: Risk[]}} Diff */

/** @typedef {"old" | "new"} Side */
/**
 * Lines that are coloured together.
 * @typedef {{path: string, lines: string[], tokens: import("./text.js").Tokens[] | null, asked: boolean}} Unit
 */
/**
 * One line on one side, or on both if it is context; a number of 0 means: not on that side.
 * @typedef {object} Cell
 * @property {Line["kind"]} kind
 * @property {number} old
 * @property {number} new
 * @property {string} text
 * @property {boolean} noNewline
 * @property {Unit} unit
 * @property {number} at Its place in the unit.
 * @property {Cell | null} pair What it became, or came from.
 * @property {boolean} [isWhole] Whether all of a very long line is wanted.
 * @property {import("./rows.js").Row | null} row It is in. Here, since a map of so many would keep the garbage collector busy.
 */
/**
 * A hunk: from which line on, up to which, with how much context at its end.
 * @typedef {{cells: Cell[], heading: string, oldFirst: number, newFirst: number, oldNext: number, newNext: number,
 *   trailing: number, longest: number}} Block
 */

/** @type {WeakMap<FileChange, Block[]>} */
const known = new WeakMap();

/** The hunks of a file; made once, so that what is learnt about a line is kept. @param {FileChange} file */
export function blocksOf(file) {
  let blocks = known.get(file);
  if (!blocks) {
    blocks = file.hunks.map((hunk) => blockOf(file, hunk, endsInReturn(file)));
    known.set(file, blocks);
  }
  return blocks;
}

/** Windows' line ends everywhere are not worth a mark on each line. @param {FileChange} file */
export function endsInReturn(file) {
  return file.hunks.length > 0 && file.hunks.every((hunk) => hunk.lines.every((line) => line.text.endsWith("\r")));
}

/** @param {FileChange} file @param {Hunk} hunk @param {boolean} returns @returns {Block} */
function blockOf(file, hunk, returns) {
  const units = { old: unitOf(file.old_path ?? file.path), new: unitOf(file.path) };
  // Of no lines, git names the line before.
  const oldFirst = hunk.old_start + (hunk.old_lines ? 0 : 1);
  const newFirst = hunk.new_start + (hunk.new_lines ? 0 : 1);
  let [oldNext, newNext] = [oldFirst, newFirst];
  const cells = hunk.lines.map((line) => {
    const text = returns ? line.text.slice(0, -1) : line.text;
    const unit = line.kind === "removed" ? units.old : units.new;
    /** @type {Cell} */
    const cell = {
      kind: line.kind,
      old: line.kind === "added" ? 0 : oldNext++,
      new: line.kind === "removed" ? 0 : newNext++,
      text,
      noNewline: line.no_newline,
      unit,
      at: unit.lines.length,
      pair: null,
      row: null,
    };
    unit.lines.push(text);
    if (line.kind === "context") units.old.lines.push(text);
    return cell;
  });
  for (const run of runsOf(cells)) couple(run);
  const longest = cells.reduce((most, cell) => Math.max(most, cell.text.length), 0);
  return { cells, heading: hunk.heading, oldFirst, newFirst, oldNext, newNext, trailing: trailing(cells), longest };
}

/** @param {string} path @returns {Unit} */
export function unitOf(path) {
  return { path, lines: [], tokens: null, asked: false };
}

/** @param {Cell[]} cells */
function trailing(cells) {
  return cells.length - 1 - cells.findLastIndex((cell) => cell.kind !== "context");
}

/**
 * Lines in groups: one of context, or all that were removed and added in one place.
 * @param {Cell[]} cells
 * @returns {Generator<{context: Cell | null, removed: Cell[], added: Cell[]}>}
 */
export function* runsOf(cells) {
  for (let at = 0; at < cells.length; ) {
    if (cells[at].kind === "context") {
      yield { context: cells[at++], removed: [], added: [] };
      continue;
    }
    /** @type {Cell[]} */
    const removed = [];
    /** @type {Cell[]} */
    const added = [];
    while (cells[at]?.kind === "removed") removed.push(cells[at++]);
    while (cells[at]?.kind === "added") added.push(cells[at++]);
    yield { context: null, removed, added };
  }
}

/** @param {{removed: Cell[], added: Cell[]}} run */
function couple({ removed, added }) {
  for (let at = 0; at < Math.min(removed.length, added.length); at++) {
    removed[at].pair = added[at];
    added[at].pair = removed[at];
  }
}

/** Whether the content that was looked at is still this one. @param {FileChange} file */
export function contentId(file) {
  return `${file.old_id}:${file.new_id}:${file.new_mode}`;
}

/** @param {FileChange} file */
export function isWhole(file) {
  return file.kind === "added" || file.kind === "deleted" || file.kind === "type-changed";
}
