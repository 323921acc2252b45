// @ts-check
/** Comments as they are shown and written, and the list of all of them. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { call } from "../api.js";
import { useKeys } from "../keys.js";
import { keep } from "../run/actions.js";
import { counted, plainName } from "../run/text.js";
import { dismiss, failed, toast, toasts } from "../store.js";
import { Button, Dialog, html, Notice } from "../ui.js";
import { message, placeName, spot } from "./comments.js";

/** @typedef {import("./comments.js").Placed} Placed */
/** @typedef {import("./comments.js").Editing} Editing */
/** @typedef {import("./state.js").Reviewing} Reviewing */

/** @param {Placed} place */
function stateOf({ comment, state }) {
  const sent = comment.sent === null ? "not sent yet" : `sent after turn ${comment.sent + 1}`;
  if (state === "outdated") return `${sent} · outdated: the lines are gone`;
  if (state === "elsewhere") return `${sent} · not in what is shown`;
  return state === "moved" ? `${sent} · the lines have moved` : sent;
}

/** @param {{place: Placed, model: Reviewing, onEdit?: () => void}} props */
export function CommentBox({ place, model, onEdit = () => model.rewrite(place) }) {
  const { comment, state } = place;
  const isSent = comment.sent !== null;
  // In a file that changes no more, there is no place to write.
  const canEdit = !isSent && (state === "elsewhere" || model.file(comment.path) !== undefined);
  return html`<article class=${`comment ${isSent ? "sent" : "waiting"} ${state}`} aria-label=${`Comment on ${placeName(spot(place))}`}>
    <header><strong>${where(place)}</strong> <span class="faint">${stateOf(place)}</span>
      <span class="space"></span>
      ${canEdit && html`<${Button} kind="quiet" onClick=${onEdit}>Edit<//>`}
      <${Button} kind="quiet" onClick=${() => model.remove([comment], isSent ? "The comment is done" : "The comment is deleted")}>${isSent ? "Done" : "Delete"}<//>
    </header>
    ${state === "outdated" && html`<${Quoted} lines=${comment.quoted} />`}
    <p class="said">${comment.text}</p>
  </article>`;
}

/** @param {Placed} place */
function where(place) {
  const { start, end } = spot(place);
  return start >= end ? `Line ${end}` : `Lines ${start}–${end}`;
}

/** @param {{lines: string[]}} props */
const Quoted = ({ lines }) =>
  html`<pre class="quoted">${lines.map((line) => line.split("\t").map(plainName).join("\t")).join("\n")}</pre>`;

/** @param {{editing: Editing, model: Reviewing}} props */
export function Editor({ editing, model }) {
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  // Before the next key comes: it is the first letter of the comment.
  useLayoutEffect(() => {
    if (document.hasFocus()) field.current?.focus({ preventScroll: true });
  }, [editing]);
  const { side, start, end } = editing;
  const lines = start === end ? `line ${end}` : `lines ${start}–${end}`;
  /** @param {KeyboardEvent} event */
  const pressed = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) model.save();
    else if (event.key === "Escape" && !model.text.value.trim()) model.discard();
    else if (event.key === "Escape") field.current?.blur();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<form class="comment writing" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); model.save(); }}>
    <label>Comment on ${lines}${side === "old" ? " as it was before" : ""}
      <textarea ref=${field} rows="3" value=${model.text.value} onKeyDown=${pressed}
        onInput=${(/** @type {Event} */ event) => { model.text.value = /** @type {HTMLTextAreaElement} */ (event.target).value; }}></textarea></label>
    <div class="deeds">
      <${Button} kind="primary" type="submit" hotkey="Ctrl+Enter" disabled=${!model.text.value.trim()}>Keep comment<//>
      <${Button} kind="quiet" onClick=${() => model.discard()}>Discard<//>
      <span class="space"></span>
      ${!editing.id && html`<${Stretch} editing=${editing} model=${model} />`}
    </div>
  </form>`;
}

