// @ts-check
// The attempts at one goal, side by side; one of them is applied.
import { useEffect, useState } from "preact/hooks";
import { call, problemOf } from "../api.js";
import { useKeys } from "../keys.js";
import { read } from "../patience.js";
import { plain } from "../run/text.js";
import { failed, go, isOver, loaded, runs, toast } from "../store.js";
import { Age, Button, Changes, classes, Confirm, Empty, html, Kbd, Lines, Menu, money, short, Spinner, State, Trouble } from "../ui.js";

/** @typedef {import("../store.js").Row} Row */
/** @typedef {{run: any, files: {path: string, additions: number, deletions: number, kind: string}[], risks: number}} Facts */

const MOST_FILES = 200;

/** What the board does not tell of a run. Asked anew when the run's state or result changed. @param {Row} row */
function useFacts(row) {
  const [facts, setFacts] = useState(/** @type {Facts | null} */ (null));
  const [problem, setProblem] = useState(/** @type {import("../api.js").Problem | null} */ (null));
  useEffect(() => {
    const stop = new AbortController();
    const options = { signal: stop.signal };
    const look = async () => {
      const run = await read(`/runs/${row.name}`, options);
      const diff = run.result?.files ? await read(`/runs/${row.name}/diff`, options) : { files: [], risks: [] };
      const files = diff.files.map((/** @type {any} */ { path, additions, deletions, kind }) => ({ path, additions, deletions, kind }));
      setFacts({ run, files, risks: diff.risks.length });
      setProblem(null);
    };
    look().catch((error) => stop.signal.aborted || setProblem(problemOf(error)));
    return () => stop.abort();
  }, [row.name, row.state, row.files, row.insertions, row.deletions, row.applied]);
  return { facts, problem };
}

/** @param {{files: Facts["files"], common: Set<string>}} props */
function Files({ files, common }) {
  if (!files.length) return html`<p class="faint">No file changed.</p>`;
  return html`<ul class="files-of">
    ${files.slice(0, MOST_FILES).map((file) => html`<li class=${classes(common.has(file.path) && "common")}>
      <span class="mono cut" title=${`${plain(file.path)}, ${file.kind}`}><bdi>${plain(file.path)}</bdi></span>
      <${Lines} added=${file.additions} removed=${file.deletions} /></li>`)}
    ${files.length > MOST_FILES && html`<li class="faint">and ${files.length - MOST_FILES} more</li>`}
  </ul>`;
}

/** @param {Row} row */
const cost = (row) => money(row.activity?.cost) || (row.activity?.tokens ? `${short(row.activity.tokens)} tokens` : "unknown");

/**
 * @param {{row: Row, chosen: boolean, common: Set<string>, onChoose: () => void, onApply: (facts: Facts, how: string) => void,
 *   onFiles: (name: string, files: string[]) => void}} props
 */
function Attempt({ row, chosen, onChoose, onApply, onFiles, common }) {
  const { facts, problem } = useFacts(row);
  const isFresh = facts?.run.state === row.state && (facts?.run.result?.files ?? null) === row.files;
  useEffect(() => facts ? onFiles(row.name, facts.files.map((file) => file.path)) : undefined, [facts]);
  const canApply = facts?.run.left.includes("apply") && (facts.run.result?.files || 0) > 0;
  const listed = facts && isFresh
    ? html`<${Files} files=${facts.files} common=${common} />`
    : html`<${Spinner} label=${isOver(row) ? "Loading" : "It is at work"} />`;
  const words = plain(facts?.run.answer || row.activity?.last);
  return html`<section class=${classes("attempt", chosen && "chosen")} aria-label=${row.name} onFocusIn=${onChoose} onClick=${onChoose}>
    <header><h2><a class="mono" href=${`/run/${row.name}`} id=${`attempt-${row.id}`}>${row.name}</a></h2><span class="grow"></span><${State} run=${row} /></header>
    <dl>
      <div><dt>Agent</dt><dd>${row.agent}${facts?.run.model && html` <span class="faint">${facts.run.model}</span>`}</dd></div>
      <div><dt>Changes</dt><dd><${Changes} row=${row} />${row.files === null && html`<span class="faint">not yet</span>`}</dd></div>
      <div><dt>Cost</dt><dd>${cost(row)}</dd></div>
      <div><dt>Time</dt><dd><${Age} ts=${row.started} until=${row.ended} />${row.started === null && html`<span class="faint">not begun</span>`}</dd></div>
    </dl>
    ${facts && facts.risks > 0 && html`<p class="warn-text">${facts.risks} of its changes would be run later, or hold secrets: review it.</p>`}
    ${row.applied && html`<p class="good-text">This one is applied.</p>`}
    <div class="said"><h3>${isOver(row) ? "What it said" : "Last words"}</h3><p>${words || html`<span class="faint">Nothing.</span>`}</p></div>
    <div class="touched"><h3>Files</h3>
      ${problem ? html`<${Trouble} problem=${problem} />` : listed}</div>
    <footer>
      <a class="button" href=${`/run/${row.name}/review`}>Review<${Kbd} keys="r" /></a>
      <${Button} kind="primary" hotkey="a" disabled=${!canApply} onClick=${() => facts && onApply(facts, "merge")}>Apply<//>
      ${canApply && html`<${Menu} label="⋯" title=${`Other ways to apply ${row.name}`} items=${[
        { label: "Apply as one commit", run: () => facts && onApply(facts, "squash") },
        { label: "Apply as changes to the files", run: () => facts && onApply(facts, "patch") },
      ]} />`}
    </footer>
  </section>`;
}

