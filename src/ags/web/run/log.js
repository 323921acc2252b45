// @ts-check
/** What happened, as `ags logs` prints it. */
import { useEffect, useState } from "preact/hooks";
import { problemOf, text } from "../api.js";
import { useKeys } from "../keys.js";
import { patiently } from "../patience.js";
import { Button, Copy, Empty, html, Spinner, Trouble } from "../ui.js";
import { address } from "./actions.js";
import { Lines } from "./lines.js";
import { save } from "./save.js";
import { clock, counted } from "./text.js";

/** @param {{run: any}} props */
export function LogText({ run }) {
  const [log, setLog] = useState(/** @type {{text: string, at: number} | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const load = async () => {
    try {
      setLog({ text: await patiently(() => text(`${address(run)}/log`)), at: Date.now() / 1000 });
      setProblem(null);
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  useEffect(() => void load(), [run.id, run.state, run.turn]);
  useKeys([{ key: "r", label: "Read the log again", group: "Log", run: load }]);
  if (problem) return html`<div class="tab-pad"><${Trouble} problem=${problem} /></div>`;
  if (!log) return html`<div class="tab-pad"><${Spinner} label="Loading" /></div>`;
  if (!log.text) {
    return html`<${Empty} title="The log is empty">
      <p>It has a line for all that happens in the run. <code>ags logs ${run.name}</code> prints the same.</p><//>`;
  }
  return html`<div class="tab-bar">
      <span class="faint">${counted(log.text.split("\n").length - 1, "line")}, read at ${clock(log.at)}</span>
      <span class="grow"></span>
      <${Button} hotkey="r" onClick=${load}>Read again<//>
      <${Copy} text=${log.text} />
      <${Button} onClick=${() => save(log.text, `${run.name}.log`)}>Download<//>
    </div>
    <${Lines} text=${log.text} label="Log" atEnd />`;
}
