// @ts-check
/** Only the rows that can be seen are in the document, however many there are. */

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

/** Pixels beyond both edges that are ready before they are scrolled to. */
const BEYOND = 300;

/**
 * @template {{height: number}} R
 * @typedef {object} Window
 * @property {{current: HTMLDivElement | null}} scroller To be put on what scrolls; it listens there by itself.
 * @property {number} first
 * @property {number} last One behind the last row to be drawn.
 * @property {number} total Pixels.
 * @property {(row: number) => number} top
 * @property {(height: number) => number} at The row at this many pixels from the top.
 * @property {(row: number, align?: "start" | "near") => void} reveal
 * @property {(row: R, element: Element | null) => void} measure For rows whose height is known only once they are there.
 */

/**
 * @template {{height: number}} R
 * @param {R[]} rows
 * @param {number} [covered] Pixels at the top that something sticks over.
 * @param {(row: R) => object[]} [aboutOf] What a row shows: another row may show the same later.
 * @returns {Window<R>}
 */
export function useWindow(rows, covered = 0, aboutOf = (row) => [row]) {
  const scroller = useRef(/** @type {HTMLDivElement | null} */ (null));
  const real = useRef(/** @type {WeakMap<R, number>} */ (new WeakMap()));
  const found = useRef(/** @type {Map<R, Element>} */ (new Map()));
  const [view, setView] = useState({ from: 0, size: 1200 });
  const [corrected, setCorrected] = useState(0);
  const look = useRef(() => {});
  const tops = useMemo(() => topsOf(rows, real.current), [rows, corrected]);
  const anchor = useAnchor(rows, tops, scroller, aboutOf);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    look.current = () => {
      anchor.look();
      setView((before) => {
        const [from, size] = [element.scrollTop, element.clientHeight];
        return before.from === from && before.size === size ? before : { from, size };
      });
    };
    const looked = () => look.current();
    looked();
    element.addEventListener("scroll", looked, { passive: true });
    const watch = new ResizeObserver(looked);
    watch.observe(element);
    return () => {
      element.removeEventListener("scroll", looked);
      watch.disconnect();
    };
  }, [scroller.current]);

  useLayoutEffect(() => {
    let isOther = false;
    for (const [row, element] of found.current) {
      const height = element.getBoundingClientRect().height;
      if (height && Math.abs(height - (real.current.get(row) ?? row.height)) > 0.5) {
        real.current.set(row, height);
        isOther = true;
      }
    }
    if (isOther) setCorrected((count) => count + 1);
  });

  const at = (/** @type {number} */ height) => rowAt(tops, height);
  const total = tops[rows.length] ?? 0;
  return {
    scroller,
    first: at(view.from - BEYOND),
    last: Math.min(rows.length, at(view.from + view.size + BEYOND) + 1),
    total,
    top: (row) => tops[row] ?? total,
    at,
    reveal(row, align = "near") {
      const element = scroller.current;
      if (!element || !(row in rows)) return;
      const room = element.clientHeight - covered;
      const [top, bottom] = [tops[row] - covered, tops[row + 1]];
      const isSeen = top >= element.scrollTop && bottom <= element.scrollTop + element.clientHeight;
      if (align === "start") element.scrollTop = tops[row];
      else if (!isSeen) element.scrollTop = top - room / 4;
      look.current(); // the scroll event comes with the next frame, the next key maybe before
    },
    measure(row, element) {
      if (element) found.current.set(row, element);
      else found.current.delete(row);
    },
  };
}

/**
 * Nothing moves that the person did not move: when rows above change, the row at the top stays.
 * @template {{height: number}} R
 * @param {R[]} rows
 * @param {Float64Array} tops
 * @param {{current: HTMLDivElement | null}} scroller
 * @param {(row: R) => object[]} aboutOf
 */
function useAnchor(rows, tops, scroller, aboutOf) {
  const held = useRef({ rows, tops, scrolled: 0 });
  const now = useRef({ rows, tops });
  now.current = { rows, tops };
  const look = () => {
    held.current = { ...now.current, scrolled: scroller.current?.scrollTop ?? 0 };
  };
  useLayoutEffect(() => {
    const element = scroller.current;
    const { scrolled } = held.current;
    if (element && scrolled > 0 && element.scrollTop === scrolled) {
      const place = placeNow(held.current, rows, tops, aboutOf);
      if (Math.abs(place - scrolled) > 0.5) element.scrollTop = place;
    }
    look();
  }, [rows, tops]);
  return { look };
}

/**
 * Where what was at the top is now. If it is gone, so is what was folded away: its head takes its place.
 * @template {{height: number}} R
 * @param {{rows: R[], tops: Float64Array, scrolled: number}} before
 * @param {R[]} rows
 * @param {Float64Array} tops
 * @param {(row: R) => object[]} aboutOf
 */
function placeNow(before, rows, tops, aboutOf) {
  const first = rowAt(before.tops, before.scrolled);
  if (rows[first] === before.rows[first]) return tops[first] + before.scrolled - before.tops[first];
  /** @type {Map<object, number>} */
  const places = new Map();
  for (const [at, row] of rows.entries()) for (const about of aboutOf(row)) places.set(about, at);
  for (let at = first; at >= 0 && at < before.rows.length; at--) {
    const place = aboutOf(before.rows[at]).map((about) => places.get(about)).find((found) => found !== undefined);
    if (place !== undefined) return tops[place] + (at === first ? before.scrolled - before.tops[at] : 0);
  }
  return before.scrolled;
}

/** @template {{height: number}} R @param {R[]} rows @param {WeakMap<R, number>} real */
function topsOf(rows, real) {
  const tops = new Float64Array(rows.length + 1);
  for (let at = 0; at < rows.length; at++) tops[at + 1] = tops[at] + (real.get(rows[at]) ?? rows[at].height);
  return tops;
}

/** The last row that begins at or above a height. @param {Float64Array} tops @param {number} height */
function rowAt(tops, height) {
  let [low, high] = [0, Math.max(0, tops.length - 2)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= height) low = middle;
    else high = middle - 1;
  }
  return low;
}
