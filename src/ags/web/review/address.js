// @ts-check
/** Where a review's diff is told. Small, since it is asked for before the review itself is there. */

/** Changed lines that are asked for first: several screens, and most diffs are not longer. */
const BEGINNING = "1000";

/** @param {string} since @param {string} whitespace @returns {Record<string, string>} */
export const wanted = (since, whitespace) => ({ whitespace, ...(since && { since }) });

/** @param {string} name @param {Record<string, string>} query */
export const whole = (name, query) => `/runs/${name}/diff?${new URLSearchParams(query)}`;

/** @param {string} name @param {Record<string, string>} query */
export const beginning = (name, query) => whole(name, { ...query, beginning: BEGINNING });
