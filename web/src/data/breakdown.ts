// What an interval consists of: the critical path by cause, lanes by class, the kinds with the most time, bytes moved.

import { CLASSES } from "../palette";
import { upper } from "./levels";
import { addTicks } from "./partial";
import type { Recording } from "./recording";

export interface Share {
  name: string;
  ticks: number;
}

export interface Breakdown {
  causes: (Share & { cause: number })[];
  classes: (Share & { class: number })[];
  kinds: (Share & { count: number; bytes: number; longest: number })[];
  marks: (Share & { count: number })[];
  /** Whether spans of the lanes were left out: then `kinds` has the spans that are there, and `classes` all time. */
  partial: boolean;
}

const overlap = (start: number, end: number, a: number, b: number) => Math.max(0, Math.min(end, b) - Math.max(start, a));

function causesIn(r: Recording, a: number, b: number): Breakdown["causes"] {
  const ticks = new Float64Array(r.header.causes.length);
  const s = r.pathSegments;
  for (let i = upper(s.end, 0, s.end.length, a); i < s.start.length && s.start[i] < b; i++) {
    if (s.kind[i] < ticks.length) ticks[s.kind[i]] += overlap(s.start[i], s.end[i], a, b);
  }
  return [...ticks].map((t, cause) => ({ name: r.header.causes[cause].name, ticks: t, cause })).filter((c) => c.ticks > 0).sort((x, y) => y.ticks - x.ticks);
}

function classesIn(r: Recording, a: number, b: number, lanes: Iterable<number>): Breakdown["classes"] {
  const ticks = new Float64Array(CLASSES.length);
  const s = r.segments;
  for (const index of lanes) {
    const lane = r.lanes[index];
    if (lane.partial) {
      addTicks(lane.levels!, a, b, ticks);
      continue;
    }
    for (let i = upper(s.end, lane.from, lane.to, a); i < lane.to && s.start[i] < b; i++) ticks[s.kind[i]] += overlap(s.start[i], s.end[i], a, b);
  }
  return [...ticks].map((t, c) => ({ name: CLASSES[c], ticks: t, class: c })).filter((c) => c.ticks > 0).sort((x, y) => y.ticks - x.ticks);
}

/** First span of a lane that can reach into an interval that begins at `a`. */
export function firstReaching(r: Recording, lane: number, a: number): number {
  const l = r.lanes[lane];
  return upper(r.span.start, l.spanFrom, l.spanTo, a - l.longest - 1);
}

function kindsIn(r: Recording, a: number, b: number, lanes: Iterable<number>): Breakdown["kinds"] {
  const found = r.header.kinds.map((k) => ({ name: k.name, ticks: 0, count: 0, bytes: 0, longest: 0 }));
  const { span } = r;
  for (const lane of lanes) {
    for (let i = firstReaching(r, lane, a); i < r.lanes[lane].spanTo && span.start[i] < b; i++) {
      const end = span.start[i] + span.duration[i];
      if (end < a) continue;
      const kind = found[span.kind[i]];
      kind.ticks += overlap(span.start[i], end, a, b);
      kind.count++;
      kind.bytes += span.size[i];
      kind.longest = Math.max(kind.longest, span.duration[i]);
    }
  }
  return found.filter((k) => k.count > 0).sort((x, y) => y.ticks - x.ticks);
}

export function breakdown(r: Recording, a: number, b: number, lanes: Iterable<number> = r.lanes.keys()): Breakdown {
  const list = [...lanes];
  const marks = new Map<number, number>();
  for (let i = 0; i < r.mark.at.length; i++) {
    if (r.mark.at[i] >= a && r.mark.at[i] <= b) marks.set(r.mark.kind[i], (marks.get(r.mark.kind[i]) ?? 0) + 1);
  }
  return {
    causes: causesIn(r, a, b),
    classes: classesIn(r, a, b, list),
    kinds: kindsIn(r, a, b, list),
    partial: list.some((lane) => r.lanes[lane].partial),
    marks: [...marks].map(([kind, n]) => ({ name: r.header.marks[kind]?.label ?? "mark", ticks: 0, count: n })),
  };
}

/** The longest stretch of the critical path with a cause: neighbouring pieces of one cause are one stretch. */
export function longestOf(r: Recording, cause: number): { start: number; end: number; at: number } | null {
  const s = r.pathSegments;
  let best: { start: number; end: number; at: number } | null = null;
  for (let i = 0; i < s.start.length; i++) {
    if (s.kind[i] !== cause) continue;
    const first = i;
    while (i + 1 < s.start.length && s.kind[i + 1] === cause && s.start[i + 1] <= s.end[i] + 1) i++;
    if (!best || s.end[i] - s.start[first] > best.end - best.start) best = { start: s.start[first], end: s.end[i], at: first };
  }
  return best;
}

/** The piece of the critical path at an instant, or -1. */
export function pathAt(r: Recording, tick: number): number {
  const i = upper(r.pathSegments.end, 0, r.pathSegments.end.length, tick);
  return i < r.pathSegments.start.length && r.pathSegments.start[i] <= tick ? i : -1;
}
