// Bytes moved over time, from the spans: each span's bytes are spread over its duration, and a rate is an average over a window that a
// person can see (a number of pixels), never over less.

import { firstReaching } from "../data/breakdown";
import type { Recording } from "../data/recording";
import { CLASSES } from "../palette";

export const MOVES = ["read", "write", "send", "receive"] as const;
const LABEL = { read: "read", write: "written", send: "sent", receive: "received" };
/** Titles by role, in the order of the curves. */
const TITLE: Record<string, string> = { client: "Bytes moved by the command", server: "Bytes moved by servers", kernel: "Bytes moved by the kernel", none: "Bytes moved by others" };
const BINS = 32768;
/** Above this number of spans in view, the bins of the whole run are used. */
const DIRECT = 300_000;

/** Bytes that some kinds of spans of some lanes move. */
export interface Moves {
  lanes: number[];
  /** 1 for each kind that counts. */
  kinds: Uint8Array;
  /** Bytes up to the beginning of each bin of the whole run. */
  sums: Float64Array;
  bytes: number;
}

export interface Series extends Moves {
  name: string;
}

/** Adds `bytes` over `a..b` (in bins) to bins. */
function spread(bins: Float64Array, a: number, b: number, bytes: number): void {
  const last = bins.length - 1;
  const first = Math.max(0, Math.min(last, Math.floor(a)));
  const final = Math.max(0, Math.min(last, Math.floor(b)));
  if (first === final || b <= a) {
    bins[first] += bytes;
    return;
  }
  const density = bytes / (b - a);
  bins[first] += density * (first + 1 - a);
  for (let i = first + 1; i < final; i++) bins[i] += density;
  bins[final] += density * (b - final);
}

function laneSets(r: Recording): [role: string, lanes: number[]][] {
  const roles = new Map<string, number[]>();
  r.header.lanes.forEach((lane, i) => {
    if (lane.role === "recorder" || !(lane.kind === "thread" || lane.kind === "rank" || lane.kind === "server")) return;
    const list = roles.get(lane.role);
    if (list) list.push(i);
    else roles.set(lane.role, [i]);
  });
  return [...roles];
}

/** Adds up the bytes of some lanes by a number that each kind has, below `n`; kinds with a negative number do not count. One pass for all. */
function addUp(r: Recording, lanes: number[], numberOf: Int8Array, n: number): { sums: Float64Array; bytes: number }[] {
  const bins = Array.from({ length: n }, () => new Float64Array(BINS));
  const bytes = new Float64Array(n);
  const { kind, size, start, duration } = r.span;
  const scale = BINS / r.total;
  for (const lane of lanes) {
    for (let i = r.lanes[lane].spanFrom; i < r.lanes[lane].spanTo; i++) {
      const number = size[i] ? numberOf[kind[i]] : -1;
      if (number < 0) continue;
      spread(bins[number], start[i] * scale, (start[i] + duration[i]) * scale, size[i]);
      bytes[number] += size[i];
    }
  }
  return bins.map((bin, k) => {
    const sums = new Float64Array(BINS + 1);
    for (let i = 0; i < BINS; i++) sums[i + 1] = sums[i] + bin[i];
    return { sums, bytes: bytes[k] };
  });
}

/** Adds up the bytes that spans of some kinds move. */
export function movesOf(r: Recording, lanes: number[], kinds: Uint8Array): Moves {
  const [{ sums, bytes }] = addUp(r, lanes, Int8Array.from(kinds, (counts) => counts - 1), 1);
  return { lanes, kinds, sums, bytes };
}

/** The kinds of a recording that `wanted` takes. */
export function kindsWhere(r: Recording, wanted: (name: string, cls: number) => boolean): Uint8Array {
  const kinds = new Uint8Array(256);
  r.header.kinds.forEach((kind, i) => (kinds[i] = wanted(kind.name, r.classOf[i]) ? 1 : 0));
  return kinds;
}

export interface Group {
  title: string;
  series: Series[];
}

/** The curves of bytes moved, by direction, largest first: those of the command before those of the servers and others. */
export function movesByRole(r: Recording): Group[] {
  const groups: Group[] = [];
  const kinds = MOVES.map((move) => kindsWhere(r, (_, cls) => CLASSES[cls] === move));
  const numberOf = Int8Array.from({ length: 256 }, (_, kind) => kinds.findIndex((wanted) => wanted[kind] === 1));
  for (const [role, lanes] of laneSets(r)) {
    const moved = addUp(r, lanes, numberOf, MOVES.length);
    const series = MOVES.map((move, k) => ({ name: LABEL[move], lanes, kinds: kinds[k], ...moved[k] })).filter((s) => s.bytes > 0);
    if (series.length) groups.push({ title: TITLE[role] ?? TITLE.none, series: series.sort((a, b) => b.bytes - a.bytes) });
  }
  const order = Object.values(TITLE);
  return groups.sort((a, b) => order.indexOf(a.title) - order.indexOf(b.title));
}

function fromSums(sums: Float64Array, at: number): number {
  const x = Math.min(BINS, Math.max(0, at));
  const i = Math.min(BINS - 1, Math.floor(x));
  return sums[i] + (sums[i + 1] - sums[i]) * (x - i);
}

function spansIn(r: Recording, lanes: number[], a: number): number {
  return lanes.reduce((n, lane) => n + r.lanes[lane].spanTo - firstReaching(r, lane, a), 0);
}

/** Bytes moved within each of `count` equal parts of `a..b`. */
export function bytesIn(r: Recording, s: Moves, a: number, b: number, count: number): Float64Array {
  const out = new Float64Array(count);
  const step = (b - a) / count;
  if ((b - a) / r.total > count / BINS || spansIn(r, s.lanes, a) > DIRECT) {
    for (let i = 0; i < count; i++) {
      out[i] = fromSums(s.sums, ((a + (i + 1) * step) / r.total) * BINS) - fromSums(s.sums, ((a + i * step) / r.total) * BINS);
    }
    return out;
  }
  for (const lane of s.lanes) {
    for (let i = firstReaching(r, lane, a); i < r.lanes[lane].spanTo && r.span.start[i] < b; i++) {
      const end = r.span.start[i] + r.span.duration[i];
      if (end < a || !r.span.size[i] || !s.kinds[r.span.kind[i]]) continue;
      const inside = (Math.min(end, b) - Math.max(r.span.start[i], a)) / Math.max(1, r.span.duration[i]);
      spread(out, (Math.max(r.span.start[i], a) - a) / step, (Math.min(end, b) - a) / step, r.span.size[i] * (r.span.duration[i] ? inside : 1));
    }
  }
  return out;
}

/** Averages over `window` neighbours, so that a burst is as wide as can be seen and as high as its bytes. */
export function smooth(values: Float64Array, window: number): Float64Array {
  const out = new Float64Array(values.length);
  const half = Math.floor(window / 2);
  let sum = 0;
  for (let i = -half; i < values.length; i++) {
    if (i + half < values.length) sum += values[i + half];
    if (i - half - 1 >= 0) sum -= values[i - half - 1];
    if (i >= 0) out[i] = sum / (Math.min(values.length - 1, i + half) - Math.max(0, i - half) + 1);
  }
  return out;
}
