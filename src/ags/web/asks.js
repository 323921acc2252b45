// @ts-check
// What runs wait to be allowed, wherever the person is. It takes no focus, and nothing moves under a finger.
import { effect, signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { call, problemOf } from "./api.js";
import { useKeys } from "./keys.js";
import { counted, exact, oneLine } from "./run/text.js";
import { ruled } from "./settings/asked.js";
import { asks, failed, go, prefs, route, toast } from "./store.js";
import { Button, classes, html } from "./ui.js";

/** @typedef {import("./store.js").Ask} Ask */
/** @typedef {{key: string, label: string, done: string, kind: "plain"|"primary"|"danger", body: Record<string, unknown>}} Answer */

/** @type {Answer[]} */
const ANSWERS = [
  { key: "1", label: "Once", done: "Allowed once", kind: "plain", body: { verdict: "once" } },
  { key: "2", label: "An hour", done: "Allowed for an hour", kind: "plain", body: { verdict: "for", seconds: 3600 } },
  { key: "3", label: "Always", done: "Allowed, and added to the policy", kind: "plain", body: { verdict: "always" } },
  { key: "0", label: "Deny", done: "Denied", kind: "danger", body: { verdict: "deny" } },
];
/** What a hook asks is about one call, and is allowed once or not at all. @param {Ask} ask */
const answersTo = (ask) => (ask.tool ? ANSWERS.filter(({ key }) => key === "1" || key === "0") : ANSWERS);
// What was meant for an ask that stood here a moment ago must not answer this one.
const GUARD = 700;
const SCHEMES = /** @type {Record<string, [string, number]>} */ ({ tls: ["https", 443], http: ["http", 80] });

/** @param {Ask} ask */
const keyOf = (ask) => `${ask.run_id} ${ask.id}`;

/** What is asked for, in full: what is cut off cannot be judged. @param {Ask} ask */
export function wanted(ask) {
  if (ask.tool) return exact(`${ask.tool}: ${ask.about}`);
  const [scheme, usual] = SCHEMES[ask.scheme] || ["tcp", 0];
  const port = ask.port === usual ? "" : `:${ask.port}`;
  const host = String(ask.host).includes(":") ? `[${ask.host}]` : ask.host;
  return `${ask.method ? `${ask.method} ` : ""}${scheme}://${host}${port}${ask.path || ""}`;
}

// What is shown is in the order in which it came. Deadlines are by this browser's clock.

const waiting = signal(/** @type {Ask[]} */ ([]));
const answered = signal(/** @type {Set<string>} */ (new Set()));
const folded = signal(false);
/** What stood there when the pointer came, and how high: until it leaves, nothing moves. */
const under = signal(/** @type {{lines: Ask[], height: number} | null} */ (null));
/** @type {Map<string, number>} */
const deadlines = new Map();
let known = /** @type {Set<string> | null} */ (null);

effect(() => {
  const there = new Map(asks.value.map((ask) => [keyOf(ask), ask]));
  const stay = waiting.peek().filter((ask) => there.has(keyOf(ask)));
  const before = new Set(stay.map(keyOf));
  const came = asks.value.filter((ask) => !before.has(keyOf(ask)));
  for (const key of deadlines.keys()) if (!there.has(key)) deadlines.delete(key);
  answered.value = new Set([...answered.peek()].filter((key) => there.has(key)));
  waiting.value = [...stay.map((ask) => there.get(keyOf(ask)) || ask), ...came];
  if (came.length) arrived(came);
  known = new Set(there.keys());
});

/** @param {Ask[]} came */
function arrived(came) {
  for (const ask of came) deadlines.set(keyOf(ask), Date.now() + Number(ask.left || 0) * 1000);
  refresh();
  const fresh = came.filter((ask) => !known?.has(keyOf(ask)));
  if (!fresh.length) return;
  // Whatever the browser makes of it, the asks are there.
  queueMicrotask(() => {
    if (prefs.sound.peek()) sound();
    for (const ask of fresh) if (prefs.notify.peek()) notify(ask);
  });
}

/** The board tells of an ask when it comes, and not how long it has waited since. */
async function refresh() {
  const { items } = await call("GET", "/asks").catch(() => ({ items: [] }));
  const now = Date.now();
  for (const ask of waiting.peek()) {
    const found = items.find((/** @type {Ask} */ each) => each.run === ask.run && each.id === ask.id);
    if (found) deadlines.set(keyOf(ask), now + Number(found.left || 0) * 1000);
  }
}

/** @type {AudioContext | null} */
let audio = null;

/** Two short notes, made here: there is no file to fetch. */
function sound() {
  audio ||= new AudioContext();
  for (const [index, pitch] of [660, 880].entries()) {
    const start = audio.currentTime + index * 0.14;
    const tone = audio.createOscillator(), loudness = audio.createGain();
    tone.frequency.value = pitch;
    loudness.gain.setValueAtTime(0.12, start);
    loudness.gain.exponentialRampToValueAtTime(0.001, start + 0.13);
    tone.connect(loudness).connect(audio.destination);
    tone.start(start);
    tone.stop(start + 0.14);
  }
}

/** @param {Ask} ask */
function notify(ask) {
  if (!("Notification" in window) || Notification.permission !== "granted" || !document.hidden) return;
  try {
    const made = new Notification(`${ask.run} asks`, { body: wanted(ask), tag: keyOf(ask) });
    made.onclick = () => {
      window.focus();
      go(`/run/${ask.run}`);
      made.close();
    };
  } catch {
    // Some browsers for phones have the name of it, and nothing behind that.
    prefs.notify.value = false;
    toast("This browser cannot notify you", { hint: "keep this page in sight, or turn the sound on" });
  }
}

/** @param {Ask} ask @param {Answer} answer */
async function give(ask, answer) {
  const key = keyOf(ask);
  if (answered.value.has(key)) return;
  answered.value = new Set([...answered.value, key]);
  try {
    await call("POST", `/runs/${ask.run}/asks/${ask.id}`, answer.body);
    if (answer.body.verdict === "always") ruled.value++;
    toast(answer.done, { kind: "done", detail: `${ask.run}: ${wanted(ask)}`, seconds: 4 });
  } catch (error) {
    failed(error);
    // One that is gone was answered elsewhere, or waited too long: the board will say so.
    if (problemOf(error).status !== 404) {
      answered.value = new Set([...answered.value].filter((each) => each !== key));
    }
  }
}

export function Asks() {
  const open = waiting.value.filter((ask) => !answered.value.has(keyOf(ask)));
  // A press that comes too late must not go to what is behind.
  if (!open.length && !under.value) return null;
  return folded.value ? html`<${Folded} open=${open} />` : html`<${Held} open=${open} />`;
}

/** Those of one run together, in the order in which the runs began to ask. @param {Ask[]} open */
const byRun = (open) => [...Map.groupBy(open, (ask) => ask.run_id).values()].flat();

/** @param {Ask[]} open */
function arranged(open) {
  const kept = under.value?.lines || [];
  const stood = new Set(kept.map(keyOf));
  return [...kept, ...byRun(open.filter((ask) => !stood.has(keyOf(ask))))];
}

/** When this was last another. @param {string} value */
function useSince(value) {
  const since = useRef(0);
  // Not after the next frame: a second press would come before that.
  useLayoutEffect(() => void (since.current = Date.now()), [value]);
  return since;
}

/** How much of the window they take, for what has to end above them. @param {{current: HTMLElement | null}} place */
function useRoom(place) {
  useLayoutEffect(() => {
    const { style } = document.documentElement;
    const watch = new ResizeObserver(() => style.setProperty("--asks", `${place.current?.offsetHeight ?? 0}px`));
    if (place.current) watch.observe(place.current);
    return () => {
      watch.disconnect();
      style.removeProperty("--asks");
    };
  }, []);
}

/** @param {{front: Ask | undefined, keys: string}} props */
function Said({ front, keys }) {
  return html`<p class="hidden" role="status">${front && `${front.run} asks: ${wanted(front)}. ${keys}`}</p>`;
}

/** @param {{open: Ask[]}} props */
function Folded({ open }) {
  const show = () => (folded.value = false);
  useKeys([{ key: "9", label: "Show what is asked", group: "What is asked", run: show }]);
  return html`<section class="asks folded" aria-label="What runs ask"><${Said} front=${byRun(open)[0]} keys="9 shows it." />
    <${Button} hotkey="9" onClick=${show}>${counted(open.length, "ask")} waiting<//></section>`;
}

/** @param {{open: Ask[]}} props */
function Held({ open }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const list = useRef(/** @type {HTMLDivElement | null} */ (null));
  const lines = arranged(open);
  useRoom(box);
  const still = new Set(open.map(keyOf));
  const front = lines.find((ask) => still.has(keyOf(ask)));
  const frontKey = front ? keyOf(front) : "";
  const frontSince = useSince(frontKey);
  const movedSince = useSince((under.value?.lines || lines).map(keyOf).join("\n"));
  const byKey = (/** @type {Answer} */ answer) => {
    if (!isSeen(list.current, list.current?.querySelector(".front"), answer)) frontSince.current = Date.now();
    else if (front && answersTo(front).includes(answer) && Date.now() - frontSince.current > GUARD) give(front, answer);
  };
  const hide = () => {
    under.value = null;
    folded.value = true;
  };
  useLayoutEffect(() => void (under.value || list.current?.querySelector(".front")?.scrollIntoView({ block: "nearest" })), [frontKey, under.value]);
  useKeys([
    ...ANSWERS.map((answer) => ({ key: answer.key, label: answer.key === "0" ? "Deny" : `Allow: ${answer.label.toLowerCase()}`, group: "What is asked", run: () => byKey(answer) })),
    { key: "9", label: "Hide what is asked", group: "What is asked", run: hide },
  ]);
  const came = () => (under.value ??= { lines, height: list.current?.offsetHeight || 0 });
  return html`<section class="asks" ref=${box} aria-label="What runs ask" onPointerEnter=${came} onPointerLeave=${() => (under.value = null)}>
    <${Said} front=${front} keys=${front?.tool ? "1 allows it, 0 denies it." : "1 allows it once, 2 for an hour, 3 always, 0 denies it."} />
    <div class="ask-lines" ref=${list} style=${{ height: under.value ? `${under.value.height}px` : "" }}>
      ${lines.map((ask, index) => html`<${Line} key=${keyOf(ask)} ask=${ask} isFront=${ask === front} isOpen=${still.has(keyOf(ask))}
        isFirst=${lines[index - 1]?.run_id !== ask.run_id} onAnswer=${(/** @type {Answer} */ answer, /** @type {Element | null} */ line) => Date.now() - movedSince.current > GUARD && isSeen(list.current, line, answer) && give(ask, answer)} />`)}
    </div>
    <footer>
      <span>${counted(open.length, "ask")}</span>
      <span class="rule cut faint" title=${front && (front.tool ? said(front) : front.rule)}>${front && (front.tool ? said(front)
        : html`always adds <bdi><code>${String(front.rule ?? "")}</code></bdi>`)}</span>
      <${Notices} /><${Button} kind="quiet" hotkey="9" onClick=${hide}>Hide<//>
    </footer>
  </section>`;
}

/** A hook's own words. @param {Ask} ask */
const said = (ask) => oneLine(`${ask.by}: ${ask.reason}`, 1000);

/**
 * What is not in sight is not answered, but shown; of one that is longer than the list, the next part of it. To deny
 * it, its beginning is enough.
 * @param {HTMLElement | null} list @param {Element | null | undefined} line @param {Answer} answer
 */
function isSeen(list, line, answer) {
  if (!list || !line) return false;
  const box = list.getBoundingClientRect(), { top, bottom } = (line.querySelector(".wanted") || line).getBoundingClientRect();
  const isLong = bottom - top > box.height + 1;
  const begins = top >= box.top - 1 && top < box.bottom, ends = bottom <= box.bottom + 1;
  if (isLong ? ends || (begins && answer.key === "0") : begins && ends) return true;
  if (isLong && top < box.bottom) list.scrollTop += begins || top < box.top ? 0.8 * box.height : top - box.top;
  else line.scrollIntoView({ block: "nearest" });
  return false;
}

/** @param {{ask: Ask, isFront: boolean, isOpen: boolean, isFirst: boolean, onAnswer: (answer: Answer, line: Element | null) => void}} props */
function Line({ ask, isFront, isOpen, isFirst, onAnswer }) {
  const here = route.value.view === "run" && route.value.name === ask.run;
  const name = here ? html`<b>${ask.run}</b>` : html`<a href=${`/run/${ask.run}`}>${ask.run}</a>`;
  return html`<article class=${classes("ask", isFront && "front", isFirst && "first", !isOpen && "over")} aria-label=${`${ask.run} asks`}>
    <span class="ask-run cut" title=${ask.run}>${isFirst && name}</span>
    <p class="wanted"><bdi>${wanted(ask)}</bdi>${ask.waiting > 1 && html`<span class="faint" title=${`${ask.waiting} connections wait`}> ×${ask.waiting}</span>`}</p>
    ${isOpen ? html`<${Left} ask=${ask} />` : html`<span class="left faint">over</span>`}
    <div class="answers"><${Choices} ask=${ask} isOpen=${isOpen} hasKeys onAnswer=${onAnswer} /></div>
  </article>`;
}

/** @param {{ask: Ask, isOpen: boolean, hasKeys?: boolean, onAnswer: (answer: Answer, line: Element | null) => void}} props */
function Choices({ ask, isOpen, hasKeys, onAnswer }) {
  return html`${answersTo(ask).map((answer) => html`<${Button} kind=${answer.kind} hotkey=${hasKeys ? answer.key : undefined} disabled=${!isOpen}
    title=${answer.key === "3" ? `adds ${ask.rule ?? ""}` : undefined}
    onClick=${(/** @type {Event} */ event) => onAnswer(answer, /** @type {Element} */ (event.currentTarget).closest(".ask"))}>${answer.key !== "0" && html`<span class="hidden">Allow: </span>`}${answer.label}<span class="hidden">: ${wanted(ask)}</span><//>`)}`;
}

/** The same beside what a run did. The keys are for the first of those at the lower end. @param {{ask: Ask}} props */
export function Answers({ ask }) {
  const movedSince = useSince(asks.value.map(keyOf).join("\n"));
  const meant = (/** @type {Answer} */ answer) => Date.now() - movedSince.current > GUARD && give(ask, answer);
  return html`<span class="ask-answers" role="group" aria-label=${`Answer for ${wanted(ask)}`}>
    <${Choices} ask=${ask} isOpen=${!answered.value.has(keyOf(ask))} onAnswer=${meant} /></span>`;
}

/** @param {{ask: Ask}} props */
function Left({ ask }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, Math.round(((deadlines.get(keyOf(ask)) ?? now) - now) / 1000));
  return html`<span class=${seconds < 20 ? "left soon" : "left faint"} title="Then it is refused">${seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`}<span class="hidden"> left</span></span>`;
}

/** Sound and notification by choice. */
export function Notices() {
  const flipNotify = async () => {
    const wish = !prefs.notify.value;
    const may = !wish || ("Notification" in window && (await Notification.requestPermission()) === "granted");
    if (may) prefs.notify.value = wish;
    else toast("This browser does not let the page notify you", { hint: "allow notifications for this address in its settings" });
  };
  const flipSound = () => {
    prefs.sound.value = !prefs.sound.value;
    if (prefs.sound.value) sound();
  };
  return html`<span class="notices" role="group" aria-label="When a run asks">
    <${Button} kind="quiet" pressed=${prefs.sound.value} onClick=${flipSound} title="A sound when a run asks">Sound ${prefs.sound.value ? "on" : "off"}<//>
    <${Button} kind="quiet" pressed=${prefs.notify.value} onClick=${flipNotify} title="A notification when a run asks and this tab is hidden">Notify ${prefs.notify.value ? "on" : "off"}<//>
  </span>`;
}
