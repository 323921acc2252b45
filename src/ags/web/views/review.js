// @ts-check
/** What a run changed: read, commented on, applied. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { useKeys } from "../keys.js";
import { ApplyDialog, undo } from "../review/apply.js";
import { CommentList } from "../review/commenting.js";
import { DiffPane } from "../review/diff.js";
import { fileHere, toChange, toFile, toLine, toNextFile } from "../review/moving.js";
import { Reviewing } from "../review/state.js";
import { Tree } from "../review/tree.js";
import { counted, plainName } from "../run/text.js";
import { byName, go, isOver, prefs, withQuery } from "../store.js";
import { Button, Empty, html, Lines, Notice, Select, Spinner, State, Trouble } from "../ui.js";

/** @typedef {import("../review/state.js").Turn} Turn */
/** @typedef {import("../review/comments.js").Placed} Placed */
/** @typedef {{id: string, isEdit: boolean}} Wish Which comment to go to, and whether to edit it. */

/** @param {{name: string, query: Record<string, string>}} props */
export function Review({ name, query }) {
  const model = useMemo(() => new Reviewing(name), [name]);
  const since = query.since ?? "";
  const load = () => model.load(since, prefs.whitespace.value);
  // Asked for before the first frame is painted, not after it.
  useLayoutEffect(() => { load(); }, [model, since, prefs.whitespace.value]);
  useEffect(() => () => model.close(), [model]);

  if (!model.diff.value) return html`<${Before} model=${model} />`;
  return html`<${Loaded} model=${model} since=${since} load=${load} />`;
}

/** @param {{model: Reviewing}} props */
function Before({ model }) {
  useKeys([{ key: "Escape", label: "Back to the run", group: "Review", run: () => go(`/run/${model.name}`) }]);
  const problem = model.problem.value;
  if (!problem) return html`<div class="review-wait"><${Spinner} label="Reading what changed" /></div>`;
  return html`<div class="review-wait"><${Trouble} problem=${problem} />
    <p><a href=${`/run/${model.name}`}>Back to the run</a></p></div>`;
}

/** @param {{model: Reviewing, since: string, load: () => void}} props */
function Loaded({ model, since, load }) {
  const shown = useRef(/** @type {import("../review/diff.js").Shown | null} */ (null));
  const [dialog, setDialog] = useState(/** @type {"" | "apply" | "comments"} */ (""));
  const [filter, setFilter] = useState("");
  const [drawer, setDrawer] = useState(false);
  const [wish, setWish] = useState(/** @type {Wish | null} */ (null));
  const canApply = model.run.value?.left.includes("apply") ?? false;
  const close = () => setDialog("");
  const showNewer = () => {
    close();
    load();
  };

  /** @param {import("../review/cells.js").FileChange | undefined} file @param {number} [line] */
  const goTo = (file, line) => {
    setDrawer(false);
    if (!file) return;
    if (model.isFolded(file)) model.fold(file, false);
    // The rows of a file that was folded come with the next drawing.
    requestAnimationFrame(() => shown.current && toFile(model, shown.current, file, line));
  };
  /** @param {Placed} place @param {boolean} [isEdit] */
  const goToComment = (place, isEdit = false) => {
    close();
    if (place.state === "elsewhere") {
      setWish({ id: place.comment.id, isEdit });
      showAll();
      return;
    }
    if (isEdit) model.rewrite(place);
    goTo(model.file(place.comment.path), place.line);
  };
  useWish(model, wish, (place) => {
    setWish(null);
    if (place) goToComment(place, wish?.isEdit);
  });
  useReviewKeys({ model, shown, load, apply: () => canApply && setDialog("apply"), list: () => setDialog("comments") });

  return html`<div class=${`review ${drawer ? "with-drawer" : ""}`}>
    <${Head} model=${model} since=${since} load=${load} canApply=${canApply} onDrawer=${() => setDrawer(!drawer)}
      onApply=${() => setDialog("apply")} onComments=${() => setDialog("comments")} />
    ${model.diff.value?.files.length
      ? html`<${Tree} model=${model} filter=${filter} onFilter=${setFilter} onGo=${goTo} />
          <${DiffPane} model=${model} shown=${shown} />`
      : html`<${Nothing} name=${model.name} since=${since} />`}
    ${dialog === "apply" && html`<${ApplyDialog} model=${model} onClose=${close} onShow=${showNewer} />`}
    ${dialog === "comments" && html`<${CommentList} model=${model} onClose=${close} onGo=${goToComment} />`}
  </div>`;
}

