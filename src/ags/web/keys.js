// @ts-check
// One listener for all keys. A later binding of the same key goes before an earlier one.
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

/**
 * @typedef {object} Binding
 * @property {string} key  as in "a", "?", "Enter", "Ctrl+Enter", or "g p" for one after the other
 * @property {string} label  what it does, for the list of keys
 * @property {string} [group]
 * @property {(event: KeyboardEvent) => unknown} run
 * @property {boolean} [anywhere]  also while typing in a field
 * @property {boolean} [typing]  only then
 * @property {boolean} [repeats]  again and again while it is held down
 */

const PATIENCE = 1200;

/** All that is bound now, in the order of binding. */
export const bindings = signal(/** @type {Binding[]} */ ([]));

let first = "";
let forget = 0;

/** @param {Binding} binding @returns {() => void} */
export function bind(binding) {
  bindings.value = [...bindings.peek(), binding];
  return () => (bindings.value = bindings.peek().filter((each) => each !== binding));
}

/** Those that a press can reach now: of a key, the later binding, save where only the earlier one works. */
export function reachable() {
  const all = bindings.value;
  const isOver = (/** @type {Binding} */ later, /** @type {Binding} */ each) =>
    later.key === each.key && !later.typing === !each.typing && (later.anywhere || !each.anywhere);
  return all.filter((each, index) => !all.slice(index + 1).some((later) => isOver(later, each)));
}

/** Bind while a component is shown. The functions may change from one rendering to the next. @param {Binding[]} list */
export function useKeys(list) {
  const latest = useRef(list);
  latest.current = list;
  const names = list.map(({ key, label }) => `${key} ${label}`).join("\n");
  // Before it is painted: whoever sees what a key is for can press it.
  useLayoutEffect(() => {
    const unbind = list.map((each, index) =>
      bind({ ...each, run: (event) => latest.current[index]?.run(event) }),
    );
    return () => unbind.forEach((each) => each());
  }, [names]);
}

/** @param {EventTarget | null} target */
export function isField(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) {
    return !["checkbox", "radio", "button", "submit"].includes(target.type);
  }
  return ["TEXTAREA", "SELECT"].includes(target.tagName) || target.isContentEditable
    || target.closest(".xterm") !== null;
}

/** @param {KeyboardEvent} event */
function nameOf(event) {
  const prefix = event.ctrlKey || event.metaKey ? "Ctrl+" : "";
  return prefix + (event.key === " " ? "Space" : event.key);
}

/** What works with the focus there. @param {EventTarget | null} target @returns {(binding: Binding) => boolean | undefined} */
function worksAt(target) {
  const inField = isField(target);
  const inDialog = document.querySelector("dialog[open]") !== null;
  // Of a terminal and of a dialog, Escape is their own.
  const isPlain = inField && !inDialog && !(target instanceof Element && target.closest(".xterm"));
  return ({ anywhere, typing }) => (typing ? isPlain : anywhere || !(inField || inDialog));
}

/** What is typed stays: a search field would be emptied. @param {KeyboardEvent} event */
function leave(event) {
  if (event.target instanceof HTMLElement) event.target.blur();
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  if (["Shift", "Control", "Meta"].includes(event.key)) return;
  const name = nameOf(event);
  // A button or link that has the focus takes these itself.
  const taken = event.target instanceof Element && event.target.closest("button, a, summary, [role=menuitem]");
  if (taken && (name === "Enter" || name === "Space")) return;
  const open = bindings.peek().filter(worksAt(event.target));
  const wanted = first ? `${first} ${name}` : name;
  clearTimeout(forget);
  first = "";
  const found = open.findLast((each) => each.key === wanted);
  if (found) {
    event.preventDefault();
    // A finger that rests on a key means one thing, not also what comes next.
    if (!event.repeat || found.repeats) found.run(event);
  } else if (open.some((each) => each.key.startsWith(`${name} `))) {
    first = name;
    forget = window.setTimeout(() => (first = ""), PATIENCE);
  }
}

bind({ key: "Escape", label: "Leave the field; what is typed stays", group: "While typing", typing: true, run: leave });
document.addEventListener("keydown", pressed);
