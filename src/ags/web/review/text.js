// @ts-check
/** Text of an agent's, cut into pieces that can be shown as they are. */

import { ODD, visible } from "../run/text.js";

/** @typedef {[number, number]} Range From the first character to the one behind the last. */
/** @typedef {Array<[string, number]>} Tokens Class name ("" for none) and length, in order. */
/** @typedef {{text: string, name: string}} Piece */

const BY_ODD = new RegExp(`(${ODD.source})`, "u");

/**
 * A line in pieces: by its tokens, by what changed in it, and by what has to be made visible.
 * @param {string} text
 * @param {Tokens | null} tokens
 * @param {Range[]} ranges
 * @returns {Piece[]}
 */
export function pieces(text, tokens, ranges) {
  /** @type {Piece[]} */
  const made = [];
  let at = 0;
  let range = 0;
  for (const [name, length] of tokens ?? [["", text.length]]) {
    const end = Math.min(at + length, text.length);
    while (at < end) {
      while (range < ranges.length && ranges[range][1] <= at) range++;
      const next = ranges[range];
      const inside = next !== undefined && next[0] <= at;
      const stop = next === undefined ? end : Math.min(end, inside ? next[1] : next[0]);
      push(made, text.slice(at, stop), inside ? `${name} changed`.trim() : name);
      at = stop;
    }
  }
  if (at < text.length) push(made, text.slice(at), "");
  return made;
}

/** @param {Piece[]} made @param {string} text @param {string} name */
function push(made, text, name) {
  if (!ODD.test(text)) {
    made.push({ text, name });
    return;
  }
  for (const [at, part] of text.split(BY_ODD).entries()) {
    if (part) made.push(at % 2 ? { text: visible(part), name: `${name} odd`.trim() } : { text: part, name });
  }
}

const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]/;
export const TAB = 4;
/** Characters of a line that are shown before somebody asks for all of it. */
export const MOST = 10_000;

/** Columns that a line takes, nearly: what it really takes is measured once it is on the screen. @param {string} text */
export function columns(text) {
  let count = text.length;
  if (text.includes("\t")) {
    count = 0;
    for (const character of text) count += character === "\t" ? TAB - (count % TAB) : 1;
  }
  if (WIDE.test(text)) for (const character of text) count += WIDE.test(character) ? 1 : 0;
  return count;
}
