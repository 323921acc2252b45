// @ts-check
// What a view cannot do without, and the server may be away just then: it comes when the server is back.
import { effect } from "@preact/signals";
import { call, Problem } from "./api.js";
import { connection } from "./store.js";

const WAITS = [500, 1000, 2000];
/** Milliseconds within which a page that was loaded anew is not loaded anew once more. */
const AT_MOST_EVERY = 30_000;
const LOADED_ANEW = "ags.loaded-anew";

/**
 * @template T @param {() => Promise<T>} load @param {AbortSignal} [stop] after which nobody wants it any more
 * @returns {Promise<T>}
 */
export async function patiently(load, stop) {
  for (const wait of WAITS) {
    try {
      return await load();
    } catch (error) {
      const answered = error instanceof Problem && error.status > 0;
      if (answered || stop?.aborted) throw error;
      await back(wait);
    }
  }
  return load();
}

/** As `call` asks, for what is shown. @param {string} path @param {{signal?: AbortSignal}} [options] @returns {Promise<any>} */
export const read = (path, options) => patiently(() => call("GET", path, undefined, options), options?.signal);

/**
 * A part of the page itself. Some browsers never ask again for a module that did not come: there, the page is
 * loaded anew. Drafts are kept.
 * @template T @param {() => Promise<T>} load @param {AbortSignal} [stop] @returns {Promise<T>}
 */
export async function part(load, stop) {
  if (connection.peek() === "waiting") await live();
  try {
    return await load();
  } catch {
    await back(WAITS[0]);
  }
  try {
    return await load();
  } catch (error) {
    if (stop?.aborted || !loadAnew()) throw error;
    return new Promise(() => {});
  }
}

let leaving = false;

/** Whether it will be: at once, but not again and again. */
function loadAnew() {
  if (leaving) return true;
  const last = Number(sessionStorage.getItem(LOADED_ANEW) || 0);
  if (Date.now() - last < AT_MOST_EVERY) return false;
  sessionStorage.setItem(LOADED_ANEW, String(Date.now()));
  leaving = true;
  location.reload();
  return true;
}

/** The end of the board's stream may be noticed later than a failed request. @param {number} wait */
async function back(wait) {
  await new Promise((resolve) => setTimeout(resolve, wait));
  await live();
}

/** @returns {Promise<void>} */
function live() {
  return new Promise((resolve) => {
    const stop = effect(() => {
      if (connection.value !== "live") return;
      resolve();
      queueMicrotask(() => stop());
    });
  });
}
