// @ts-check
// Agents: what is installed, and whether it can talk to its model.
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../api.js";
import { useKeys } from "../keys.js";
import { connection, events, failed, toast } from "../store.js";
import { Screen } from "../terminal.js";
import { Button, Code, Copy, html, Notice, Spinner, Trouble } from "../ui.js";
import { useAsked } from "./asked.js";

/**
 * @typedef {{name: string, installed: string | null, newest: string | null, problem: string, login: string,
 *   keys: {name: string, where: string}[], size: number | null, installing: string | null,
 *   failed: {cause: string, hint: string} | null}} Agent
 */

const PATH = "/settings/agents";
/** Of those that have no command for it: they start as they always do. */
const WITHIN = /** @type {Record<string, string>} */ ({
  gemini: "Log in as it asks you to, and leave it with `/quit`.",
  pi: "Log in with `/login`, and leave it with `/quit`.",
});

export function Agents() {
  const { data, problem, busy, again, set } = useAsked(PATH);
  const [looking, setLooking] = useState(false);
  // What the registry said, for as long as the page is open.
  const [newest, setNewest] = useState(/** @type {Record<string, string | null> | null} */ (null));
  /** @type {Agent[]} */
  const agents = data?.items || [];
  const latest = useRef({ agents, busy });
  latest.current = { agents, busy };
  useEffect(() => {
    const told = (/** @type {Event} */ event) => {
      const one = /** @type {CustomEvent<Agent>} */ (event).detail;
      // An answer that is on its way may be older than this.
      if (latest.current.busy || !latest.current.agents.length) return void again();
      latest.current.agents = latest.current.agents.map((each) => (each.name === one.name ? one : each));
      set({ items: latest.current.agents });
    };
    events.addEventListener("agent", told);
    return () => events.removeEventListener("agent", told);
  }, []);
  // What was told while nobody listened.
  const isLive = connection.value === "live";
  useEffect(() => void (isLive && data && again()), [isLive]);
  const look = async () => {
    if (looking) return;
    setLooking(true);
    try {
      const found = await call("GET", `${PATH}?check=true`);
      set(found);
      setNewest(Object.fromEntries(found.items.map((/** @type {Agent} */ each) => [each.name, each.newest])));
    } catch (error) {
      failed(error);
    }
    setLooking(false);
  };
  const install = async (/** @type {Agent} */ agent) => {
    try {
      await call("POST", `${PATH}/${agent.name}/install`, {});
      toast(`Installing ${agent.name}`, { detail: "it goes on if you leave this page", seconds: 4 });
    } catch (error) {
      failed(error);
      again();
    }
  };
  useKeys([{ key: "u", label: "Look for newer agents", group: "Settings", run: look }]);
  if (problem && !data) return html`<${Trouble} problem=${problem} />`;
  if (!data) return html`<${Spinner} label="Loading" />`;
  return html`<div class="toolbar">
      <p class="hint">Programs come from the registry of your own npm settings, are unpacked and tried in a sandbox, and are read-only to every run.</p>
      <span class="grow"></span>
      <${Button} hotkey="u" busy=${looking} onClick=${look}>Look for updates<//>
    </div>
    <div class="agents">${agents.map((each) => html`<${One} key=${each.name} agent=${each} newest=${newest?.[each.name]}
      looked=${newest !== null} onInstall=${() => install(each)} />`)}</div>`;
}

