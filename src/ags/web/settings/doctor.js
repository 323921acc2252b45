// @ts-check
// What this machine can do, and how to repair what it cannot.
import { useKeys } from "../keys.js";
import { Button, Code, html, Spinner, Trouble } from "../ui.js";
import { useAsked } from "./asked.js";

/** @typedef {{section: string, name: string, level: "ok"|"warn"|"fail"|"unknown", text: string, hint: string}} Finding */

const WORDS = { ok: "OK", warn: "WARN", fail: "FAIL", unknown: "?" };
const LEVELS = /** @type {const} */ (["fail", "warn", "ok", "unknown"]);

export function Doctor() {
  const { data, problem, busy, again } = useAsked("/settings/doctor");
  useKeys([{ key: "r", label: "Look at the machine again", group: "Settings", run: () => again() }]);
  /** @type {Finding[]} */
  const found = data?.items || [];
  return html`<div class="toolbar">
      <p role="status">${data ? summary(found) : html`<${Spinner} label="Looking at this machine; it takes some seconds" />`}</p>
      <span class="grow"></span>
      <${Button} hotkey="r" busy=${busy && data !== null} disabled=${busy} onClick=${() => again()}>Look again<//>
    </div>
    ${problem && html`<${Trouble} problem=${problem} />`}
    ${sections(found).map((name) => html`<section class="findings" key=${name}>
      <h2>${name}</h2>
      <dl>${found.filter((each) => each.section === name).map((each) => html`<${One} finding=${each} />`)}</dl>
    </section>`)}`;
}

/** @param {Finding[]} found */
function summary(found) {
  const counts = LEVELS.map((level) => ({ level, number: found.filter((each) => each.level === level).length }));
  const ready = counts[0].number ? "Something that runs need is missing." : "Runs can start here.";
  return html`${ready} ${counts.filter(({ number }) => number).map(({ level, number }) => html`<span class=${`level ${level}`}>${number} ${level === "unknown" ? "not known" : WORDS[level]}</span> `)}`;
}

/** @param {Finding[]} found */
const sections = (found) => [...new Set(found.map((each) => each.section))];

/** @param {{finding: Finding}} props */
function One({ finding }) {
  return html`<div class="finding">
    <dt><span class=${`level ${finding.level}`}>${WORDS[finding.level]}</span> ${finding.name}</dt>
    <dd>${finding.text}${finding.hint && html`<p class="repair">→ <${Code} text=${finding.hint} /></p>`}</dd>
  </div>`;
}
