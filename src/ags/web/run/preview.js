// @ts-check
/** Ports of the sandbox on this machine, and what they show. */
import { useEffect, useState } from "preact/hooks";
import { call, problemOf } from "../api.js";
import { failed, isOver } from "../store.js";
import { Button, Code, Empty, html, Notice, Spinner, Trouble } from "../ui.js";
import { address } from "./actions.js";

/** @typedef {{port: number, host_port: number, url: string}} Port */

const EVERY = 5000;
const LOCAL = ["127.0.0.1", "localhost"];
const FAR = !LOCAL.includes(location.hostname);

/** @param {{run: any}} props */
export function Preview({ run }) {
  const [ports, setPorts] = useState(/** @type {Port[] | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [shown, setShown] = useState(/** @type {Port | null} */ (null));
  const [turn, setTurn] = useState(0);
  const load = () =>
    call("GET", `${address(run)}/ports`).then(
      (found) => { setPorts(found.items); setProblem(null); },
      (error) => setProblem(problemOf(error)),
    );
  useEffect(() => {
    if (isOver(run)) return;
    load();
    const timer = window.setInterval(load, EVERY);
    return () => clearInterval(timer);
  }, [run.id, run.state]);
  if (isOver(run)) {
    return html`<${Empty} title="It is not at work">
      <p>While a run is at work, a port that its agent serves can be shown here: a web page it works on, for instance.</p><//>`;
  }
  if (problem && !ports) return html`<div class="tab-pad"><${Trouble} problem=${problem} /></div>`;
  if (!ports) return html`<div class="tab-pad"><${Spinner} label="Loading" /></div>`;
  const published = (/** @type {Port} */ port) => {
    load();
    setShown(port);
  };
  return html`<div class="tab-bar preview-bar">
      ${ports.map((port) => html`<span class="preview-port">
        <${Button} pressed=${shown?.port === port.port} onClick=${() => setShown(shown?.port === port.port ? null : port)}>Port ${port.port}<//>
        <a class="mono" href=${safe(port.url)} target="_blank" rel="noopener noreferrer" title="Open in a new tab">${port.url} ↗</a></span>`)}
      ${shown && html`<${Button} onClick=${() => setTurn(turn + 1)}>Load again<//>`}
      <span class="grow"></span>
      <${Publish} run=${run} published=${published} />
    </div>
    ${shown && safe(shown.url) ? html`<${Frame} key=${`${shown.url} ${turn}`} port=${shown} />` : html`<${Nothing} some=${ports.length > 0} />`}`;
}

const UNUSED = "If the agent serves something inside its sandbox, such as a dev server on port 5173, publish that port:"
  + " it comes to this machine's loopback, and its page opens here.";
const AWAY = "Ports come to the loopback of the machine that AGS runs on. From here, reach them through a tunnel, such as `ssh -L`.";
const UNFENCED = "The page comes from the agent and runs in your browser, which has no fence: it can send what it knows to anywhere."
  + " It cannot reach this page.";

/** @param {{some: boolean}} props */
function Nothing({ some }) {
  return html`<${Empty} title=${some ? "Choose a port" : "No port is published"}>
    <p>${some ? "Its page opens here." : UNUSED}</p>
    ${FAR && html`<${Notice}><span><${Code} text=${AWAY} /></span><//>`}
    <${Notice} kind="warn"><span>${UNFENCED}</span><//>
  <//>`;
}

/** @param {{run: any, published: (port: Port) => void}} props */
function Publish({ run, published }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const port = Number(text);
  const fits = Number.isInteger(port) && port >= 1 && port <= 65535;
  const publish = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!fits) return;
    setBusy(true);
    try {
      published(await call("POST", `${address(run)}/ports`, { port }));
      setText("");
    } catch (error) {
      failed(error);
    } finally {
      setBusy(false);
    }
  };
  return html`<form class="preview-form" onSubmit=${publish}>
    <label for="preview-port">Publish port</label>
    <input id="preview-port" inputmode="numeric" size="6" maxlength="5" placeholder="5173" value=${text}
      onInput=${(/** @type {Event} */ event) => setText(/** @type {HTMLInputElement} */ (event.target).value.trim())} />
    <${Button} type="submit" busy=${busy} disabled=${!fits}>Publish<//>
  </form>`;
}

/**
 * The address, if it is a port of this machine that is not our own.
 * @param {string} url
 */
function safe(url) {
  const found = URL.canParse(url) ? new URL(url) : null;
  const local = found && found.protocol === "http:" && LOCAL.includes(found.hostname);
  return local && found.port !== location.port ? found.href : undefined;
}

/**
 * Its origin is its own, as it is in a tab: without that, scripts that are modules would not load.
 * @param {{port: Port}} props
 */
function Frame({ port }) {
  return html`<iframe class="preview" src=${safe(port.url)} title=${`Port ${port.port} of the sandbox`} referrerpolicy="no-referrer"
    sandbox="allow-scripts allow-forms allow-same-origin" allow=""></iframe>`;
}
