// @ts-check
/** The changed files by folder, with what deserves a second look before all others. */

import { useEffect, useMemo } from "preact/hooks";

import { counted, plainName } from "../run/text.js";
import { classes, html } from "../ui.js";
import { Counts } from "./head.js";
import { useWindow } from "./window.js";

/** @typedef {import("./cells.js").FileChange} FileChange */
/** @typedef {import("./cells.js").Risk} Risk */
/** @typedef {import("./state.js").Reviewing} Reviewing */
/** @typedef {{entries: (FileChange | Folder)[], name: string}} Folder In the order of the diff. */
/**
 * @typedef {{type: "title", text: string, height: number}
 *   | {type: "folder", name: string, depth: number, height: number}
 *   | {type: "file", file: FileChange, depth: number, height: number}
 *   | {type: "risk", file: FileChange, reason: string, height: number}} TreeRow
 */

const ROW = 26;
const RISK = 44;
const KINDS = /** @type {Record<string, string>} */ ({ added: "A", deleted: "D", renamed: "R", copied: "C", "type-changed": "T", "mode-changed": "M" });

/** @param {FileChange[]} files @returns {Folder} */
function rooted(files) {
  /** @type {Folder} */
  const root = { name: "", entries: [] };
  for (const file of files) {
    let folder = root;
    for (const name of file.path.split("/").slice(0, -1)) folder = within(folder, name);
    folder.entries.push(file);
  }
  return root;
}

/** The folder of that name: if it is there already, it is the last, since paths come in order. @param {Folder} folder @param {string} name */
function within(folder, name) {
  const last = folder.entries.at(-1);
  if (last && "entries" in last && last.name === name) return last;
  const made = { name, entries: [] };
  folder.entries.push(made);
  return made;
}

/** Folders that hold nothing but one folder share its row. @param {Folder} folder @returns {Folder} */
function joined(folder) {
  const [only] = folder.entries;
  if (folder.entries.length !== 1 || !("entries" in only)) return folder;
  return joined({ name: `${folder.name}/${only.name}`, entries: only.entries });
}

/** @param {Folder} folder @param {number} depth @returns {Generator<TreeRow>} */
function* listed(folder, depth) {
  for (const entry of folder.entries) {
    if ("entries" in entry) {
      const shown = joined(entry);
      yield { type: "folder", name: shown.name, depth, height: ROW };
      yield* listed(shown, depth + 1);
    } else yield { type: "file", file: entry, depth, height: ROW };
  }
}

/** @param {FileChange[]} files @param {Map<string, Risk[]>} risks @returns {TreeRow[]} */
function treeRows(files, risks) {
  const risky = files.filter((file) => risks.has(file.path));
  /** @type {TreeRow[]} */
  const first = risky.map((file) => ({ type: "risk", file, reason: reasons(risks.get(file.path) ?? []), height: RISK }));
  const head = first.length ? [title(`Look at first: ${counted(first.length, "file")}`), ...first, title("All files")] : [];
  return [...head, ...listed(rooted(files), 0)];
}

/** @param {string} text @returns {TreeRow} */
const title = (text) => ({ type: "title", text, height: ROW });

/** @param {Risk[]} risks */
function reasons(risks) {
  return [...new Set(risks.map((risk) => plainName(risk.reason)))].join("; ");
}

/** @type {FileChange[]} */
const NO_FILES = [];

/** @param {{model: Reviewing, filter: string, onFilter: (text: string) => void, onGo: (file: FileChange) => void}} props */
export function Tree({ model, filter, onFilter, onGo }) {
  // What deserves a look comes first, and so the list begins with what is known last.
  const isComplete = !model.isBeginning.value;
  const files = (isComplete && model.diff.value?.files) || NO_FILES;
  const words = filter.trim().toLowerCase();
  const rows = useMemo(() => {
    const wanted = files.filter((file) => file.path.toLowerCase().includes(words));
    return treeRows(wanted, model.risks.value);
  }, [files, words, model.risks.value]);
  const view = useWindow(rows);
  const current = model.current.value;
  useEffect(() => view.reveal(rows.findIndex((row) => row.type === "file" && row.file === current)), [current]);
  const viewed = model.viewed.value;
  /** @param {KeyboardEvent} event */
  const pressed = (event) => {
    if (event.key === "Escape") onFilter("");
    else if (event.key !== "Enter") return;
    const first = rows.find((row) => row.type === "file");
    if (event.key === "Enter" && first?.type === "file") onGo(first.file);
    event.preventDefault();
    /** @type {HTMLElement} */ (event.target).blur();
  };
  return html`<nav class="tree" aria-label="Changed files">
    <div class="tree-head">
      <input type="search" class="filter" placeholder="Filter files" aria-label="Filter files" value=${filter} onKeyDown=${pressed}
        onInput=${(/** @type {Event} */ event) => onFilter(/** @type {HTMLInputElement} */ (event.target).value)} />
      ${isComplete && html`<span class="faint">${viewed.size}/${files.length} viewed</span>`}
    </div>
    <div class="tree-rows" tabindex="-1" ref=${view.scroller}>
      ${!rows.length && html`<p class="faint none">${isComplete ? "No file of that name." : model.outlook}</p>`}
      <div style=${{ height: `${view.total}px` }}><div style=${{ transform: `translateY(${view.top(view.first)}px)` }}>
        ${rows.slice(view.first, view.last).map((row) => html`<${TreeEntry} row=${row} viewed=${"file" in row && viewed.has(row.file.path)}
          isCurrent=${"file" in row && row.file === current} isRisky=${"file" in row && model.risks.value.has(row.file.path)} onGo=${onGo} />`)}
      </div></div>
    </div>
  </nav>`;
}

/** @param {{row: TreeRow, viewed: boolean, isCurrent: boolean, isRisky: boolean, onGo: (file: FileChange) => void}} props */
function TreeEntry({ row, viewed, isCurrent, isRisky, onGo }) {
  if (row.type === "title") return html`<div class="tree-row title">${row.text}</div>`;
  const indent = { "--depth": "depth" in row ? row.depth : 0 };
  if (row.type === "folder") return html`<div class="tree-row folder" style=${indent}><bdi>${plainName(row.name)}</bdi></div>`;
  const { file } = row;
  const path = plainName(file.path);
  if (row.type === "risk") {
    return html`<button type="button" class="tree-row risk" title=${`${path}\n${row.reason}`} onClick=${() => onGo(file)}>
      <span class="name"><bdi>${path}</bdi></span><span class="reason">${row.reason}</span></button>`;
  }
  return html`<button type="button" class=${classes("tree-row", "file", viewed && "viewed")} style=${indent} title=${path}
      aria-current=${isCurrent ? "true" : undefined} onClick=${() => onGo(file)}>
    <span class="letter" title=${file.kind}>${KINDS[file.kind] ?? ""}</span>
    <span class="name"><bdi>${plainName(file.path.slice(file.path.lastIndexOf("/") + 1))}</bdi></span>
    ${isRisky && html`<span class="risk-mark">look</span>`}
    <${Counts} file=${file} /><span class="mark" aria-label=${viewed ? "viewed" : undefined} role=${viewed ? "img" : undefined}>${viewed ? "✓" : ""}</span>
  </button>`;
}
