// @ts-check
// Small parts that every view is made of. Text goes in as text; nothing here takes HTML.
import htm from "htm";
import { h } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { counted } from "./run/text.js";
import { connection, toast } from "./store.js";

/** @typedef {import("preact").ComponentChildren} Children */

/** @type {(strings: TemplateStringsArray, ...values: any[]) => import("preact").VNode<any>} */
export const html = /** @type {any} */ (htm.bind(h));

const narrow = window.matchMedia("(max-width: 720px)");
/** Whether this is a phone; style.css has the same bound. */
export const isNarrow = signal(narrow.matches);
narrow.addEventListener("change", () => (isNarrow.value = narrow.matches));

/** The names of those that hold. @param {...(string | false | null | undefined)} names */
export const classes = (...names) => names.filter(Boolean).join(" ");

/**
 * `hotkey` is only shown: who uses it binds it.
 * @param {{children?: Children, onClick?: (event: MouseEvent) => unknown, kind?: "plain"|"primary"|"danger"|"quiet",
 *   hotkey?: string, busy?: boolean, disabled?: boolean, title?: string, type?: "button"|"submit", pressed?: boolean,
 *   class?: string, label?: string, autofocus?: boolean}} props
 */
export function Button({ children, onClick, kind = "plain", hotkey, busy, disabled, title, type = "button", pressed, label, autofocus, class: extra }) {
  return html`<button type=${type} class=${classes("button", kind, extra)} onClick=${onClick}
    disabled=${disabled || busy} autofocus=${autofocus} title=${title} aria-label=${label} aria-pressed=${pressed} aria-busy=${busy || undefined}>
    ${busy && html`<${Spinner} />`}${children}${hotkey && html`<${Kbd} keys=${hotkey} />`}
  </button>`;
}

/**
 * A label over what is to be filled in. `children` is a function that takes the ids to use.
 * @param {{label: Children, hint?: Children, error?: Children, class?: string,
 *   children: (ids: {id: string, "aria-describedby"?: string, "aria-invalid"?: boolean}) => Children}} props
 */
export function Field({ label, hint, error, children, class: extra }) {
  const id = useId();
  const told = error || hint;
  const ids = { id, "aria-describedby": told ? `${id}-told` : undefined, "aria-invalid": error ? true : undefined };
  return html`<div class=${classes("field", extra)}>
    <label for=${id}>${label}</label>
    ${children(ids)}
    ${told && html`<p id=${`${id}-told`} class=${error ? "error" : "hint"}>${told}</p>`}
  </div>`;
}

/**
 * @param {{value: string, options: (string | {value: string, label: string, disabled?: boolean})[],
 *   onChange: (value: string) => void, id?: string, label?: string, disabled?: boolean, class?: string,
 *   "aria-describedby"?: string, "aria-invalid"?: boolean}} props
 */
export function Select({ value, options, onChange, label, class: extra, ...rest }) {
  const chosen = (/** @type {Event} */ event) => onChange(/** @type {HTMLSelectElement} */ (event.target).value);
  return html`<select class=${extra} value=${value} onChange=${chosen} aria-label=${label} ...${rest}>
    ${options.map((option) => {
      const each = typeof option === "string" ? { value: option, label: option } : option;
      return html`<option key=${each.value} value=${each.value} selected=${each.value === value} disabled=${each.disabled}>${each.label}</option>`;
    })}
  </select>`;
}

/**
 * A labelled line of text, or several with `rows`; what else an input takes may be given too.
 * @param {{label: Children, hint?: Children, error?: Children, value: string, onInput: (text: string) => void, mono?: boolean,
 *   rows?: number, [attribute: string]: any}} props
 */
export function TextField({ label, hint, error, value, onInput, mono, rows, ...rest }) {
  const typed = (/** @type {Event} */ event) => onInput(/** @type {HTMLInputElement} */ (event.target).value);
  const given = { class: mono ? "mono" : undefined, spellcheck: rows ? undefined : false, autocomplete: "off", value, onInput: typed, ...rest };
  return html`<${Field} label=${label} hint=${hint} error=${error}>${(/** @type {object} */ ids) =>
    rows ? html`<textarea ...${ids} rows=${rows} ...${given}></textarea>` : html`<input type="text" ...${ids} ...${given} />`}<//>`;
}

/**
 * A labelled choice.
 * @param {{label: Children, hint?: Children, value: string, options: (string | {value: string, label: string})[],
 *   onChange: (value: string) => void, disabled?: boolean}} props
 */
export function SelectField({ label, hint, ...rest }) {
  return html`<${Field} label=${label} hint=${hint}>${(/** @type {object} */ ids) => html`<${Select} ...${ids} ...${rest} />`}<//>`;
}

