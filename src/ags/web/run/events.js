// @ts-check
/**
 * A run's events as a list of items to show: calls with their results, pieces joined, lines
 * grouped. Items change in place; `rev` tells which did.
 */
import { plain } from "./text.js";

/**
 * @typedef {Record<string, any> & {seq: number, ts: number, kind: string}} Event
 * @typedef {{ok: boolean, output: string, ts: number, cut: number}} Result
 * @typedef {{text: string, err: boolean}} Line
 * @typedef {Object} Item
 * @property {string} kind
 * @property {number} key the seq it began with
 * @property {number} ts
 * @property {number} rev
 * @property {Record<string, any>} fields
 * @property {Result | null} [result]
 * @property {Line[]} [lines]
 * @property {number} [first] the number of its first line within the whole block
 * @property {number} [count] how often the same came in a row
 */

/** Lines of one row: more would make a row too tall to be skipped when it is out of sight. */
export const LINES = 40;

export class Log {
  constructor() {
    /** @type {Item[]} */
    this.items = [];
    this.last = 0;
    /** @type {Map<string, number>} calls without a result, by id or else by tool */
    this._open = new Map();
    /** @type {Map<string, number>} */
    this._asks = new Map();
    this._held = false;
  }

  /** @param {Event} event */
  add(event) {
    if (event.seq <= this.last) return;
    this.last = event.seq;
    if (Object.hasOwn(TAKERS, event.kind)) TAKERS[event.kind](this, event);
    else this.push("other", event);
  }

  /**
   * @param {string} kind
   * @param {Event} event
   * @param {Partial<Item>} [more]
   */
  push(kind, event, more) {
    const { seq, ts, kind: _, ...fields } = event;
    this.items.push({ kind, key: seq, ts, rev: 0, fields, ...more });
    this.touch(this.items.length - 1);
    return this.items.length - 1;
  }

  /** @param {number} index */
  touch(index) {
    this.items[index].rev += 1;
  }

  /** @returns {Item | undefined} */
  tail() {
    return this.items[this.items.length - 1];
  }
}

/** @type {Record<string, (log: Log, event: Event) => void>} */
const TAKERS = {
  message: takeMessage,
  thinking: (log, event) => void log.push("thinking", event),
  tool_call: takeCall,
  tool_result: takeResult,
  output: takeOutput,
  usage: (log, event) => void log.push("usage", event),
  egress: takeEgress,
  hook: takeHook,
  ask: takeAsk,
  status: takeStatus,
  system: (log, event) => void log.push("system", event),
};

/**
 * @param {Log} log
 * @param {Event} event
 */
function takeMessage(log, event) {
  const tail = log.tail();
  if (event.delta === true && tail?.kind === "message" && tail.fields.delta === true) {
    tail.fields.text = `${tail.fields.text ?? ""}${event.text ?? ""}`;
    log.touch(log.items.length - 1);
  } else log.push("message", event);
}

/**
 * @param {Log} log
 * @param {Event} event
 */
function takeCall(log, event) {
  log._open.set(nameOf(event), log.push("tool", event, { result: null }));
}

/** @param {Event} event */
function nameOf(event) {
  return typeof event.id === "string" ? `id ${event.id}` : `tool ${event.tool}`;
}

/**
 * @param {Log} log
 * @param {Event} event
 */
function takeResult(log, event) {
  const name = nameOf(event);
  const found = log._open.get(name);
  const index = found ?? log.push("tool", { ...event, tool: event.tool ?? "result", input: undefined }, { result: null });
  log._open.delete(name);
  const output = plain(event.output ?? event.text);
  log.items[index].result = { ok: event.ok !== false, output, ts: event.ts, cut: event.cut?.output ?? 0 };
  log.touch(index);
}

/**
 * @param {Log} log
 * @param {Event} event
 */
function takeOutput(log, event) {
  const err = event.stream === "stderr";
  for (const text of plain(event.text).split("\n")) addLine(log, event, { text, err });
  log._held = event.end === "\r";
}

/**
 * A line that ended in `\r` is printed over by the next one, as a progress bar wants it.
 * @param {Log} log
 * @param {Event} event
 * @param {Line} line
 */
function addLine(log, event, line) {
  const tail = log.tail();
  const within = tail?.kind === "output" && tail.lines ? tail : null;
  const held = log._held;
  log._held = false;
  if (within?.lines && held) {
    if (line.text !== "") within.lines[within.lines.length - 1] = line;
  } else if (within?.lines && within.lines.length < LINES) {
    within.lines.push(line);
  } else {
    const first = within?.lines ? (within.first ?? 0) + within.lines.length : 0;
    log.push("output", { seq: event.seq, ts: event.ts, kind: "output" }, { lines: [line], first });
    return;
  }
  log.touch(log.items.length - 1);
}

/**
 * @param {Log} log
 * @param {Event} event
 */
function takeEgress(log, event) {
  const tail = log.tail();
  const same = ["host", "port", "method", "path", "reason"].every((name) => tail?.fields[name] === event[name]);
  if (tail?.kind === "egress" && same) {
    tail.count = (tail.count ?? 1) + 1;
    log.touch(log.items.length - 1);
  } else log.push("egress", event, { count: 1 });
}

/**
 * What a hook allowed shows as the call itself.
 * @param {Log} log
 * @param {Event} event
 */
function takeHook(log, event) {
  if (Array.isArray(event.by) ? event.by.length : event.by) log.push("hook", event);
}

/**
 * @param {Log} log
 * @param {Event} event
 */
function takeAsk(log, event) {
  const id = String(event.id);
  const known = log._asks.get(id);
  if (known === undefined || event.outcome === "asked") {
    log._asks.set(id, log.push("ask", event));
    return;
  }
  log.items[known].fields.outcome = event.outcome;
  log.touch(known);
}

/**
 * A new start: calls of the turn before never get a result now.
 * @param {Log} log
 * @param {Event} event
 */
function takeStatus(log, event) {
  log.push("status", event);
  log._open.clear();
}
