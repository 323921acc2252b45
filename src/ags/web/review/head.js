// @ts-check
/** What stands over the lines of a file. */

import { plainName } from "../run/text.js";
import { html, Lines } from "../ui.js";

/** @typedef {import("./cells.js").FileChange} FileChange */
/** @typedef {import("./state.js").Reviewing} Reviewing */

/** @param {{file: FileChange}} props */
export function Counts({ file }) {
  if (file.binary) return html`<span class="counts faint">binary</span>`;
  return html`<span class="counts"><${Lines} added=${file.additions} removed=${file.deletions} /></span>`;
}

/** @param {{path: string}} props */
export function Path({ path }) {
  const cut = path.lastIndexOf("/") + 1;
  return html`<span class="path" title=${plainName(path)}><bdi><span class="folder">${plainName(path.slice(0, cut))}</span>${plainName(path.slice(cut))}</bdi></span>`;
}

/** @param {{file: FileChange, model: Reviewing, sticky?: boolean}} props */
export function FileHead({ file, model, sticky }) {
  const isFolded = model.isFolded(file);
  const isViewed = model.viewed.value.has(file.path);
  const risks = model.risks.value.get(file.path);
  const name = plainName(file.path);
  return html`<div class=${`file-head ${sticky ? "" : "in-place"}`}>
    <button type="button" class="fold" aria-expanded=${!isFolded} aria-label=${`${isFolded ? "Unfold" : "Fold"} ${name}`}
      onClick=${() => model.fold(file, !isFolded)}>${isFolded ? "▸" : "▾"}</button>
    <${Path} path=${file.path} />
    ${file.kind !== "modified" && html`<span class="kind">${file.kind}</span>`}
    ${risks && html`<span class="risk-mark" title=${risks.map((risk) => plainName(risk.reason)).join("\n")}>look at this</span>`}
    <span class="space"></span>
    <${Counts} file=${file} />
    <label class="viewed"><input type="checkbox" checked=${isViewed} onChange=${() => model.toggleViewed(file)}
      aria-label=${`Viewed: ${name}`} /> viewed</label>
  </div>`;
}