/** Who or what stopped it. @param {string} why as the run has it */
export const whoStopped = (why) => why.replace(/^stopped by /, "");

/** What a run is at, in words; colour comes second. @param {{run: {state: string, asking?: boolean, applied?: any, stopped_by?: string | null}}} props */
export function State({ run }) {
  const word = run.asking ? "asking" : run.state;
  const by = run.state === "stopped" && run.stopped_by ? `stopped by ${whoStopped(run.stopped_by)}` : undefined;
  return html`<span class=${`state ${word}`} title=${by}>${word}</span>`;
}

// Ages change by themselves: one clock for all of them.
const now = signal(Date.now() / 1000);
setInterval(() => (now.value = Date.now() / 1000), 5000);

const UNITS = /** @type {const} */ ([[86400, "d"], [3600, "h"], [60, "m"]]);

/** @param {number} seconds */
export function span(seconds) {
  for (const [size, unit] of UNITS) if (seconds >= size) return `${Math.floor(seconds / size)}${unit}`;
  return `${Math.max(0, Math.floor(seconds))}s`;
}

/** @param {number} ts */
export const clock = (ts) => new Date(ts * 1000).toLocaleString();

/** How long ago, or with `until` how long it took. @param {{ts: number | null | undefined, until?: number | null}} props */
export function Age({ ts, until }) {
  if (ts === null || ts === undefined) return html`<span class="age"></span>`;
  const text = span((until ?? now.value) - ts);
  return html`<time class="age" datetime=${new Date(ts * 1000).toISOString()} title=${clock(ts)}>${text}</time>`;
}

/** @param {{row: {files: number | null, insertions: number | null, deletions: number | null}}} props */
export function Changes({ row }) {
  if (row.files === null || row.files === undefined) return html`<span class="changes"></span>`;
  if (!row.files) return html`<span class="changes faint">none</span>`;
  const said = `${counted(row.files, "file")}, ${row.insertions ?? 0} lines added, ${row.deletions ?? 0} removed`;
  return html`<span class="changes" title=${said}>
    <span class="file-count">${row.files}<span class="hidden"> files, </span></span>
    <${Lines} added=${row.insertions ?? 0} removed=${row.deletions ?? 0} />
  </span>`;
}

/** How many of each; where there are none, nothing catches the eye. @param {{added: number, removed: number}} props */
export function Lines({ added, removed }) {
  return html`<span class=${added ? "plus" : "faint"}>+${short(added)}</span> <span class=${removed ? "minus" : "faint"}>−${short(removed)}</span>`;
}

/** @param {number} number */
export const short = (number) => (number < 10_000 ? String(number) : `${Math.round(number / 1000)}k`);

/** @param {number | null | undefined} dollars */
export const money = (dollars) => (dollars === null || dollars === undefined ? "" : `$${dollars.toFixed(2)}`);

/** @param {string} text */
export const firstLine = (text) => text.trimStart().split("\n", 1)[0];

/**
 * A question in front of everything. Escape and the backdrop close it.
 * @param {{title: string, onClose: () => void, children?: Children, actions?: Children, wide?: boolean}} props
 */
