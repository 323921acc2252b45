// @ts-check
// All runs, live: the projects at the side, one line for each run.
import { useEffect, useMemo, useState } from "preact/hooks";
import { call } from "../api.js";
import { AddProject, Projects } from "../board/projects.js";
import { List, showRow } from "../board/list.js";
import { arranged, sifted, tally } from "../board/sift.js";
import { useKeys } from "../keys.js";
import { counted } from "../run/text.js";
import { failed, go, isOver, loaded, older, projects, runs, toast, total, withQuery } from "../store.js";
import { Button, classes, Confirm, Empty, html, Select, Spinner } from "../ui.js";

/** @typedef {import("../store.js").Row} Row */

const STATES = [
  { value: "", label: "All states" },
  { value: "at-work", label: "At work" },
  { value: "asking", label: "Asking" },
  { value: "unapplied", label: "Not applied" },
  ...["queued", "preparing", "running", "collecting", "done", "failed", "stopped", "interrupted"].map((value) => ({ value, label: value })),
];

/** @param {string} label @param {Iterable<string>} values @param {string} chosen */
function choices(label, values, chosen) {
  const all = new Set(values);
  if (chosen) all.add(chosen);
  return [{ value: "", label }, ...[...all].toSorted().map((value) => ({ value, label: value }))];
}

/** @param {{query: Record<string, string>, shown: number, onProjects: () => void}} props */
function Filters({ query, shown, onProjects }) {
  const rows = [...runs.value.values()];
  const set = (/** @type {string} */ name) => (/** @type {string} */ value) => go(withQuery({ [name]: value }), { replace: true });
  const agents = tally(rows, (row) => row.agent);
  const clients = tally(rows, (row) => row.client || "default");
  const filtered = ["project", "state", "agent", "client", "q", "group"].some((name) => query[name]);
  return html`<div class="filters">
    <${Button} class="narrow-only" onClick=${onProjects}>Projects<//>
    <${Select} label="State" value=${query.state || ""} options=${STATES} onChange=${set("state")} />
    <${Select} label="Agent" value=${query.agent || ""} onChange=${set("agent")}
      options=${choices("All agents", agents.keys(), query.agent || "")} />
    ${(clients.size > 1 || query.client) && html`<${Select} label="Client" value=${query.client || ""} onChange=${set("client")}
      options=${choices("All clients", clients.keys(), query.client || "")} />`}
    ${query.group && html`<span class="chip">group ${query.group}</span>`}
    ${filtered && html`<${Button} kind="quiet" onClick=${() => go("/")}>Clear<//>`}
    <span class="grow"></span>
    <span class="faint shown" role="status">${counted(shown, "run")}</span>
  </div>`;
}

function First() {
  return html`<${Empty} title="No runs yet">
    <p>A run gives one goal to one agent, in a sandbox and on a branch of its own. You look at what it did, then apply it.</p>
    ${projects.value.size
      ? html`<p><a class="button primary" href="/new">Start the first run</a></p>`
      : html`<p>First add the project to work on:</p><div class="boxed"><${AddProject} onAdded=${(/** @type {any} */ project) => go(`/new?project=${project.id}`)} /></div>`}
    <p class="faint">Or in a terminal: <code>ags demo</code> shows a whole run, <code>ags start</code> begins one in the folder you are in.</p>
  <//>`;
}

/** @param {{query: Record<string, string>}} props */
function NoMatch({ query }) {
  return html`<${Empty} title="No run matches">
    <p>${query.q ? html`Nothing has the words “${query.q}”` : "Nothing is as you chose"}${total.value > runs.value.size && " among the runs that are loaded"}.</p>
    <p><${Button} onClick=${() => go("/")}>Show all runs<//></p>
  <//>`;
}

/** Runs older than those on the board, on demand. */
function Older() {
  const [busy, setBusy] = useState(false);
  const missing = total.value - runs.value.size;
  if (missing <= 0) return null;
  const load = async () => {
    setBusy(true);
    await older().catch(failed);
    setBusy(false);
  };
  return html`<div class="older"><span class="faint">${counted(missing, "older run")} not loaded.</span>
    <${Button} busy=${busy} onClick=${load}>Load ${Math.min(missing, 500)}<//></div>`;
}

