// @ts-check
/** Every request of a run: what was decided, by which rule, and how to allow what was refused. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call, problemOf } from "../api.js";
import { Answers } from "../asks.js";
import { useKeys } from "../keys.js";
import { asks, isOver } from "../store.js";
import { Button, Empty, html, Spinner, Trouble } from "../ui.js";
import { address } from "./actions.js";
import { added, allowAlways, allowForAnHour, couldAllow, purposeOf, takeBack } from "./policy.js";
import { reasonText } from "./reasons.js";
import { Place, Rows } from "./rows.js";
import { bytesText, clock, counted, oneLine, span, target } from "./text.js";

/** @typedef {Record<string, any> & {number: number, allowed: boolean, host: string}} Request */

const PAGE = 2000;
const EVERY = 2000;
const ROW = 30;
/** Milliseconds after a line has come in which no press counts: it was meant for what was there before. */
const GUARD = 700;

/** @param {{run: any}} props */
export function Network({ run }) {
  const { requests, problem, all } = useRequests(run);
  const [refusedOnly, setRefusedOnly] = useState(false);
  const [words, setWords] = useState("");
  useKeys([{ key: "f", label: "Refused requests only", group: "Network", run: () => setRefusedOnly(!refusedOnly) }]);
  const filter = `${refusedOnly} ${words}`;
  const place = useMemo(() => new Place(), [filter, run.id]);
  const shown = useMemo(() => requests.filter((each) => fits(each, refusedOnly, words)), [requests.length, filter]);
  const waiting = asks.value.filter((each) => each.run_id === run.id && !each.tool);
  const moved = useMoved(shown.length);
  if (problem && !requests.length) return html`<div class="tab-pad"><${Trouble} problem=${problem} /></div>`;
  if (!all && !requests.length) return html`<div class="tab-pad"><${Spinner} label="Loading" /></div>`;
  const refused = requests.filter((each) => each.allowed === false).length;
  return html`<div class="tab-bar">
      <span>${counted(requests.length, "request")}, ${counted(refused, "refused", "refused")}${!all && "…"}</span>
      <span class="grow"></span>
      <input type="search" class="network-filter" placeholder="Filter by host" aria-label="Filter by host" value=${words}
        onInput=${(/** @type {Event} */ event) => setWords(/** @type {HTMLInputElement} */ (event.target).value)} />
      <${Button} pressed=${refusedOnly} hotkey="f" onClick=${() => setRefusedOnly(!refusedOnly)}>Refused only<//>
    </div>
    ${waiting.length > 0 && html`<${Waiting} asks=${waiting} />`}
    ${shown.length > 0 ? html`<${Rows} key=${filter} count=${shown.length} place=${place} label="Requests" kind="network" pressed
        estimate=${() => ROW} keyOf=${(/** @type {number} */ index) => shown[index].number}
        row=${(/** @type {number} */ index) => html`<${One} request=${shown[index]} run=${run} moved=${moved} />`} />`
      : html`<${Nothing} run=${run} any=${requests.length > 0} />`}`;
}

/** When lines came under what was there already. @param {number} count */
function useMoved(count) {
  const moved = useRef(0);
  const before = useRef(count);
  if (before.current && before.current !== count) moved.current = Date.now();
  before.current = count;
  return moved;
}

/**
 * All decisions so far, page by page; while it is at work, those that come.
 * @param {any} run
 */
function useRequests(run) {
  const kept = useRef({ of: run.id, items: /** @type {Request[]} */ ([]), last: 0 });
  const [state, setState] = useState({ count: 0, problem: /** @type {any} */ (null), all: false });
  if (kept.current.of !== run.id) kept.current = { of: run.id, items: [], last: 0 };
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const read = async () => {
      try {
        const more = await readPages(run, kept.current, stop.signal, (count) => setState({ count, problem: null, all: false }));
        setState({ count: more, problem: null, all: true });
      } catch (error) {
        if (stop.signal.aborted) return;
        setState({ count: kept.current.items.length, problem: problemOf(error), all: true });
      }
      if (!stop.signal.aborted && !isOver(run)) timer = window.setTimeout(read, EVERY);
    };
    read();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [run.id, run.state]);
  return { requests: kept.current.items, problem: state.problem, all: state.all };
}

