// @ts-check
/** A terminal of the server's, by WebSocket. What the program prints goes to xterm.js only. */
import { useEffect, useRef, useState } from "preact/hooks";
import { addressOn } from "./addresses.js";
import { socket } from "./api.js";
import { part } from "./patience.js";
import { oneLine } from "./run/text.js";
import { failed } from "./store.js";
import { html, Kbd } from "./ui.js";

const WAITS = [500, 1000, 2000, 4000, 8000];
const MOST_FRAME = 32 * 1024;
/** Closed for good: what was asked for is not there, or not to be had. */
const FINAL = [1000, 4401, 4404, 4409, 4422];
const STYLES = "/vendor/xterm/xterm.css";

/**
 * What is looked at, and what it says of itself. `once`: its program ends with whoever looks, so there is no coming back.
 * @typedef {object} Shown
 * @property {string} path
 * @property {Record<string, unknown>} [asked]
 * @property {boolean} [once]
 * @property {(code: number | null) => void} [onEnd]  when its program has ended
 * @property {(address: string) => void} [onAddress]  what it shows that a person might open
 */
/** @typedef {(said: {text: string, over: boolean}) => void} Say */

/**
 * `children` are what can be done with it, given whether it is over. What is shown stays the one that it began with.
 * @param {Shown & {title: string, children?: (over: boolean) => import("./ui.js").Children}} props
 */
export function Screen({ title, children, ...shown }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [said, setSaid] = useState({ text: "connecting", over: false });
  useEffect(() => {
    const stop = new AbortController();
    if (place.current) show(place.current, shown, stop.signal, setSaid).catch((error) => setSaid({ text: String(error), over: true }));
    return () => stop.abort();
  }, []);
  return html`<div class="terminal">
    <div class="tab-bar">
      <span class="faint" role="status">${title}: ${said.text}</span>
      <span class="grow"></span>
      <span class="faint wide-only">Leave it with <${Kbd} keys="Ctrl+Shift+." /></span>
      ${children?.(said.over)}
    </div>
    <div class="terminal-screen" ref=${place}></div>
  </div>`;
}

/**
 * @param {HTMLElement} place
 * @param {Shown} shown
 * @param {AbortSignal} stop
 * @param {Say} say
 */
async function show(place, shown, stop, say) {
  const [{ Terminal }, { FitAddon }] = await part("terminal", fetched, () => !stop.aborted);
  if (stop.aborted) return;
  const term = new Terminal({
    fontFamily: getComputedStyle(place).getPropertyValue("--mono"),
    fontSize: 13,
    scrollback: 5000,
    // A program's colours were chosen for another ground.
    minimumContrastRatio: 4.5,
    theme: colours(place),
    // A link that a program made could lead anywhere, whatever it says.
    linkHandler: { activate: () => {} },
  });
  const fit = new FitAddon();
  term.loadAddon(fit);
  term.open(place);
  fit.fit();
  term.attachCustomKeyEventHandler((event) => handled(event, term));
  const line = connect(term, shown, stop, say);
  term.onWriteParsed(() => {
    const address = shown.onAddress && addressOn(term);
    if (address) shown.onAddress?.(address);
  });
  const watch = new ResizeObserver(() => requestAnimationFrame(() => !stop.aborted && fit.fit()));
  watch.observe(place);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => (term.options.theme = colours(place));
  dark.addEventListener("change", repaint);
  const theme = new MutationObserver(repaint);
  theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  stop.addEventListener("abort", () => {
    watch.disconnect();
    theme.disconnect();
    dark.removeEventListener("change", repaint);
    line.close();
    term.dispose();
  });
  term.focus();
}

const fetched = () => Promise.all([import("@xterm/xterm"), import("@xterm/addon-fit"), style()]);

/** @returns {Promise<void>} */
function style() {
  if (document.querySelector(`link[href="${STYLES}"]`)) return Promise.resolve();
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = STYLES;
  return new Promise((resolve, reject) => {
    link.addEventListener("load", () => resolve());
    link.addEventListener("error", () => {
      link.remove();
      reject(new Error("the terminal's style sheet did not come"));
    });
    document.head.append(link);
  });
}

/**
 * As the page has them now. A colour by name is turned into one by numbers, which xterm.js reads.
 * @param {HTMLElement} place
 */
function colours(place) {
  const found = getComputedStyle(place);
  const accent = found.caretColor;
  return { background: found.backgroundColor, foreground: found.color, cursor: accent, cursorAccent: found.backgroundColor, selectionBackground: found.outlineColor };
}

/**
 * @param {KeyboardEvent} event
 * @param {import("@xterm/xterm").Terminal} term
 */
function handled(event, term) {
  if (event.type !== "keydown" || !event.ctrlKey) return true;
  if (event.shiftKey && (event.key === "." || event.key === ">" || event.key === ":")) {
    event.preventDefault();
    term.blur();
    return false;
  }
  if (event.key === "c" && term.hasSelection()) {
    navigator.clipboard.writeText(term.getSelection()).catch(failed);
    term.clearSelection();
    return false;
  }
  // The browser pastes, and xterm.js gets what is pasted.
  return event.key !== "v";
}

/**
 * @param {import("@xterm/xterm").Terminal} term
 * @param {Shown} shown
 * @param {AbortSignal} stop
 * @param {Say} say
 */
function connect(term, { path, asked, once, onEnd }, stop, say) {
  /** @type {WebSocket | null} */
  let line = null;
  let tries = 0;
  let timer = 0;
  const open = () => {
    const query = new URLSearchParams(/** @type {any} */ ({ ...asked, rows: term.rows, columns: term.cols }));
    const made = socket(`${path}?${query}`);
    made.binaryType = "arraybuffer";
    line = made;
    /** @type {{ended: number | null, reason: string} | null} */
    let last = null;
    made.onopen = () => {
      tries = 0;
      // What is shown on coming back is the whole screen again.
      term.reset();
      say({ text: "connected", over: false });
    };
    made.onmessage = ({ data }) => {
      if (typeof data === "string") last = JSON.parse(data);
      else term.write(new Uint8Array(data));
    };
    made.onclose = ({ code, reason }) => {
      if (stop.aborted || line !== made) return;
      line = null;
      if (once || last || FINAL.includes(code)) {
        say({ text: last ? ending(last) : oneLine(reason) || "the connection was closed", over: true });
        if (last) onEnd?.(last.ended);
        return;
      }
      say({ text: "reconnecting", over: false });
      timer = window.setTimeout(open, WAITS[Math.min(tries++, WAITS.length - 1)]);
    };
  };
  const send = (/** @type {Uint8Array} */ typed) => {
    for (let at = 0; at < typed.length; at += MOST_FRAME) {
      if (line?.readyState === WebSocket.OPEN) line.send(/** @type {any} */ (typed.slice(at, at + MOST_FRAME)));
    }
  };
  term.onData((text) => send(new TextEncoder().encode(text)));
  term.onBinary((text) => send(Uint8Array.from(text, (each) => each.charCodeAt(0))));
  term.onResize(({ rows, cols }) => {
    if (line?.readyState === WebSocket.OPEN) line.send(JSON.stringify({ rows, columns: cols }));
  });
  open();
  return {
    close() {
      clearTimeout(timer);
      line?.close();
      line = null;
    },
  };
}

/** @param {{ended: number | null, reason: string}} last */
function ending({ ended, reason }) {
  const code = ended === null || ended === undefined ? "" : `, exit code ${ended}`;
  return `it has ended${code}${reason ? ` (${oneLine(reason)})` : ""}`;
}
