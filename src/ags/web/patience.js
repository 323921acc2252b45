// @ts-check
// What a view cannot do without, and the server may be away just then: it comes when the server is back.
import { effect } from "@preact/signals";
import { call, Problem } from "./api.js";
import { connection } from "./store.js";

const WAITS = [500, 1000, 2000];

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
      // The end of the board's stream may be noticed later than this.
      await new Promise((resolve) => setTimeout(resolve, wait));
      await live();
    }
  }
  return load();
}

/** As `call` asks, for what is shown. @param {string} path @param {{signal?: AbortSignal}} [options] @returns {Promise<any>} */
export const read = (path, options) => patiently(() => call("GET", path, undefined, options), options?.signal);

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
