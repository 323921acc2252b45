// @ts-check
// The one door to the server. Not EventSource: that cannot send the token, and cookies go to every port.
import { signal } from "@preact/signals";

const BASE = "/api/v1";
const TOKEN = "ags.token";
// The server's beat comes every 15 s: without one for that long, the connection is dead.
const SILENCE = 40_000;
const WAITS = [500, 1000, 2000, 4000, 8000];

export const token = signal(localStorage.getItem(TOKEN) || "");

/** @param {string} text */
export function logIn(text) {
  localStorage.setItem(TOKEN, text);
  token.value = text;
}

export function logOut() {
  localStorage.removeItem(TOKEN);
  token.value = "";
}

// Another tab that logs in or out does so for all of them.
window.addEventListener("storage", (event) => {
  if (event.key === TOKEN) token.value = event.newValue || "";
});

/** What went wrong, as the server tells it (problem+json). Status 0: no answer at all. */
export class Problem extends Error {
  /** @param {number} status @param {Record<string, any>} body */
  constructor(status, body) {
    const title = String(body.title || `The server answered ${status}`);
    super(title);
    this.name = "Problem";
    this.status = status;
    this.title = title;
    this.detail = String(body.detail || "");
    this.hint = String(body.hint || "");
    /** @type {string | null} */
    this.subject = body.subject ?? null;
    /** @type {string[]} */
    this.files = body.files || [];
    /** @type {any[]} */
    this.errors = body.errors || [];
  }
}

/** @param {unknown} error @returns {Problem} */
export function problemOf(error) {
  if (error instanceof Problem) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new Problem(0, { title: "The page has a fault", detail, hint: "reload it" });
}

/** @param {Response} answer */
async function refusal(answer) {
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401) logOut();
  return new Problem(answer.status, body);
}

/** @typedef {{headers?: Record<string, string>, signal?: AbortSignal}} Options */

/**
 * @param {string} method @param {string} path @param {unknown} [body] @param {Options} [options]
 */
async function ask(method, path, body, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { ...options.headers };
  if (token.value) headers.Authorization = `Bearer ${token.value}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const sent = body === undefined ? undefined : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(BASE + path, {
      method, headers, body: sent, signal: options.signal, credentials: "omit",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem(0, {
      title: "Cannot reach the server",
      detail: "it does not answer",
      hint: "see whether `ags up` is running, then try again",
    });
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

/** @type {Map<string, Promise<any>>} */
const ahead = new Map();

/** Ask now for what a view will ask for as soon as it is there. @param {string} path */
export function askAhead(path) {
  const answer = call("GET", path);
  answer.catch(() => null); // whoever wants it is told
  ahead.set(path, answer);
}

/** For a view that was left before it took what was asked for: later, it would be old. */
export const forgetAhead = () => ahead.clear();

/**
 * JSON in and out; null where there is nothing to tell. `path` is below /api/v1.
 * @param {string} method @param {string} path @param {unknown} [body] @param {Options} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, body, options) {
  const early = method === "GET" ? ahead.get(path) : undefined;
  if (early && ahead.delete(path)) return early;
  const answer = await ask(method, path, body, options);
  return answer.status === 204 ? null : answer.json();
}

/** @param {string} path @param {Options} [options] */
export async function text(path, options) {
  return (await ask("GET", path, undefined, options)).text();
}

/** @param {string} path @param {Options} [options] */
export async function bytes(path, options) {
  return new Uint8Array(await (await ask("GET", path, undefined, options)).arrayBuffer());
}

/**
 * A WebSocket can carry no header, so the token goes as a protocol that is never chosen.
 * @param {string} path
 */
export function socket(path) {
  const address = new URL(BASE + path, location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(address, ["ags.v1", `bearer.${token.value}`]);
}

/**
 * @typedef {object} Following
 * @property {string | number} [after]  the id to begin behind
 * @property {AbortSignal} [signal]
 * @property {(event: string, data: any, id: string) => void} onEvent
 * @property {(state: "open" | "waiting") => void} [onState]
 * @property {string[]} [ends]  the events after which nothing comes
 */

/**
 * Server-sent events, connected again for as long as it takes, each event once. Resolves at the
 * end or when told to stop by `signal`; rejects with a Problem that waiting does not cure.
 * @param {string} path @param {Following} following
 */
export async function stream(path, { after, signal: stop, onEvent, onState, ends = ["end", "gone"] }) {
  let last = after === undefined ? "" : String(after);
  let tries = 0;
  let ended = false;
  const take = (/** @type {Message} */ message) => {
    if (message.id) last = message.id;
    tries = 0;
    ended ||= ends.includes(message.event);
    onEvent(message.event, message.data, message.id);
  };
  while (!ended && !stop?.aborted) {
    try {
      await follow(path, last, stop, take, () => onState?.("open"));
    } catch (error) {
      if (stop?.aborted) return;
      if (error instanceof Problem && error.status >= 400 && error.status < 500) throw error;
    }
    if (ended || stop?.aborted) return;
    onState?.("waiting");
    await pause(WAITS[Math.min(tries++, WAITS.length - 1)], stop);
  }
}

/** @typedef {{event: string, data: any, id: string}} Message */

/**
 * @param {string} path @param {string} last @param {AbortSignal | undefined} stop
 * @param {(message: Message) => void} take @param {() => void} opened
 */
async function follow(path, last, stop, take, opened) {
  const silent = new AbortController();
  let watch = 0;
  const heard = () => {
    clearTimeout(watch);
    watch = window.setTimeout(() => silent.abort(), SILENCE);
  };
  const signal = stop ? AbortSignal.any([stop, silent.signal]) : silent.signal;
  try {
    heard();
    const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
    const answer = await ask("GET", path, undefined, { headers, signal });
    opened();
    await read(answer, take, heard);
  } finally {
    clearTimeout(watch);
    silent.abort();
  }
}

/** @param {Response} answer @param {(message: Message) => void} take @param {() => void} heard */
async function read(answer, take, heard) {
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() || "";
    for (const block of blocks) {
      const message = parsed(block);
      if (message) take(message);
    }
  }
}

/** @param {string} block @returns {Message | null} */
function parsed(block) {
  let event = "message", data = "", id = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("data: ")) data += line.slice(6);
    else if (line.startsWith("event: ")) event = line.slice(7);
    else if (line.startsWith("id: ")) id = line.slice(4);
  }
  return data ? { event, data: JSON.parse(data), id } : null;
}

/** @param {number} milliseconds @param {AbortSignal} [stop] @returns {Promise<void>} */
function pause(milliseconds, stop) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      stop?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    window.addEventListener("online", done);
    stop?.addEventListener("abort", done);
  });
}
