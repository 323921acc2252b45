// @ts-check
// The projects at the side of the board: chosen, added, pulled, taken away.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { call, Problem, problemOf } from "../api.js";
import { failed, go, projects, runs, isOver, toast, withQuery } from "../store.js";
import { counted, plain } from "../run/text.js";
import { Button, classes, Confirm, Dialog, html, Menu, TextField, Trouble } from "../ui.js";
import { lastPart, projectKey, tally } from "./sift.js";

/** @typedef {import("../store.js").Project} Project */

/**
 * Add a project by its address; it is cloned meanwhile.
 * @param {{onAdded?: (project: Project) => void, onCancel?: () => void, autofocus?: boolean}} props
 */
export function AddProject({ onAdded, onCancel, autofocus }) {
  const [url, setUrl] = useState("");
  const [client, setClient] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useLayoutEffect(() => {
    if (autofocus) form.current?.querySelector("input")?.focus();
  }, []);
  const add = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      const project = await call("POST", "/projects", { url: url.trim(), ...(client.trim() && { client: client.trim() }) });
      // The board tells of it too, but maybe a moment later than whoever waits for it here.
      if (!projects.value.has(project.id)) projects.value = new Map(projects.value).set(project.id, project);
      setUrl("");
      onAdded?.(project);
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  return html`<form class="add-project" ref=${form} onSubmit=${add}>
    <${TextField} label="Address" hint="As git clone takes it, or the path of a repository on the server."
      value=${url} onInput=${setUrl} />
    <details><summary>For a client</summary>
      <${TextField} label="Client" hint="Its files, secrets and history stay apart from all others." value=${client} onInput=${setClient} />
    </details>
    ${problem && html`<${Trouble} problem=${problem} />`}
    <div class="actions"><${Button} type="submit" kind="primary" busy=${busy} disabled=${!url.trim()}>Add<//>
      ${onCancel && html`<${Button} kind="quiet" onClick=${onCancel}>Cancel<//>`}</div>
  </form>`;
}

/** How far a clone or pull is, or why it failed. @param {{project: Project}} props */
export function ProjectState({ project }) {
  if (project.state === "failed") return html`<p class="error project-state">failed: ${project.error}</p>`;
  if (project.state === "ready") {
    return html`${project.error && html`<p class="error project-state">${project.error}</p>`}<${Apart} project=${project} />`;
  }
  const words = [project.state, project.stage, project.progress === null ? "" : `${project.progress} %`];
  return html`<div class="project-state faint" role="status">
    <span>${words.filter(Boolean).join(" · ")}</span>
    <progress max="100" value=${project.progress ?? undefined} aria-label=${`${project.state} ${project.name}`}></progress>
  </div>`;
}

/** Branches that the last pull left as they were. @param {{project: Project}} props */
function Apart({ project }) {
  const [open, setOpen] = useState(false);
  const { diverged, gone, more } = project.apart;
  const all = diverged.length + gone.length + more;
  if (!all) return null;
  const close = () => setOpen(false);
  return html`<div class="project-state"><button type="button" class="apart" onClick=${() => setOpen(true)}>
      ${all} ${all === 1 ? "branch" : "branches"} apart from the remote</button>
    ${open && html`<${Dialog} title=${`Branches of ${project.name}`} onClose=${close} actions=${html`<${Button} autofocus onClick=${close}>Close<//>`}>
      <div class="say">
        <${Branches} names=${diverged}>These have commits of their own, and the remote's have others. They stay as they are:
          push them, or start from the remote's, <span class="mono">origin/…</span>.<//>
        <${Branches} names=${gone}>These are gone from the remote, and stay here as they were.<//>
        ${more > 0 && html`<p class="faint">And ${more} more.</p>`}
      </div><//>`}</div>`;
}

/** @param {{names: string[], children?: any}} props */
function Branches({ names, children }) {
  return names.length > 0 && html`<p>${children}</p><ul class="mono branches">${names.map((name) => html`<li><bdi>${plain(name)}</bdi></li>`)}</ul>`;
}

/** @param {Project} project */
async function pull(project) {
  try {
    await call("POST", `/projects/${project.id}/pull`, {});
  } catch (error) {
    failed(error);
  }
}

/** @param {{project: Project, onClose: () => void}} props */
function Removing({ project, onClose }) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const remove = async () => {
    try {
      await call("DELETE", `/projects/${project.id}${problem ? "?force=true" : ""}`);
      toast(`Removed ${project.name}`, { kind: "done" });
      go(withQuery({ project: "" }), { replace: true });
      onClose();
    } catch (error) {
      if (problem) onClose();
      if (problem || problemOf(error).status !== 409) failed(error);
      setProblem(problemOf(error));
    }
  };
  const text = problem
    ? html`<${Trouble} problem=${problem} /><p>What is nowhere else will be lost.</p>`
    : html`<p>Its clone is removed from this machine. A folder of your own stays as it is, and so does
        the repository at <span class="mono">${project.url}</span>.</p>`;
  return html`<${Confirm} key=${problem ? "again" : "first"} title=${`Remove ${project.name}?`} text=${text}
    action=${problem ? "Remove anyway" : "Remove"} onYes=${remove} onClose=${onClose} stays late=${problem !== null} />`;
}

