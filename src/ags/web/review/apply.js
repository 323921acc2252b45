// @ts-check
/** Taking a run's work over, and taking that back. */

import { useEffect, useState } from "preact/hooks";

import { call, problemOf } from "../api.js";
import { useKeys } from "../keys.js";
import { read } from "../patience.js";
import { counted, plainName } from "../run/text.js";
import { failed, toast } from "../store.js";
import { Button, Dialog, Field, html, Notice, Spinner, Trouble } from "../ui.js";

/** @typedef {import("./state.js").Reviewing} Reviewing */
/** @typedef {{name: string, run: string | null}} Branch */
/** @typedef {"merge" | "squash" | "patch" | "push"} How */

/** @type {[How, string, string][]} */
const WAYS = [
  ["merge", "Merge", "the branch moves forward if it can, else a merge is made"],
  ["squash", "Squash", "all of it as one commit"],
  ["patch", "Patch", "only into your files and index; nothing is committed"],
  ["push", "Push", "onto a branch of a remote; your own branches stay as they are"],
];
const HEADS = "refs/heads/";

/** @param {{outcome: string, target: string | null}} done */
function told({ outcome, target }) {
  const name = plainName((target ?? "").replace(HEADS, ""));
  if (outcome === "nothing") return "Nothing to apply: all of it is there already";
  if (outcome === "push") return `Pushed to ${name}`;
  return outcome === "fast-forward" ? `${name} moved forward` : `Applied to ${name} (${outcome})`;
}

/** @param {Reviewing} model */
export async function undo(model) {
  // A second one would take back what was applied before it.
  if (model.undoing.value) return;
  model.undoing.value = true;
  model.settled?.();
  try {
    const done = await call("POST", `/runs/${model.name}/undo`, {});
    toast(`Taken back from ${plainName((done.target ?? "").replace(HEADS, ""))}`, { kind: "done" });
  } catch (error) {
    failed(error);
  }
  await model.refresh();
  model.undoing.value = false;
}

/** @param {Reviewing} model @returns {string[]} */
function useBranches(model) {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  const id = model.run.value?.project_id;
  useEffect(() => {
    // The name can be typed as well: without the list, nothing is lost.
    const take = (/** @type {{items: Branch[]}} */ { items }) => setNames(items.filter(isOwn).map(({ name }) => name));
    if (id) read(`/projects/${id}/branches`).then(take, () => {});
  }, [id]);
  return names;
}

/**
 * All that would be applied, also where less of it is shown: a risk of an earlier turn is one still.
 * @param {Reviewing} model
 * @param {(problem: import("../api.js").Problem) => void} onProblem
 */
function useWhole(model, onProblem) {
  const [diff, setDiff] = useState(model.isPart ? null : model.diff.value);
  useEffect(() => {
    if (!diff) read(`/runs/${model.name}/diff`).then(setDiff, (error) => onProblem(problemOf(error)));
  }, []);
  return diff;
}

/** @param {Branch} branch */
const isOwn = (branch) => branch.run === null;

