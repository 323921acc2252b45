// @ts-check
/** The person's answers to a held request, as buttons. The keys for them are the overlay's. */
import { useState } from "preact/hooks";
import { call } from "../api.js";
import { failed, toast } from "../store.js";
import { Button, html } from "../ui.js";
import { target } from "./text.js";

const HOUR = 3600;
/** @type {[string, object, string][]} */
const CHOICES = [
  ["Allow once", { verdict: "once" }, "allowed once"],
  ["an hour", { verdict: "for", seconds: HOUR }, "allowed for an hour"],
  ["always", { verdict: "always" }, "allowed always"],
  ["Deny", { verdict: "deny" }, "denied"],
];

/** @param {{ask: import("../store.js").Ask}} props */
export function Answers({ ask }) {
  const [busy, setBusy] = useState(false);
  /**
   * @param {object} answer
   * @param {string} said
   */
  const answer = async (answer, said) => {
    setBusy(true);
    try {
      await call("POST", `/runs/${encodeURIComponent(ask.run)}/asks/${encodeURIComponent(ask.id)}`, answer);
      toast(`${target(ask)}: ${said}`, { kind: "done" });
    } catch (error) {
      failed(error);
    } finally {
      setBusy(false);
    }
  };
  return html`<span class="ask-answers" role="group" aria-label=${`Answer for ${target(ask)}`}>
    ${CHOICES.map(([label, body, said]) => html`<${Button} disabled=${busy} onClick=${() => answer(body, said)}>${label}<//>`)}
  </span>`;
}
