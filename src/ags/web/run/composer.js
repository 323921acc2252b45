// @ts-check
/** Where the person writes the run's next turn. What is written is kept until it is sent. */
import { useState } from "preact/hooks";
import { isOver } from "../store.js";
import { Button, html } from "../ui.js";
import { draftOf, tell } from "./actions.js";

const FIELD = "run-tell";

export function focusComposer() {
  document.getElementById(FIELD)?.focus();
}

/** @param {{run: any, changed: (run: any) => void}} props */
export function Composer({ run, changed }) {
  const [busy, setBusy] = useState(false);
  const text = draftOf(run);
  const can = run.left.includes("tell");
  if (run.mode !== "separate" || (isOver(run) && !can && !text.value)) return null;
  const send = async () => {
    if (!can || busy || !text.value.trim()) return;
    setBusy(true);
    await tell(run, text.value, changed);
    setBusy(false);
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      send();
    }
  };
  return html`<form class="composer" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); send(); }}>
    <label class="hidden" for=${FIELD}>Tell ${run.name} what to do next</label>
    <textarea id=${FIELD} rows=${rowsOf(text.value)} placeholder="Tell it what to do next" value=${text.value} aria-describedby="run-tell-said"
      onInput=${(/** @type {Event} */ event) => (text.value = /** @type {HTMLTextAreaElement} */ (event.target).value)} onKeyDown=${pressed}></textarea>
    <div class="composer-foot">
      <${Button} type="submit" kind="primary" busy=${busy} disabled=${!can || !text.value.trim()} hotkey="Ctrl+Enter">Send<//>
      <span class="faint" id="run-tell-said">${said(run, can)}</span>
    </div>
  </form>`;
}

/** @param {string} text */
function rowsOf(text) {
  return Math.min(8, Math.max(text ? 2 : 1, text.split("\n").length));
}

/**
 * @param {any} run
 * @param {boolean} can
 */
function said(run, can) {
  if (can) return "The agent goes on in the same workspace and conversation.";
  if (!isOver(run)) return "It is at work. You can write now, and send when its turn has ended.";
  return "It takes no further turn. Restart gives it its goal again.";
}
