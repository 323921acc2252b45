// @ts-check
// What the form holds, where its choices come from, and what becomes of it.
import { useEffect, useState } from "preact/hooks";
import { problemOf } from "../api.js";
import { read } from "../patience.js";
import { projects } from "../store.js";

/**
 * All as text, as it was typed.
 * @typedef {object} Form
 * @property {string} project  an id, or the path of a folder
 * @property {string} client
 * @property {string} agent
 * @property {string} model
 * @property {string} base
 * @property {string} name
 * @property {string} attempts
 * @property {string} memory
 * @property {string} cpus
 * @property {string} pids
 * @property {string} timeout
 * @property {string} allow
 * @property {string} publish
 * @property {"" | "yes" | "no"} ask
 * @property {boolean} network
 * @property {string} backend
 */
/** @typedef {{name: string, ready?: boolean}} Agent */
/** @typedef {{name: string, commit: string, title: string, when: number, run: string | null}} Branch */
/** @typedef {{host: string, ports: number[], methods: string[], paths: string[], layer: string, service: string}} Rule */
/** @typedef {{rules: Rule[], ask: boolean, network: boolean, pending: string[], host_services: number[]}} Reachable */
/** @typedef {{path: string, reach: Reachable | null, problem: import("../api.js").Problem | null}} Reached */

export const MANY = 20;
const PAUSE = 300;

/** @returns {Form} */
export const empty = () => ({
  project: "", client: "", agent: "claude", model: "", base: "", name: "", attempts: "1",
  memory: "", cpus: "", pids: "", timeout: "", allow: "", publish: "", ask: "", network: true, backend: "",
});

/**
 * The form as it was left, for the project that the address names; else as the last run was started.
 * No more is taken from an address: any other site may lead here.
 * @param {string} kept @param {string | undefined} project
 * @param {Map<string, any>} known @param {Map<string, import("../store.js").Row>} rows
 */
export function restored(kept, project, known, rows) {
  const form = empty();
  const last = [...rows.values()].reduce((a, b) => (a && a.created > b.created ? a : b), /** @type {any} */ (null));
  if (last) Object.assign(form, { agent: last.agent, project: last.project_id || "" });
  try {
    Object.assign(form, JSON.parse(kept || "{}"));
  } catch {
    // of an older page: begun anew
  }
  if (project && !project.startsWith("/")) form.project = project;
  if (known.size && !form.project.startsWith("/") && !known.has(form.project)) form.project = "";
  return form;
}

/**
 * What the next run has in common with this one. A folder's client goes with the folder.
 * @param {Form} form @returns {Form}
 */
export const next = ({ project, client, agent, model }) => ({ ...empty(), project, client, agent, model });

/** @param {string} text */
export const listOf = (text) => text.split(/[\s,]+/).filter(Boolean);

/** As POST /runs takes it: only what was chosen. @param {Form} form @param {string} goal */
export function bodyOf(form, goal) {
  const { memory, cpus, pids, timeout } = form;
  const limits = Object.entries({ memory, cpus, pids, timeout }).filter(([, value]) => value.trim());
  /** @type {Record<string, unknown>} */
  const body = { project: form.project, goal, agent: form.agent };
  for (const name of /** @type {const} */ (["name", "base", "client", "model", "backend"])) {
    if (form[name].trim()) body[name] = form[name].trim();
  }
  if (limits.length) body.limits = Object.fromEntries(limits.map(([name, value]) => [name, value.trim()]));
  if (!form.network) body.network = false;
  if (listOf(form.allow).length) body.allow = listOf(form.allow);
  if (form.ask) body.ask = form.ask === "yes";
  if (listOf(form.publish).length) body.publish = listOf(form.publish).map(Number);
  if (Number(form.attempts) > 1) body.attempts = Number(form.attempts);
  return body;
}

/** @type {Promise<{agents: Agent[], backends: string[]}> | null} */
let described = null;

/** The agents and backends that there are, as the API describes itself; more of agents where it tells. */
async function choices() {
  const [schema, told] = await Promise.all([
    read("/openapi.json"),
    read("/agents").catch(() => null),
  ]);
  const { properties } = schema.components.schemas.NewRun;
  const names = /** @type {string[]} */ (properties.agent.enum || ["claude"]);
  const known = new Map((told?.items || []).map((/** @type {Agent} */ each) => [each.name, each]));
  const backend = properties.backend.anyOf?.find((/** @type {any} */ each) => each.enum) || properties.backend;
  return { agents: names.map((name) => known.get(name) || { name }), backends: backend.enum || [] };
}

/** @param {Form} form */
function reachPath(form) {
  const query = new URLSearchParams({ agent: form.agent });
  const client = projects.value.get(form.project)?.client || form.client;
  if (client) query.set("client", client);
  if (form.project.length > 1) query.set("project", form.project);
  if (listOf(form.allow).length) query.set("allow", listOf(form.allow).join(","));
  return `/reach?${query}`;
}

/** What the server knows that the form needs. @param {Form} form */
export function useFacts(form) {
  const [agents, setAgents] = useState(/** @type {Agent[]} */ ([{ name: form.agent }]));
  const [backends, setBackends] = useState(/** @type {string[]} */ ([]));
  const [branches, setBranches] = useState(/** @type {Branch[]} */ ([]));
  const [reached, setReached] = useState(/** @type {Reached} */ ({ path: "", reach: null, problem: null }));
  const state = projects.value.get(form.project)?.state;
  useEffect(() => {
    described ||= choices();
    described.then((found) => {
      setAgents(found.agents);
      setBackends(found.backends);
    }, () => (described = null));
  }, []);
  useEffect(() => {
    setBranches([]);
    if (state !== "ready" && state !== "pulling") return;
    const stop = new AbortController();
    read(`/projects/${form.project}/branches`, { signal: stop.signal })
      .then((found) => setBranches(found.items), () => null);
    return () => stop.abort();
  }, [form.project, state]);
  const path = reachPath(form);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      read(path, { signal: stop.signal }).then(
        (reach) => setReached({ path, reach, problem: null }),
        (error) => stop.signal.aborted || setReached({ path, reach: null, problem: problemOf(error) }),
      );
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [path]);
  // What another agent would reach is not shown for this one, not even until the answer comes.
  const { reach, problem } = reached.path === path ? reached : { reach: null, problem: null };
  return { agents, backends, branches, reach, problem };
}
