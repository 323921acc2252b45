// @ts-check
/** Which words differ between a line and what became of it. */

/** @typedef {import("./text.js").Range} Range */

const WORD = /[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu;
const LONGEST = 2000;
/** Words in the middle of either line beyond which all of the middle counts as changed. */
const MOST = 160;
/** Share of two lines that must be the same: below it they are just two lines. */
const ALIKE = 0.35;

/**
 * @param {string} before
 * @param {string} after
 * @returns {{old: Range[], new: Range[]} | null} Null where marks would not help to read it.
 */
export function changedWords(before, after) {
  if (before === after || before.length > LONGEST || after.length > LONGEST) return null;
  const left = before.match(WORD) ?? [];
  const right = after.match(WORD) ?? [];
  const head = shared(left, right, (words, at) => words[at], Math.min(left.length, right.length));
  const most = Math.min(left.length, right.length) - head;
  const tail = shared(left, right, (words, at) => words[words.length - 1 - at], most);
  const kept = common(left.slice(head, left.length - tail), right.slice(head, right.length - tail));
  const keptLeft = new Set(kept.map(([at]) => at + head));
  const keptRight = new Set(kept.map(([, at]) => at + head));
  /** @param {string[]} words @param {Set<number>} marked */
  const stays = (words, marked) => (/** @type {number} */ at) =>
    at < head || at >= words.length - tail || marked.has(at);
  if (likeness(left, stays(left, keptLeft), before, after) < ALIKE) return null;
  return { old: ranges(left, stays(left, keptLeft)), new: ranges(right, stays(right, keptRight)) };
}

/** @param {string[]} left @param {string[]} right @param {(words: string[], at: number) => string} word @param {number} most */
function shared(left, right, word, most) {
  let count = 0;
  while (count < most && word(left, count) === word(right, count)) count++;
  return count;
}

/** The longest common run of words, as places in both. @param {string[]} left @param {string[]} right @returns {Range[]} */
function common(left, right) {
  const wide = right.length + 1;
  if (!left.length || !right.length || left.length > MOST || right.length > MOST) return [];
  const lengths = new Uint16Array((left.length + 1) * wide);
  for (let l = left.length - 1; l >= 0; l--) {
    for (let r = right.length - 1; r >= 0; r--) {
      lengths[l * wide + r] = left[l] === right[r]
        ? lengths[(l + 1) * wide + r + 1] + 1
        : Math.max(lengths[(l + 1) * wide + r], lengths[l * wide + r + 1]);
    }
  }
  /** @type {Range[]} */
  const found = [];
  for (let l = 0, r = 0; l < left.length && r < right.length; ) {
    if (left[l] === right[r]) found.push([l++, r++]);
    else if (lengths[(l + 1) * wide + r] >= lengths[l * wide + r + 1]) l++;
    else r++;
  }
  return found;
}

/** @param {string[]} words @param {(at: number) => boolean} stays @param {string} before @param {string} after */
function likeness(words, stays, before, after) {
  let same = 0;
  for (const [at, word] of words.entries()) if (stays(at)) same += word.trim().length;
  const whole = before.replace(/\s/g, "").length + after.replace(/\s/g, "").length;
  return whole ? (2 * same) / whole : 1;
}

/** What does not stay; a blank between two changed words goes with them. @param {string[]} words @param {(at: number) => boolean} stays */
function ranges(words, stays) {
  /** @type {Range[]} */
  const found = [];
  let place = 0;
  let blank = 0;
  for (const [at, word] of words.entries()) {
    const last = found.at(-1);
    if (!stays(at)) {
      if (last && last[1] + blank === place) last[1] = place + word.length;
      else found.push([place, place + word.length]);
      blank = 0;
    } else {
      blank = word.trim() ? -1 : word.length;
    }
    place += word.length;
  }
  return found;
}
