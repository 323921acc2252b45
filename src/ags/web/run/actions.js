// @ts-check
/** What a person can do with a run. Each changes the run on the server, or says why it cannot. */
import { signal } from "@preact/signals";
import { call, Problem } from "../api.js";
import { draft, failed, go, route, toast } from "../store.js";

/** @typedef {(run: any) => void} Changed */

const UNDO_SECONDS = 8;

/** Runs that were asked to stop: to ask once more means now. */
export const stopping = signal(/** @type {Set<string>} */ (new Set()));
/** Runs that are about to be deleted, and their timers. */
export const leaving = signal(/** @type {Map<string, number>} */ (new Map()));

/** @param {{id: string}} run */
export const address = (run) => `/runs/${encodeURIComponent(run.id)}`;

/** @param {{id: string}} run */
export const draftOf = (run) => draft(`tell.${run.id}`);

/**
 * @param {any} run
 * @param {Changed} changed
 */
export async function stop(run, changed) {
  const now = stopping.value.has(run.id);
  stopping.value = new Set([...stopping.value, run.id]);
  try {
    changed(await call("POST", `${address(run)}/stop`, { now }));
  } catch (error) {
    failed(error);
  } finally {
    stopping.value = new Set([...stopping.value].filter((id) => id !== run.id));
  }
}

/**
 * @param {any} run
 * @param {Changed} changed
 */
export async function restart(run, changed) {
  try {
    changed(await call("POST", `${address(run)}/restart`));
    toast(`${run.name} starts again`, { kind: "done" });
  } catch (error) {
    failed(error);
  }
}

/**
 * What was typed goes away only once the run has it.
 * @param {any} run
 * @param {string} text
 * @param {Changed} changed
 */
export async function tell(run, text, changed) {
  try {
    changed(await call("POST", `${address(run)}/tell`, { text }));
    draftOf(run).value = "";
  } catch (error) {
    failed(error);
  }
}

/**
 * Nothing is sent before the time for undo is over: a page that closes meanwhile deletes nothing.
 * @param {any} run
 * @param {(problem: Problem) => void} refused
 */
export function removeSoon(run, refused) {
  if (leaving.value.has(run.id)) return;
  const timer = window.setTimeout(() => {
    keep(run.id);
    remove(run, false, refused);
  }, UNDO_SECONDS * 1000);
  leaving.value = new Map([...leaving.value, [run.id, timer]]);
  toast(`${run.name} will be deleted`, { undo: () => keep(run.id), seconds: UNDO_SECONDS, detail: "Its branch stays." });
}

/** @param {string} id */
export function keep(id) {
  const left = new Map(leaving.value);
  clearTimeout(left.get(id));
  left.delete(id);
  leaving.value = left;
}

/**
 * @param {any} run
 * @param {boolean} force
 * @param {(problem: Problem) => void} [refused]
 */
export async function remove(run, force, refused) {
  try {
    await call("DELETE", `${address(run)}${force ? "?force=true" : ""}`);
    draftOf(run).value = "";
    toast(`${run.name} is deleted`, { kind: "done" });
    if (route.value.view === "run" && route.value.name === run.name) go("/", { replace: true });
  } catch (error) {
    const couldForce = error instanceof Problem && error.status === 409;
    if (couldForce && refused && route.value.view === "run" && route.value.name === run.name) refused(error);
    else failed(error);
  }
}