/** @param {string} name */
async function undo(name) {
  try {
    await call("POST", `/runs/${name}/undo`, {});
    toast(`Took ${name} back`, { kind: "done" });
  } catch (error) {
    failed(error);
  }
}

/** @param {any} run @param {string} how */
async function apply(run, how) {
  try {
    const done = await call("POST", `/runs/${run.name}/apply`, { how, expected: run.result.commit });
    toast(done.outcome === "nothing" ? "Nothing to apply: all of it is there already" : `Applied ${run.name} to ${done.target}`, {
      kind: "done",
      seconds: 10,
      undo: done.outcome === "nothing" ? undefined : () => undo(run.name),
    });
  } catch (error) {
    failed(error);
  }
}

/** @param {Map<string, string[]>} files */
function inAll(files) {
  const [first = [], ...rest] = [...files.values()];
  return new Set(first.filter((path) => rest.every((paths) => paths.includes(path))));
}

/** @param {{query: Record<string, string>}} props */
export function Compare({ query }) {
  const rows = [...runs.value.values()].filter((row) => row.group && row.group === query.group)
    .toSorted((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const [chosen, setChosen] = useState("");
  const [applying, setApplying] = useState(/** @type {{facts: Facts, how: string} | null} */ (null));
  const [files, setFiles] = useState(/** @type {Map<string, string[]>} */ (new Map()));
  const current = rows.find((row) => row.id === chosen) ?? rows[0];
  const move = (/** @type {number} */ step) => {
    const next = rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(current) + step))];
    if (next) document.getElementById(`attempt-${next.id}`)?.focus();
  };
  const press = (/** @type {string} */ selector) => /** @type {HTMLElement | null} */ (document.querySelector(`.attempt.chosen ${selector}`))?.click();
  useKeys([
    { key: "l", repeats: true, label: "Next attempt", group: "Compare", run: () => move(1) },
    { key: "h", repeats: true, label: "Previous attempt", group: "Compare", run: () => move(-1) },
    { key: "r", label: "Review the attempt", group: "Compare", run: () => current && go(`/run/${current.name}/review`) },
    { key: "a", label: "Apply the attempt", group: "Compare", run: () => press(".primary") },
    { key: "Escape", label: "Back to the board", group: "Compare", run: () => go("/") },
  ]);
  if (!loaded.value) return html`<div class="page"><${Spinner} label="Loading" /></div>`;
  if (!rows.length) {
    return html`<${Empty} title="There are no such attempts"><p>Attempts are started together: choose more than one on <a href="/new">New run</a>.</p>
      <p><a href="/">All runs</a></p><//>`;
  }
  const common = rows.length > 1 ? inAll(files) : new Set();
  const noted = (/** @type {string} */ name, /** @type {string[]} */ paths) => setFiles((before) => new Map(before).set(name, paths));
  return html`<div class="compare">
    <header><h1>${rows.length} attempts</h1><p class="goal">${plain(rows[0].goal)}</p></header>
    <div class="attempts">${rows.map((row) => html`<${Attempt} key=${row.id} row=${row} common=${common} onFiles=${noted}
      chosen=${row === current} onChoose=${() => setChosen(row.id)}
      onApply=${(/** @type {Facts} */ facts, /** @type {string} */ how) => setApplying({ facts, how })} />`)}</div>
    ${applying && html`<${Confirm} title=${`Apply ${applying.facts.run.name}?`} action="Apply" danger=${false} onClose=${() => setApplying(null)}
      onYes=${() => apply(applying.facts.run, applying.how)}
      text=${html`<p>Its work goes to the branch that the project is on (${applying.how}). It can be taken back.</p>
        ${applying.facts.risks > 0 && html`<p class="warn-text">${applying.facts.risks} of its changes would be run later on your machine, or hold secrets. Review them first.</p>`}`} />`}
  </div>`;
}