function showAll() {
  prefs.whitespace.value = "show";
  go(withQuery({ since: "" }));
}

/** To a comment whose file is not shown, once all of the run's work is. @param {Reviewing} model @param {Wish | null} wish @param {(place?: Placed) => void} onThere */
function useWish(model, wish, onThere) {
  useEffect(() => {
    if (!wish || model.isLess) return;
    onThere(model.listed.value.find(({ comment }) => comment.id === wish.id));
  }, [model.diff.value]);
}

/** @param {{name: string, since: string}} props */
function Nothing({ name, since }) {
  return html`<div class="nothing"><${Empty} title=${since ? "Nothing changed since that turn" : "The run changed nothing"}>
    <p>${since ? "All of its work was there already." : "Look at what it said, and tell it what you expected."} <a href=${`/run/${name}`}>To the run</a></p>
  <//></div>`;
}

/**
 * @param {{model: Reviewing, shown: {current: import("../review/diff.js").Shown | null}, load: () => void,
 *   apply: () => void, list: () => void}} props
 */
function useReviewKeys({ model, shown, load, apply, list }) {
  /** @param {(shown: import("../review/diff.js").Shown) => unknown} act */
  const moving = (act) => () => shown.current && act(shown.current);
  const group = "Review";
  /** @param {KeyboardEvent} event */
  const isMore = (event) => event.shiftKey;
  useKeys([
    { key: "j", repeats: true, label: "Next change", group, run: moving((at) => toChange(model, at, 1)) },
    { key: "k", repeats: true, label: "Previous change", group, run: moving((at) => toChange(model, at, -1)) },
    { key: "ArrowDown", repeats: true, label: "Next line (with Shift: select)", group, run: (event) => moving((at) => toLine(model, at, 1, isMore(event)))() },
    { key: "ArrowUp", repeats: true, label: "Previous line (with Shift: select)", group, run: (event) => moving((at) => toLine(model, at, -1, isMore(event)))() },
    { key: "n", repeats: true, label: "Next file", group, run: moving((at) => toNextFile(model, at, 1)) },
    { key: "p", repeats: true, label: "Previous file", group, run: moving((at) => toNextFile(model, at, -1)) },
    { key: "x", label: "Mark the file as viewed", group, run: moving((at) => toggleViewed(model, at)) },
    { key: "c", label: "Comment on the selected lines", group, run: moving((at) => (model.selection.value || toChange(model, at, 1)) && model.write()) },
    { key: "l", label: "List comments, send them", group, run: list },
    { key: "f", label: "Filter files", group, run: () => /** @type {HTMLElement | null} */ (document.querySelector(".tree .filter"))?.focus() },
    { key: "u", label: "Unified or side by side", group, run: toggleMode },
    { key: "w", label: "Show or ignore white space", group, run: toggleWhitespace },
    { key: "z", label: "Wrap long lines", group, run: toggleWrap },
    { key: "r", label: "Load again", group, run: load },
    { key: "a", label: "Apply", group, run: apply },
    { key: "U", label: "Undo apply", group, run: () => model.run.value?.left.includes("undo") && undo(model) },
    { key: "Escape", label: "Back to the run", group, run: () => back(model) },
  ]);
}

/** @param {Reviewing} model @param {import("../review/diff.js").Shown} shown */
function toggleViewed(model, shown) {
  const file = fileHere(model, shown);
  if (file) model.toggleViewed(file);
}

/** @param {Reviewing} model */
function back(model) {
  if (model.selection.value && !model.editing.value) model.selection.value = null;
  else go(`/run/${model.name}`);
}

function toggleMode() {
  prefs.diffMode.value = prefs.diffMode.value === "split" ? "unified" : "split";
}

