// @ts-check
/** One run: what it does, its terminal, its requests, its files, its log, its ports. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { problemOf } from "../api.js";
import { listed } from "../board/sift.js";
import { useKeys } from "../keys.js";
import { read } from "../patience.js";
import { Activity } from "../run/activity.js";
import { Composer, focusComposer } from "../run/composer.js";
import { Feed } from "../run/feed.js";
import { Files } from "../run/files.js";
import { Head } from "../run/head.js";
import { LogText } from "../run/log.js";
import { Network } from "../run/network.js";
import { Preview } from "../run/preview.js";
import { TerminalTab } from "../run/terminal.js";
import { asks, byName, go, isOver, loaded, runs } from "../store.js";
import { Empty, html, Spinner, Tabs, Trouble } from "../ui.js";

const SOON = 150;
const TABS = ["activity", "terminal", "network", "files", "log", "preview"];
/** @type {Record<string, string>} */
const LABELS = { activity: "Activity", terminal: "Terminal", network: "Network", files: "Files", log: "Log", preview: "Preview" };

/** @param {{name: string, tab: string}} props */
export function Run({ name, tab }) {
  const [run, setRun] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const row = run ? runs.value.get(run.id) : byName.value.get(name);
  const feed = useMemo(() => (run ? new Feed(run.id) : null), [run?.id]);
  const latest = useRef(0);
  const changed = (/** @type {any} */ found) => {
    latest.current++;
    setRun(found);
    setProblem(null);
  };
  const load = async () => {
    const turn = ++latest.current;
    try {
      const found = await read(`/runs/${encodeURIComponent(run?.id ?? name)}`);
      if (turn === latest.current) changed(found);
    } catch (error) {
      if (turn === latest.current) setProblem(problemOf(error));
    }
  };

  useEffect(() => {
    const timer = window.setTimeout(load, run ? SOON : 0);
    return () => clearTimeout(timer);
  }, [name, row?.state, row?.asking, row?.files, row?.applied, row?.ended]);
  useEffect(() => {
    if (feed && run) feed.follow(isOver(run) ? run.ended : null);
  }, [feed, run?.state, run?.turn, run?.ended]);
  useEffect(() => () => feed?.stop(), [feed]);
  useEffect(() => {
    if (feed?.state.value === "ended") load();
  }, [feed?.state.value]);

  const gone = feed?.state.value === "gone" || (loaded.value && run && problem?.status === 404);
  if (gone) return html`<${Empty} title="This run is deleted"><p>Its branch is still in the project. <a href="/">All runs</a></p><//>`;
  if (problem && !run) return html`<${Missing} problem=${problem} name=${name} />`;
  if (!run || !feed) return html`<div class="page"><${Spinner} label="Loading" /></div>`;
  return html`<${Shown} run=${run} row=${row} feed=${feed} tab=${TABS.includes(tab) ? tab : "activity"} changed=${changed} />`;
}

/** @param {{problem: import("../api.js").Problem, name: string}} props */
function Missing({ problem, name }) {
  if (problem.status !== 404) return html`<div class="page"><${Trouble} problem=${problem} /></div>`;
  return html`<${Empty} title="There is no such run"><p>No run is named ${name}. It may have been deleted. <a href="/">All runs</a></p><//>`;
}

/** @param {{run: any, row: any, feed: Feed, tab: string, changed: (run: any) => void}} props */
function Shown({ run, row, feed, tab, changed }) {
  const here = (/** @type {string} */ id) => `/run/${encodeURIComponent(run.name)}${id === "activity" ? "" : `/${id}`}`;
  const step = (/** @type {number} */ by) => go(here(TABS[(TABS.indexOf(tab) + by + TABS.length) % TABS.length]));
  const tell = () => {
    if (tab !== "activity") go(here("activity"));
    queueMicrotask(focusComposer); // it is drawn by then
  };
  const hop = (/** @type {number} */ by) => {
    const all = listed(runs.value.values());
    const next = all[all.findIndex((each) => each.id === run.id) + by];
    if (next) go(`/run/${next.name}${tab === "activity" ? "" : `/${tab}`}`);
  };
  useKeys([
    { key: "J", repeats: true, label: "Next run, as the board has them", group: "Run", run: () => hop(1) },
    { key: "K", repeats: true, label: "Previous run", group: "Run", run: () => hop(-1) },
    { key: "[", repeats: true, label: "Tab to the left", group: "Run", run: () => step(-1) },
    { key: "]", repeats: true, label: "Tab to the right", group: "Run", run: () => step(1) },
  ]);
  const waiting = asks.value.filter((each) => each.run_id === run.id && !each.tool).length;
  const items = TABS.map((id) => ({ id, href: here(id), label: id === "network" && waiting ? `Network (${waiting})` : LABELS[id] }));
  return html`<div class="run">
    <${Head} run=${run} row=${row} changed=${changed} tell=${tell} />
    <${Tabs} items=${items} current=${tab} label="Of this run" />
    <${Connection} feed=${feed} run=${run} />
    <div class="run-tab">
      ${tab === "activity" && html`<${Activity} feed=${feed} run=${run} />`}
      ${tab === "terminal" && html`<${TerminalTab} run=${run} />`}
      ${tab === "network" && html`<${Network} run=${run} />`}
      ${tab === "files" && html`<${Files} run=${run} />`}
      ${tab === "log" && html`<${LogText} run=${run} />`}
      ${tab === "preview" && html`<${Preview} run=${run} />`}
    </div>
    ${tab === "activity" && html`<${Composer} run=${run} changed=${changed} />`}
  </div>`;
}

/** @param {{feed: Feed, run: any}} props */
function Connection({ feed, run }) {
  if (feed.state.value !== "waiting" || isOver(run)) return null;
  return html`<p class="run-waiting" role="status">Reconnecting to the server. The run goes on meanwhile.</p>`;
}
