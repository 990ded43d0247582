// Which instant of one run corresponds to which of the other: a function that only grows, piecewise linear, the same there and back.

/** Linear pieces between knots that grow in both runs; beyond the last knots time goes on at the same speed in both. */
export class Mapping {
  constructor(readonly a: ArrayLike<number>, readonly b: ArrayLike<number>) {
    if (a.length !== b.length || a.length < 2) throw new Error("a mapping needs two knots or more");
    for (let i = 1; i < a.length; i++) if (!(a[i] > a[i - 1]) || !(b[i] > b[i - 1])) throw new Error("the knots of a mapping must grow");
  }
  to(t: number): number {
    return follow(this.a, this.b, t);
  }
  back(t: number): number {
    return follow(this.b, this.a, t);
  }
}

function follow(from: ArrayLike<number>, to: ArrayLike<number>, t: number): number {
  const last = from.length - 1;
  if (t <= from[0]) return to[0] + (t - from[0]);
  if (t >= from[last]) return to[last] + (t - from[last]);
  let [low, high] = [0, last];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle] <= t) low = middle;
    else high = middle;
  }
  return to[low] + ((t - from[low]) / (from[high] - from[low])) * (to[high] - to[low]);
}

/** Knots that do not grow in both runs are left out; the ends stay. */
export function mappingOf(knots: [a: number, b: number][], wallA: number, wallB: number): Mapping {
  const least = 1e-9;
  const kept: [number, number][] = [[0, 0]];
  for (const [a, b] of [...knots].sort((p, q) => p[0] - q[0])) {
    const [lastA, lastB] = kept[kept.length - 1];
    if (a - lastA > least * wallA && b - lastB > least * wallB && wallA - a > least * wallA && wallB - b > least * wallB) kept.push([a, b]);
  }
  kept.push([Math.max(wallA, 1e-9), Math.max(wallB, 1e-9)]);
  return new Mapping(kept.map(([a]) => a), kept.map(([, b]) => b));
}

/** Second for second. */
export const byTime = (): Mapping => new Mapping([0, 1], [0, 1]);

export interface Phase {
  name: string;
  start_s: number;
  end_s: number;
}

/** The longest run of phases that both have in one order (names may repeat). */
export function commonPhases(a: Phase[], b: Phase[]): [number, number][] {
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let k = b.length - 1; k >= 0; k--) longest[i][k] = a[i].name === b[k].name ? longest[i + 1][k + 1] + 1 : Math.max(longest[i + 1][k], longest[i][k + 1]);
  }
  const pairs: [number, number][] = [];
  for (let [i, k] = [0, 0]; i < a.length && k < b.length;) {
    if (a[i].name === b[k].name) pairs.push([i++, k++]);
    else if (longest[i + 1][k] >= longest[i][k + 1]) i++;
    else k++;
  }
  return pairs;
}

/** Phase for phase, by name; null if the runs have none in common. */
export function byPhase(a: Phase[], b: Phase[], wallA: number, wallB: number): Mapping | null {
  const pairs = commonPhases(a, b);
  if (!pairs.length) return null;
  return mappingOf(pairs.flatMap(([i, k]) => [[a[i].start_s, b[k].start_s], [a[i].end_s, b[k].end_s]] as [number, number][]), wallA, wallB);
}

/** The progress of a run: times, and the part of its bytes moved by then. Both only grow. */
export interface Progress {
  t: Float64Array;
  part: Float64Array;
}

/**
 * While no byte moves, time still counts a little: else a gap would be one instant of the other run, and a view inside of the gap none.
 * One part of fifty keeps the halves of the bytes within one part of fifty of each other.
 */
const TILT = 0.02;

/** Bytes up to each of equidistant instants of `0..wall_s`, as progress from 0 to 1. */
export function progressOf(cumulative: ArrayLike<number>, wall_s: number): Progress {
  const n = cumulative.length;
  const total = cumulative[n - 1] || 1;
  const t = new Float64Array(n);
  const part = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const share = i / (n - 1);
    t[i] = share * wall_s;
    part[i] = (1 - TILT) * (cumulative[i] / total) + TILT * share;
  }
  part[n - 1] = 1;
  return { t, part };
}

/** Byte for byte: where one run has moved a part of its bytes, the other has moved the same part. */
export function byByte(a: Progress, b: Progress): Mapping {
  const parts = [...new Set([...a.part, ...b.part])].sort((x, y) => x - y);
  const knots = parts.map((part): [number, number] => [follow(a.part, a.t, part), follow(b.part, b.t, part)]);
  return mappingOf(knots, a.t[a.t.length - 1], b.t[b.t.length - 1]);
}
