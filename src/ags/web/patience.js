// @ts-check
// What a view cannot do without, and the server may be away just then: it comes when the server is back.
import { effect } from "@preact/signals";
import { call, Problem } from "./api.js";
import { connection } from "./store.js";

const WAITS = [500, 1000, 2000];
/** With a part's name: for its sake the page was loaded anew, and it has not come since. */
const LOADED_ANEW = "ags.loaded-anew.";

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
 * loaded anew, once, if it is still wanted by then. Drafts are kept.
 * @template T @param {string} name @param {() => Promise<T>} load @param {() => boolean} [isWanted] @returns {Promise<T>}
 */
export async function part(name, load, isWanted = () => true) {
  const mark = LOADED_ANEW + name;
  const loaded = async () => {
    const made = await load();
    sessionStorage.removeItem(mark);
    return made;
  };
  if (connection.peek() === "waiting") await live();
  try {
    return await loaded();
  } catch {
    await back(WAITS[0]);
  }
  try {
    return await loaded();
  } catch (error) {
    if (!isWanted() || (sessionStorage.getItem(mark) && !leaving)) throw error;
    sessionStorage.setItem(mark, "yes");
    leaving = true;
    location.reload();
    return new Promise(() => {});
  }
}

let leaving = false;

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
