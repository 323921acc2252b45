// @ts-check
/** What one review knows and what can be done in it. */

import { batch, computed, effect, signal } from "@preact/signals";

import { call, problemOf } from "../api.js";
import { read } from "../patience.js";
import { draft, failed, toast } from "../store.js";
import { beginning, wanted, whole } from "./address.js";
import { blocksOf, contentId, endsInReturn, unitOf } from "./cells.js";
import { formatDraft, numbered, overlap, parseDraft, placed, spot, surroundings, withComments } from "./comments.js";

/** @typedef {import("./cells.js").Diff} Diff */
/** @typedef {import("./cells.js").FileChange} FileChange */
/** @typedef {import("./cells.js").Side} Side */
/** @typedef {import("./comments.js").Comment} Comment */
/** @typedef {import("./comments.js").Placed} Placed */
/** @typedef {import("./comments.js").Editing} Editing */
/** @typedef {import("./rows.js").Opened} Opened */
/** @typedef {{path: string, side: Side, anchor: number, head: number}} Selection From where it began to where it is. */
/** @typedef {{turn: number, commit: string, said: string}} Turn */
/**
 * @typedef {object} Run What is asked of a run here.
 * @property {string} id
 * @property {string} name
 * @property {string} state
 * @property {string | null} project_id
 * @property {string | null} branch
 * @property {number} turn
 * @property {number | null} ended
 * @property {string[]} left
 * @property {{commit: string} | null} result
 * @property {Turn[]} [turns]
 * @property {{how: string, target: string, at: number, undone: number | null}[]} applied
 */

/** @type {Placed[]} */
const NOTHING = [];
const AROUND = 3;
/** Seconds for a change of mind. */
const UNDO = 10;
/** Milliseconds of work at a time. */
const SLICE = 8;

export class Reviewing {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
    this.run = signal(/** @type {Run | null} */ (null));
    this.diff = signal(/** @type {Diff | null} */ (null));
    this.problem = signal(/** @type {import("../api.js").Problem | null} */ (null));
    this.loading = signal(false);
    this.undoing = signal(false);
    this.comments = signal(/** @type {Comment[]} */ ([]));
    this.editing = signal(/** @type {Editing | null} */ (null));
    this.selection = signal(/** @type {Selection | null} */ (null));
    /** The file that was gone to last. */
    this.went = signal(/** @type {FileChange | null} */ (null));
    /** That one while it is in sight, else the one at the top of the view. */
    this.current = signal(/** @type {FileChange | null} */ (null));
    this.folds = signal(/** @type {Map<string, boolean>} */ (new Map()));
    this.opened = signal(/** @type {Map<string, Opened>} */ (new Map()));
    this.viewedText = signal(signal(""));
    /** @type {Map<string, Promise<Opened | null>>} */
    this.reading = new Map();
    this.asked = 0;
    this.refreshed = 0;
    /** Whether less than all of the run's work was asked for. */
    this.isLess = false;
    /** Takes the offer to undo away. @type {(() => void) | null} */
    this.settled = null;

