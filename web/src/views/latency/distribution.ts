// How long spans lasted: a histogram and exact percentiles for each group of spans, on a log axis of four bins per octave.

import type { Recording } from "../../data/recording";
import { placesOf } from "../../view/names";
import { SLICE, type Work } from "../shared/work";

/** Bins per octave, as in the planes `latency.*`. */
const PER_OCTAVE = 4;
export const BINS = 256;

export type Grouping = "kind" | "place" | "object" | "lane";

export interface Group {
  kind: number;
  /** Where, or on what; empty if grouped by kind alone. */
  of: string;
  count: number;
  /** Their durations, added up. */
  total_ns: number;
  bins: Uint32Array;
  /** Time by bin. */
  binTime: Float64Array;
  /** The longest span of each bin; -1 where no span of the bin is in the page. */
  longest: Int32Array;
  p50_ns: number;
  p90_ns: number;
  p99_ns: number;
  max_ns: number;
}

export interface Latencies {
  groups: Group[];
  /** Whether percentiles are of each span, not of bins. */
  exact: boolean;
}

export const binOf = (ns: number): number => Math.floor(PER_OCTAVE * Math.log2(Math.max(1, ns)));
/** The least duration of a bin. */
export const binStart = (bin: number): number => 2 ** (bin / PER_OCTAVE);

/** The last index whose value is at least `least`; -1 if there is none. */
export function lastFrom(values: ArrayLike<number>, least: number): number {
  let i = values.length - 1;
  while (i >= 0 && values[i] < least) i--;
  return i;
}

export interface Wanted {
  a: number;
  b: number;
  mask: Uint8Array | null;
  grouping: Grouping;
}

/** The value that would be at `at` if `values` from `from` to `to` were sorted (Hoare's quickselect; the values are reordered). */
export function selectNth(values: Uint32Array, from: number, to: number, at: number): number {
  let [low, high] = [from, to - 1];
  while (low < high) {
    const pivot = values[(low + high) >>> 1];
    let [i, j] = [low, high];
    while (i <= j) {
      while (values[i] < pivot) i++;
      while (values[j] > pivot) j--;
      if (i <= j) [values[i++], values[j--]] = [values[j], values[i]];
    }
    if (at <= j) high = j;
    else if (at >= i) low = i;
    else break;
  }
  return values[at];
}

function emptyGroup(kind: number, of: string): Group {
  return {
    kind, of, count: 0, total_ns: 0, bins: new Uint32Array(BINS), binTime: new Float64Array(BINS), longest: new Int32Array(BINS).fill(-1),
    p50_ns: 0, p90_ns: 0, p99_ns: 0, max_ns: 0,
  };
}

/** Numbers equal names equally. */
function numbered(names: string[]): { of: Uint32Array; names: string[] } {
  const index = new Map<string, number>();
  const of = Uint32Array.from(names, (name) => {
    let at = index.get(name);
    if (at === undefined) index.set(name, (at = index.size));
    return at;
  });
  return { of, names: [...index.keys()] };
}

/** What groups a span beside its kind: by lane or by object. */
function secondKey(r: Recording, grouping: Grouping): { of: Uint32Array | null; byObject: boolean; names: string[] } {
  if (grouping === "kind") return { of: null, byObject: false, names: [""] };
  if (grouping === "object") return { ...numbered(r.header.objects.map((name, i) => (i ? name : ""))), byObject: true };
  const lanes = grouping === "place" ? placesOf(r.header) : r.header.lanes.map((l) => `${l.name}${l.process ? ` · ${l.process}` : ""}${l.host ? ` · ${l.host}` : ""}`);
  return { ...numbered(lanes), byObject: false };
}

/** Keys for which an array is faster than a map, and small enough. */
const DENSE = 1 << 20;

interface Places {
  get(key: number): number | undefined;
  set(key: number, value: number): void;
}

function placesFor(keys: number): Places {
  if (keys > DENSE) return new Map<number, number>();
  const values = new Int32Array(keys).fill(-1);
  return { get: (key) => values[key], set: (key, value) => (values[key] = value) };
}

interface Gathered {
  groups: Group[];
  /** The group of each span that counts, else -1. */
  groupOf: Int32Array;
}

function* gather(r: Recording, w: Wanted): Work<Gathered> {
  const { span } = r;
  const ns = r.header.tick_ns;
  const second = secondKey(r, w.grouping);
  const groups: Group[] = [];
  const found = placesFor(r.header.kinds.length * second.names.length);
  const groupOf = new Int32Array(span.start.length).fill(-1);
  for (let i = 0; i < groupOf.length; i++) {
    if (i % SLICE === SLICE - 1) yield;
    // A span counts where it ends.
    const end = span.start[i] + span.duration[i];
    if (end < w.a || end > w.b || (w.mask && !w.mask[i])) continue;
    const of = second.of ? second.of[second.byObject ? span.object[i] : span.lane[i]] : 0;
    const key = span.kind[i] * second.names.length + of;
    let g = found.get(key) ?? -1;
    if (g < 0) {
      found.set(key, (g = groups.length));
      groups.push(emptyGroup(span.kind[i], second.names[of]));
    }
    groupOf[i] = g;
    const group = groups[g];
    const length = span.duration[i] * ns;
    const bin = binOf(length);
    group.count++;
    group.total_ns += length;
    group.bins[bin]++;
    group.binTime[bin] += length;
    const longest = group.longest[bin];
    if (longest < 0 || span.duration[i] > span.duration[longest]) group.longest[bin] = i;
  }
  return { groups, groupOf };
}

