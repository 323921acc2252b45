// @ts-check
// What the page knows: signals that every view reads. The board's stream fills them.
import { computed, effect, signal } from "@preact/signals";
import { call, problemOf, stream, token } from "./api.js";

/** @typedef {{cost: number | null, tokens: number | null, last: string, waiting: number}} Activity */
/** @typedef {"queued"|"preparing"|"running"|"collecting"|"done"|"failed"|"stopped"|"interrupted"} StateName */
/**
 * A run, as lists have it.
 * @typedef {object} Row
 * @property {string} id
 * @property {string} name
 * @property {string} agent
 * @property {string} goal
 * @property {"separate"|"inplace"} mode
 * @property {string} client
 * @property {string} group
 * @property {string} project
 * @property {string | null} project_id
 * @property {string | null} branch
 * @property {StateName} state
 * @property {boolean} asking
 * @property {number} created
 * @property {number | null} started
 * @property {number | null} ended
 * @property {number | null} exit_code
 * @property {string | null} stopped_by
 * @property {string[]} weakenings
 * @property {number | null} files
 * @property {number | null} insertions
 * @property {number | null} deletions
 * @property {boolean} applied
 * @property {Activity} [activity]  absent on rows that are older than the board's
 */
/**
 * @typedef {object} Project
 * @property {string} id
 * @property {string} name
 * @property {string} url
 * @property {string} client
 * @property {"cloning"|"ready"|"failed"|"pulling"} state
 * @property {number | null} progress
 * @property {string} stage
 * @property {string} error
 * @property {string} head
 * @property {number} added
 * @property {number} runs
 * @property {{diverged: string[], gone: string[], more: number}} apart  branches that the last pull left as they were
 */
/** @typedef {{id: string, run: string, run_id: string, [field: string]: any}} Ask */

export const runs = signal(/** @type {Map<string, Row>} */ (new Map()));
export const projects = signal(/** @type {Map<string, Project>} */ (new Map()));
export const asks = signal(/** @type {Ask[]} */ ([]));
export const connection = signal(/** @type {"connecting"|"live"|"waiting"} */ ("connecting"));
export const loaded = signal(false);
/** How many runs there are, of which `runs` may have only the newest. */
export const total = signal(0);
export const byName = computed(() => new Map([...runs.value.values()].map((row) => [row.name, row])));

/** Other events of the board, by name: whoever wants them adds a listener. */
export const events = new EventTarget();

const OVER = ["done", "failed", "stopped", "interrupted"];

/** Whether nothing happens in it any more. @param {{state: string}} run */
export const isOver = (run) => OVER.includes(run.state);

// The board's stream. Changes are taken together once a frame: a hundred runs may speak at once.

/** @type {{event: string, data: any}[]} */
let pending = [];
let planned = 0;

/** @param {string} event @param {any} data */
function arrived(event, data) {
  pending.push({ event, data });
  // A hidden tab has no frames, and must not pile changes up.
  planned ||= window.setTimeout(settle, document.hidden ? 250 : 16);
}

function settle() {
  planned = 0;
  const changes = pending;
  pending = [];
  let rows = runs.value, folders = projects.value;
  let count = total.value;
  for (const { event, data } of changes) {
    if (event === "snapshot") {
      rows = snapshot(rows, data.runs, data.total);
      count = data.total;
      folders = new Map(data.projects.map((/** @type {Project} */ each) => [each.id, each]));
      asks.value = data.asks;
      loaded.value = true;
    } else if (event === "run") {
      if (rows === runs.value) rows = new Map(rows);
      if (!rows.has(data.id)) count++;
      rows.set(data.id, data);
    } else if (event === "gone") {
      if (rows === runs.value) rows = new Map(rows);
      if (rows.delete(data.id)) count--;
      forget(data.id);
    } else if (event === "project") {
      if (folders === projects.value) folders = new Map(folders);
      folders.set(data.id, data);
    } else if (event === "project-gone") {
      if (folders === projects.value) folders = new Map(folders);
      folders.delete(data.id);
    } else if (event === "asks") {
      asks.value = data;
    } else {
      events.dispatchEvent(new CustomEvent(event, { detail: data }));
    }
  }
  total.value = count;
  runs.value = rows;
  projects.value = folders;
}

/**
 * A snapshot has the newest; older ones that were loaded stay.
 * @param {Map<string, Row>} before @param {Row[]} rows @param {number} count
 */
function snapshot(before, rows, count) {
  const made = new Map(rows.map((row) => [row.id, row]));
  if (count <= rows.length) return made;
  const oldest = rows[rows.length - 1].id;
  for (const [id, row] of before) if (id < oldest) made.set(id, row);
  return made;
}

/** Load runs older than those on the board. */
export async function older() {
  const { items } = await call("GET", `/runs?limit=500&offset=${runs.value.size}`);
  const rows = new Map(runs.value);
  for (const row of items) if (!rows.has(row.id)) rows.set(row.id, row);
  runs.value = rows;
  if (!items.length) total.value = rows.size;
}

/** Follow the board for as long as there is a token. Call once. */
export function follow() {
  effect(() => {
    if (!token.value) return;
    const stop = new AbortController();
    connection.value = "connecting";
    stream("/stream", {
      signal: stop.signal,
      ends: [],
      onEvent: arrived,
      onState: (state) => (connection.value = state === "open" ? "live" : "waiting"),
    }).catch(failed);
    return () => stop.abort();
  });
}

// Choices and drafts, kept in this browser.

/** What there was no room for. @type {Set<string>} */
const unkept = new Set();

