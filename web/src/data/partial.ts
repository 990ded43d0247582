// Lanes of which spans were left out: what such a lane did is in the pyramid that comes with the page, and only the longest spans and those
// on the critical path are there themselves. The finest level comes from crates/report; the coarser ones are made here.

import { CLASSES } from "../palette";
import type { Planes } from "./decode";
import type { Header } from "./header";
import { coarser, FULL, type Levels } from "./levels";

/** The areas in the page are bytes. */
const WIDEN = FULL / 255;
/** What rounding to a byte may have taken from a bucket, as a share. */
export const ROUNDED = 1 / 255;

/** The areas of rows `first..first + n` as a level, class by class within a bucket. */
function interleave(area: Uint8Array, first: number, n: number, buckets: number): Uint16Array {
  const out = new Uint16Array(buckets * n);
  for (let k = 0, at = first * buckets; k < n; k++) {
    for (let b = 0, i = k; b < buckets; b++, i += n) out[i] = area[at++] * WIDEN;
  }
  return out;
}

/**
 * The levels of each lane that has areas in the page; `classOf` gives the class of a name. `early`: for the first picture, from a
 * level that is no finer than a screen, if the page has it.
 */
export function levelsInPage(header: Header, planes: Planes, classOf: (name: string) => number, early = false): Map<number, Levels> {
  const found = new Map<number, Levels>();
  const { pyramid } = header;
  const coarse = early ? planes["first.area"] : undefined;
  const [lane, row, area] = [planes["level.lane"], planes["level.class"], coarse ?? planes["level.area"]];
  if (!pyramid || !lane || !row || !area) return found;
  const { span: [from, to] } = pyramid;
  const buckets = coarse ? coarse.length / lane.length : pyramid.buckets;
  if (!(buckets > 0) || !(to > from) || area.length !== lane.length * buckets) throw new Error("The pyramid's planes do not fit its header.");
  for (let first = 0; first < lane.length;) {
    let next = first;
    while (next < lane.length && lane[next] === lane[first]) next++;
    const n = next - first;
    const classes = Array.from({ length: n }, (_, k) => classOf(pyramid.classes[row[first + k]] ?? ""));
    const finest = interleave(area as Uint8Array, first, n, buckets);
    found.set(lane[first], coarser({ from, total: to - from, classes, buckets: [buckets], areas: [finest] }));
    first = next;
  }
  return found;
}

/** Adds the ticks of each class within an interval to `into`; a bucket that the interval cuts counts in proportion. */
export function addTicks(levels: Levels, a: number, b: number, into: Float64Array, level = 0): void {
  const n = levels.classes.length;
  const ticks = levels.total / levels.buckets[level];
  const first = Math.max(0, (a - levels.from) / ticks);
  const last = Math.min(levels.buckets[level], (b - levels.from) / ticks);
  const areas = levels.areas[level];
  for (let i = Math.floor(first); i < last; i++) {
    const share = (Math.min(i + 1, last) - Math.max(i, first)) * (ticks / FULL);
    for (let c = 0; c < n; c++) into[levels.classes[c]] += areas[i * n + c] * share;
  }
}

/** Adds a lane's areas to a group's buckets of `width` ticks; `slot` maps a class to its place in a bucket. */
export function addToGroup(levels: Levels, width: number, slot: Int8Array, classes: number, into: Float32Array): void {
  const n = levels.classes.length;
  const last = into.length / classes - 1;
  let level = 0;
  while (level + 1 < levels.buckets.length && levels.buckets[level + 1] >= into.length / classes) level++;
  const ticks = levels.total / levels.buckets[level];
  for (let b = 0; b < levels.buckets[level]; b++) {
    const [x0, x1] = [(levels.from + b * ticks) / width, (levels.from + (b + 1) * ticks) / width];
    for (let x = Math.floor(x0); x < x1 && x <= last; x++) {
      const share = (Math.min(x + 1, x1) - Math.max(x, x0)) / FULL;
      for (let c = 0; c < n; c++) into[x * classes + slot[levels.classes[c]]] += levels.areas[level][b * n + c] * share;
    }
  }
}

/** Ticks in each class of the lane, over all buckets. */
export function ticksByClass(levels: Levels): Float64Array {
  const ticks = new Float64Array(CLASSES.length);
  addTicks(levels, levels.from, levels.from + levels.total, ticks, levels.buckets.length - 1);
  return ticks;
}
