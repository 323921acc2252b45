// @ts-check
/** Comments on lines: what is kept of them, where they belong now, and how an agent is told. */

import { counted, plainName } from "../run/text.js";
import { blocksOf } from "./cells.js";

/** @typedef {import("./cells.js").FileChange} FileChange */
/** @typedef {import("./cells.js").Side} Side */
/**
 * @typedef {object} Comment
 * @property {string} id
 * @property {string} path
 * @property {Side} side
 * @property {number} start
 * @property {number} end
 * @property {string[]} quoted The lines it is about.
 * @property {string[]} before A few lines around them, to find them again.
 * @property {string[]} after
 * @property {string} text
 * @property {number | null} sent The turn it was sent after.
 */
/**
 * `line` is its last line as it is now; 0 if gone. Elsewhere: in a file that is not among those shown.
 * @typedef {{comment: Comment, line: number, state: "here" | "moved" | "outdated" | "elsewhere"}} Placed
 */
/** @typedef {{id: string | null, path: string, side: Side, start: number, end: number}} Editing What is being written; its text is kept apart. */
/** @typedef {{comments: Comment[], editing: Editing | null}} Draft */
/** @typedef {Map<number, string>} Numbered Lines of one side by number. */

const AROUND = 3;
/** Letters below which lines such as `}` are found again only beside one of their neighbours. */
const TELLING = 8;

/** @param {string} text @returns {Draft} */
export function parseDraft(text) {
  try {
    const { comments = [], editing = null } = JSON.parse(text || "{}");
    return { comments, editing };
  } catch {
    return { comments: [], editing: null };
  }
}

/** @param {Draft} draft */
export function formatDraft(draft) {
  return draft.comments.length || draft.editing ? JSON.stringify(draft) : "";
}

/** With these among them, in place of what they were. @param {Comment[]} comments @param {Comment[]} changed */
export function withComments(comments, changed) {
  const ids = new Set(changed.map(({ id }) => id));
  return [...comments.filter(({ id }) => !ids.has(id)), ...changed].sort(byPlace);
}

/** @param {Comment} one @param {Comment} other */
function byPlace(one, other) {
  return one.path === other.path ? one.start - other.start : one.path < other.path ? -1 : 1;
}

/** Whether both are about the same lines, or some of them. @param {Editing} one @param {Editing} other */
export function overlap(one, other) {
  return one.path === other.path && one.side === other.side && one.start <= other.end && other.start <= one.end;
}

/**
 * What is known of a side: the lines of the diff, and of the whole file if that was read.
 * @param {FileChange} file
 * @param {Side} side
 * @param {string[] | null} whole
 * @returns {Numbered}
 */
export function numbered(file, side, whole) {
  if (whole && side === "new") return new Map(whole.map((text, at) => [at + 1, text]));
  const found = new Map();
  for (const block of blocksOf(file)) {
    for (const cell of block.cells) if (cell[side]) found.set(cell[side], cell.text);
  }
  return found;
}

/** @param {Numbered} lines @param {number} start @param {number} end */
export function surroundings(lines, start, end) {
  /** @param {number} from @param {number} to */
  const between = (from, to) => {
    const found = [];
    for (let at = from; at <= to; at++) if (lines.has(at)) found.push(lines.get(at) ?? "");
    return found;
  };
  return {
    quoted: between(start, end),
    before: between(start - AROUND, start - 1),
    after: between(end + 1, end + AROUND),
  };
}

/**
 * Where a comment's lines are now. The same lines may be in several places: neighbours decide, then
 * the distance.
 * @param {Comment} comment
 * @param {Numbered} lines
 * @returns {Placed}
 */
export function placed(comment, lines) {
  let best = { start: 0, score: -Infinity };
  const telling = comment.quoted.join("").replace(/\s/g, "").length >= TELLING;
  for (const [start, text] of lines) {
    if (text !== comment.quoted[0]) continue;
    if (!comment.quoted.every((line, at) => lines.get(start + at) === line)) continue;
    const neighbours = alike(comment, lines, start);
    const alone = !comment.before.length && !comment.after.length;
    if (!telling && !neighbours && !alone && start !== comment.start) continue;
    const score = neighbours * 1e6 - Math.abs(start - comment.start);
    if (score > best.score) best = { start, score };
  }
  if (!best.start) return { comment, line: 0, state: "outdated" };
  const line = best.start + comment.quoted.length - 1;
  return { comment, line, state: best.start === comment.start ? "here" : "moved" };
}

/** @param {Comment} comment @param {Numbered} lines @param {number} start */
function alike({ before, after, quoted }, lines, start) {
  const end = start + quoted.length;
  return before.filter((text, at) => lines.get(start - before.length + at) === text).length
    + after.filter((text, at) => lines.get(end + at) === text).length;
}

/** Where its lines are now, or were when they were last seen. @param {Placed} place @returns {Comment} */
export function spot({ comment, line, state }) {
  return state === "moved" ? { ...comment, start: line - comment.quoted.length + 1, end: line } : comment;
}

/** @param {{path: string, side: Side, start: number, end: number}} place */
export function placeName({ path, side, start, end }) {
  const lines = start === end ? `${start}` : `${start}-${end}`;
  return `${plainName(path)}:${lines}${side === "old" ? " (as it was before)" : ""}`;
}

/** All comments as the agent's next order: plain text, each with its place and lines. @param {Placed[]} places @param {string} overall */
export function message(places, overall) {
  const parts = places.map((place) => {
    const { comment, state } = place;
    const where = `${placeName(spot(place))}${state === "outdated" ? " (these lines are gone)" : ""}`;
    return [where, ...comment.quoted.map((line) => `> ${plainLine(line)}`), comment.text.trim()].join("\n");
  });
  const head = places.length
    ? `I looked at your work and have ${counted(places.length, "comment")}. Line numbers are those of your last commit.`
    : "";
  return [head, overall.trim(), ...parts].filter(Boolean).join("\n\n") + "\n";
}

/** @param {string} line */
const plainLine = (line) => line.split("\t").map(plainName).join("\t");
