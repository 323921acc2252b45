// @ts-check
/** Who the run is, how it stands, and what can be done with it. */
import { useState } from "preact/hooks";
import { useKeys } from "../keys.js";
import { go } from "../store.js";
import { Age, Button, Changes, Code, Confirm, Copy, html, money, Notice, State, whoStopped } from "../ui.js";
import { doubted, keep, leaving, remove, removeSoon, restart, stop, stopping } from "./actions.js";
import { oneLine, plain, tokensText } from "./text.js";

/** @param {{run: any, row: any, changed: (run: any) => void, tell: () => void}} props */
export function Head({ run, row, changed, tell }) {
  const [asked, setAsked] = useState("");
  const { id, problem } = doubted.value ?? { id: "", problem: null };
  const can = (/** @type {string} */ step) => run.left.includes(step);
  const review = `/run/${encodeURIComponent(run.name)}/review`;
  const remover = () => can("remove") && removeSoon(run);
  const stopper = () => can("stop") && stop(run, changed);
  const again = () => can("restart") && setAsked("restart");
  useKeys([
    { key: "s", label: "Stop; once more: now", group: "Run", run: stopper },
    { key: "t", label: "Tell it something", group: "Run", run: tell },
    { key: "v", label: "Review its changes", group: "Run", run: () => go(review) },
    { key: "R", label: "Restart", group: "Run", run: again },
    { key: "D", label: "Delete", group: "Run", run: remover },
    { key: "Escape", label: "Back to all runs", group: "Run", run: () => go("/") },
  ]);
  const halting = stopping.value.has(run.id);
  return html`<header class="run-head">
    <div class="run-title">
      <a class="button quiet icon" href="/" aria-label="Back to all runs" title="Back to all runs (Esc)">←</a>
      <h1>${run.name}</h1>
      <${State} run=${{ ...run, state: row?.state ?? run.state, asking: row?.asking ?? run.asking }} />
      <span class="grow"></span>
      <div class="run-actions">
        ${can("stop") && html`<${Button} kind=${halting ? "danger" : "plain"} hotkey="s" onClick=${stopper}>${halting ? "Stop now" : "Stop"}<//>`}
        ${can("restart") && html`<${Button} hotkey="R" onClick=${again}>Restart<//>`}
        ${can("remove") && html`<${Button} hotkey="D" onClick=${remover} disabled=${leaving.value.has(run.id)}>Delete<//>`}
        <a class=${`button ${run.result?.files ? "primary" : ""}`} href=${review}>Review<span class="keys" aria-hidden="true"><kbd>v</kbd></span></a>
      </div>
    </div>
    <${Facts} run=${run} row=${row} />
    ${(run.said || run.goal) && html`<p class="run-goal" dir="auto" title=${oneLine(run.goal, 2000)}>${oneLine(run.said || run.goal, 400)}</p>`}
    <${Remarks} run=${run} />
    ${asked === "restart" && html`<${Confirm} title=${`Restart ${run.name}?`} action="Restart" danger=${false}
      text="It gets its goal again, from the same base, in a fresh workspace. What it brought so far is kept until the run is deleted."
      onYes=${() => restart(run, changed)} onClose=${() => setAsked("")} />`}
    ${problem && id === run.id && html`<${Confirm} title=${problem.title} action="Delete anyway" late
      text=${html`<p>${problem.detail}</p>${problem.hint && html`<p class="hint"><${Code} text=${problem.hint} /></p>`}`}
      onYes=${() => remove(run, true)} onClose=${() => (doubted.value = null)} />`}
  </header>`;
}

/** @param {{run: any, row: any}} props */
function Facts({ run, row }) {
  const sizes = run.result ?? { files: run.files ?? null, insertions: run.insertions ?? null, deletions: run.deletions ?? null };
  const activity = row?.activity;
  const clients = run.client && run.client !== "default" ? run.client : "";
  return html`<dl class="run-facts">
    <div><dt>Agent</dt><dd>${run.agent}${run.model && ` / ${oneLine(run.model, 60)}`}</dd></div>
    ${run.branch && html`<div><dt>Branch</dt><dd class="mono">${oneLine(run.branch, 80)}<${Copy} text=${run.branch} /></dd></div>`}
    <div><dt>Started</dt><dd><${Age} ts=${run.created} /> ago</dd></div>
    ${run.started && html`<div><dt>${run.ended ? "Took" : "At work"}</dt><dd><${Age} ts=${run.started} until=${run.ended} /></dd></div>`}
    <div><dt>Changes</dt><dd>${sizes.files === null ? html`<span class="faint">not yet</span>` : html`<${Changes} row=${sizes} />`}</dd></div>
    ${activity?.cost !== null && activity?.cost !== undefined && html`<div><dt>Cost</dt><dd>${money(activity.cost)}</dd></div>`}
    ${activity?.tokens > 0 && html`<div><dt>Tokens</dt><dd>${tokensText(activity.tokens)}</dd></div>`}
    ${run.turn > 0 && html`<div><dt>Turn</dt><dd>${run.turn + 1}</dd></div>`}
    ${clients && html`<div><dt>Client</dt><dd>${clients}</dd></div>`}
    ${run.exit_code ? html`<div><dt>Exit code</dt><dd>${run.exit_code}</dd></div>` : null}
    ${run.attempts.length > 1 && html`<div><dt>Attempts</dt><dd><a href=${`/compare?group=${encodeURIComponent(run.group)}`}>compare ${run.attempts.length}</a></dd></div>`}
  </dl>`;
}

/** @param {string} why @param {boolean} wrong */
function ended(why, wrong) {
  if (wrong) return `It ended: ${why}`;
  const who = whoStopped(why);
  return who === why ? `It was stopped: ${why}` : `It was stopped by ${who}`;
}

/** What weakens its walls, what it could not do, what ended it: never hidden. @param {{run: any}} props */
function Remarks({ run }) {
  const wrong = run.state === "failed" || run.state === "interrupted";
  const by = run.stopped_by && run.state !== "done" ? run.stopped_by : "";
  return html`<div class="run-remarks">
    ${leaving.value.has(run.id) && html`<${Notice} kind="warn"><div class="run-leaving"><span>It will be deleted in a moment.</span>
      <${Button} onClick=${() => keep(run.id)}>Keep it<//></div><//>`}
    ${run.weakenings.map((/** @type {any} */ each) => html`<${Notice} kind="warn" title=${`Weakened: ${oneLine(each.name, 60)}`}>
      <span>${plain(each.text)}</span><//>`)}
    ${by && html`<${Notice} kind=${wrong ? "error" : "info"}><span>${plain(ended(by, wrong))}</span><//>`}
    ${run.notes.length > 0 && html`<${Notice} kind=${wrong ? "error" : "info"}>
      ${run.notes.map((/** @type {string} */ each) => html`<span>${plain(each)}</span>`)}<//>`}
  </div>`;
}
