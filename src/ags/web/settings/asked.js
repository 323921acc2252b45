// @ts-check
// What a settings page shows, asked for anew when it is opened or told to.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { problemOf } from "../api.js";
import { read } from "../patience.js";

/** @typedef {import("../api.js").Problem} Problem */

/** How often this page had the server write to a policy, besides by saving one. */
export const ruled = signal(0);

/**
 * `again` keeps what is shown until there is something newer.
 * @param {string} path
 * @returns {{data: any, problem: Problem | null, busy: boolean, again: (other?: string) => Promise<void>, set: (data: any) => void}}
 */
export function useAsked(path) {
  const [held, setHeld] = useState({ path: "", data: /** @type {any} */ (null) });
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [busy, setBusy] = useState(false);
  const latest = useRef(0);
  const again = async (/** @type {string} */ other = path) => {
    const turn = ++latest.current;
    setBusy(true);
    try {
      const data = await read(other);
      if (turn !== latest.current) return;
      setHeld({ path, data });
      setProblem(null);
    } catch (error) {
      if (turn === latest.current) setProblem(problemOf(error));
    }
    if (turn === latest.current) setBusy(false);
  };
  useEffect(() => {
    setProblem(null);
    again();
    return () => void latest.current++;
  }, [path]);
  const set = (/** @type {any} */ data) => setHeld({ path, data });
  return { data: held.path === path ? held.data : null, problem, busy, again, set };
}

/** An address with a client in its query. @param {string} path @param {string} client */
export const forClient = (path, client) => path + (client ? `?${new URLSearchParams({ client })}` : "");
