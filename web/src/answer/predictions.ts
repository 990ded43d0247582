// Which changes the page proposes: those that `explain` prints, in its order, so that page and terminal agree.

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
  return { before: duration(wall_s), after: duration(w.predicted_wall_s), note: bound ? "at most: a bound, not a prediction" : all ? "nearly all of it" : range };
}

/** A word as a shell reads it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export const commandLine = (words: string[]): string => words.map(quoted).join(" ");