/** @param {{model: Reviewing, onClose: () => void, onShow: () => void}} props */
export function ApplyDialog({ model, onClose, onShow }) {
  const [how, setHow] = useState(/** @type {How} */ ("merge"));
  const [into, setInto] = useState("");
  const [remote, setRemote] = useState("origin");
  const [seen, setSeen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(/** @type {import("../api.js").Problem | null} */ (null));
  const diff = useWhole(model, setProblem);
  const looked = model.diff.value?.new;
  const isNewer = model.hasNewer.value || (diff !== null && diff.new !== looked);
  const risks = diff?.risks ?? [];
  const waiting = model.waiting.value.length;

  const apply = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const body = {
        how,
        expected: looked,
        ...(into.trim() && { into: into.trim() }),
        ...(how === "push" && { remote: remote.trim() || "origin" }),
      };
      const done = await call("POST", `/runs/${model.name}/apply`, body);
      const canUndo = done.outcome !== "nothing" && how !== "push";
      model.settled = toast(told(done), { kind: "done", seconds: 10, ...(canUndo && { undo: () => undo(model) }) });
      onClose();
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
    await model.refresh();
  };
  const isReady = !busy && diff !== null && !isNewer && (!risks.length || seen);
  const actions = html`<${Button} onClick=${onClose}>Cancel<//>
    <${Button} kind="primary" busy=${busy} disabled=${!isReady} onClick=${apply} hotkey="Ctrl+Enter">${how === "push" ? "Push" : "Apply"}<//>`;
  useKeys([{ key: "Ctrl+Enter", label: "Apply", group: "Review", anywhere: true, run: () => isReady && apply() }]);
  return html`<${Dialog} title=${`Apply ${model.name}`} onClose=${onClose} actions=${actions} wide>
    <div class="apply">
      ${!diff && !problem && html`<${Spinner} label="Looking at all of its work" />`}
      ${risks.length > 0 && html`<${Risks} risks=${risks} seen=${seen} onSeen=${setSeen} />`}
      ${waiting > 0 && html`<${Notice} kind="info">${counted(waiting, "comment")} of yours ${waiting === 1 ? "is" : "are"} not sent yet.<//>`}
      <fieldset class="ways"><legend>How</legend>
        ${WAYS.map(([name, label, text]) => html`<label key=${name}><input type="radio" name="how" value=${name} checked=${how === name}
          autofocus=${name === "merge" && !risks.length}
          onChange=${() => setHow(name)} />
          <span><strong>${label}</strong> <span class="faint">${text}</span></span></label>`)}
      </fieldset>
      <div class="targets">
        ${how === "push" && html`<${Field} label="Remote">
          ${(/** @type {object} */ ids) => html`<input ...${ids} value=${remote} onInput=${typed(setRemote)} />`}<//>`}
        <${Into} model=${model} how=${how} into=${into} onInto=${setInto} />
      </div>
      ${isNewer ? html`<${Newer} onShow=${onShow} />` : problem && html`<${Refused} problem=${problem} />`}
    </div>
  <//>`;
}

/** @param {(text: string) => void} set */
const typed = (set) => (/** @type {Event} */ event) => set(/** @type {HTMLInputElement} */ (event.target).value);

/** @param {{model: Reviewing, how: How, into: string, onInto: (text: string) => void}} props */
function Into({ model, how, into, onInto }) {
  const branches = useBranches(model);
  const usual = how === "push" ? model.run.value?.branch ?? "" : "the branch that is checked out";
  return html`<${Field} label=${how === "push" ? "Branch there" : "Into branch"} hint=${`Empty: ${usual}`}>
    ${(/** @type {object} */ ids) => html`<input ...${ids} list="review-branches" value=${into} onInput=${typed(onInto)}
        autocomplete="off" spellcheck=${false} />
      <datalist id="review-branches">${branches.map((name) => html`<option value=${name}></option>`)}</datalist>`}<//>`;
}

/** @param {{risks: import("./cells.js").Risk[], seen: boolean, onSeen: (seen: boolean) => void}} props */
function Risks({ risks, seen, onSeen }) {
  return html`<${Notice} kind="warn" title="Look at these before you apply">
    <ul class="risks" tabindex="0" aria-label="What deserves a second look">${risks.map((risk) => html`<li>
      <code>${plainName(risk.path)}${risk.line ? `:${risk.line}` : ""}</code><span>${plainName(risk.reason)}</span></li>`)}</ul>
    <label class="seen"><input type="checkbox" autofocus checked=${seen} onChange=${(/** @type {Event} */ event) =>
      onSeen(/** @type {HTMLInputElement} */ (event.target).checked)} /> I have looked at ${risks.length === 1 ? "it" : `all ${risks.length}`}</label>
  <//>`;
}

/** @param {{onShow: () => void}} props */
function Newer({ onShow }) {
  return html`<div role="alert"><${Notice} kind="warn">There is newer work than what you looked at.
    <${Button} kind="primary" onClick=${onShow}>Show it<//><//></div>`;
}

/** @param {{problem: import("../api.js").Problem}} props */
function Refused({ problem }) {
  return html`<div role="alert"><${Trouble} problem=${problem} />
    ${problem.files.length > 0 && html`<h3>Conflicts</h3>
      <ul class="conflicts">${problem.files.map((file) => html`<li><code>${plainName(file)}</code></li>`)}</ul>
      <p class="faint">Nothing was changed. Start a new run from where the project stands now, or merge by hand.</p>`}</div>`;
}