export function Dialog({ title, onClose, children, actions, wide }) {
  const place = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  // Not after the first frame, here and in other places that take the focus: the next key may be
  // pressed before that.
  useLayoutEffect(() => {
    const before = document.activeElement, dialog = place.current;
    dialog?.showModal();
    return () => {
      dialog?.close(); // while it is open, nothing else can take the focus
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const outside = (/** @type {MouseEvent} */ event) => {
    if (event.target !== place.current) return;
    event.preventDefault(); // else the press takes the focus away again
    onClose();
  };
  const cancelled = (/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${place} class=${classes("dialog", wide && "wide")} aria-labelledby=${id} onMouseDown=${outside} onCancel=${cancelled}>
    <div class="dialog-body">
      <header><h2 id=${id}>${title}</h2>
        <button type="button" class="button quiet icon" aria-label="Close" onClick=${onClose}>✕</button></header>
      ${children}
      ${actions && html`<footer>${actions}</footer>`}
    </div>
  </dialog>`;
}

/**
 * A question with one answer besides no. With `stays`, whoever asked closes it. One that is `late` comes by
 * itself: a key that is pressed just then must not be a yes.
 * @param {{title: string, text: Children, action: string, danger?: boolean, stays?: boolean, late?: boolean,
 *   onYes: () => unknown, onClose: () => void}} props
 */
export function Confirm({ title, text, action, danger = true, stays = false, late = false, onYes, onClose }) {
  const [busy, setBusy] = useState(false);
  const yes = async () => {
    setBusy(true);
    await onYes();
    if (!stays) onClose();
  };
  const actions = html`<${Button} autofocus=${late} onClick=${onClose}>Cancel<//>
    <${Button} kind=${danger ? "danger" : "primary"} autofocus=${!late} busy=${busy} onClick=${yes}>${action}<//>`;
  return html`<${Dialog} title=${title} onClose=${onClose} actions=${actions}><div class="say">${text}</div><//>`;
}

/**
 * A button that opens a list of actions.
 * @param {{label: Children, items: ({label: string, run: () => unknown, hotkey?: string, danger?: boolean, disabled?: boolean} | null | false | undefined)[],
 *   title?: string, class?: string}} props
 */
export function Menu({ label, items, title, class: extra }) {
  const [open, setOpen] = useState(false);
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  useLayoutEffect(() => {
    if (!open) return;
    const entries = () => [...(place.current?.querySelectorAll("[role=menuitem]:not([disabled])") || [])];
    const away = (/** @type {Event} */ event) => place.current?.contains(/** @type {Node} */ (event.target)) || setOpen(false);
    const moved = (/** @type {KeyboardEvent} */ event) => {
      const all = /** @type {HTMLElement[]} */ (entries());
      const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) all[(at + step + all.length) % all.length]?.focus();
      else if (event.key === "Escape") close();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    /** @type {HTMLElement | undefined} */ (entries()[0])?.focus();
    document.addEventListener("pointerdown", away);
    document.addEventListener("keydown", moved, true);
    return () => {
      document.removeEventListener("pointerdown", away);
      document.removeEventListener("keydown", moved, true);
    };
  }, [open]);
  const close = () => {
    setOpen(false);
    place.current?.querySelector("button")?.focus();
  };
  const shown = items.filter((each) => !!each);
  return html`<div class=${classes("menu", extra)} ref=${place}>
    <button type="button" class="button quiet" aria-haspopup="menu" aria-expanded=${open} title=${title} aria-label=${title}
      onClick=${() => setOpen(!open)}>${label}</button>
    ${open && html`<div role="menu" class="menu-list">
      ${shown.map((each) => html`<button type="button" role="menuitem" class=${classes(each.danger && "danger")} disabled=${each.disabled}
        onClick=${() => { close(); each.run(); }}>${each.label}${each.hotkey && html`<${Kbd} keys=${each.hotkey} />`}</button>`)}
    </div>`}
  </div>`;
}

/**
 * Tabs that are addresses: plain links.
 * @param {{items: {id: string, label: Children, href: string, hotkey?: string}[], current: string, label: string}} props
 */
export function Tabs({ items, current, label }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${items.map((each) => html`<a key=${each.id} href=${each.href} aria-current=${each.id === current ? "page" : undefined}>
      ${each.label}${each.hotkey && html`<${Kbd} keys=${each.hotkey} />`}</a>`)}
  </nav>`;
}

/** What stands where there is nothing yet, and how to change that. @param {{title: string, children?: Children}} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

const SIGNS = /** @type {Record<string, string>} */ ({ ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" });

/** Beside what it does, a key is noise when read aloud; in the list of keys it is the point. @param {{keys: string, aloud?: boolean}} props */
export function Kbd({ keys, aloud = false }) {
  return html`<span class="keys" aria-hidden=${aloud ? undefined : "true"}>${keys.split(" ").map((each) => html`<kbd>${SIGNS[each] || each}</kbd>`)}</span>`;
}

/** @param {{kind?: "info"|"warn"|"error"|"done", title?: Children, children?: Children}} props */
export function Notice({ kind = "info", title, children }) {
  return html`<div class=${`notice ${kind}`} role=${kind === "error" ? "alert" : "note"}>
    ${title && html`<strong>${title}</strong>`}${children}</div>`;
}

/** A Problem in its place, with what to do. @param {{problem: import("./api.js").Problem}} props */
export function Trouble({ problem }) {
  return html`<${Notice} kind="error" title=${problem.title}>
    ${problem.detail && html`<p>${problem.detail}</p>`}
    ${problem.hint && html`<p class="hint"><${Code} text=${problem.hint} /></p>`}
  <//>`;
}

/** Text of ours, with what stands between backquotes as code. @param {{text: string}} props */
export function Code({ text }) {
  return html`${text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part))}`;
}

/** @param {{label?: string}} props */
export function Spinner({ label: usual }) {
  const label = usual && connection.value === "waiting" ? "The server does not answer. Trying again" : usual;
  return html`<span class="spinner" role=${label ? "status" : undefined} aria-hidden=${label ? undefined : "true"}>${label && html`<span>${label}</span>`}</span>`;
}

/** @param {{text: string, label?: string}} props */
export function Copy({ text, label = "Copy" }) {
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    toast("Copied", { kind: "done", seconds: 2 });
  };
  return html`<${Button} kind="quiet" class="copy" title=${`Copy ${text.length > 80 ? "" : text}`} onClick=${copy}>${label}<//>`;
}
