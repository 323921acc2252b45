// @ts-check
/** A run's events as they come, taken in once a frame, for as long as somebody looks at the run. */
import { signal } from "@preact/signals";
import { stream } from "../api.js";
import { Log } from "./events.js";
import { Place } from "./rows.js";

const HIDDEN_PAUSE = 500;

/** @typedef {"connecting" | "open" | "waiting" | "ended" | "gone" | "failed"} FeedState */

export class Feed {
  /** @param {string} id the run's own id: a name may be given to another run */
  constructor(id) {
    this.id = id;
    this.log = new Log();
    this.place = new Place();
    /** @type {Set<number>} keys of items that stand open */
    this.open = new Set();
    this.version = signal(0);
    this.state = signal(/** @type {FeedState} */ ("connecting"));
    this.problem = signal(/** @type {unknown} */ (null));
    /** @type {any[]} */
    this._pending = [];
    this._waits = 0;
    /** @type {number | null} */
    this._ended = null;
    /** @type {AbortController | null} */
    this._stop = null;
  }

  /** There may have been a start and an end that nobody here saw. @param {number | null} ended when the run did; null: not yet */
  follow(ended) {
    const isAll = this.state.value === "ended" && ended !== null && ended === (this._ended ?? ended);
    this._ended = ended;
    if (!isAll) this._start();
  }

  /** Does nothing while it follows already; after an end it goes on where it was. */
  _start() {
    if (this._stop) return;
    const stop = new AbortController();
    this._stop = stop;
    this.problem.value = null;
    const following = stream(`/runs/${this.id}/stream`, {
      after: this._newest() || undefined,
      signal: stop.signal,
      onEvent: (event, data) => this._take(event, data),
      onState: (state) => (this.state.value = state),
    });
    following.catch((error) => this._failed(error)).finally(() => {
      if (this._stop === stop) this._stop = null;
    });
  }

  stop() {
    this._stop?.abort();
    this._stop = null;
  }

  /** @param {number} key */
  toggle(key) {
    if (!this.open.delete(key)) this.open.add(key);
    this.place.hold();
    this.version.value += 1;
  }

  _newest() {
    return this._pending[this._pending.length - 1]?.seq ?? this.log.last;
  }

  /** @param {unknown} error */
  _failed(error) {
    this.problem.value = error;
    this.state.value = "failed";
  }

  /**
   * @param {string} event
   * @param {any} data
   */
  _take(event, data) {
    if (event === "end") this.state.value = "ended";
    else if (event === "gone") this.state.value = "gone";
    else {
      this._pending.push(data);
      this._soon();
    }
  }

  /** A page that is hidden has no frames. */
  _soon() {
    if (this._waits) return;
    const settle = () => this._settle();
    this._waits = document.hidden ? window.setTimeout(settle, HIDDEN_PAUSE) : requestAnimationFrame(settle);
    if (!document.hidden) window.setTimeout(() => this._waits && this._settle(), HIDDEN_PAUSE);
  }

  _settle() {
    this._waits = 0;
    if (!this._pending.length) return;
    const coming = this._pending;
    this._pending = [];
    for (const event of coming) this.log.add(event);
    this.version.value += 1;
  }
}
