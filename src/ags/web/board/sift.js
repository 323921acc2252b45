// @ts-check
// Which runs are shown, and in which order: pure, from what there is and what was asked for.
import { isOver } from "../store.js";

/** @typedef {import("../store.js").Row} Row */
/** @typedef {import("../store.js").Project} Project */
/** @typedef {{project?: string, state?: string, agent?: string, client?: string, q?: string, group?: string}} Wanted */
/** @typedef {{kind: "head", id: string, group: string, rows: Row[]} | {kind: "run", id: string, row: Row, within: boolean}} Entry */

/** What a run's project is called in addresses: its id, or the folder where it is none of ours. @param {Row} row */
export const projectKey = (row) => row.project_id || row.project;

/** @param {string} path */
export const lastPart = (path) => path.split("/").findLast((part) => part) || path;

/** @param {Row} row @param {string} state */
function isIn(row, state) {
  if (state === "at-work") return !isOver(row);
  if (state === "asking") return row.asking;
  if (state === "unapplied") return isOver(row) && !row.applied && !!row.files;
  return row.state === state;
}

/** @param {Row} row @param {Map<string, Project>} projects */
function wordsOf(row, projects) {
  const project = row.project_id ? projects.get(row.project_id)?.name : row.project;
  return [row.name, row.goal, row.agent, row.branch, row.client, row.activity?.last, project, row.state]
    .join("\n")
    .toLowerCase();
}

/** @param {Iterable<Row>} rows @param {Wanted} wanted @param {Map<string, Project>} projects */
export function sifted(rows, wanted, projects) {
  const { project, state, agent, client, group } = wanted;
  const words = (wanted.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  return [...rows].filter((row) => {
    if (project && projectKey(row) !== project) return false;
    if (state && !isIn(row, state)) return false;
    if (agent && row.agent !== agent) return false;
    if (client && (row.client || "default") !== client) return false;
    if (group && row.group !== group) return false;
    if (!words.length) return true;
    const text = wordsOf(row, projects);
    return words.every((word) => text.includes(word));
  });
}

/** Newest first; the attempts of one group together, under a head, where the newest of them is. @param {Row[]} rows */
export function arranged(rows) {
  const sorted = rows.toSorted((a, b) => b.created - a.created || (a.id < b.id ? 1 : -1));
  /** @type {Map<string, Row[]>} */
  const groups = Map.groupBy(sorted.filter((row) => row.group), (row) => row.group);
  /** @type {Entry[]} */
  const entries = [];
  for (const row of sorted) {
    const members = row.group ? groups.get(row.group) || [] : [];
    if (members.length < 2) {
      entries.push({ kind: "run", id: row.id, row, within: false });
    } else if (members[0] === row) {
      entries.push({ kind: "head", id: `group ${row.group}`, group: row.group, rows: members });
      const inOrder = members.toSorted((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
      for (const each of inOrder) entries.push({ kind: "run", id: each.id, row: each, within: true });
    }
  }
  return entries;
}

/** The runs in the order of the board. @param {Iterable<Row>} rows */
export const listed = (rows) => arranged([...rows]).flatMap((entry) => (entry.kind === "run" ? [entry.row] : []));

/** Each value there is, with how many runs have it. @template T @param {Iterable<T>} items @param {(item: T) => string} of */
export function tally(items, of) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const item of items) counts.set(of(item), (counts.get(of(item)) || 0) + 1);
  return counts;
}
