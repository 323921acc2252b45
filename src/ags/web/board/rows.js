// @ts-check
// One run, or one group of attempts, as one line.
import { counted, oneLine, plain } from "../run/text.js";
import { Age, Changes, classes, firstLine, html, money, short, State } from "../ui.js";
import { tally } from "./sift.js";

/** @typedef {import("../store.js").Row} Row */

/** @param {{row: Row}} props */
function Name({ row }) {
  const own = row.branch === `agent--${row.name}`;
  return html`<span class="name mono cut" title=${row.branch ? `branch ${row.branch}` : row.name}>
    ${own && html`<span class="prefix">agent--</span>`}${row.name}${!own && row.branch && html`<span class="prefix"> on ${row.branch}</span>`}
  </span>`;
}

/** What it is at; of work that is done, whether it was applied; of one that asks, how often. @param {{row: Row}} props */
function Standing({ row }) {
  const waiting = row.activity?.waiting || 0;
  if (row.asking) return html`<${State} run=${row} />${waiting > 1 && html`<span class="state asking"> ${waiting}<span class="hidden"> asks</span></span>`}`;
  return row.applied ? html`<span class="state done" title=${`${row.state}, applied`}>applied</span>` : html`<${State} run=${row} />`;
}

/** A protection that this run goes without is told wherever the run is. @param {{row: Row}} props */
function Mark({ row }) {
  return row.weakenings.length > 0 && html`<span class="weak" title=${row.weakenings.join(", ")}>weakened</span>`;
}

/** @param {Row} row */
function spent(row) {
  const { cost = null, tokens = null } = row.activity || {};
  if (cost !== null) return money(cost);
  return tokens === null ? "" : `${short(tokens)} tok`;
}

/** @param {{row: Row, within: boolean, index: number, chosen: boolean, project: string, onCursor: (id: string) => void}} props */
export function RunRow({ row, within, index, chosen, project, onCursor }) {
  const goal = firstLine(plain(row.goal)) || "(no goal: a terminal)";
  const last = oneLine(row.activity?.last);
  return html`<div role="row" aria-rowindex=${index + 2} class=${classes("run-row", within && "within", chosen && "chosen")} data-id=${row.id}>
    <span role="cell" class="c-state"><${Standing} row=${row} /></span>
    <span role="none" class="c-text">
      <span role="cell" class="c-goal"><a class="cut" href=${`/run/${row.name}`} id=${`row-${row.id}`} title=${plain(row.goal)}
        onFocus=${() => onCursor(row.id)}><bdi>${within ? row.name : goal}</bdi></a></span>
      <span role="cell" class="c-last cut faint" title=${last}><bdi>${last}</bdi></span>
      <span role="cell" class="c-mark"><${Mark} row=${row} /></span>
    </span>
    <span role="cell" class="c-name cut">${!within && html`<${Name} row=${row} />`}</span>
    <span role="cell" class="c-project cut faint">${project}</span>
    <span role="cell" class="c-agent cut">${row.agent}</span>
    <span role="cell" class="c-changes"><${Changes} row=${row} /></span>
    <span role="cell" class="c-cost">${spent(row)}</span>
    <span role="cell" class="c-age"><${Age} ts=${row.created} /></span>
  </div>`;
}

/** @param {{group: string, rows: Row[], index: number}} props */
export function GroupRow({ group, rows, index }) {
  const states = [...tally(rows, (row) => (row.asking ? "asking" : row.state))];
  return html`<div role="row" aria-rowindex=${index + 2} class="run-row head">
    <span role="cell" class="c-state">${counted(rows.length, "attempt")}</span>
    <span role="none" class="c-text">
      <span role="cell" class="c-goal cut" title=${plain(rows[0].goal)}><bdi>${firstLine(plain(rows[0].goal))}</bdi></span>
      <span role="cell" class="c-last cut faint">${states.map(([state, number]) => `${number} ${state}`).join(", ")}</span>
    </span>
    <span role="cell" class="c-more"><a href=${`/compare?group=${encodeURIComponent(group)}`}>Compare</a></span>
  </div>`;
}

export function HeadRow() {
  const head = (/** @type {string} */ name, /** @type {any} */ text) => html`<span role="columnheader" class=${`c-${name}`}>${text}</span>`;
  return html`<div role="row" aria-rowindex="1" class="run-row heads">
    ${head("state", "State")}
    <span role="none" class="c-text">${head("goal", "Goal")}${head("last", "and last words")}${head("mark", html`<span class="hidden">Weakened</span>`)}</span>
    ${head("name", "Run")}${head("project", "Project")}${head("agent", "Agent")}
    ${head("changes", "Files, lines")}${head("cost", "Cost")}${head("age", "Age")}
  </div>`;
}
