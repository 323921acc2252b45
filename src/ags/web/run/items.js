// @ts-check
/** One item of a run's activity, by its kind. All that agents gave goes in as text. */
import { Answers, wanted } from "../asks.js";
import { Code, html, Lines } from "../ui.js";
import { countsOf, editsOf, SmallDiff } from "./edits.js";
import { Markdown } from "./markdown.js";
import { reasonText } from "./reasons.js";
import { clock, counted, oneLine, plain, span, target, tokensText } from "./text.js";

/** @typedef {import("./events.js").Item} Item */
/** @typedef {{item: Item, open: boolean, toggle: () => void, waiting?: import("../store.js").Ask | null}} Props */

const ABOUT = ["command", "cmd", "pattern", "query", "url", "file_path", "path", "filePath", "notebook_path", "description"];
const MOST_OPEN = 20000;
const OUTCOMES = /** @type {Record<string, string>} */ ({
  once: "allowed once",
  for: "allowed for a time",
  always: "allowed always",
  deny: "denied",
  "time-out": "nobody answered in time",
  reload: "the policy has changed",
  gone: "not wanted any more",
});

/** @type {Record<string, (props: Props) => any>} */
const KINDS = {
  message: Message,
  thinking: Thinking,
  tool: Tool,
  output: Output,
  usage: Usage,
  egress: Egress,
  hook: Hook,
  ask: Ask,
  status: Status,
  system: System,
};

/**
 * About how tall it will be, before anybody has seen it.
 * @param {Item} item
 */
export function estimate(item) {
  if (item.kind === "output") return 18 * (item.lines?.length ?? 1);
  if (item.kind === "message") return 22 * (1 + Math.floor(String(item.fields.text ?? "").length / 90)) + 12;
  return 28;
}

/** @param {Props} props */
export function ItemRow(props) {
  const Kind = Object.hasOwn(KINDS, props.item.kind) ? KINDS[props.item.kind] : Other;
  return html`<${Kind} ...${props} />`;
}

/** @param {{ts: number}} props */
function Time({ ts }) {
  return html`<time class="item-time">${clock(ts)}</time>`;
}

/** @param {Props} props */
function Message({ item }) {
  const wrong = item.fields.error === true;
  return html`<article class=${`item item-message ${wrong ? "item-wrong" : ""}`}>
    <${Time} ts=${item.ts} />
    <div class="item-body">${wrong && html`<strong class="item-tag">Error</strong>`}<${Markdown} text=${item.fields.text} /></div>
  </article>`;
}

/**
 * @param {Props & {head: any, children: any, kind: string}} props
 */
function Folded({ item, open, toggle, head, children, kind }) {
  return html`<div class=${`item item-${kind}`}>
    <${Time} ts=${item.ts} />
    <div class="item-body">
      <button type="button" class="item-head" aria-expanded=${open} onClick=${toggle}>
        <span class="item-arrow" aria-hidden="true">${open ? "▾" : "▸"}</span>${head}</button>
      ${open && html`<div class="item-inside">${children}</div>`}
    </div>
  </div>`;
}

/** @param {Props} props */
function Thinking(props) {
  const text = plain(props.item.fields.text);
  const head = html`<span class="item-tag">Thinking</span><span class="item-about">${oneLine(text, 160)}</span>`;
  return html`<${Folded} ...${props} kind="thinking" head=${head}><${Markdown} text=${text} /><//>`;
}

/** @param {unknown} input */
export function about(input) {
  if (!input || typeof input !== "object") return oneLine(input, 200);
  const given = /** @type {Record<string, unknown>} */ (input);
  const name = ABOUT.find((each) => typeof given[each] === "string");
  if (name) return oneLine(given[name], 200);
  return Object.keys(given).length ? oneLine(given, 200) : "";
}

/** @param {Props} props */
function Tool(props) {
  const { item } = props;
  const { result } = item;
  const edits = editsOf(item.fields.input);
  const counts = edits.length ? countsOf(edits) : null;
  const head = html`<strong class="item-name">${oneLine(item.fields.tool, 60) || "tool"}</strong>
    <span class="item-about" dir="ltr">${about(item.fields.input)}</span>
    ${counts && html`<span class="item-counts"><${Lines} added=${counts.added} removed=${counts.removed} /></span>`}
    <${Outcome} result=${result} since=${item.ts} />`;
  return html`<${Folded} ...${props} kind="tool" head=${head}><${ToolInside} item=${item} edits=${edits} /><//>`;
}

/** @param {{result: import("./events.js").Result | null | undefined, since: number}} props */
function Outcome({ result, since }) {
  if (!result) return html`<span class="item-outcome faint">…</span>`;
  const took = result.ts - since >= 1 ? ` ${span(result.ts - since)}` : "";
  return html`<span class=${`item-outcome ${result.ok ? "faint" : "bad"}`}>${result.ok ? "ok" : "failed"}${took}</span>`;
}

/** @param {{item: Item, edits: import("./edits.js").Edit[]}} props */
function ToolInside({ item, edits }) {
  const { input, cut } = item.fields;
  const { result } = item;
  return html`
    ${edits.length > 0 ? edits.map((edit) => html`<${SmallDiff} edit=${edit} />`) : html`<${Given} input=${input} />`}
    ${cut?.input > 0 && html`<p class="faint">${counted(cut.input, "more character")} were not kept</p>`}
    ${result && html`<${Block} label=${result.ok ? "Output" : "It failed"} text=${result.output || "(nothing)"} />`}
    ${result && result.cut > 0 && html`<p class="faint">${counted(result.cut, "more character")} were not kept</p>`}
    ${!result && html`<p class="faint">It has no result yet.</p>`}`;
}

