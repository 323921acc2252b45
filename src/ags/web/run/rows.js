// @ts-check
/**
 * A long list of which only the rows in sight are in the document. It follows what comes only
 * while it is at its end; otherwise nothing moves, and a button says how much is new.
 */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../ui.js";
import { Heights } from "./heights.js";

const BEYOND = 400;
const NEAR = 4;
const LINE = 40;
const PASSES = 4;

/** What outlives the list being taken off the page: where it is, and how tall its rows are. */
export class Place {
  /** @param {boolean} [follows] */
  constructor(follows = true) {
    this.heights = new Heights();
    this.pinned = follows;
    this.follows = follows;
    this.seen = 0;
    this.index = 0;
    this.within = 0;
    /** Where the box was put. @type {number | null} */
    this.put = null;
  }

  /** The person moved, or opened something: from now on it stays there. */
  hold() {
    this.pinned = false;
  }

  /** @param {HTMLElement} box */
  note(box) {
    this.put = box.scrollTop;
    this.index = this.heights.at(box.scrollTop);
    this.within = box.scrollTop - this.heights.top(this.index);
  }

  /** @param {HTMLElement} box */
  moved(box) {
    this.note(box);
    this.pinned = this.follows && box.scrollTop + box.clientHeight >= box.scrollHeight - NEAR;
  }

  /** A scroll is told with the next frame; what is drawn before that must not undo it. @param {HTMLElement} box */
  catchUp(box) {
    if (this.put !== null && Math.abs(box.scrollTop - this.put) > 1) this.moved(box);
  }

  toEnd() {
    this.pinned = true;
    this.put = null;
  }

  /** @param {number} space pixels that are in sight */
  top(space) {
    const all = this.heights.top(this.heights.length);
    if (this.pinned) return Math.max(0, all - space);
    return this.heights.top(this.index) + this.within;
  }
}

/**
 * @param {{
 *   count: number,
 *   place: Place,
 *   estimate: (index: number) => number,
 *   row: (index: number) => any,
 *   keyOf: (index: number) => string | number,
 *   label: string,
 *   kind?: string,
 *   total?: number,
 *   unit?: string,
 *   pressed?: boolean,
 * }} props `total` is what the news are counted by, where a row holds several; `pressed`: there are buttons in its rows
 */
export function Rows({ count, place, estimate, row, keyOf, label, kind = "", total = count, unit = "new", pressed = false }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const body = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [, again] = useState(0);
  const passes = useRef(0);
  const redraw = () => again((n) => n + 1);

  const { heights } = place;
  for (let index = heights.length; index < count; index += 1) heights.push(estimate(index));
  if (box.current) place.catchUp(box.current);
  const space = box.current?.clientHeight || window.innerHeight;
  const top = place.top(space);
  const first = count ? heights.at(Math.max(0, top - BEYOND)) : 0;
  const end = count ? heights.at(top + space + BEYOND) + 1 : 0;

  useLayoutEffect(() => {
    if (!box.current || !body.current) return;
    const changed = measured(body.current, first, heights);
    settle(box.current, place);
    if (changed && passes.current < PASSES) {
      passes.current += 1;
      redraw();
    } else passes.current = 0;
  });
  useEffect(() => watchSize(box.current, body.current, redraw), []);

  const onScroll = () => {
    if (!box.current) return;
    place.moved(box.current);
    redraw();
  };
  const toEnd = () => {
    place.toEnd();
    redraw();
  };
  // What can be pressed must not move under the pointer: the next line may be of the agent's choosing.
  const still = () => {
    if (!pressed || !place.pinned || !box.current) return;
    place.note(box.current);
    place.hold();
    redraw();
  };
  if (place.pinned) place.seen = total;
  const fresh = place.follows && !place.pinned ? total - place.seen : 0;
  return html`<div class="rows-frame ${kind}">
    <div class="rows-box" ref=${box} role="region" aria-label=${label} tabindex="0"
      onScroll=${onScroll} onWheel=${holdUp(place)} onKeyDown=${moveByKeys(place, toEnd)} onTouchMove=${() => place.hold()} onPointerEnter=${still}>
      <div class="rows-all" style=${{ height: `${heights.top(count)}px` }}>
        <div class="rows-seen" ref=${body} style=${{ top: `${heights.top(first)}px` }}>
          ${range(first, end).map((index) => html`<div class="rows-row" key=${keyOf(index)}>${row(index)}</div>`)}
        </div>
      </div>
    </div>
    ${place.follows && !place.pinned && html`<button type="button" class="rows-new" onClick=${toEnd}>
      ${fresh > 0 ? `${fresh.toLocaleString("en")} ${unit}` : "To the end"} ↓</button>`}
  </div>`;
}

/**
 * @param {number} first
 * @param {number} end
 */
function range(first, end) {
  return Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index);
}

/**
 * @param {HTMLElement} body
 * @param {number} first
 * @param {Heights} heights
 */
function measured(body, first, heights) {
  let changed = false;
  for (let n = 0; n < body.children.length; n += 1) {
    const height = body.children[n].getBoundingClientRect().height;
    if (first + n < heights.length && Math.abs(height - heights.get(first + n)) > 0.5) {
      heights.set(first + n, height);
      changed = true;
    }
  }
  return changed;
}

/**
 * @param {HTMLElement} box
 * @param {Place} place
 */
function settle(box, place) {
  const wanted = place.top(box.clientHeight);
  if (Math.abs(box.scrollTop - wanted) > 1) box.scrollTop = wanted;
  place.put = box.scrollTop;
  if (place.pinned) place.note(box);
}

/**
 * @param {Element | null} box
 * @param {Element | null} body
 * @param {() => void} redraw
 */
function watchSize(box, body, redraw) {
  if (!box || !body) return undefined;
  const watch = new ResizeObserver(() => requestAnimationFrame(redraw));
  watch.observe(box);
  watch.observe(body);
  return () => watch.disconnect();
}

/**
 * At once: while much comes in, the scroll itself would be undone before it is told.
 * @param {Place} place
 */
function holdUp(place) {
  return (/** @type {WheelEvent} */ event) => {
    if (event.deltaY < 0) place.hold();
  };
}

/**
 * At once, not as the browser's glide: that ends where heights turn out to be others than guessed.
 * @param {Place} place
 * @param {() => void} toEnd
 */
function moveByKeys(place, toEnd) {
  return (/** @type {KeyboardEvent} */ event) => {
    const box = /** @type {HTMLElement} */ (event.currentTarget);
    if (event.target !== box || event.ctrlKey || event.altKey || event.metaKey) return;
    const page = box.clientHeight - LINE;
    const step = { ArrowUp: -LINE, ArrowDown: LINE, PageUp: -page, PageDown: page, Home: -Infinity }[event.key];
    if (step === undefined && event.key !== "End") return;
    event.preventDefault();
    if (step === undefined && place.follows) toEnd();
    else {
      place.hold();
      box.scrollTop = Math.min(box.scrollHeight, Math.max(0, box.scrollTop + (step ?? Infinity)));
      place.moved(box);
    }
  };
}
