// @ts-check
/** The little of Markdown that agents write, as elements. Whatever is not known stays as it is. */
import { html } from "../ui.js";
import { plain } from "./text.js";

const MOST_ADDRESS = 500;
const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*(\S*)/;
const BULLET = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
const HEADING = /^\s{0,3}#{1,6}\s+(.*?)\s*#*$/;
const QUOTE = /^\s{0,3}>\s?(.*)$/;
// Code, bold, an address. None of them spans lines, and none can take long to fail.
const INLINE = /(`[^`\n]+`)|\*\*([^*\n]+)\*\*|(https?:\/\/[^\s<>"'`)\]}]+)/g;

/**
 * @typedef {{sort: "code" | "text" | "heading" | "quote", lines: string[], about?: string}} Plain
 * @typedef {{sort: "list", entries: {mark: string, depth: number, lines: string[]}[]}} List
 * @typedef {Plain | List} Block
 */

/**
 * @param {{text: unknown}} props
 */
export function Markdown({ text }) {
  return html`<div class="words">${blocks(plain(text)).map(shown)}</div>`;
}

/**
 * @param {string} text
 * @returns {Block[]}
 */
export function blocks(text) {
  /** @type {Block[]} */
  const found = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; ) {
    const fence = FENCE.exec(lines[at]);
    if (fence) {
      const end = closing(lines, at + 1, fence[1]);
      found.push({ sort: "code", lines: lines.slice(at + 1, end), about: fence[2] });
      at = end + 1;
    } else {
      take(found, lines[at], at > 0 && lines[at - 1].trim() === "");
      at += 1;
    }
  }
  return found;
}

/**
 * @param {string[]} lines
 * @param {number} from
 * @param {string} fence
 */
function closing(lines, from, fence) {
  let at = from;
  while (at < lines.length && !lines[at].trim().startsWith(fence)) at += 1;
  return at;
}

/**
 * @param {Block[]} found
 * @param {string} line
 * @param {boolean} apart an empty line comes before
 */
function take(found, line, apart) {
  const last = found[found.length - 1];
  const bullet = BULLET.exec(line);
  const quote = QUOTE.exec(line);
  const heading = HEADING.exec(line);
  if (line.trim() === "") return;
  if (bullet) {
    const entry = { mark: bullet[2] ? `${bullet[2]}.` : "•", depth: Math.min(4, bullet[1].length >> 1), lines: [bullet[3]] };
    if (last?.sort === "list") last.entries.push(entry);
    else found.push({ sort: "list", entries: [entry] });
  } else if (heading) found.push({ sort: "heading", lines: [heading[1]] });
  else if (quote) join(found, "quote", quote[1], apart);
  else if (last?.sort === "list" && (!apart || /^\s{2,}/.test(line))) {
    last.entries[last.entries.length - 1].lines.push(line.trim());
  } else join(found, "text", line, apart);
}

/**
 * @param {Block[]} found
 * @param {"text" | "quote"} sort
 * @param {string} line
 * @param {boolean} apart
 */
function join(found, sort, line, apart) {
  const last = found[found.length - 1];
  if (last && last.sort === sort && !apart) last.lines.push(line);
  else found.push({ sort, lines: [line] });
}

/** @param {Block} block */
function shown(block) {
  if (block.sort === "list") return shownList(block);
  const text = block.lines.join("\n");
  if (block.sort === "code") return html`<pre class="words-code" dir="ltr" tabindex="0"><code>${text}</code></pre>`;
  if (block.sort === "heading") return html`<p class="words-heading" dir="auto">${inline(text)}</p>`;
  if (block.sort === "quote") return html`<blockquote dir="auto">${inline(text)}</blockquote>`;
  return html`<p dir="auto">${inline(text)}</p>`;
}

/** @param {List} list */
function shownList({ entries }) {
  return html`<ul class="words-list">
    ${entries.map((entry) => html`<li style=${{ marginInlineStart: `${entry.depth * 1.2}em` }}>
      <span class="words-mark" aria-hidden="true">${entry.mark}</span><span dir="auto">${inline(entry.lines.join("\n"))}</span></li>`)}
  </ul>`;
}

/**
 * @param {string} text
 * @returns {any[]}
 */
function inline(text) {
  const found = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > at) found.push(text.slice(at, match.index));
    found.push(marked(match));
    at = match.index + match[0].length;
  }
  found.push(text.slice(at));
  return found;
}

/** @param {RegExpMatchArray} match */
function marked(match) {
  const [whole, code, bold, address] = match;
  if (code) return html`<code>${code.slice(1, -1)}</code>`;
  if (bold) return html`<strong>${bold}</strong>`;
  return address.length <= MOST_ADDRESS ? link(address) : whole;
}

/**
 * It shows where it leads, all of it.
 * @param {string} address
 */
function link(address) {
  const bare = address.replace(/[.,;:!?]+$/, "");
  const rest = address.slice(bare.length);
  return html`<a class="words-link" href=${bare} target="_blank" rel="noopener noreferrer">${bare}</a>${rest}`;
}
