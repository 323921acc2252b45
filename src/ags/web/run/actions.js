// @ts-check
/** What a person can do with a run. Each changes the run on the server, or says why it cannot. */
import { signal } from "@preact/signals";
import { call, Problem } from "../api.js";
import { draft, failed, go, route, toast } from "../store.js";

/** @typedef {(run: any) => void} Changed */

const UNDO_SECONDS = 8;

/** Runs that were asked to stop: to ask once more means now. */
export const stopping = signal(/** @type {Set<string>} */ (new Set()));
/** Runs that are about to be deleted, each with what calls that off. */
export const leaving = signal(/** @type {Map<string, () => void>} */ (new Map()));
/** A run that is only deleted if the person insists, and why. */
export const doubted = signal(/** @type {{id: string, problem: Problem} | null} */ (null));

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
  keep(run.id);
  try {
    changed(await call("POST", `${address(run)}/restart`));
    toast(`${run.name} starts again`, { kind: "done" });
  } catch (error) {
    failed(error);
  }
}

/**
 * What was typed goes away only once the run has it, and what was typed since stays.
 * @param {any} run
 * @param {string} text
 * @param {Changed} changed
 */
export async function tell(run, text, changed) {
  keep(run.id);
  try {
    changed(await call("POST", `${address(run)}/tell`, { text }));
    const typed = draftOf(run);
    if (typed.value === text) typed.value = "";
  } catch (error) {
    failed(error);
  }
}

/** Nothing is sent before the time for undo is over: a page that closes meanwhile deletes nothing. @param {any} run */
export function removeSoon(run) {
  if (leaving.value.has(run.id)) return;
  const timer = window.setTimeout(() => {
    keep(run.id);
    remove(run, false);
  }, UNDO_SECONDS * 1000);
  const gone = toast(`${run.name} will be deleted`, { undo: () => keep(run.id), seconds: UNDO_SECONDS, detail: "Its branch stays." });
  const off = () => {
    clearTimeout(timer);
    gone();
  };
  leaving.value = new Map([...leaving.value, [run.id, off]]);
}

/** Whoever gives it more to do does not want it deleted any more. @param {string} id */
export function keep(id) {
  const left = new Map(leaving.value);
  left.get(id)?.();
  if (left.delete(id)) leaving.value = left;
}

/** @param {any} run @param {boolean} force */
export async function remove(run, force) {
  try {
    await call("DELETE", `${address(run)}${force ? "?force=true" : ""}`);
    toast(`${run.name} is deleted`, { kind: "done" });
    if (["run", "review"].includes(route.value.view) && route.value.name === run.name) go("/", { replace: true });
  } catch (error) {
    const isThere = route.value.view === "run" && route.value.name === run.name;
    if (error instanceof Problem && isThere && !force && couldForce(error)) doubted.value = { id: run.id, problem: error };
    else failed(error);
  }
}

/** Whether it is only for the sake of the work; of a run that is busy, the server offers no such thing. @param {Problem} problem */
const couldForce = ({ status, hint }) => status === 409 && hint.includes("rm --force");
