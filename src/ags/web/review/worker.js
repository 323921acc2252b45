// @ts-check
/** Colours code away from the page's own thread, so that a long file never stalls a scroll. */

// A worker knows no import map.
// @ts-ignore: the vendored file has no types
import hljs from "../vendor/hljs/core.min.js";

/** @typedef {import("./text.js").Tokens} Tokens */

const PART = /<span class="([^"]*)">|<\/span>|([^<]+)/g;
const ENTITY = /&(?:amp|lt|gt|quot|#x27);/g;
/** @type {Record<string, string>} */
const CHARACTERS = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

/** @type {Map<string, Promise<boolean>>} */
const languages = new Map();

/** @param {string} name @returns {Promise<boolean>} */
function loaded(name) {
  let loading = languages.get(name);
  if (!loading) {
    loading = import(`../vendor/hljs/languages/${name}.min.js`).then(
      (module) => (hljs.registerLanguage(name, module.default), true),
      () => (languages.delete(name), false),
    );
    languages.set(name, loading);
  }
  return loading;
}

/**
 * Class names and lengths, line by line, from what highlight.js wrote: of its HTML nothing else is used.
 * @param {string} markup
 * @returns {Tokens[]}
 */
function tokens(markup) {
  /** @type {Tokens[]} */
  const lines = [[]];
  /** @type {string[]} */
  const open = [""];
  for (const [whole, name, text] of markup.matchAll(PART)) {
    if (text !== undefined) add(lines, open[open.length - 1], text.replace(ENTITY, (found) => CHARACTERS[found]));
    else if (whole === "</span>") open.pop();
    else open.push(className(name) || open[open.length - 1]);
  }
  return lines;
}

/** @param {string} name */
function className(name) {
  return /^hljs-[a-z_-]+/.exec(name)?.[0] ?? "";
}

/** @param {Tokens[]} lines @param {string} name @param {string} text */
function add(lines, name, text) {
  for (const [at, part] of text.split("\n").entries()) {
    if (at) lines.push([]);
    if (part) lines[lines.length - 1].push([name, part.length]);
  }
}

/** @param {MessageEvent<{id: number, language: string, text: string}>} event */
async function answer({ data: { id, language, text } }) {
  const known = await loaded(language);
  const made = known ? hljs.highlight(text, { language, ignoreIllegals: true }).value : "";
  self.postMessage({ id, tokens: known ? tokens(made) : null });
}

self.addEventListener("message", answer);
