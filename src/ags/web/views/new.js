// @ts-check
// A new run: what is to be done, on which project, by whom, and what it will be able to reach.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { call, problemOf } from "../api.js";
import { AddProject, ProjectState } from "../board/projects.js";
import { useKeys } from "../keys.js";
import { Advanced, Reach } from "../new/advanced.js";
import { bodyOf, MANY, next, restored, useFacts } from "../new/form.js";
import { counted } from "../run/text.js";
import { draft, go, loaded, projects, runs, toast } from "../store.js";
import { Button, html, Notice, SelectField, TextField, Trouble } from "../ui.js";

/** @typedef {import("../new/form.js").Form} Form */
/** @typedef {import("../store.js").Project} Project */
/** @typedef {{form: Form, set: (changes: Partial<Form>) => void}} Filling */

const ADD = "+";
const FOLDER = "/";

/** @param {Filling} props */
function ProjectField({ form, set }) {
  const [chosenToAdd, setAdding] = useState(/** @type {boolean | null} */ (null));
  // Not before the board has told which there are.
  const adding = chosenToAdd ?? (loaded.value && projects.value.size === 0);
  const known = [...projects.value.values()].toSorted((a, b) => a.name.localeCompare(b.name));
  const isFolder = form.project.startsWith(FOLDER);
  const project = projects.value.get(form.project);
  const options = [
    ...(form.project ? [] : [{ value: "", label: "Choose a project" }]),
    ...known.map((each) => ({ value: each.id, label: each.client ? `${each.name} (${each.client})` : each.name })),
    { value: FOLDER, label: "A folder on the server …" },
    { value: ADD, label: "Add a project …" },
  ];
  const chosen = (/** @type {string} */ value) => {
    setAdding(value === ADD);
    if (value !== ADD) set({ project: value, base: "", client: "" });
  };
  const added = (/** @type {Project} */ made) => {
    setAdding(false);
    set({ project: made.id, base: "" });
  };
  return html`<div class="field-group">
    <${SelectField} label="Project" hint=${project?.client ? `Of the client ${project.client}.` : ""} options=${options}
      value=${adding ? ADD : isFolder ? FOLDER : form.project} onChange=${chosen} />
    ${adding && html`<div class="boxed"><${AddProject} onAdded=${added} onCancel=${known.length ? () => setAdding(false) : undefined} /></div>`}
    ${!adding && isFolder && html`
      <${TextField} label="Folder" hint="The whole path of a git repository on the server." mono
        value=${form.project} onInput=${(/** @type {string} */ text) => set({ project: text || FOLDER })} />
      <${TextField} label="Client" hint="Whose work it is; empty: your own."
        value=${form.client} onInput=${(/** @type {string} */ client) => set({ client })} />`}
    ${!adding && project && project.state !== "ready" && html`<${ProjectState} project=${project} />`}
  </div>`;
}

/** @param {Filling & {branches: import("../new/form.js").Branch[]}} props */
function BaseField({ form, set, branches }) {
  return html`<div>
    <${TextField} label="Begin at" hint="A branch, tag or commit. Empty: where the project stands now." mono list="bases" placeholder="HEAD"
      value=${form.base} onInput=${(/** @type {string} */ base) => set({ base })} />
    <datalist id="bases">${branches.map((each) => html`<option value=${each.name}>${each.title}</option>`)}</datalist>
  </div>`;
}

/** @param {Filling & {agents: import("../new/form.js").Agent[]}} props */
function AgentFields({ form, set, agents }) {
  const chosen = agents.find((each) => each.name === form.agent);
  const options = agents.map(({ name, ready }) => ({ value: name, label: ready === false ? `${name} (not installed)` : name }));
  const hint = chosen?.ready === false ? html`Install it under <a href="/settings/agents">Settings</a> first.` : "";
  return html`
    <${SelectField} label="Agent" hint=${hint} value=${form.agent} options=${options}
      onChange=${(/** @type {string} */ agent) => set({ agent, model: "" })} />
    <${TextField} label="Model" hint="Empty: what the agent chooses." mono
      value=${form.model} onInput=${(/** @type {string} */ model) => set({ model })} />
    <${TextField} label="Attempts" hint="Several at one goal can be compared." type="number" min="1" max=${MANY}
      value=${form.attempts} onInput=${(/** @type {string} */ attempts) => set({ attempts })} />`;
}

/** Of a request that cannot be meant: which part, and why. @param {{problem: import("../api.js").Problem}} props */
function Refusal({ problem }) {
  return html`<${Trouble} problem=${problem} />
    ${problem.errors.length > 0 && html`<${Notice} kind="error">${problem.errors.map((each) => html`<p class="mono">${JSON.stringify(each)}</p>`)}<//>`}`;
}

