// Bytes moved over time, from the spans: each span's bytes are spread over its duration, and a rate is an average over a window that a
// person can see (a number of pixels), never over less.

import { firstReaching } from "../data/breakdown";
import type { Recording } from "../data/recording";
import { CLASSES } from "../palette";

export const MOVES = ["read", "write", "send", "receive"] as const;
const LABEL = { read: "read", write: "written", send: "sent", receive: "received" };
const BINS = 32768;
/** Above this number of spans in view, the bins of the whole run are used. */
const DIRECT = 300_000;

export interface Series {
  name: string;
  class: number;
  lanes: number[];
  /** Bytes up to the beginning of each bin of the whole run. */
  sums: Float64Array;
  bytes: number;
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

/** The curves of bytes moved: by role and by direction, those that moved anything, largest first. */
export function makeSeries(r: Recording): Series[] {
  const found: Series[] = [];
  for (const [role, lanes] of laneSets(r)) {
    for (const move of MOVES) {
      const wanted = CLASSES.indexOf(move);
      const bins = new Float64Array(BINS);
      let bytes = 0;
      for (const lane of lanes) {
        for (let i = r.lanes[lane].spanFrom; i < r.lanes[lane].spanTo; i++) {
          if (!r.span.size[i] || r.classOf[r.span.kind[i]] !== wanted) continue;
          const start = (r.span.start[i] / r.total) * BINS;
          spread(bins, start, start + (r.span.duration[i] / r.total) * BINS, r.span.size[i]);
          bytes += r.span.size[i];
        }
      }
      if (!bytes) continue;
      const sums = new Float64Array(BINS + 1);
      for (let i = 0; i < BINS; i++) sums[i + 1] = sums[i] + bins[i];
      const who = role === "none" || role === "" ? "" : `${role}: `;
      found.push({ name: `${who}${LABEL[move]}`, class: wanted, lanes, sums, bytes });
    }
  }
  return found.sort((a, b) => b.bytes - a.bytes).slice(0, 4);
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
export function bytesIn(r: Recording, s: Series, a: number, b: number, count: number): Float64Array {
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
      if (end < a || !r.span.size[i] || r.classOf[r.span.kind[i]] !== s.class) continue;
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
