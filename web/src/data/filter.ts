// Search and filters: which spans match. A search's words may be in the kind, the object or the lane.

import type { Recording } from "./recording";

export interface Filter {
  text: string;
  kind: string;
  lane: string;
  object: string;
  /** Only spans of at least this many seconds. */
  least_s: number;
}

export const noFilter = (): Filter => ({ text: "", kind: "", lane: "", object: "", least_s: 0 });

export const isFiltered = (f: Filter): boolean => !!(f.text.trim() || f.kind || f.lane.trim() || f.object.trim() || f.least_s > 0);

/** Reads "5 ms", "2.5s", "300us"; a bare number is in milliseconds. 0 if there is nothing to read. */
export function parseDuration(text: string): number {
  const found = /^\s*(\d+(?:[.,]\d+)?)\s*(ns|us|µs|ms|s|)\s*$/i.exec(text);
  if (!found) return 0;
  const unit: Record<string, number> = { ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, s: 1, "": 1e-3 };
  return Number(found[1].replace(",", ".")) * unit[found[2].toLowerCase()];
}

export function matches(name: string, wanted: string): boolean {
  return name.toLowerCase().includes(wanted.trim().toLowerCase());
}

export interface Matches {
  /** 1 for each span that matches. */
  mask: Uint8Array;
  count: number;
  ticks: number;
  /** Lanes with a match. */
  lanes: Set<number>;
}

export function laneText(r: Recording, lane: number): string {
  const info = r.header.lanes[lane];
  return `${info.name} ${info.process} ${info.host} ${info.role}`;
}

/** Finds the spans that match; names are tested once each, not once a span. */
export function find(r: Recording, filter: Filter): Matches {
  const { span, header } = r;
  const yes = (names: string[], wanted: string) => names.map((name) => !wanted.trim() || matches(name, wanted));
  const lanes = header.lanes.map((_, i) => laneText(r, i));
  const kinds = header.kinds.map((k) => `${k.name} ${k.class}`);
  const byLane = yes(lanes, filter.lane);
  const byKind = header.kinds.map((k) => !filter.kind || k.name === filter.kind || k.class === filter.kind);
  const byObject = yes(header.objects, filter.object);
  const words = filter.text.trim().split(/\s+/).filter(Boolean);
  const byWord = words.map((word) => ({ lane: yes(lanes, word), kind: yes(kinds, word), object: yes(header.objects, word) }));
  const least = (filter.least_s * 1e9) / header.tick_ns;
  const result: Matches = { mask: new Uint8Array(span.start.length), count: 0, ticks: 0, lanes: new Set() };
  for (let i = 0; i < span.start.length; i++) {
    const [lane, kind, object] = [span.lane[i], span.kind[i], span.object[i]];
    if (!byLane[lane] || !byKind[kind] || !byObject[object] || span.duration[i] < least) continue;
    if (!byWord.every((w) => w.lane[lane] || w.kind[kind] || (object > 0 && w.object[object]))) continue;
    result.mask[i] = 1;
    result.count++;
    result.ticks += span.duration[i];
    result.lanes.add(lane);
  }
  return result;
}

/** The next match that starts after `tick` (or before, backwards), over all lanes; -1 if there is none. */
export function nextMatch(r: Recording, mask: Uint8Array, tick: number, backwards: boolean): number {
  let best = -1;
  const { start } = r.span;
  for (let i = 0; i < mask.length; i++) {
    if (!mask[i]) continue;
    if (backwards ? start[i] < tick && (best < 0 || start[i] > start[best]) : start[i] > tick && (best < 0 || start[i] < start[best])) best = i;
  }
  return best;
}
