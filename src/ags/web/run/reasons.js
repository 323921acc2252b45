// @ts-check
/** Why a request was refused, in words. What is not here is a fault in how the request was made. */
import { oneLine } from "./text.js";

const REASONS = /** @type {Record<string, string>} */ ({
  "no-policy": "there is no policy that could be read",
  "not-listed": "no rule names this host",
  "log-in": "AGS answered for the log-in",
  denied: "a rule denies it",
  narrowed: "the repository's own policy leaves it out",
  port: "no rule for this host has this port",
  protocol: "the rule for this port is for another protocol",
  method: "no rule for this host has this method",
  path: "no rule for this host has this path",
  name: "this is not a name that can be judged",
  address: "an address must itself be listed",
  "ask-denied": "you denied it",
  "ask-timeout": "nobody answered in time",
  "ask-full": "too many questions were waiting",
  "ask-used": "what you allowed is used up",
  "host-service": "this port of the host is not listed",
  "not-tls": "what came on a TLS port is not TLS",
  "not-http": "what came is not HTTP",
});

/** @param {unknown} reason */
export function reasonText(reason) {
  const code = oneLine(reason, 60);
  return Object.hasOwn(REASONS, code) ? REASONS[code] : code;
}