/** Exact percentiles: the durations of each group side by side, of which the wanted ones are selected. */
function* percentiles(r: Recording, { groups, groupOf }: Gathered): Work<void> {
  const begin = new Uint32Array(groups.length + 1);
  groups.forEach((g, i) => (begin[i + 1] = begin[i] + g.count));
  const next = begin.slice(0, groups.length);
  const values = new Uint32Array(begin[groups.length]);
  for (let i = 0; i < groupOf.length; i++) {
    if (i % (4 * SLICE) === 4 * SLICE - 1) yield;
    if (groupOf[i] >= 0) values[next[groupOf[i]]++] = r.span.duration[i];
  }
  const ns = r.header.tick_ns;
  let since = 0;
  for (let g = 0; g < groups.length; g++) {
    const [from, to] = [begin[g], begin[g + 1]];
    const rank = (share: number) => from + Math.min(to - from - 1, Math.max(0, Math.ceil(share * (to - from)) - 1));
    // From the right: what was selected parts the values, so the next selection is among fewer.
    const [r99, r90, r50] = [rank(0.99), rank(0.9), rank(0.5)];
    groups[g].p99_ns = selectNth(values, from, to, r99) * ns;
    groups[g].p90_ns = selectNth(values, from, r99 + 1, r90) * ns;
    groups[g].p50_ns = selectNth(values, from, r90 + 1, r50) * ns;
    groups[g].max_ns = 0;
    for (const longest of groups[g].longest) if (longest >= 0) groups[g].max_ns = Math.max(groups[g].max_ns, r.span.duration[longest] * ns);
    since += to - from;
    if (since > SLICE) {
      since = 0;
      yield;
    }
  }
}

/** A percentile of bins: within a bin, durations are taken to be spread evenly on the log axis. */
export function binPercentile(bins: Uint32Array, count: number, share: number): number {
  let left = share * count;
  for (let bin = 0; bin < bins.length; bin++) {
    if (left <= bins[bin] && bins[bin]) return binStart(bin + left / bins[bin]);
    left -= bins[bin];
  }
  return 0;
}

/** From the counts of all recorded spans, where short spans are not in the page. */
function fromCounts(r: Recording, w: Wanted): Group[] {
  const { latency } = r;
  const second = secondKey(r, w.grouping);
  const found = new Map<number, Group>();
  for (let i = 0; i < latency.count.length; i++) {
    const of = second.of ? second.of[latency.lane[i]] : 0;
    const key = latency.kind[i] * second.names.length + of;
    let group = found.get(key);
    if (!group) found.set(key, (group = emptyGroup(latency.kind[i], second.names[of])));
    const time = latency.count[i] * binStart(latency.bin[i] + 0.5);
    group.count += latency.count[i];
    group.bins[latency.bin[i]] += latency.count[i];
    group.binTime[latency.bin[i]] += time;
    group.total_ns += time;
  }
  return [...found.values()];
}

/** Fills counted groups in with what the page's own spans tell: the longest span of each bin. */
function complete(counted: Group[], own: Group[]): Group[] {
  const byName = new Map(own.map((g) => [`${g.kind} ${g.of}`, g]));
  for (const group of counted) {
    const same = byName.get(`${group.kind} ${group.of}`);
    if (same) group.longest = same.longest;
    const last = lastFrom(group.bins, 1);
    group.max_ns = same?.max_ns || binStart(last + 1);
    group.p50_ns = binPercentile(group.bins, group.count, 0.5);
    group.p90_ns = binPercentile(group.bins, group.count, 0.9);
    group.p99_ns = binPercentile(group.bins, group.count, 0.99);
  }
  return counted;
}

/** Whether the counts of all recorded spans answer: they know neither times, searches nor objects. */
export function countsAnswer(r: Recording, w: Wanted, whole: boolean): boolean {
  return r.latency.count.length > 0 && whole && !w.mask && w.grouping !== "object";
}

export function* latencies(r: Recording, w: Wanted, whole: boolean): Work<Latencies> {
  const gathered = yield* gather(r, w);
  yield* percentiles(r, gathered);
  const counted = countsAnswer(r, w, whole);
  const groups = counted ? complete(fromCounts(r, w), gathered.groups) : gathered.groups;
  return { groups: groups.sort((x, y) => y.total_ns - x.total_ns), exact: !counted };
}
