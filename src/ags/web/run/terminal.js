// @ts-check
/** The run's terminal, or a shell in its sandbox. */
import { useState } from "preact/hooks";
import { isOver } from "../store.js";
import { Screen } from "../terminal.js";
import { Button, Empty, html } from "../ui.js";
import { address } from "./actions.js";

/** @param {{run: any}} props */
export function TerminalTab({ run }) {
  const [shell, setShell] = useState(0);
  const working = run.state === "running";
  const path = `${address(run)}/terminal`;
  if (run.terminal && !isOver(run) && !shell) return html`<${Screen} key=${run.id} path=${path} title="The run's terminal" />`;
  if (shell) {
    return html`<${Screen} key=${`shell ${shell}`} path=${path} asked=${{ shell: true }} title="A shell in the sandbox" once>
      ${(/** @type {boolean} */ over) => html`${over && html`<${Button} onClick=${() => setShell(shell + 1)}>Open another<//>`}
        <${Button} onClick=${() => setShell(0)}>Close the shell<//>`}<//>`;
  }
  if (!working) {
    return html`<${Empty} title=${isOver(run) ? "It is not at work" : "It has not begun yet"}>
      <p>${run.terminal ? "Its terminal is gone with it." : "This run has no terminal."}
        ${" "}What it printed is in the <a href=${`/run/${encodeURIComponent(run.name)}/log`}>log</a>.</p><//>`;
  }
  return html`<${Empty} title="This run has no terminal">
    <p>Its agent works without one. You can open a shell beside it: in the same sandbox, with the same files and the same fence.</p>
    <${Button} kind="primary" onClick=${() => setShell(1)}>Open a shell in its sandbox<//><//>`;
}