/** @param {{project: Project, current: boolean, all: number, working: number, onRemove: () => void}} props */
function Entry({ project, current, all, working, onRemove }) {
  return html`<li class=${classes("project", current && "current")}>
    <a class="cut" href=${withQuery({ project: project.id })} aria-current=${current ? "true" : undefined} title=${project.url}>
      ${project.name}${project.client && html`<span class="faint"> ${project.client}</span>`}</a>
    <${Counts} all=${all} working=${working} />
    <${Menu} label="⋯" title=${`Actions for ${project.name}`} items=${[
      { label: "New run", run: () => go(`/new?project=${project.id}`) },
      { label: "Pull", run: () => pull(project), disabled: project.state !== "ready" },
      { label: "Remove …", run: onRemove, danger: true },
    ]} />
    <${ProjectState} project=${project} />
  </li>`;
}

/** @param {{all: number, working: number}} props */
function Counts({ all, working }) {
  return html`<span class="counts">${working > 0 && html`<span class="working" title=${`${working} at work`}>${working}<span class="hidden"> at work of </span></span>`}
    <span class="faint" title=${counted(all, "run")}>${all}</span></span>`;
}

/** All runs, or those of a folder that is none of our projects. @param {{href: string, label: string, title?: string, current: boolean, all: number, working: number}} props */
function Plain({ href, label, title, current, all, working }) {
  return html`<li class=${classes("project", current && "current")}>
    <a class="cut" href=${href} aria-current=${current ? "true" : undefined} title=${title}>${label}</a>
    <${Counts} all=${all} working=${working} />
  </li>`;
}

/** @param {{current: string}} props */
export function Projects({ current }) {
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState(/** @type {Project | null} */ (null));
  const rows = [...runs.value.values()];
  const atWork = rows.filter((row) => !isOver(row));
  const all = tally(rows, projectKey);
  const working = tally(atWork, projectKey);
  const known = [...projects.value.values()].toSorted((a, b) => a.name.localeCompare(b.name));
  const folders = [...new Set(rows.filter((row) => !row.project_id).map((row) => row.project))].toSorted();
  const counts = (/** @type {string} */ key) => ({ current: current === key, all: all.get(key) || 0, working: working.get(key) || 0 });
  const added = (/** @type {Project} */ project) => {
    setAdding(false);
    toast(`Added ${project.name}`, { kind: "done" });
  };
  return html`<nav class="projects" aria-label="Projects">
    <ul><${Plain} href=${withQuery({ project: "" })} label="All projects" current=${!current} all=${rows.length} working=${atWork.length} /></ul>
    ${known.length > 0 && html`<ul>${known.map((project) => html`<${Entry} key=${project.id} project=${project}
      ...${counts(project.id)} onRemove=${() => setRemoving(project)} />`)}</ul>`}
    ${folders.length > 0 && html`<h2 class="faint">Your folders</h2><ul>${folders.map((path) => html`<${Plain} key=${path}
      href=${withQuery({ project: path })} label=${lastPart(path)} title=${path} ...${counts(path)} />`)}</ul>`}
    ${adding
      ? html`<${AddProject} autofocus onAdded=${added} onCancel=${() => setAdding(false)} />`
      : html`<div><${Button} kind="quiet" onClick=${() => setAdding(true)}>+ Add a project<//></div>`}
    ${removing && html`<${Removing} project=${removing} onClose=${() => setRemoving(null)} />`}
  </nav>`;
}