    /** Whether the other files are still to come. */
    this.isBeginning = computed(() => isBeginning(this.diff.value));
    this.viewed = computed(() => viewedOf(this.viewedText.value.value, this.diff.value?.files ?? []));
    this.places = computed(() => this.placesNow());
    this.listed = computed(() => [...this.places.value.values()].flat());
    this.risks = computed(() => Map.groupBy(this.diff.value?.risks ?? [], (risk) => risk.path));
    this.waiting = computed(() => this.comments.value.filter((comment) => comment.sent === null));
    /** Whether the run has other work by now than what is shown. */
    this.hasNewer = computed(() => isOther(this.run.value?.result?.commit, this.diff.value));
  }

  /** Whether the diff that is shown is less than all of the run's work. */
  get isPart() {
    return this.isLess || this.isBeginning.value;
  }

  /** What becomes of the files that are not there yet. */
  get outlook() {
    return this.loading.value ? "Reading the other files" : "The other files could not be read";
  }

  get text() {
    return draft(`comment.${this.run.value?.id}`);
  }

  get overall() {
    return draft(`overall.${this.run.value?.id}`);
  }

  /** Comments as they are kept, which other tabs write as well. */
  get stored() {
    return draft(`review.${this.run.value?.id}`);
  }

  /** What was written before, and from now on kept. @param {Run} run */
  restore(run) {
    this.run.value = run;
    const { stored } = this;
    this.viewedText.value = draft(`viewed.${run.id}`);
    const stops = [
      effect(() => this.adopt(stored.value)),
      effect(() => { stored.value = formatDraft({ comments: this.comments.value, editing: this.editing.value }); }),
    ];
    this.stop = () => stops.forEach((stop) => stop());
  }

  /** Take what was written elsewhere; what is written here stays as it is. @param {string} text */
  adopt(text) {
    const [comments, editing] = [this.comments.peek(), this.editing.peek()];
    if (formatDraft({ comments, editing }) === text) return;
    const found = parseDraft(text);
    batch(() => {
      this.comments.value = found.comments;
      if (JSON.stringify(found.editing) !== JSON.stringify(editing)) this.editing.value = found.editing;
    });
  }

  close() {
    this.asked++; // what comes now is for nobody
    this.stop?.();
  }

  /** @param {string} since @param {string} whitespace */
  async load(since, whitespace) {
    const asked = ++this.asked;
    this.loading.value = true;
    try {
      await this.loadDiff(wanted(since, whitespace));
    } catch (error) {
      if (asked === this.asked) this.problem.value = problemOf(error);
    } finally {
      if (asked === this.asked) this.loading.value = false;
    }
  }

  /** All of it; but of a long one, the beginning before. @param {Record<string, string>} query */
  async loadDiff(query) {
    const asked = this.asked;
    // What is shown already stays until all of the other is there: nothing moves twice.
    const all = whole(this.name, query);
    const early = this.diff.value ? all : beginning(this.name, query);
    const [run, first] = await Promise.all([read(`/runs/${this.name}`), read(early)]);
    if (asked !== this.asked) return;
    // Under way before the beginning is drawn.
    const rest = isBeginning(first) ? read(all) : null;
    if (!this.run.value) this.restore(run);
    this.isLess = "since" in query || query.whitespace === "ignore";
    this.show(run, first);
    if (!rest) return;
    const diff = continued(first, await rest);
    await prepared(diff);
    if (asked === this.asked) this.show(this.run.value ?? run, diff);
  }

  /** @param {Run} run @param {Diff} diff */
  show(run, diff) {
    batch(() => this.take(run, diff));
    this.findAgain();
  }

  /** @param {Run} run @param {Diff} diff */
  take(run, diff) {
    if (this.diff.value?.new !== diff.new || this.diff.value.old !== diff.old) {
      this.opened.value = new Map();
      this.reading.clear();
    }
    this.run.value = run;
    this.diff.value = diff;
    this.problem.value = null;
  }

  async refresh() {
    const turn = ++this.refreshed;
    try {
      const run = await call("GET", `/runs/${this.name}`);
      if (turn === this.refreshed) this.run.value = run;
    } catch (error) {
      failed(error);
    }
  }

  // Files

  /** @param {string} path */
  file(path) {
    return this.diff.value?.files.find((file) => file.path === path);
  }

  /** @param {FileChange} file */
  isFolded(file) {
    return this.folds.value.get(file.path) ?? this.viewed.value.has(file.path);
  }

  /** @param {FileChange} file @param {boolean} folded */
  fold(file, folded) {
    this.folds.value = new Map(this.folds.value).set(file.path, folded);
  }

  /** @param {FileChange} file */
  toggleViewed(file) {
    const stored = this.viewedText.value;
    const marks = parsed(stored.value);
    const isViewed = this.viewed.value.has(file.path);
    if (isViewed) delete marks[file.path];
    else marks[file.path] = contentId(file);
    batch(() => {
      stored.value = Object.keys(marks).length ? JSON.stringify(marks) : "";
      this.fold(file, !isViewed);
    });
  }

  /** All lines of a file as the run left it; null if that cannot be shown. @param {FileChange} file @returns {Promise<Opened | null>} */
  whole(file) {
    let reading = this.reading.get(file.path);
    if (!reading) {
      reading = this.read(file);
      this.reading.set(file.path, reading);
    }
    return reading;
  }

  /** @param {FileChange} file @returns {Promise<Opened | null>} */
  async read(file) {
    const found = await call("GET", `/runs/${this.name}/files?at=result&path=${address(file)}`);
    if (found.kind !== "file" || found.text === null || found.truncated) return null;
    const lines = found.text.split("\n");
    if (lines.at(-1) === "") lines.pop();
    const unit = unitOf(file.path);
    const returns = endsInReturn(file);
    unit.lines = lines.map((/** @type {string} */ line) => (returns && line.endsWith("\r") ? line.slice(0, -1) : line));
    const cells = unit.lines.map((text, at) => (
      { kind: /** @type {const} */ ("context"), old: 0, new: at + 1, text, noNewline: false, unit, at, pair: null, row: null }
    ));
    return { cells, shown: [] };
  }

  /** Show lines beside those of the diff. @param {FileChange} file @param {number} from @param {number} to */
  async open(file, from, to) {
    try {
      const whole = await this.whole(file);
      if (!whole) throw new Error("the file is too large to show more of it here");
      const before = this.opened.value.get(file.path)?.shown ?? [];
      const shown = merged([...before, [from, Math.min(to, whole.cells.length)]]);
      this.opened.value = new Map(this.opened.value).set(file.path, { cells: whole.cells, shown });
    } catch (error) {
      this.reading.delete(file.path);
      failed(error);
    }
  }

  // Comments

  /** @returns {Map<string, Placed[]>} */
  placesNow() {
    const files = new Map((this.diff.value?.files ?? []).map((file) => [file.path, file]));
    /** @type {Map<string, Placed[]>} */
    const found = new Map();
    for (const comment of this.comments.value) {
      const file = files.get(comment.path);
      found.set(comment.path, [...(found.get(comment.path) ?? NOTHING), this.place(comment, file)]);
    }
    return found;
  }

  /** @param {Comment} comment @param {FileChange | undefined} file @returns {Placed} */
  place(comment, file) {
    // As long as its file may still come, nobody knows better.
    if (!file && this.isBeginning.value) return { comment, line: comment.end, state: "here" };
    if (!file && this.isLess) return { comment, line: comment.end, state: "elsewhere" };
    return placed(comment, file ? this.lines(file, comment.side) : new Map());
  }

  /** @param {FileChange} file @param {Side} side */
  lines(file, side) {
    const whole = this.opened.value.get(file.path);
    return numbered(file, side, whole ? whole.cells.map((cell) => cell.text) : null);
  }

  /** Lines with a comment may be in the file still, and only not in the diff any more. */
  async findAgain() {
    for (const [path, places] of this.places.value) {
      const file = this.file(path);
      if (!file || file.kind === "deleted" || file.binary) continue;
      for (const { comment, state } of places) {
        if (state !== "outdated" || comment.side !== "new") continue;
        const whole = await this.whole(file).catch(() => null);
        if (!whole) continue;
        const { line } = placed(comment, numbered(file, "new", whole.cells.map((cell) => cell.text)));
        if (line) await this.open(file, line - comment.quoted.length + 1 - AROUND, line + AROUND);
      }
    }
  }

  /** Begin a comment on what is selected. */
  write() {
    const selection = this.selection.value;
    if (!selection) return;
    const [start, end] = [selection.anchor, selection.head].sort((one, other) => one - other);
    const file = this.file(selection.path);
    const editing = { id: null, path: selection.path, side: selection.side, start, end };
    const before = this.editing.value;
    batch(() => {
      if (file && this.isFolded(file)) this.fold(file, false);
      // Of more or fewer lines, it is the same comment.
      if (before?.id || before && !overlap(before, editing)) this.save();
      if (before?.id) this.text.value = "";
      this.selection.value = selection;
      this.editing.value = editing;
    });
  }

  /** @param {Placed} place */
  rewrite(place) {
    const { comment } = place;
    const { start, end } = spot(place);
    const isSame = this.editing.value?.id === comment.id;
    batch(() => {
      if (!isSame) {
        this.save();
        this.text.value = comment.text;
      }
      this.editing.value = { id: comment.id, path: comment.path, side: comment.side, start, end };
    });
  }

  /** What is being written, as a comment; null if that is nothing. @returns {Comment | null} */
  get written() {
    const editing = this.editing.value;
    const file = editing && this.file(editing.path);
    const text = this.text.value.trim();
    if (!editing || !text) return null;
    const { path, side, start, end } = editing;
    const before = this.comments.value.find((comment) => comment.id === editing.id);
    const around = file ? surroundings(this.lines(file, side), start, end) : { quoted: [], before: [], after: [] };
    return before ? { ...before, text } : { id: newId(), path, side, start, end, ...around, text, sent: null };
  }

  save() {
    const { written } = this;
    if (!written) return;
    batch(() => {
      this.comments.value = withComments(this.comments.value, [written]);
      this.stopWriting();
    });
  }

  stopWriting() {
    batch(() => {
      this.editing.value = null;
      this.selection.value = null;
      this.text.value = "";
    });
  }

  discard() {
    const { written, editing: { value: editing }, text: { value: text } } = this;
    const isKept = this.comments.value.some((comment) => comment.id === written?.id && comment.text === written.text);
    this.stopWriting();
    if (!written || isKept) return;
    const undo = () => {
      // Where another is being written meanwhile, that one stays.
      if (parseDraft(this.stored.value).editing) this.putBack([written]);
      else this.goOn(editing, text);
    };
    toast("The comment is discarded", { undo, seconds: UNDO });
  }

  /** @param {Editing | null} editing @param {string} text */
  goOn(editing, text) {
    batch(() => {
      this.text.value = text;
      this.stored.value = formatDraft({ ...parseDraft(this.stored.value), editing });
    });
  }

  /** @param {Comment[]} removed @param {string} told */
  remove(removed, told) {
    const ids = new Set(removed.map(({ id }) => id));
    this.comments.value = this.comments.value.filter(({ id }) => !ids.has(id));
    toast(told, { undo: () => this.putBack(removed), seconds: UNDO });
  }

  /** Also when this review was left meanwhile: another one of the same run may be open. @param {Comment[]} removed */
  putBack(removed) {
    const { comments, editing } = parseDraft(this.stored.value);
    this.stored.value = formatDraft({ comments: withComments(comments, removed), editing });
  }

  /** @param {FileChange} file */
  placesIn(file) {
    return this.places.value.get(file.path) ?? NOTHING;
  }
}

