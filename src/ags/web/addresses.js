// @ts-check
// What a program asks a person to open, found on its screen.

/** @typedef {{text: string, isMore: boolean}} Line  a row of the screen; `isMore`: the terminal itself broke it off */

const ADDRESS = /https:\/\/[\w.~:/?#[\]@!$&'()*+,;=%-]+/g;
const NOT_ITS_END = /[.,;:!?'")\]]+$/;

/**
 * The newest, and rather one with a question in it: that is what is meant by "log in here". Some programs break a long
 * one at the edge by themselves, so what follows a full row is taken for more of it.
 * @param {Line[]} lines @param {number} columns
 */
export function addressIn(lines, columns) {
  const text = lines.map(({ text, isMore }, at) => {
    const before = lines[at - 1]?.text ?? "";
    return isMore || before.length >= columns ? text : `\n${text}`;
  }).join("");
  const found = [...text.matchAll(ADDRESS)].map(([each]) => each.replace(NOT_ITS_END, "")).filter((each) => URL.canParse(each));
  return found.findLast((each) => each.includes("?")) ?? found.at(-1) ?? "";
}

/** On what is in sight, or would be, if nobody had scrolled. @param {import("@xterm/xterm").Terminal} term */
export function addressOn(term) {
  const { active } = term.buffer;
  const rows = Array.from({ length: term.rows }, (_, row) => active.getLine(active.baseY + row));
  return addressIn(rows.map((row) => ({ text: row?.translateToString(true) ?? "", isMore: row?.isWrapped ?? false })), term.cols);
}