/** @param {Row} row */
async function stop(row) {
  try {
    await call("POST", `/runs/${row.name}/stop`, {});
    toast(`Stopped ${row.name}`, { kind: "done" });
  } catch (error) {
    failed(error);
  }
}

/** @param {{query: Record<string, string>}} props */
export function Board({ query }) {
  const [cursor, setCursor] = useState("");
  const [stopping, setStopping] = useState(/** @type {Row | null} */ (null));
  const [side, setSide] = useState(false);
  const entries = useMemo(() => arranged(sifted(runs.value.values(), query, projects.value)), [runs.value, projects.value, query]);
  const listed = useMemo(() => entries.flatMap((entry) => (entry.kind === "run" ? [entry.row] : [])), [entries]);
  const current = listed.find((row) => row.id === cursor);

  const move = (/** @type {number} */ step) => {
    const at = listed.findIndex((row) => row.id === cursor);
    const next = listed[at < 0 ? 0 : Math.max(0, Math.min(listed.length - 1, at + step))];
    if (!next) return;
    setCursor(next.id);
    showRow(entries, next.id);
  };
  const toProjects = () => {
    setSide(true);
    // On a phone they are in the document only when that is drawn.
    queueMicrotask(() => /** @type {HTMLElement | null} */ (document.querySelector(".projects [aria-current]"))?.focus());
  };
  useKeys([
    { key: "j", repeats: true, label: "Next run", group: "Board", run: () => move(1) },
    { key: "k", repeats: true, label: "Previous run", group: "Board", run: () => move(-1) },
    { key: "ArrowDown", repeats: true, label: "Next run", group: "Board", run: () => move(1) },
    { key: "ArrowUp", repeats: true, label: "Previous run", group: "Board", run: () => move(-1) },
    { key: "Enter", label: "Open the run", group: "Board", run: () => current && go(`/run/${current.name}`) },
    { key: "r", label: "Review the run", group: "Board", run: () => current && go(`/run/${current.name}/review`) },
    { key: "x", label: "Stop the run", group: "Board", run: () => current && !isOver(current) && setStopping(current) },
    { key: "c", label: "Compare the attempts", group: "Board", run: () => current?.group && go(`/compare?group=${encodeURIComponent(current.group)}`) },
    { key: "w", label: "Only runs at work, or all", group: "Board", run: () => go(withQuery({ state: query.state === "at-work" ? "" : "at-work" }), { replace: true }) },
    { key: "a", label: "Only runs that ask, or all", group: "Board", run: () => go(withQuery({ state: query.state === "asking" ? "" : "asking" }), { replace: true }) },
    { key: "g p", label: "Go to the projects", group: "Board", run: toProjects },
    { key: "Escape", label: "Clear search and filters", group: "Board", run: () => Object.keys(query).length && go("/") },
  ]);
  useEffect(() => {
    if (cursor && !current) setCursor("");
  }, [current]);

  if (!loaded.value) {
    return html`<div class="page"><${Spinner} label="Loading" /></div>`;
  }
  return html`<div class=${classes("board", side && "with-side", !query.project && "mixed")}>
    <h1 class="hidden">Runs</h1>
    <aside><${Projects} current=${query.project || ""} /></aside>
    <section class="list" aria-label="Runs">
      ${!runs.value.size ? html`<${First} />` : html`
        <${Filters} query=${query} shown=${listed.length} onProjects=${() => setSide(!side)} />
        <${List} entries=${entries} cursor=${cursor} onCursor=${setCursor}>
          ${!entries.length && html`<${NoMatch} query=${query} />`}<${Older} />
        <//>`}
    </section>
    ${stopping && html`<${Confirm} title=${`Stop ${stopping.name}?`} action="Stop" onYes=${() => stop(stopping)} onClose=${() => setStopping(null)}
      text=${html`<p>The agent gets time to end by itself. What it did so far is kept.</p>`} />`}
  </div>`;
}