/** @param {string | undefined} commit @param {Diff | null} diff */
function isOther(commit, diff) {
  return commit !== undefined && diff !== null && commit !== diff.new;
}

/** @param {Diff | null} diff */
function isBeginning(diff) {
  return diff !== null && diff.files.length < diff.stat.files;
}

/** With the very files that are shown already, so that all that is known of their lines stays. @param {Diff} first @param {Diff} diff @returns {Diff} */
function continued(first, diff) {
  if (first.old !== diff.old || first.new !== diff.new) return diff;
  return { ...diff, files: [...first.files, ...diff.files.slice(first.files.length)] };
}

/** Its lines are made a few at a time: whoever scrolls through the beginning meanwhile is not held up. @param {Diff} diff */
async function prepared({ files }) {
  let until = performance.now() + SLICE;
  for (const file of files) {
    blocksOf(file);
    if (performance.now() < until) continue;
    await new Promise((go) => setTimeout(go));
    until = performance.now() + SLICE;
  }
}

/** @param {string} text @returns {Record<string, string>} */
function parsed(text) {
  try {
    return JSON.parse(text || "{}");
  } catch {
    return {};
  }
}

/** Files whose content is still the one that was marked. @param {string} text @param {FileChange[]} files */
function viewedOf(text, files) {
  const marks = parsed(text);
  return new Set(files.filter((file) => marks[file.path] === contentId(file)).map((file) => file.path));
}

/** A path for an address; where it is no text, by its bytes. @param {FileChange} file */
function address(file) {
  if (!file.path_base64) return encodeURIComponent(file.path);
  return Array.from(atob(file.path_base64), (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, "0")}`).join("");
}

/** @param {import("./text.js").Range[]} ranges */
function merged(ranges) {
  /** @type {import("./text.js").Range[]} */
  const made = [];
  for (const [from, to] of ranges.toSorted((one, other) => one[0] - other[0])) {
    const last = made.at(-1);
    if (last && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else made.push([from, to]);
  }
  return made;
}

const newId = () => crypto.getRandomValues(new Uint32Array(2)).join("-");