/** @param {string} name @param {string} text "" for nothing */
function keep(name, text) {
  try {
    if (text) localStorage.setItem(name, text);
    else localStorage.removeItem(name);
    unkept.delete(name);
  } catch {
    // Nobody waits for this, and whatever else happens now must go on.
    if (!unkept.size) queueMicrotask(sayFull);
    unkept.add(name);
  }
}

function sayFull() {
  const hint = "send it, or copy it elsewhere, before you close this tab; runs that you delete make room";
  toast("This browser has no room to keep what you write", { kind: "error", hint, seconds: 60 });
}

/** What was written about a run that is deleted. @param {string} id */
function forget(id) {
  const names = Object.keys(localStorage).filter((name) => name.startsWith(DRAFT) && name.endsWith(`.${id}`));
  for (const name of names) draft(name.slice(DRAFT.length)).value = "";
}

/** @template T @param {string} key @param {T} usual @returns {import("@preact/signals").Signal<T>} */
function kept(key, usual) {
  const name = `ags.pref.${key}`;
  const made = signal(usual);
  try {
    const found = localStorage.getItem(name);
    if (found !== null) made.value = JSON.parse(found);
  } catch {
    localStorage.removeItem(name);
  }
  made.subscribe((value) => keep(name, value === usual ? "" : JSON.stringify(value)));
  return made;
}

export const prefs = {
  theme: kept("theme", /** @type {"auto"|"light"|"dark"} */ ("auto")),
  sound: kept("sound", false),
  notify: kept("notify", false),
  diffMode: kept("diffMode", /** @type {"unified"|"split"} */ ("unified")),
  wrap: kept("wrap", false),
  whitespace: kept("whitespace", /** @type {"show"|"ignore"} */ ("show")),
};

const DRAFT = "ags.draft.";
/** @type {Map<string, import("@preact/signals").Signal<string>>} */
const drafts = new Map();

/** What is being written, kept over reloads: "" if nothing. @param {string} key */
export function draft(key) {
  const name = DRAFT + key;
  let made = drafts.get(name);
  if (!made) {
    made = signal(localStorage.getItem(name) || "");
    made.subscribe((value) => {
      // What another tab wrote is there already: written once more, it could undo what came after it.
      if (value !== (localStorage.getItem(name) ?? "")) keep(name, value);
    });
    drafts.set(name, made);
  }
  return made;
}

window.addEventListener("storage", () => {
  for (const [name, made] of drafts) if (!unkept.has(name)) made.value = localStorage.getItem(name) ?? "";
});

// Toasts

/**
 * @typedef {object} Toast
 * @property {number} id
 * @property {string} text
 * @property {string} [detail]
 * @property {string} [hint]
 * @property {"info"|"error"|"done"} kind
 * @property {() => void} [undo]
 */
export const toasts = signal(/** @type {Toast[]} */ ([]));
let numbered = 0;

/** @param {number} id */
export function dismiss(id) {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

/**
 * @param {string} text
 * @param {{kind?: "info"|"error"|"done", undo?: () => void, seconds?: number, detail?: string, hint?: string}} [options]
 * @returns {() => void} takes it away
 */
export function toast(text, { kind = "info", undo, seconds, detail, hint } = {}) {
  const id = ++numbered;
  toasts.value = [...toasts.value.slice(-4), { id, text, kind, undo, detail, hint }];
  const gone = () => dismiss(id);
  setTimeout(gone, (seconds ?? (kind === "error" ? 12 : 5)) * 1000);
  return gone;
}

/** Tell of an error, with what to do about it. @param {unknown} error */
export function failed(error) {
  if (error instanceof DOMException && error.name === "AbortError") return;
  const { status, title, detail, hint } = problemOf(error);
  if (status === 401) return; // the log-in page says it
  if (toasts.value.some((each) => each.text === title && each.detail === detail)) return;
  toast(title, { kind: "error", detail, hint });
}

// Where the person is

/** @typedef {{view: string, name: string, tab: string, query: Record<string, string>}} Route */

/** @param {string} address @returns {Route} */
export function routeOf(address) {
  const { pathname, searchParams } = new URL(address, location.origin);
  const query = Object.fromEntries(searchParams);
  const [first = "", second = "", third = ""] = pathname.split("/").slice(1).map(decodeURIComponent);
  if (first === "") return { view: "board", name: "", tab: "", query };
  if (first === "run" && third === "review") return { view: "review", name: second, tab: "", query };
  if (first === "run" && second) return { view: "run", name: second, tab: third || "activity", query };
  if (first === "settings") return { view: "settings", name: "", tab: second || "policy", query };
  if (["new", "compare", "login"].includes(first)) return { view: first, name: "", tab: "", query };
  return { view: "missing", name: "", tab: "", query };
}

export const route = signal(routeOf(location.href));

/** @param {string} path @param {{replace?: boolean}} [options] */
export function go(path, { replace = false } = {}) {
  const isNew = routeOf(path).view !== route.value.view;
  history[replace ? "replaceState" : "pushState"](null, "", path);
  route.value = routeOf(location.href);
  if (isNew && !replace) window.scrollTo(0, 0);
}

/** The address with these parts of its query changed; "" takes one away. @param {Record<string, string>} changes */
export function withQuery(changes) {
  const query = new URLSearchParams({ ...route.value.query, ...changes });
  for (const [name, value] of [...query]) if (value === "") query.delete(name);
  const text = query.toString();
  return location.pathname + (text && `?${text}`);
}

window.addEventListener("popstate", () => (route.value = routeOf(location.href)));

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  // Within the page, the browser moves the focus along.
  if (link.getAttribute("href")?.startsWith("#")) return;
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
});
