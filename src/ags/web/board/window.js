// @ts-check
// Of a long list of equal rows, only those in sight are in the document.
import { useLayoutEffect, useState } from "preact/hooks";

const MANY = 200;
const SPARE = 20;

/**
 * @param {{current: HTMLElement | null}} place  what scrolls
 * @param {number} count @param {number} height
 */
export function useWindow(place, count, height) {
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element || count <= MANY) return;
    // By tens: most scrolling needs no new rows.
    const scrolled = () => setTop(Math.floor(element.scrollTop / height / 10) * 10);
    scrolled();
    element.addEventListener("scroll", scrolled, { passive: true });
    return () => element.removeEventListener("scroll", scrolled);
  }, [place.current, count > MANY, height]);
  if (count <= MANY) return { from: 0, to: count, above: 0, below: 0 };
  const seen = Math.ceil((place.current?.clientHeight || window.innerHeight) / height);
  const from = Math.max(0, Math.min(top, count) - SPARE);
  const to = Math.min(count, top + seen + SPARE + 10);
  return { from, to, above: from * height, below: (count - to) * height };
}