/** Why it cannot start yet. @param {{form: Form, cloning: boolean}} props */
function Lacking({ form, cloning }) {
  const why = cloning ? "The project is still being cloned." : form.project.length < 2 ? "Choose a project." : "Say what is to be done.";
  return html`<span class="faint">${why}</span>`;
}

const GOAL = "What is to be done, and how you will know that it is. The agent sees only this and the project.";
const EXAMPLE = "The totals are wrong when a price has three decimals. Fix that, with a test.";

/** @param {{query: Record<string, string>}} props */
export function New({ query }) {
  const kept = draft("new");
  const goal = draft("new.goal");
  const [form, setForm] = useState(() => restored(kept.value, query.project, projects.value, runs.value));
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(/** @type {import("../api.js").Problem | null} */ (null));
  const sent = useRef({ body: "", key: "" });
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const { agents, backends, branches, ...facts } = useFacts(form);
  const set = (/** @type {Partial<Form>} */ changes) => setForm((before) => ({ ...before, ...changes }));

  useEffect(() => void (kept.value = JSON.stringify(form)), [form]);
  useLayoutEffect(() => place.current?.querySelector("textarea")?.focus(), []);
  // The only project there is, once the board has told of it.
  useEffect(() => {
    if (!form.project && projects.value.size === 1) set({ project: [...projects.value.keys()][0] });
  }, [projects.value]);

  const project = projects.value.get(form.project);
  const cloning = project?.state === "cloning";
  const ready = form.project.length > 1 && goal.value.trim() !== "" && !cloning;

  const start = async () => {
    if (!ready || busy) return;
    setBusy(true);
    setProblem(null);
    const wanted = goal.value;
    const body = bodyOf(form, wanted);
    // The same request again, after an answer that never came, must not start the runs twice.
    const text = JSON.stringify(body);
    if (sent.current.body !== text) sent.current = { body: text, key: crypto.randomUUID() };
    try {
      const { items } = await call("POST", "/runs", body, { headers: { "Idempotency-Key": sent.current.key } });
      // What was typed since is of the next run.
      if (goal.value === wanted) goal.value = "";
      kept.value = JSON.stringify(next(form));
      toast(items.length > 1 ? `Started ${counted(items.length, "attempt")}` : `Started ${items[0].name}`, { kind: "done" });
      go(items.length > 1 ? `/compare?group=${encodeURIComponent(items[0].group)}` : `/run/${items[0].name}`);
    } catch (error) {
      setProblem(problemOf(error));
      setBusy(false);
    }
  };
  useKeys([
    { key: "Ctrl+Enter", label: "Start", group: "New run", run: start, anywhere: true },
    { key: "Escape", label: "Back to the board", group: "New run", run: () => go("/") },
  ]);
  const fill = (/** @type {Form} */ values, /** @type {string} */ text) => {
    goal.value = text;
    kept.value = JSON.stringify(values); // also when this is no longer shown
    setForm(values);
  };
  const clear = () => {
    const text = goal.value;
    fill({ ...next(form), model: "" }, "");
    toast("The form is cleared", { undo: () => fill(form, text), seconds: 8 });
  };
  // Not a form: the one that adds a project is within it, and a stray Enter must not start anything.
  return html`<div class="page new-run" role="form" aria-labelledby="new-run">
    <header><h1 id="new-run">New run</h1><span class="grow"></span><${Button} kind="quiet" onClick=${clear}>Clear<//></header>
    <div class="columns">
      <div class="main-column">
        <${ProjectField} form=${form} set=${set} />
        <div ref=${place}><${TextField} label="Goal" hint=${form.agent === "shell" ? "For the agent shell: the command to run." : GOAL} rows=${9}
          placeholder=${EXAMPLE} value=${goal.value} onInput=${(/** @type {string} */ text) => (goal.value = text)} /></div>
        <div class="three"><${AgentFields} form=${form} set=${set} agents=${agents} /></div>
        <div class="two">
          <${BaseField} form=${form} set=${set} branches=${branches} />
          <${TextField} label="Name" hint="Small letters, digits and -. Empty: from the words of the goal." mono maxlength="48"
            value=${form.name} onInput=${(/** @type {string} */ name) => set({ name })} />
        </div>
        <${Advanced} form=${form} set=${set} backends=${backends} />
        ${problem && html`<${Refusal} problem=${problem} />`}
        <footer>
          <${Button} kind="primary" busy=${busy} disabled=${!ready} onClick=${start} hotkey="Ctrl+Enter">
            ${Number(form.attempts) > 1 ? `Start ${form.attempts} attempts` : "Start"}<//>
          ${!ready && html`<${Lacking} form=${form} cloning=${cloning} />`}
        </footer>
      </div>
      <aside class="side-column" aria-label="What it will reach"><${Reach} ...${facts} form=${form} /></aside>
    </div>
  </div>`;
}