function toggleWhitespace() {
  prefs.whitespace.value = prefs.whitespace.value === "ignore" ? "show" : "ignore";
}

function toggleWrap() {
  prefs.wrap.value = !prefs.wrap.value;
}

/** @param {{model: Reviewing, since: string, load: () => void, canApply: boolean, onDrawer: () => void, onApply: () => void, onComments: () => void}} props */
function Head({ model, since, load, canApply, onDrawer, onApply, onComments }) {
  const run = model.run.value;
  const { additions, deletions, files } = model.diff.value?.stat ?? { additions: 0, deletions: 0, files: 0 };
  const waiting = model.waiting.value.length;
  const had = model.comments.value.length ? counted(model.comments.value.length, "comment") : "Comments";
  const isSplit = prefs.diffMode.value === "split";
  return html`<header class="review-head">
    <div class="who">
      <button type="button" class="button quiet drawer" onClick=${onDrawer}>Files</button>
      <h1><a href=${`/run/${model.name}`}>${model.name}</a></h1>
      ${run && html`<${State} run=${byName.value.get(model.name) ?? run} />`}
      <span class="sum">${counted(files, "file")} <${Lines} added=${additions} removed=${deletions} /></span>
      ${model.loading.value && html`<${Spinner} label="Loading" />`}
    </div>
    <div class="choices">
      <${Since} turns=${run?.turns ?? []} since=${since} />
      <${Button} kind="quiet" class="wide-only" pressed=${isSplit} hotkey="u" onClick=${toggleMode}>Side by side<//>
      <${Button} kind="quiet" class="wide-only" pressed=${prefs.wrap.value || isSplit} disabled=${isSplit} hotkey="z" onClick=${toggleWrap}>Wrap<//>
      <${Button} kind="quiet" pressed=${prefs.whitespace.value === "ignore"} hotkey="w" onClick=${toggleWhitespace}>Ignore white space<//>
    </div>
    <div class="deeds">
      <${Button} kind=${waiting ? "primary" : "plain"} hotkey="l" onClick=${onComments}>${waiting ? `Send ${counted(waiting, "comment")}` : had}<//>
      ${run?.left.includes("undo") && html`<${Button} hotkey="U" busy=${model.undoing.value} onClick=${() => undo(model)}>Undo apply<//>`}
      <${Button} kind=${waiting ? "plain" : "primary"} hotkey="a" disabled=${!canApply} title=${canApply ? undefined : appliedTo(run)}
        onClick=${onApply}>Apply<//>
    </div>
    <${News} model=${model} load=${load} />
  </header>`;
}

/** @param {import("../review/state.js").Run | null} run */
function appliedTo(run) {
  const last = run?.applied.findLast((each) => each.undone === null);
  return last ? `Applied to ${plainName(last.target.replace("refs/heads/", ""))} already` : "There is nothing to apply now";
}

/** @param {{turns: Turn[], since: string}} props */
function Since({ turns, since }) {
  if (!turns.length && !since) return null;
  const options = [
    { value: "", label: "All of its work" },
    ...turns.map(({ turn }) => ({ value: String(turn), label: `Since the end of turn ${turn + 1}` })).reverse(),
  ];
  return html`<${Select} label="Compare with" value=${since} options=${options} onChange=${(/** @type {string} */ turn) => go(withQuery({ since: turn }))} />`;
}

/** What happened since this was loaded. @param {{model: Reviewing, load: () => void}} props */
function News({ model, load }) {
  const row = byName.value.get(model.name);
  const problem = model.problem.value;
  useEffect(() => {
    if (row && isOver(row)) model.refresh();
  }, [row?.state, row?.ended, row?.applied]);
  if (problem) return html`<${Trouble} problem=${problem} />`;
  if (row && !isOver(row)) return html`<${Notice}>The agent is at work (${row.state}). What you see is from before.<//>`;
  if (model.hasNewer.value) {
    return html`<${Notice} kind="info">There is newer work. Your comments move along with their lines.
      <${Button} kind="primary" hotkey="r" onClick=${load}>Show it<//><//>`;
  }
  return null;
}