/**
 * @param {any} run
 * @param {{items: Request[], last: number}} kept
 * @param {AbortSignal} signal
 * @param {(count: number) => void} told
 */
async function readPages(run, kept, signal, told) {
  for (;;) {
    const found = await call("GET", `${address(run)}/egress?after=${kept.last}&limit=${PAGE}`, undefined, { signal });
    kept.items.push(...found.items.filter((/** @type {Request} */ each) => typeof each.host === "string"));
    kept.last = found.last;
    if (found.items.length < PAGE) return kept.items.length;
    told(kept.items.length);
  }
}

/**
 * @param {Request} request
 * @param {boolean} refusedOnly
 * @param {string} words
 */
function fits(request, refusedOnly, words) {
  if (refusedOnly && request.allowed) return false;
  return !words || request.host.includes(words.trim().toLowerCase());
}

/** @param {{asks: import("../store.js").Ask[]}} props */
function Waiting({ asks }) {
  return html`<section class="network-waiting" aria-label="Waiting for your answer">
    ${asks.map((ask) => html`<div class="network-ask" key=${ask.id}>
      <strong>Waits for you</strong><span class="mono cut" title=${target(ask)}>${target(ask)}</span><${Answers} ask=${ask} /></div>`)}
  </section>`;
}

/** @param {{request: Request, run: any, moved: {current: number}}} props */
function One({ request, run, moved }) {
  const { allowed, reason } = request;
  const why = reasonText(reason);
  const rule = request.rule ? `${oneLine(request.rule, 120)}${request.layer ? ` (${oneLine(request.layer, 40)})` : ""}` : "";
  const took = request.seconds >= 1 ? `, ${span(request.seconds)}` : "";
  return html`<div class=${`request ${allowed ? "" : "request-refused"}`}>
    <time class="item-time">${clock(request.time)}</time>
    <span class="request-decision">${allowed ? "allowed" : "refused"}</span>
    <span class="request-target mono" dir="ltr" title=${target(request)}>${target(request)}</span>
    <span class="request-why faint" title=${allowed ? rule : why}>${allowed ? rule : why}</span>
    <span class="request-size faint">${allowed && `↑${bytesText(request.sent)} ↓${bytesText(request.received)}${took}`}</span>
    <span class="request-do">${!allowed && couldAllow(/** @type {any} */ (request)) && html`<${Allow} request=${request} run=${run} moved=${moved} />`}</span>
  </div>`;
}

/** One press for an hour, or for a rule in the policy; one more takes that back. @param {{request: any, run: any, moved: {current: number}}} props */
function Allow({ request, run, moved }) {
  const [busy, setBusy] = useState(false);
  const purpose = purposeOf(run, request);
  const isAdded = added.value.has(purpose);
  const doing = (/** @type {() => Promise<unknown>} */ act) => async () => {
    if (Date.now() - moved.current < GUARD) return;
    setBusy(true);
    await act();
    setBusy(false);
  };
  const title = isAdded ? "Take the rule out of the policy again"
    : `Add a rule for this host and port to ${run.client ? `the policy of ${run.client}` : "your policy"}, for all runs`;
  const always = doing(() => (isAdded ? takeBack(purpose) : allowAlways(run, request)));
  return html`${run.state === "running" && !isAdded && html`<${Button} disabled=${busy} onClick=${doing(() => allowForAnHour(run, request))}
      title="Allow this host and port in this run, for an hour" label=${`Allow for an hour ${target(request)}`}>An hour<//>`}
    <${Button} disabled=${busy} onClick=${always} title=${title} label=${`${isAdded ? "Undo allowing" : "Always allow"} ${target(request)}`}>
    ${isAdded ? "Undo" : "Always"}<//>`;
}

/** @param {{run: any, any: boolean}} props */
function Nothing({ run, any }) {
  if (any) return html`<${Empty} title="No request fits"><p>Take the filter away to see all of them.</p><//>`;
  if (!run.network) return html`<${Empty} title="It has no network"><p>It was started without one, so there is nothing it could reach.</p><//>`;
  return html`<${Empty} title="No requests yet">
    <p>Every connection that the agent tries is listed here, with the rule that decided.
      What no rule allows is refused; start a run with “ask” to be asked instead.</p><//>`;
}
