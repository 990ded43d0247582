// Levels of detail. A lane's spans may overlap; what a lane shows at an instant is one span. So a lane is first flattened into segments
// that do not overlap; then, if it has many, the area of each class is summed by bucket, and each further level halves the number of buckets.
// "The longest span wins" was rejected: a bucket of many short spans would show the wrong shares.

import { COMPUTE, OTHER } from "../palette";

/** Segments of a lane below this number are drawn one by one. */
export const FEW_SEGMENTS = 2048;
const MOST_BUCKETS = 1 << 17;
/** Spans of one lane that are open at once; beyond, the oldest is forgotten. */
const MOST_OPEN = 64;
/** The area of a full bucket. */
export const FULL = 65535;

export interface Levels {
  /** The tick at which the first bucket begins. */
  from: number;
  /** Ticks that all buckets of a level cover. */
  total: number;
  /** The classes that occur, in the order of a bucket's values. */
  classes: number[];
  /** Number of buckets of each level, finest first. */
  buckets: number[];
  /** Values by level: bucket × class, as parts of FULL. */
  areas: Uint16Array[];
}

/** Growing arrays of segments. */
export class Segments {
  start: Uint32Array;
  end: Uint32Array;
  span: Uint32Array;
  kind: Uint8Array;
  length = 0;

  constructor(capacity: number) {
    this.start = new Uint32Array(capacity);
    this.end = new Uint32Array(capacity);
    this.span = new Uint32Array(capacity);
    this.kind = new Uint8Array(capacity);
  }

  push(start: number, end: number, span: number, kind: number): void {
    if (this.length === this.start.length) this.grow();
    this.start[this.length] = start;
    this.end[this.length] = end;
    this.span[this.length] = span;
    this.kind[this.length++] = kind;
  }

  private grow(): void {
    const next = new Segments(Math.max(1024, this.length * 2));
    next.start.set(this.start);
    next.end.set(this.end);
    next.span.set(this.span);
    next.kind.set(this.kind);
    [this.start, this.end, this.span, this.kind] = [next.start, next.end, next.span, next.kind];
  }
}

export interface Spans {
  start: ArrayLike<number>;
  duration: ArrayLike<number>;
  /** The class of each span, by way of its kind. */
  kind: ArrayLike<number>;
  classOf: ArrayLike<number>;
}

/** Computing is shown where nothing says more, a request where nothing within the request does; otherwise the innermost span is shown. */
const rank = (c: number): number => (c === COMPUTE ? 0 : c === OTHER ? 1 : 2);

/** Appends the segments of the spans `from..to` (one lane, sorted by start) to `out`. */
export function flatten(spans: Spans, from: number, to: number, out: Segments): void {
  const open: number[] = [];
  let cursor = 0;
  const endOf = (i: number) => spans.start[i] + Math.max(1, spans.duration[i]);
  const advance = (until: number) => {
    while (cursor < until && open.length) {
      let best = -1;
      let bestRank = -1;
      for (let k = open.length - 1; k >= 0; k--) {
        const i = open[k];
        if (endOf(i) <= cursor) {
          open.splice(k, 1);
          continue;
        }
        const r = rank(spans.classOf[spans.kind[i]]);
        if (r > bestRank || (r === bestRank && i > best)) {
          best = i;
          bestRank = r;
        }
      }
      if (best < 0) break;
      const end = Math.min(endOf(best), until);
      out.push(cursor, end, best, spans.classOf[spans.kind[best]]);
      cursor = end;
    }
  };
  for (let i = from; i < to; i++) {
    advance(spans.start[i]);
    cursor = Math.max(cursor, spans.start[i]);
    open.push(i);
    if (open.length > MOST_OPEN) open.shift();
  }
  advance(Infinity);
}

/** Adds the area of segments `from..to` to buckets of `width` ticks; `slot` maps a class to its place in a bucket. */
export function addAreas(s: Segments, from: number, to: number, width: number, slot: Int8Array, classes: number, into: Float32Array): void {
  const last = into.length / classes - 1;
  for (let i = from; i < to; i++) {
    const k = slot[s.kind[i]];
    const a = s.start[i] / width;
    const b = s.end[i] / width;
    const first = Math.min(last, Math.floor(a));
    const final = Math.min(last, Math.floor(b));
    if (first === final) {
      into[first * classes + k] += b - a;
      continue;
    }
    into[first * classes + k] += first + 1 - a;
    for (let j = first + 1; j < final; j++) into[j * classes + k] += 1;
    into[final * classes + k] += b - final;
  }
}

function halve(fine: Uint16Array, classes: number): Uint16Array {
  const buckets = fine.length / classes / 2;
  const coarse = new Uint16Array(buckets * classes);
  for (let b = 0; b < buckets; b++) {
    for (let c = 0; c < classes; c++) coarse[b * classes + c] = (fine[2 * b * classes + c] + fine[(2 * b + 1) * classes + c] + 1) >> 1;
  }
  return coarse;
}

export function pyramid(classes: number[], finest: Float32Array, scale: number, total: number): Levels {
  const n = classes.length;
  const areas = new Uint16Array(finest.length);
  for (let i = 0; i < finest.length; i++) areas[i] = Math.min(FULL, Math.round(finest[i] * scale * FULL));
  return coarser({ from: 0, total, classes, buckets: [finest.length / n], areas: [areas] });
}

/** Adds the coarser levels to the finest one. */
export function coarser(levels: Levels): Levels {
  const n = levels.classes.length;
  let [areas] = levels.areas;
  while (areas.length / n > 512) {
    areas = halve(areas, n);
    levels.areas.push(areas);
    levels.buckets.push(areas.length / n);
  }
  return levels;
}

export function usedClasses(s: Segments, from: number, to: number): { classes: number[]; slot: Int8Array } {
  const slot = new Int8Array(256).fill(-1);
  const classes: number[] = [];
  for (let i = from; i < to; i++) {
    const c = s.kind[i];
    if (slot[c] < 0) slot[c] = classes.push(c) - 1;
  }
  return { classes, slot };
}

/** Makes the levels of segments `from..to`, or null if they are few. */
export function makeLevels(s: Segments, from: number, to: number, total: number): Levels | null {
  if (to - from < FEW_SEGMENTS) return null;
  const { classes, slot } = usedClasses(s, from, to);
  const wanted = 2 ** Math.ceil(Math.log2((to - from) / 2));
  const buckets = Math.min(MOST_BUCKETS, Math.max(1024, wanted));
  const finest = new Float32Array(buckets * classes.length);
  addAreas(s, from, to, total / buckets, slot, classes.length, finest);
  return pyramid(classes, finest, 1, total);
}

/** First index in `from..to` whose value is greater than `x`; the values are sorted. */
export function upper(values: ArrayLike<number>, from: number, to: number, x: number): number {
  while (from < to) {
    const mid = (from + to) >>> 1;
    if (values[mid] > x) to = mid;
    else from = mid + 1;
  }
  return from;
}
