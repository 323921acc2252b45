// @ts-check
// The top bar, the list of keys, and what was just told.
import { signal } from "@preact/signals";
import { reachable, useKeys } from "./keys.js";
import { counted } from "./run/text.js";
import { asks, connection, dismiss, go, prefs, route, toasts, withQuery } from "./store.js";
import { Button, Code, Dialog, html, isNarrow, Kbd, Menu } from "./ui.js";
import { call, logOut } from "./api.js";

const listed = signal(false);
const THEMES = /** @type {const} */ (["auto", "light", "dark"]);
const SAID = { connecting: "connecting", live: "live", waiting: "reconnecting" };

function nextTheme() {
  const at = THEMES.indexOf(prefs.theme.value);
  prefs.theme.value = THEMES[(at + 1) % THEMES.length];
}

async function leave() {
  // The person's own token has no session to end.
  await call("DELETE", "/session").catch(() => null);
  logOut();
  go("/");
}

function Search() {
  const onBoard = route.value.view === "board";
  const typed = (/** @type {Event} */ event) => {
    const q = /** @type {HTMLInputElement} */ (event.target).value;
    if (onBoard) go(withQuery({ q }), { replace: true });
    else go(`/?${new URLSearchParams({ q })}`);
  };
  const left = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" && event.key !== "Enter") return;
    event.preventDefault();
    /** @type {HTMLInputElement} */ (event.target).blur();
  };
  return html`<div class="search" role="search">
    <input id="search" type="search" placeholder="Search runs" aria-label="Search runs" autocomplete="off"
      spellcheck=${false} value=${onBoard ? route.value.query.q || "" : ""} onInput=${typed} onKeyDown=${left} />
    <${Kbd} keys="/" />
  </div>`;
}

export function Bar() {
  const state = connection.value;
  const waiting = asks.value;
  useKeys([
    { key: "?", label: "Show all keys", group: "Everywhere", run: () => (listed.value = true) },
    { key: "/", label: "Search runs", group: "Everywhere", run: () => document.getElementById("search")?.focus() },
    { key: "n", label: "New run", group: "Everywhere", run: () => go("/new") },
    { key: "g b", label: "Go to the board", group: "Everywhere", run: () => go("/") },
    { key: "g s", label: "Go to the settings", group: "Everywhere", run: () => go("/settings") },
    { key: "g a", label: "Go to the run that asks", group: "Everywhere", run: () => asks.value[0] && go(`/run/${asks.value[0].run}`) },
    { key: "T", label: "Dark, light, or as the system", group: "Everywhere", run: nextTheme },
  ]);
  return html`<header class="bar">
    <a class="brand" href="/" aria-label="AGS, all runs">AGS</a>
    <${Search} />
    <a class="button primary new" href="/new">New<span class="wide-only"> run</span><${Kbd} keys="n" /></a>
    <span class="grow"></span>
    ${waiting.length > 0 && html`<a class="badge" href=${`/run/${waiting[0].run}`} title="Go to the run that asks">
      ${counted(waiting.length, "ask")}<span class="wide-only"> waiting</span></a>`}
    <span class=${`connection ${state}`} role="status">${SAID[state]}</span>
    <a class="button quiet wide-only" href="/settings" aria-current=${route.value.view === "settings" ? "page" : undefined}>Settings</a>
    <button type="button" class="button quiet wide-only" title="Dark, light, or as the system (T)" onClick=${nextTheme}>
      Theme: ${prefs.theme.value}</button>
    <button type="button" class="button quiet icon wide-only" aria-label="Show all keys" onClick=${() => (listed.value = true)}>?</button>
    <${Menu} label="⋯" title="More" items=${[
      isNarrow.value && { label: "Settings", run: () => go("/settings") },
      isNarrow.value && { label: `Theme: ${prefs.theme.value}`, run: nextTheme },
      isNarrow.value && { label: "Keys", run: () => (listed.value = true) },
      { label: "Log out", run: leave },
    ]} />
  </header>`;
}

/** What each group's keys do, by what they do: one thing may have several keys. */
function grouped() {
  /** @type {Map<string, Map<string, Set<string>>>} */
  const groups = new Map();
  for (const { group = "Here", key, label } of reachable()) {
    const labels = groups.get(group) || new Map();
    groups.set(group, labels.set(label, (labels.get(label) || new Set()).add(key)));
  }
  return [...groups].reverse();
}

/** All keys that work right now. */
export function Keys() {
  if (!listed.value) return null;
  const close = () => (listed.value = false);
  return html`<${Dialog} title="Keys" onClose=${close} wide>
    <div class="key-groups">${grouped().map(([group, labels]) => html`<section>
      <h3>${group}</h3>
      <dl>${[...labels].map(([label, keys]) => html`<div><dt>${label}</dt><dd>${[...keys].map((key) => html`<${Kbd} keys=${key} aloud /> `)}</dd></div>`)}</dl>
    </section>`)}</div>
  <//>`;
}

export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map((each) => html`<div key=${each.id} class=${`toast ${each.kind}`}>
      <div><strong>${each.text}</strong>
        ${each.detail && html`<p>${each.detail}</p>`}
        ${each.hint && html`<p class="hint"><${Code} text=${each.hint} /></p>`}</div>
      ${each.undo && html`<${Button} onClick=${() => { each.undo?.(); dismiss(each.id); }}>Undo<//>`}
      <button type="button" class="button quiet icon" aria-label="Dismiss" onClick=${() => dismiss(each.id)}>✕</button>
    </div>`)}
  </div>`;
}
