// @ts-check
// Exchanges the code of a log-in link for a session's token.
import { call, logIn } from "./api.js";

/** The code after the #, taken out of the address bar and the history at once. */
export function takenCode() {
  const code = location.pathname === "/login" ? location.hash.slice(1) : "";
  if (code) history.replaceState(null, "", "/login");
  return code;
}

/** @param {string} code */
export async function exchange(code) {
  const { token } = await call("POST", "/session", { code });
  logIn(token);
}
