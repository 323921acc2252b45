// @ts-check
/** What agents say, made safe to read: nothing in it acts, and nothing in it hides. */

const COLOURS = /\x1b\[[0-9;:]*[mK]/g;
/** What a screen would obey or hide: a bidi override can make code read otherwise than it runs. Within an emoji, a joiner is seen. */
export const ODD = new RegExp(
  String.raw`[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0](?<![\t\n])`
    + String.raw`(?<!\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?\u200d(?=\p{Extended_Pictographic}))`,
  "u",
);
const ALL_ODD = new RegExp(ODD, "gu");

/** The same words as the command line has for it. @param {string} character */
export function visible(character) {
  const code = character.codePointAt(0) ?? 0;
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/**
 * Text to be shown: controls become visible, line breaks and tabs stay.
 * @param {unknown} value
 * @returns {string}
 */
export function plain(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return text.replace(COLOURS, "").replace(/\r\n/g, "\n").replace(ALL_ODD, visible);
}

/** What is to be judged, as it is: colours too become visible, and nothing is left out. @param {string} text */
export function exact(text) {
  return text.replace(ALL_ODD, visible);
}

/** As `plain`, for a name: a line break or tab in it becomes visible too. @param {string} text */
export function plainName(text) {
  return text.replace(ALL_ODD, visible).replace(/[\t\n]/g, visible);
}

/**
 * As `plain`, for what is to be read on one line.
 * @param {unknown} value
 * @param {number} [most]
 */
export function oneLine(value, most = 300) {
  const text = typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value);
  const short = plain(text.slice(0, 4 * most)).replace(/\s+/g, " ").trim();
  return short.length > most || text.length > 4 * most ? `${short.slice(0, most - 1)}…` : short;
}

/** @param {number} ts seconds since the epoch */
export function clock(ts) {
  return new Date(ts * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

/** @param {number} n */
export function bytesText(n) {
  if (n < 1000) return `${n} B`;
  if (n < 1e6) return `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)} kB`;
  if (n < 1e9) return `${(n / 1e6).toFixed(n < 1e7 ? 1 : 0)} MB`;
  return `${(n / 1e9).toFixed(1)} GB`;
}

/** @param {number} seconds */
export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/**
 * @param {number} n
 * @param {string} one
 * @param {string} [many]
 */
export function counted(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** @param {number} n */
export function tokensText(n) {
  if (n < 1000) return String(n);
  return n < 1e6 ? `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;
}

/**
 * What is asked for: where a request goes, as people write it, or a tool's call.
 * @param {Record<string, any>} wanted
 */
export function target(wanted) {
  if (wanted.tool) return oneLine(`${wanted.tool}: ${wanted.about}`);
  const usual = wanted.port === 443 || wanted.port === undefined || wanted.port === null;
  const host = String(wanted.host ?? "").includes(":") ? `[${wanted.host}]` : wanted.host;
  const where = `${host}${usual ? "" : `:${wanted.port}`}${wanted.path ?? ""}`;
  return oneLine(wanted.method ? `${wanted.method} ${where}` : where);
}
