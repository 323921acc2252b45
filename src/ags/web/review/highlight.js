// @ts-check
/** Colours for code: asked for when lines come into view, there a moment later. */

import { signal } from "@preact/signals";

/** @typedef {import("./cells.js").Unit} Unit */

const LONGEST = 512 * 1024;
/** Milliseconds without anything new in view, before colours are asked for. */
const REST = 60;
/** Units that can be in view at once. */
const MOST = 60;
/** @type {Record<string, string>} */
const BY_NAME = {
  dockerfile: "dockerfile", containerfile: "dockerfile", makefile: "makefile", gnumakefile: "makefile",
  "cmakelists.txt": "cmake", gemfile: "ruby", rakefile: "ruby", ".bashrc": "bash", ".profile": "bash", ".zshrc": "bash",
  ".gitconfig": "ini", ".gitmodules": "ini", ".editorconfig": "ini", ".npmrc": "ini", ".envrc": "bash", pipfile: "ini",
};
/** @type {Record<string, string>} */
const BY_ENDING = {
  sh: "bash", bash: "bash", zsh: "bash", c: "c", h: "c", cc: "cpp", cpp: "cpp", cxx: "cpp", hpp: "cpp", hh: "cpp",
  cs: "csharp", css: "css", diff: "diff", patch: "diff", go: "go", graphql: "graphql", gql: "graphql", ini: "ini",
  cfg: "ini", conf: "ini", toml: "ini", env: "ini", java: "java", js: "javascript", mjs: "javascript", cjs: "javascript",
  jsx: "javascript", json: "json", jsonc: "json", lock: "json", kt: "kotlin", kts: "kotlin", less: "less", lua: "lua",
  mk: "makefile", md: "markdown", markdown: "markdown", nix: "nix", m: "objectivec", mm: "objectivec", pl: "perl",
  pm: "perl", php: "php", py: "python", pyi: "python", r: "r", rb: "ruby", rs: "rust", scala: "scala", sbt: "scala",
  scss: "scss", sql: "sql", swift: "swift", ts: "typescript", mts: "typescript", cts: "typescript", tsx: "typescript",
  html: "xml", htm: "xml", xml: "xml", svg: "xml", vue: "xml", yaml: "yaml", yml: "yaml", proto: "protobuf",
  cmake: "cmake", hs: "haskell", ex: "elixir", exs: "elixir",
};

/** @param {string} path */
export function languageOf(path) {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  return BY_NAME[name] ?? BY_ENDING[name.slice(name.lastIndexOf(".") + 1)] ?? "";
}

/** How often colours have arrived: whoever shows code looks at it. */
export const arrivals = signal(0);

/** @type {Worker | null} */
let worker = null;
/** @type {Map<number, Unit>} */
const waiting = new Map();
let count = 0;

/** @param {MessageEvent<{id: number, tokens: import("./text.js").Tokens[] | null}>} event */
function arrived({ data: { id, tokens } }) {
  const unit = waiting.get(id);
  waiting.delete(id);
  if (!unit || !tokens) return;
  unit.tokens = tokens;
  arrivals.value++;
}

function started() {
  const made = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  made.addEventListener("message", arrived);
  // Without colours the code is still there; the next code that is shown tries again.
  made.addEventListener("error", () => {
    waiting.clear();
    made.terminate();
    worker = null;
  });
  return made;
}

/** @type {Unit[]} */
let wanted = [];
let timer = 0;

/** The colours of a unit, or null while there are none. @param {Unit} unit */
export function tokensOf(unit) {
  if (unit.asked) return unit.tokens;
  unit.asked = true;
  wanted.push(unit);
  clearTimeout(timer);
  timer = window.setTimeout(ask, REST);
  return null;
}

/** Only for the last of them: the others were scrolled past, and are asked for when they come again. */
function ask() {
  for (const unit of wanted.slice(0, -MOST)) unit.asked = false;
  for (const unit of wanted.slice(-MOST)) send(unit);
  wanted = [];
}

/** @param {Unit} unit */
function send(unit) {
  const language = languageOf(unit.path);
  const length = unit.lines.reduce((sum, line) => sum + line.length + 1, 0);
  if (!language || length > LONGEST) return;
  waiting.set(++count, unit);
  worker ??= started();
  worker.postMessage({ id: count, language, text: unit.lines.join("\n") });
}
