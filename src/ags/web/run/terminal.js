// @ts-check
/** The run's terminal, or a shell in its sandbox. What the program prints goes to xterm.js only. */
import { useEffect, useRef, useState } from "preact/hooks";
import { socket } from "../api.js";
import { part } from "../patience.js";
import { failed, isOver } from "../store.js";
import { Button, Empty, html, Kbd } from "../ui.js";
import { address } from "./actions.js";
import { oneLine } from "./text.js";

const WAITS = [500, 1000, 2000, 4000, 8000];
const MOST_FRAME = 32 * 1024;
/** Closed for good: what was asked for is not there, or not to be had. */
const FINAL = [1000, 4401, 4404, 4409, 4422];
const STYLES = "/vendor/xterm/xterm.css";

/** @param {{run: any}} props */
export function TerminalTab({ run }) {
  const [shell, setShell] = useState(0);
  const working = run.state === "running";
  if (run.terminal && !isOver(run) && !shell) return html`<${Screen} key=${run.id} run=${run} shell=${false} />`;
  if (shell) {
    return html`<${Screen} key=${`shell ${shell}`} run=${run} shell=${true}
      close=${() => setShell(0)} again=${() => setShell(shell + 1)} />`;
  }
  if (!working) {
    return html`<${Empty} title=${isOver(run) ? "It is not at work" : "It has not begun yet"}>
      <p>${run.terminal ? "Its terminal is gone with it." : "This run has no terminal."}
        ${" "}What it printed is in the <a href=${`/run/${encodeURIComponent(run.name)}/log`}>log</a>.</p><//>`;
  }
  return html`<${Empty} title="This run has no terminal">
    <p>Its agent works without one. You can open a shell beside it: in the same sandbox, with the same files and the same fence.</p>
    <${Button} kind="primary" onClick=${() => setShell(1)}>Open a shell in its sandbox<//><//>`;
}

/** @param {{run: any, shell: boolean, close?: () => void, again?: () => void}} props */
function Screen({ run, shell, close, again }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [said, setSaid] = useState({ text: "connecting", over: false });
  useEffect(() => {
    const stop = new AbortController();
    if (place.current) show(place.current, run, shell, stop.signal, setSaid).catch((error) => setSaid({ text: String(error), over: true }));
    return () => stop.abort();
  }, []);
  return html`<div class="terminal">
    <div class="tab-bar">
      <span class="faint" role="status">${shell ? "A shell in the sandbox: " : "The run's terminal: "}${said.text}</span>
      <span class="grow"></span>
      <span class="faint wide-only">Leave it with <${Kbd} keys="Ctrl+Shift+." /></span>
      ${shell && said.over && html`<${Button} onClick=${again}>Open another<//>`}
      ${shell && html`<${Button} onClick=${close}>Close the shell<//>`}
    </div>
    <div class="terminal-screen" ref=${place}></div>
  </div>`;
}

/**
 * @param {HTMLElement} place
 * @param {any} run
 * @param {boolean} shell
 * @param {AbortSignal} stop
 * @param {(said: {text: string, over: boolean}) => void} say
 */
async function show(place, run, shell, stop, say) {
  const [{ Terminal }, { FitAddon }] = await part(fetched, stop);
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
  const line = connect(term, run, shell, stop, say);
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
 * @param {any} run
 * @param {boolean} shell
 * @param {AbortSignal} stop
 * @param {(said: {text: string, over: boolean}) => void} say
 */
function connect(term, run, shell, stop, say) {
  /** @type {WebSocket | null} */
  let line = null;
  let tries = 0;
  let timer = 0;
  const open = () => {
    const asked = `rows=${term.rows}&columns=${term.cols}${shell ? "&shell=true" : ""}`;
    const made = socket(`${address(run)}/terminal?${asked}`);
    made.binaryType = "arraybuffer";
    line = made;
    let ended = "";
    made.onopen = () => {
      tries = 0;
      // What is shown on coming back is the whole screen again.
      term.reset();
      say({ text: "connected", over: false });
    };
    made.onmessage = ({ data }) => {
      if (typeof data === "string") ended = ending(data);
      else term.write(new Uint8Array(data));
    };
    made.onclose = ({ code, reason }) => {
      if (stop.aborted || line !== made) return;
      line = null;
      if (shell || ended || FINAL.includes(code)) {
        say({ text: ended || oneLine(reason) || "the connection was closed", over: true });
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

/** @param {string} data */
function ending(data) {
  const { ended, reason } = JSON.parse(data);
  const code = ended === null || ended === undefined ? "" : `, exit code ${ended}`;
  return `it has ended${code}${reason ? ` (${oneLine(reason)})` : ""}`;
}
