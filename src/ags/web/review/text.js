// @ts-check
/** Text of an agent's, cut into pieces that can be shown as they are. */

/** @typedef {[number, number]} Range From the first character to the one behind the last. */
/** @typedef {Array<[string, number]>} Tokens Class name ("" for none) and length, in order. */
/** @typedef {{text: string, name: string}} Piece */

// What a screen would obey or hide: a bidi override can make code read otherwise than it runs.
const ODD = /(?!\t)[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;
const ALL_ODD = new RegExp(`(${ODD.source})`, "gu");

/** The same words as the command line has for it. @param {string} character */
function escaped(character) {
  const code = character.codePointAt(0) ?? 0;
  return code < 0x100
    ? `\\x${code.toString(16).padStart(2, "0")}`
    : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** A name or a short text, with everything in it visible. @param {string} text */
export function plain(text) {
  return text.replace(ALL_ODD, escaped).replaceAll("\t", escaped("\t"));
}

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
  for (const [at, part] of text.split(ALL_ODD).entries()) {
    if (part) made.push(at % 2 ? { text: escaped(part), name: `${name} odd`.trim() } : { text: part, name });
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

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** @param {number | null} size */
export function bytes(size) {
  if (size === null) return "nothing";
  if (size >= 1 << 20) return `${(size / (1 << 20)).toFixed(1)} MiB`;
  return size >= 1024 ? `${(size / 1024).toFixed(1)} KiB` : counted(size, "byte");
}
