// @ts-check
/** The files of a run: as they are now, at its start, or in its result. */
import { useEffect, useState } from "preact/hooks";
import { bytes, problemOf } from "../api.js";
import { useKeys } from "../keys.js";
import { read } from "../patience.js";
import { failed } from "../store.js";
import { Button, Copy, Empty, html, Select, Spinner, Trouble } from "../ui.js";
import { address } from "./actions.js";
import { Lines } from "./lines.js";
import { save } from "./save.js";
import { bytesText, oneLine } from "./text.js";

/** @typedef {{name: string, path: string, address: string, kind: string, size: number | null}} Entry */

const SIDES = [
  { value: "workspace", label: "As they are now" },
  { value: "base", label: "At its start" },
  { value: "result", label: "In its result" },
];
const MARKS = /** @type {Record<string, string>} */ ({ folder: "▸", link: "↪", submodule: "◇", other: "?" });

/** @param {{run: any}} props */
export function Files({ run }) {
  const [at, setAt] = useState(run.workspace ? "workspace" : run.result ? "result" : "base");
  const [trail, setTrail] = useState(/** @type {Entry[]} */ ([]));
  const [file, setFile] = useState(/** @type {Entry | null} */ (null));
  const [times, setTimes] = useState(0);
  const folder = trail[trail.length - 1];
  const moment = `${run.state} ${run.turn} ${times}`;
  const listed = useRead(run, at, folder?.address ?? "", moment);
  const again = () => setTimes((before) => before + 1);
  useKeys([{ key: "r", label: "Read the files again", group: "Files", run: again }]);
  const choose = (/** @type {Entry} */ entry) => {
    if (entry.kind === "folder") setTrail([...trail, entry]);
    else if (entry.kind === "file") setFile(entry);
  };
  const side = (/** @type {string} */ value) => {
    setAt(value);
    setTrail([]);
    setFile(null);
  };
  return html`<div class=${`files-view ${file ? "files-open" : ""}`}>
    <div class="files-list">
      <div class="tab-bar">
        <${Select} value=${at} options=${SIDES} onChange=${side} label="Which state of the files" />
        <${Button} hotkey="r" onClick=${again}>Read again<//>
      </div>
      <${Crumbs} trail=${trail} to=${(/** @type {number} */ depth) => setTrail(trail.slice(0, depth))} />
      ${listed.problem && html`<${Trouble} problem=${listed.problem} />`}
      ${!listed.value && !listed.problem && html`<div class="tab-pad"><${Spinner} label="Loading" /></div>`}
      ${listed.value?.kind === "folder" && html`<${Entries} folder=${listed.value} chosen=${file} choose=${choose} />`}
    </div>
    <div class="files-file">
      ${file ? html`<${FileText} run=${run} at=${at} moment=${moment} file=${file} close=${() => setFile(null)} />`
        : html`<${Empty} title="Choose a file">
          <p>Files are shown as text. What has changed is in the <a href=${`/run/${encodeURIComponent(run.name)}/review`}>review</a>.</p><//>`}
    </div>
  </div>`;
}

/**
 * @param {any} run
 * @param {string} at
 * @param {string} path percent-encoded, as the server gave it
 * @param {string} moment reading again when this changes
 */
function useRead(run, at, path, moment) {
  const [found, setFound] = useState(/** @type {{value: any, problem: any, of: string}} */ ({ value: null, problem: null, of: "" }));
  const of = `${at} ${path}`;
  useEffect(() => {
    const stop = new AbortController();
    read(`${address(run)}/files?at=${at}&path=${path}`, { signal: stop.signal }).then(
      (value) => setFound({ value, problem: null, of }),
      (error) => stop.signal.aborted || setFound({ value: null, problem: problemOf(error), of }),
    );
    return () => stop.abort();
  }, [run.id, of, moment]);
  return found.of === of ? found : { value: null, problem: null };
}

/** @param {{trail: Entry[], to: (depth: number) => void}} props */
function Crumbs({ trail, to }) {
  return html`<nav class="crumbs" aria-label="Folder">
    <button type="button" class="crumb" onClick=${() => to(0)} disabled=${!trail.length}>top</button>
    ${trail.map((each, index) => html`<span aria-hidden="true">/</span>
      <button type="button" class="crumb" disabled=${index === trail.length - 1} onClick=${() => to(index + 1)}>${oneLine(each.name, 60)}</button>`)}
  </nav>`;
}

/** @param {{folder: any, chosen: Entry | null, choose: (entry: Entry) => void}} props */
function Entries({ folder, chosen, choose }) {
  if (!folder.entries.length) return html`<p class="tab-pad faint">This folder is empty.</p>`;
  return html`<ul class="entries">
    ${folder.entries.map((/** @type {Entry} */ entry) => html`<li key=${entry.address}>
      <button type="button" class="entry" disabled=${entry.kind !== "folder" && entry.kind !== "file"} title=${oneLine(entry.path)}
        aria-current=${entry.address === chosen?.address ? "true" : undefined} onClick=${() => choose(entry)}>
        <span class="entry-mark" aria-hidden="true">${MARKS[entry.kind] ?? ""}</span>
        <span class="entry-name" dir="ltr">${oneLine(entry.name, 200)}${entry.kind === "folder" ? "/" : ""}</span>
        <span class="faint">${entry.kind === "file" && entry.size !== null ? bytesText(entry.size) : entry.kind === "folder" ? "" : entry.kind}</span>
      </button></li>`)}
    ${folder.truncated && html`<li class="faint tab-pad">There are more entries than can be shown.</li>`}
  </ul>`;
}

/** @param {{run: any, at: string, moment: string, file: Entry, close: () => void}} props */
function FileText({ run, at, moment, file, close }) {
  const read = useRead(run, at, file.address, moment);
  const size = read.value?.size ?? file.size;
  const download = async () => {
    try {
      save(await bytes(`${address(run)}/files/raw?at=${at}&path=${file.address}`), file.name.replace(/[^\w.\- ]/g, "_"));
    } catch (error) {
      failed(error);
    }
  };
  return html`<div class="tab-bar">
      <${Button} kind="quiet" class="files-back" onClick=${close} label="Back to the folder">←<//>
      <strong class="cut" dir="ltr" title=${oneLine(file.path)}>${oneLine(file.path, 200)}</strong>
      <span class="faint">${size !== null && bytesText(size)}</span>
      <span class="grow"></span>
      ${read.value?.text && html`<${Copy} text=${read.value.text} />`}
      <${Button} onClick=${download}>Download<//>
    </div>
    <${FileBody} read=${read} name=${file.address} />`;
}

/** @param {{read: {value: any, problem: any}, name: string}} props */
function FileBody({ read, name }) {
  if (read.problem) return html`<div class="tab-pad"><${Trouble} problem=${read.problem} /></div>`;
  if (!read.value) return html`<div class="tab-pad"><${Spinner} label="Loading" /></div>`;
  const { binary, text, truncated } = read.value;
  if (binary) return html`<${Empty} title="It is not text"><p>Download it to look at it. An agent made it: open it with care.</p><//>`;
  if (text === null) return html`<${Empty} title="It is too large to be shown"><p>Download it to look at it.</p><//>`;
  if (text === "") return html`<p class="tab-pad faint">This file is empty.</p>`;
  return html`${truncated && html`<p class="tab-pad faint">Only its beginning is shown.</p>`}<${Lines} key=${name} text=${text} label=${`Text of ${name}`} />`;
}
