// Arrows: pairs of instants on two lanes, from a request to where it was served, back by its reply, and from a message's sender to its
// receiver. Made by `prepare` in the worker; found by span and by time.

import { upper } from "./levels";

/** The planes `arrow.*`. */
export interface Arrows {
  fromLane: Uint16Array;
  from: Uint32Array;
  toLane: Uint16Array;
  to: Uint32Array;
  /** Index in the header's `arrows`. */
  kind: Uint8Array;
  /** 1 + index of the span; 0: none. */
  fromSpan: Uint32Array;
  toSpan: Uint32Array;
}

export interface ArrowIndex {
  /** All arrows in order of the instant at which they begin, and these instants. */
  order: Uint32Array;
  begins: Uint32Array;
  /** The longest arrow, in ticks. */
  longest: number;
  /** The spans that an arrow touches, in order, and the arrow of each. */
  span: Uint32Array;
  ofSpan: Uint32Array;
}

/** Arrows of one span beyond this number are not drawn. Instead: the first ones. */
const MOST_OF_SPAN = 64;
/** Bound: with a key of 32 bits, a number below 2^21 fits into a double's 53 bits. Instead of further arrows, none. */
const PLACES = 2 ** 21;

/** Sorts numbers below `PLACES` by keys below 2^32; returns both in order. */
function sorted(keys: Uint32Array, numbers: Uint32Array): { keys: Uint32Array; numbers: Uint32Array } {
  const both = Float64Array.from(keys, (key, i) => key * PLACES + numbers[i]);
  both.sort();
  return { keys: Uint32Array.from(both, (x) => Math.floor(x / PLACES)), numbers: Uint32Array.from(both, (x) => x % PLACES) };
}

export function indexArrows(arrows: Arrows): ArrowIndex {
  const { from, to, fromSpan, toSpan } = arrows;
  const n = Math.min(from.length, PLACES);
  const byTime = sorted(from.subarray(0, n), Uint32Array.from({ length: n }, (_, i) => i));
  const keys: number[] = [];
  const of: number[] = [];
  let longest = 0;
  for (let i = 0; i < n; i++) {
    longest = Math.max(longest, to[i] - from[i]);
    for (const span of [fromSpan[i], toSpan[i]]) {
      if (!span) continue;
      keys.push(span - 1);
      of.push(i);
    }
  }
  const bySpan = sorted(Uint32Array.from(keys), Uint32Array.from(of));
  return { order: byTime.numbers, begins: byTime.keys, longest, span: bySpan.keys, ofSpan: bySpan.numbers };
}

/** The arrows that begin or end at a span. */
export function arrowsOf(arrows: ArrowIndex, span: number): number[] {
  const found: number[] = [];
  const { span: spans, ofSpan } = arrows;
  for (let i = upper(spans, 0, spans.length, span - 1); i < spans.length && spans[i] === span && found.length < MOST_OF_SPAN; i++) found.push(ofSpan[i]);
  return found;
}

/** The arrows that reach into an interval and that `wanted` takes; null if there are more than `most`. */
export function arrowsIn(index: ArrowIndex, to: Uint32Array, a: number, b: number, most: number, wanted: (arrow: number) => boolean): number[] | null {
  const { begins, order, longest } = index;
  const found: number[] = [];
  // Each arrow looked at is one that could reach into the interval: many of those are many arrows.
  let looked = 0;
  for (let i = upper(begins, 0, begins.length, a - longest - 1); i < begins.length && begins[i] <= b; i++) {
    if (++looked > 50 * most) return null;
    if (to[order[i]] < a || !wanted(order[i])) continue;
    if (found.push(order[i]) > most) return null;
  }
  return found;
}
