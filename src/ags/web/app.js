// @ts-check
// The frame around every view: which one is shown, the top bar, keys that always work.
import { effect, signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { askAhead, forgetAhead, problemOf, token } from "./api.js";
import { Bar, Keys, Toasts } from "./frame.js";
import { part } from "./patience.js";
import { beginning, wanted } from "./review/address.js";
import { asks, failed, follow, prefs, route } from "./store.js";
import { Empty, html, Spinner, Trouble } from "./ui.js";
import { Login } from "./views/login.js";

/** @type {Record<string, () => Promise<any>>} */
const VIEWS = {
  board: () => import("./views/board.js"),
  new: () => import("./views/new.js"),
  compare: () => import("./views/compare.js"),
  run: () => import("./views/run.js"),
  review: () => import("./views/review.js"),
  settings: () => import("./views/settings.js"),
};
/** @type {Record<string, import("preact").ComponentType<any>>} */
const ready = {};
const arrived = signal(0);
const TITLES = /** @type {Record<string, string>} */ ({ new: "New run", compare: "Compare", settings: "Settings" });

/** A view's module exports it under its own name, such as `Board`. @param {string} name */
async function load(name) {
  const module = await part(name, VIEWS[name], () => route.peek().view === name);
  ready[name] = module.default || module[name[0].toUpperCase() + name.slice(1)];
  arrived.value++;
}

// At once, and not only when there is something to draw: its parts are fetched meanwhile. What is
// wrong with it the view itself tells.
if (token.value && VIEWS[route.value.view]) load(route.value.view).catch(() => null);
if (token.value && route.value.view === "review") {
  const { name, query } = route.value;
  askAhead(beginning(name, wanted(query.since ?? "", prefs.whitespace.value)));
  askAhead(`/runs/${name}`);
}
effect(() => void (route.value.view === "review" || forgetAhead()));

function View() {
  const { view, name, tab, query } = route.value;
  const [problem, setProblem] = useState(/** @type {import("./api.js").Problem | null} */ (null));
  arrived.value;
  useEffect(() => {
    setProblem(null);
    if (VIEWS[view] && !ready[view]) load(view).catch((error) => setProblem(problemOf(error)));
  }, [view]);
  if (!VIEWS[view]) {
    return html`<${Empty} title="There is no such page"><p><a href="/">All runs</a></p><//>`;
  }
  if (problem) return html`<div class="page"><${Trouble} problem=${problem} /></div>`;
  const Shown = ready[view];
  if (!Shown) return html`<div class="page"><${Spinner} label="Loading" /></div>`;
  // A run's view must not be taken over by the next run.
  return html`<${Shown} key=${`${view} ${name}`} name=${name} tab=${tab} query=${query} />`;
}

/** Shown wherever the person is; a part of its own, loaded behind the first view. */
function Asking() {
  const [Asks, setAsks] = useState(/** @type {any} */ (null));
  useEffect(() => {
    part("asks", () => import("./asks.js")).then((module) => setAsks(() => module.Asks), failed);
  }, []);
  return Asks && html`<${Asks} />`;
}

function App() {
  if (!token.value || route.value.view === "login") return html`<${Login} /><${Toasts} />`;
  return html`
    <a class="skip" href="#main">Skip to content</a>
    <${Bar} />
    <main id="main" tabindex="-1"><${View} /></main>
    <${Asking} /><${Toasts} /><${Keys} />`;
}

effect(() => {
  const { theme } = prefs;
  document.documentElement.style.colorScheme = theme.value === "auto" ? "light dark" : theme.value;
  document.documentElement.dataset.theme = theme.value;
});

effect(() => {
  const { view, name } = route.value;
  const waiting = asks.value.length ? `(${asks.value.length}) ` : "";
  const title = name ? `${name}${view === "review" ? " review" : ""}` : TITLES[view] || "";
  document.title = waiting + (title ? `${title} · AGS` : "AGS");
});

follow();
const place = document.getElementById("app");
if (place) render(html`<${App} />`, place);
