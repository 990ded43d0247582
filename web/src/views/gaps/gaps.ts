// Gaps between bursts: which idle intervals are gaps, what the critical path was charged to meanwhile, whether they recur.
// The rules are those of `explain` (crates/explain/src/observe/channels.rs), so that page and answer agree.

import { upper } from "../../data/levels";
import type { Recording } from "../../data/recording";
import type { Work } from "../shared/work";
import type { Bursts } from "./channels";

/** Shorter idle intervals are never gaps: calls themselves are this far apart. */
const LEAST_GAP_NS = 20_000;
/** Idle intervals that are kept: the longest. */
const KEPT = 1 << 16;
/** Least distance of the two groups' mean logarithms: closer means are one group. */
const GROUPS_APART = Math.log(4);
const PERIOD_NEAR = 0.1;
const PERIOD_SHARE = 0.7;
const FEWEST = 4;

export interface Gap {
  start: number;
  end: number;
  /** Bytes that the channel carried before. */
  before: number;
  /** Index of the cause with the largest part of the gap; -1 if the path is elsewhere. */
  cause: number;
}

/** The least length of an idle interval that is a gap, if the lengths are of two kinds (Otsu's split of their logarithms); else 0. */
export function leastGap(sorted: ArrayLike<number>): number {
  const n = sorted.length;
  const log = (i: number) => Math.log(Math.max(1, sorted[i]));
  let total = 0;
  for (let i = 0; i < n; i++) total += log(i);
  let [below, best, at] = [0, 0, 0];
  for (let split = 1; split < n; split++) {
    below += log(split - 1);
    const apart = (total - below) / (n - split) - below / split;
    const variance = split * (n - split) * apart * apart;
    if (variance > best && apart >= GROUPS_APART) [best, at] = [variance, split];
  }
  return sorted[at] ?? 0;
}

/** The usual distance of positions in ascending order, if most are about equally far apart; else 0. */
export function periodOf(positions: ArrayLike<number>): number {
  if (positions.length < FEWEST) return 0;
  const apart = Array.from({ length: positions.length - 1 }, (_, i) => positions[i + 1] - positions[i]);
  const middle = [...apart].sort((x, y) => x - y)[Math.floor((apart.length - 1) / 2)];
  if (middle <= 0) return 0;
  // A missing gap leaves a double distance, which does not contradict the period.
  const near = apart.filter((d) => {
    const times = Math.round(d / middle);
    return times >= 1 && times <= 3 && Math.abs(d / times - middle) <= PERIOD_NEAR * middle;
  });
  return near.length >= PERIOD_SHARE * apart.length ? middle : 0;
}

/** The cause with the largest part of an interval of the critical path. */
function causeIn(r: Recording, a: number, b: number, parts: Float64Array): number {
  const s = r.pathSegments;
  parts.fill(0);
  for (let i = upper(s.end, 0, s.end.length, a); i < s.start.length && s.start[i] < b; i++) {
    if (s.kind[i] < parts.length) parts[s.kind[i]] += Math.min(b, s.end[i]) - Math.max(a, s.start[i]);
  }
  let best = -1;
  for (let c = 0; c < parts.length; c++) if (parts[c] > 0 && (best < 0 || parts[c] > parts[best])) best = c;
  return best;
}

/** The gaps of a channel, in order of time. */
export function* gapsOf(r: Recording, bursts: Bursts): Work<Gap[]> {
  const shortest = LEAST_GAP_NS / r.header.tick_ns;
  let idle: number[] = [];
  for (let i = 1; i < bursts.start.length; i++) if (bursts.start[i] - bursts.end[i - 1] >= shortest) idle.push(i);
  const length = (i: number) => bursts.start[i] - bursts.end[i - 1];
  let sorted = Float64Array.from(idle, length).sort();
  yield;
  if (sorted.length > KEPT) sorted = sorted.slice(sorted.length - KEPT);
  const least = Math.max(leastGap(sorted), sorted[0] ?? 0);
  idle = idle.filter((i) => length(i) >= least);
  const parts = new Float64Array(Math.max(1, r.header.causes.length));
  const gaps: Gap[] = [];
  for (const i of idle) {
    const [start, end] = [bursts.end[i - 1], bursts.start[i]];
    gaps.push({ start, end, before: bursts.bytes[i - 1], cause: causeIn(r, start, end, parts) });
    if (gaps.length % 4096 === 0) yield;
  }
  return gaps;
}

export interface GapSum {
  cause: number;
  count: number;
  ticks: number;
  median: number;
  longest: Gap;
  /** Usual distance in bytes and in ticks; 0 if there is none. */
  period_bytes: number;
  period: number;
}

function sum(cause: number, gaps: Gap[]): GapSum {
  const lengths = gaps.map((g) => g.end - g.start).sort((x, y) => x - y);
  const total = lengths.reduce((n, l) => n + l, 0);
  // Shorter gaps between those that recur do not contradict the period.
  const long = gaps.filter((g) => g.end - g.start >= total / gaps.length);
  const period = (of: (g: Gap) => number) => periodOf(gaps.map(of)) || periodOf(long.map(of));
  return {
    cause, count: gaps.length, ticks: total, median: lengths[Math.floor((lengths.length - 1) / 2)],
    longest: gaps.reduce((x, y) => (y.end - y.start > x.end - x.start ? y : x)), period_bytes: period((g) => g.before), period: period((g) => g.start),
  };
}

/** The gaps by cause, the most time first. */
export function byCause(gaps: Gap[]): GapSum[] {
  const causes = new Map<number, Gap[]>();
  for (const gap of gaps) {
    const list = causes.get(gap.cause);
    if (list) list.push(gap);
    else causes.set(gap.cause, [gap]);
  }
  return [...causes].map(([cause, list]) => sum(cause, list)).sort((x, y) => y.ticks - x.ticks);
}
