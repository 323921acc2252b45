// @ts-check
// Logging in: by a link that `ags up` prints, or by pasting that link here.
import { useEffect, useState } from "preact/hooks";
import { problemOf } from "../api.js";
import { exchange, takenCode } from "../login.js";
import { go } from "../store.js";
import { Button, Copy, html, Spinner, TextField, Trouble } from "../ui.js";

/** What of a pasted link is the code. @param {string} text */
const codeOf = (text) => text.trim().replace(/^.*#/s, "");

export function Login() {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(/** @type {import("../api.js").Problem | null} */ (null));
  const [link, setLink] = useState("");
  const enter = async (/** @type {string} */ code) => {
    setBusy(true);
    setProblem(null);
    try {
      await exchange(code);
      // Whoever was sent here from a run goes back to it.
      go(location.pathname === "/login" ? "/" : location.pathname + location.search, { replace: true });
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  useEffect(() => {
    const code = takenCode();
    if (code) enter(code);
  }, []);
  const sent = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (codeOf(link)) enter(codeOf(link));
  };
  return html`<main class="login">
    <h1>Log in to AGS</h1>
    ${problem && html`<${Trouble} problem=${problem} />`}
    ${busy ? html`<${Spinner} label="Logging in" />` : html`
      <p>This browser is not logged in. In a terminal on the machine where AGS runs:</p>
      <p class="command"><code>ags up --link</code><${Copy} text="ags up --link" /></p>
      <p>Open the link that it prints, or paste it here. A link logs one browser in, once.</p>
      <form onSubmit=${sent}>
        <${TextField} label="Log-in link" value=${link} onInput=${setLink} />
        <${Button} kind="primary" type="submit" disabled=${!codeOf(link)}>Log in<//>
      </form>`}
  </main>`;
}