/** @param {{input: unknown}} props */
function Given({ input }) {
  if (input === undefined || input === null || input === "") return null;
  if (typeof input !== "object") return html`<${Block} label="Input" text=${plain(input)} />`;
  return Object.entries(/** @type {object} */ (input)).map(([name, value]) => html`<${Block} label=${oneLine(name, 60)} text=${plain(value)} />`);
}

/** @param {{label: string, text: string}} props */
function Block({ label, text }) {
  const left = text.length - MOST_OPEN;
  return html`<div class="block"><div class="block-label">${label}</div>
    <pre dir="ltr" tabindex="0">${left > 0 ? text.slice(0, MOST_OPEN) : text}</pre>
    ${left > 0 && html`<p class="faint">${counted(left, "more character")}: the log has them</p>`}</div>`;
}

/** @param {Props} props */
function Output({ item }) {
  return html`<div class=${`item item-output ${item.first ? "item-goes-on" : ""}`}>
    ${item.first ? html`<span></span>` : html`<${Time} ts=${item.ts} />`}
    <div class="item-lines" dir="ltr">${(item.lines ?? []).map((line) => html`<div class=${line.err ? "item-err" : ""}>${line.text || " "}</div>`)}</div>
  </div>`;
}

/** @param {{item: Item, kind?: string, children?: any}} props */
function Note({ item, kind = "", children }) {
  return html`<div class=${`item item-note ${kind}`}><${Time} ts=${item.ts} /><div class="item-body">${children}</div></div>`;
}

/** @param {Props} props */
function Usage({ item }) {
  const { input, output, cached, cost_usd: cost } = item.fields;
  const parts = [
    Number.isFinite(input) && `${tokensText(input)} in`,
    Number.isFinite(output) && `${tokensText(output)} out`,
    Number.isFinite(cached) && cached > 0 && `${tokensText(cached)} cached`,
    Number.isFinite(cost) && cost > 0 && `$${cost.toFixed(4)}`,
  ].filter(Boolean);
  return html`<${Note} item=${item} kind="faint">Tokens: ${parts.join(", ")}<//>`;
}

/** @param {Props} props */
function Egress({ item }) {
  const { fields, count = 1 } = item;
  return html`<${Note} item=${item} kind="item-warn">
    <strong>Refused</strong> <span class="mono">${target(fields)}</span><span class="faint">: ${reasonText(fields.reason)}${count > 1 && `, ${count} times`}</span>
  <//>`;
}

/** @param {Props} props */
function Hook({ item }) {
  const { tool, by, reason, decision } = item.fields;
  const who = oneLine(Array.isArray(by) ? by[0] : by, 60);
  return html`<${Note} item=${item} kind="item-warn">
    <strong>${oneLine(tool, 60)} ${decision === "deny" ? "refused" : "disliked"}</strong> by ${who}: ${oneLine(reason)}
  <//>`;
}

/** @param {Props} props */
function Ask({ item, waiting }) {
  const { fields } = item;
  const outcome = Object.hasOwn(OUTCOMES, fields.outcome) ? OUTCOMES[fields.outcome] : "";
  return html`<${Note} item=${item} kind=${waiting ? "item-asking" : ""}>
    <strong>Asks</strong> for <span class="mono asked">${waiting && !outcome ? wanted(waiting) : target(fields)}</span>${fields.tool && html`<span class="faint"> (${oneLine(`${fields.by}: ${fields.reason}`)})</span>`}${outcome && html`<span class="faint">: ${outcome}</span>`}
    ${waiting && !outcome && html`<${Answers} ask=${waiting} />`}
  <//>`;
}

/** @param {Props} props */
function Status({ item }) {
  const { state, exit_code: code, stopped_by: by } = item.fields;
  const why = by ? oneLine(by) : "";
  const isSaid = why.startsWith(`${state} `); // as in "stopped by you"
  const parts = [isSaid ? why : oneLine(state, 40), code ? `exit code ${code}` : "", isSaid ? "" : why].filter(Boolean);
  return html`<${Note} item=${item} kind="item-status"><span class=${`state ${/^[a-z]+$/.test(state) ? state : ""}`}>${parts.join(", ")}</span><//>`;
}

/** @param {Props} props */
function System({ item }) {
  if (typeof item.fields.told === "string") return html`<${Told} item=${item} />`;
  const { text, subject, error, files, insertions, deletions, branch } = item.fields;
  const wrong = error && typeof error === "object";
  return html`<${Note} item=${item} kind=${wrong ? "item-wrong" : ""}>
    ${oneLine(text)}${subject && ` (${oneLine(subject)})`}
    ${Number.isInteger(files) && html`: ${counted(files, "file")}, <${Lines} added=${insertions} removed=${deletions} />`}
    ${branch && html`, on <span class="mono">${oneLine(branch)}</span>`}
    ${wrong && error.cause && html`<p>${plain(error.cause)}</p>`}
    ${wrong && error.hint && html`<p class="faint"><${Code} text=${plain(error.hint)} /></p>`}
  <//>`;
}

/** What the person said for the next turn. @param {{item: Item}} props */
function Told({ item }) {
  return html`<article class="item item-told">
    <${Time} ts=${item.ts} />
    <div class="item-body"><strong class="item-tag">You</strong><${Markdown} text=${item.fields.told} /></div>
  </article>`;
}

/** @param {Props} props What a newer version may have written. */
function Other({ item }) {
  return html`<${Note} item=${item} kind="faint">${oneLine(item.fields)}<//>`;
}