/** For whoever has no mouse: a line more or less. @param {{editing: Editing, model: Reviewing}} props */
function Stretch({ editing, model }) {
  const { path, side, start, end } = editing;
  const file = model.file(path);
  const lines = file ? model.lines(file, side) : new Map();
  /** @param {number} last */
  const to = (last) => {
    model.selection.value = { path, side, anchor: start, head: last };
    model.editing.value = { ...editing, end: last };
  };
  return html`
    <${Button} kind="quiet" disabled=${!lines.has(end + 1)} onClick=${() => to(end + 1)}>+1 line<//>
    <${Button} kind="quiet" disabled=${end <= start} onClick=${() => to(end - 1)}>−1 line<//>`;
}

/** @param {{model: Reviewing, onClose: () => void, onGo: (place: Placed, isEdit?: boolean) => void}} props */
export function CommentList({ model, onClose, onGo }) {
  const [busy, setBusy] = useState(false);
  const [waiting, overall] = [model.waiting.value, model.overall];
  const canTell = model.run.value?.left.includes("tell") ?? false;
  const isNothing = !waiting.length && !overall.value.trim();
  const send = async () => {
    setBusy(true);
    if (await sent(model)) onClose();
    setBusy(false);
  };
  const isReady = !busy && !isNothing && canTell;
  useKeys([{ key: "Ctrl+Enter", label: "Send the comments", group: "Review", anywhere: true, run: () => isReady && send() }]);
  const places = model.listed.value;
  const actions = html`
    ${places.some(({ comment }) => comment.sent !== null) && html`
      <${Button} kind="quiet" onClick=${() => forgetSent(model)}>Clear those that were sent<//><span class="grow"></span>`}
    <${Button} onClick=${onClose}>Close<//>
    <${Button} kind="primary" busy=${busy} disabled=${!isReady} hotkey="Ctrl+Enter" onClick=${send}>Send to the agent<//>`;
  return html`<${Dialog} title="Comments" onClose=${onClose} actions=${actions} wide>
    <div class="comment-list">
    ${!places.length && html`<p class="faint">No comments yet. Click a line's number, or drag over several, and write.
      They are kept here until you send them together as the agent's next turn.</p>`}
    ${places.map((place) => html`<div key=${place.comment.id} class="listed">
      <button type="button" class="link" onClick=${() => onGo(place)}>${placeName(spot(place))}</button>
      <${CommentBox} place=${place} model=${model} onEdit=${() => onGo(place, true)} /></div>`)}
    <${Offers} />
    <label class="overall">Anything else for the agent?
      <textarea rows="3" autofocus value=${overall.value}
        onInput=${(/** @type {Event} */ event) => { overall.value = /** @type {HTMLTextAreaElement} */ (event.target).value; }}></textarea></label>
    ${!canTell && html`<${Notice} kind="warn">The run cannot be told anything now: it is ${model.run.value?.state}. Your comments are kept.<//>`}
    </div>
  <//>`;
}

/** What can be undone: behind a dialog, nothing can be pressed. */
function Offers() {
  return html`${toasts.value.filter(({ undo }) => undo).map(({ id, text, undo }) => html`<${Notice} key=${id}>${text}
    <${Button} onClick=${() => { undo?.(); dismiss(id); }}>Undo<//><//>`)}`;
}

/** @param {Reviewing} model */
function forgetSent(model) {
  const sent = model.comments.value.filter((comment) => comment.sent !== null);
  model.remove(sent, `${counted(sent.length, "comment")} cleared`);
}

/** Whether it is the agent's turn now. @param {Reviewing} model */
async function sent(model) {
  const { waiting, overall, run } = model;
  const said = overall.value;
  const text = message(model.listed.value.filter(({ comment }) => comment.sent === null), said);
  // Others may be written before the answer comes.
  const ids = new Set(waiting.value.map(({ id }) => id));
  if (run.value) keep(run.value.id);
  try {
    const told = await call("POST", `/runs/${model.name}/tell`, { text });
    const turn = run.value?.turn ?? 0;
    model.comments.value = model.comments.value.map((comment) => (ids.has(comment.id) ? { ...comment, sent: turn } : comment));
    if (overall.value === said) overall.value = "";
    model.run.value = { ...model.run.value, ...told };
    toast("Sent to the agent", { kind: "done" });
    return true;
  } catch (error) {
    failed(error);
    return false;
  }
}