/** @param {{agent: Agent, newest: string | null | undefined, looked: boolean, onInstall: () => void}} props */
function One({ agent, newest, looked, onInstall }) {
  const { name, installed, installing } = agent;
  const behind = Boolean(newest && newest !== installed);
  const current = looked && installed && newest === installed;
  // How often it was begun anew, while it is open.
  const [login, setLogin] = useState(0);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const close = () => {
    setLogin(0);
    requestAnimationFrame(() => /** @type {HTMLElement | undefined} */ (place.current?.querySelector(".log-in"))?.focus());
  };
  return html`<section class="agent" aria-label=${name} ref=${place}>
    <div class="agent-head">
      <h2>${name}</h2>
      <span class=${installed ? "" : "faint"}>${installed || (agent.problem ? "damaged" : "not installed")}</span>
      ${agent.size !== null && html`<span class="faint">${size(agent.size)}</span>`}
      ${behind && installed && html`<span class="level warn">${newest} is out</span>`}
      ${current && html`<span class="level ok">the newest</span>`}
      ${looked && !newest && html`<span class="faint">the registry does not tell its newest</span>`}
      <span class="grow"></span>
      ${installing !== null
        ? html`<${Spinner} label=${installing} />`
        : (!installed || behind || !looked) && html`<${Button} onClick=${onInstall}
            label=${`${installed ? "Update" : "Install"} ${name}`}>${installed ? "Update" : "Install"}<//>`}
    </div>
    ${agent.failed && html`<${Notice} kind="error" title="It was not installed">
      <pre>${agent.failed.cause}</pre>${agent.failed.hint && html`<p class="hint"><${Code} text=${agent.failed.hint} /></p>`}<//>`}
    ${agent.problem && html`<${Notice} kind="error"><p><${Code} text=${agent.problem} /></p><//>`}
    <${Access} agent=${agent} busy=${login > 0} onLogIn=${() => setLogin(1)} />
    ${login > 0 && html`<${LogIn} key=${login} name=${name} onClose=${close} onAgain=${() => setLogin(login + 1)} />`}
  </section>`;
}

/** How it talks to its model. @param {{agent: Agent, busy: boolean, onLogIn: () => void}} props */
function Access({ agent, busy, onLogIn }) {
  const known = [...agent.keys.map((key) => `${key.name} ${key.where}`), agent.login].filter(Boolean);
  const command = `ags auth ${agent.name}`;
  const again = agent.login ? "Log in again" : "Log in";
  return html`<div class="agent-access">
    ${known.length ? html`<span><span class="level ok">log-in</span> ${known.join(", ")}</span>`
      : html`<span><span class="level warn">no log-in</span> <span class="faint">its runs cannot talk to their model</span></span>`}
    ${agent.installed && html`<${Button} class="log-in" disabled=${busy} onClick=${onLogIn} label=${`${again} to ${agent.name}`}>${again}<//>`}
    <span class="faint">${agent.installed ? "or in" : "In"} a terminal</span>
    <span class="login-command"><code>${command}</code><${Copy} text=${command} /></span>
  </div>`;
}

/** The agent's own way of logging in, at a terminal. @param {{name: string, onClose: () => void, onAgain: () => void}} props */
function LogIn({ name, onClose, onAgain }) {
  const ended = (/** @type {number | null} */ code) => {
    if (code !== 0) return;
    toast(`${name} is logged in`, { kind: "done", detail: "its runs can talk to their model" });
    onClose();
  };
  const [address, setAddress] = useState("");
  useKeys([{ key: "Escape", label: "Give the log-in up", group: "Settings", run: onClose }]);
  return html`<div class="login-screen">
    <p class="hint">It runs in a sandbox, and its tokens stay outside. Open the address that it shows, and bring the code
      from there back to it. <${Code} text=${WITHIN[name] || ""} /></p>
    ${address && html`<p class="login-address"><a class="button" href=${address} target="_blank" rel="noopener noreferrer">Open ${new URL(address).host}</a>
      <span class="cut faint" title=${address}>${address}</span><${Copy} text=${address} label="Copy the address" /></p>`}
    <${Screen} path=${`${PATH}/${name}/login`} title=${`Log-in of ${name}`} once onEnd=${ended} onAddress=${setAddress}>
      ${(/** @type {boolean} */ over) => html`${over && html`<${Button} onClick=${onAgain}>Try again<//>`}
        <${Button} onClick=${onClose} label=${`Close the log-in of ${name}`}>Close<//>`}<//>
  </div>`;
}

/** @param {number} bytes */
function size(bytes) {
  return bytes < 1 << 20 ? `${Math.ceil(bytes / 1024)} KiB` : `${Math.round(bytes / (1 << 20))} MiB`;
}
