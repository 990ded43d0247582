// Which changes the page proposes: those that `explain` prints, those first that the reader can make.

import type { Explanation, WhatIf } from "../data/header";
import { duration } from "../view/format";

/** As in `explain`: beyond this speedup the models are not accurate. */
const NEARLY_ALL = 20;
const LEAST_SPEEDUP = 1.1;
const MOST = 3;

/** A change's name as the short text has it: up to the first parenthesis, comma or colon. */
export function shortName(change: string): string {
  const ends = [" (", ", ", ": "].map((mark) => change.indexOf(mark)).filter((at) => at > 0);
  return ends.length ? change.slice(0, Math.min(...ends)) : change;
}

function charged(e: Explanation, w: WhatIf): number {
  return (e.critical_path ?? []).filter((c) => w.about.includes(c.cause)).reduce((sum, c) => sum + c.share, 0);
}

/** The changes that the short text names, in its order; without a text, the best that are worth it. */
export function proposed(e: Explanation, short: string): WhatIf[] {
  const all = e.what_if ?? [];
  const lines = short.split("\n");
  const lineOf = (w: WhatIf) => {
    const name = shortName(w.change);
    return lines.findIndex((line) => /->|at most/.test(line) && line.trim().startsWith(name.slice(0, 24)));
  };
  const named = all.map((w) => ({ w, line: lineOf(w) })).filter((x) => x.line >= 0).sort((a, b) => a.line - b.line);
  const seen = new Set<number>();
  const once = named.filter((x) => !seen.has(x.line) && seen.add(x.line));
  if (once.length || short.trim()) return once.map((x) => x.w);
  return all.filter((w) => w.speedup >= LEAST_SPEEDUP && charged(e, w) >= 0.05).slice(0, MOST);
}

/** What the short text says where there is no change to propose. */
export function nothingKnown(short: string): string {
  return short.split("\n").map((line) => line.trim()).find((line) => line.startsWith("no change known")) ?? "";
}

/** Whether the run was killed or failed: its full duration is not known, so no change to its speed is proposed. */
export const wasCutShort = (e: Explanation): boolean => /^(killed|failed)/.test(e.summary?.ended ?? "");

/** Whether a change needs another machine, device or path: the reader cannot make it at once. */
export function isWish(w: WhatIf): boolean {
  if (w.command?.length || w.flags?.length) return false;
  return !w.how || w.id === "names_at_once" || /^(cpu|processors|device|link|rtt|server|metadata|disk)\.((read|write|client|server)\.)?(x\d+|half)$/.test(w.id);
}

/** What a change gives up; the document does not say it of syncs that are left out. */
export function givesUp(w: WhatIf): string {
  return w.gives_up || (w.id === "no_sync" ? "durability: a power failure loses what was written last" : "");
}

export interface Proposal {
  change: WhatIf;
  /** The change with other numbers. */
  or: WhatIf[];
}

export interface Plan {
  /** What the reader can do, the first to try first. */
  can: Proposal[];
  /** What would help, with other hardware or another path. */
  could: WhatIf[];
}

/** Gains that differ by less count as alike. */
const ALIKE = 0.1;

/** One proposal of changes that differ in their numbers only. */
function grouped(changes: WhatIf[]): Proposal[] {
  const groups = new Map<string, Proposal>();
  for (const change of changes) {
    const key = change.change.replace(/\d+/g, "#");
    const group = groups.get(key);
    if (group) group.or.push(change);
    else groups.set(key, { change, or: [] });
  }
  return [...groups.values()];
}

/**
 * The changes in the order of `explain`, but those that the reader can make first, and of those with about one gain the one that gives
 * nothing up.
 */
export function plan(e: Explanation, short: string): Plan {
  const named = proposed(e, short);
  const can = named.filter((w) => !isWish(w));
  const saved = (w: WhatIf) => e.wall_s - w.predicted_wall_s;
  const safe = can[0] && givesUp(can[0]) ? can.findIndex((w) => !givesUp(w) && saved(w) >= (1 - ALIKE) * saved(can[0])) : -1;
  if (safe > 0) can.unshift(...can.splice(safe, 1));
  return { can: grouped(can), could: named.filter(isWish) };
}

export interface Gain {
  before: string;
  after: string;
  note: string;
}

export function gain(w: WhatIf, wall_s: number): Gain {
  const bound = w.basis === "bounded";
  const [low, high] = w.interval_s;
  const all = w.speedup > NEARLY_ALL;
  const range = low < w.predicted_wall_s / 4 ? `below ${duration(high)}` : `${duration(low)} to ${duration(high)}`;
  return { before: duration(wall_s), after: duration(w.predicted_wall_s), note: bound ? "at best: a bound, not a prediction" : all ? "nearly all of the time" : range };
}

/** A word as a shell reads it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export const commandLine = (words: string[]): string => words.map(quoted).join(" ");
