// The area of work, waiting and stops by pixel column, of one lane or of several: what is drawn is a colour per column, not a rectangle per
// span. Rectangles and callbacks cost more than pixels (a million spans: 180 ms a frame; so: 20 ms).

import { FULL, upper, type Levels } from "../data/levels";
import { ROUNDED } from "../data/partial";
import type { SegmentArrays } from "../data/recording";
import { CLASSES, isWait, rgb, STOPPED } from "../palette";
import type { View } from "../view/scale";

/** Segments within the view below which they are taken one by one although there are levels. */
const DIRECT = 3000;

export interface Colours {
  r: Float32Array;
  g: Float32Array;
  b: Float32Array;
  /** 0 work, 1 wait, 2 stopped, 3 not shown. */
  layer: Uint8Array;
}

export function makeColours(hex: string[], isCause: boolean, hidden: Set<number>): Colours {
  const n = Math.max(1, hex.length);
  const colours = { r: new Float32Array(n), g: new Float32Array(n), b: new Float32Array(n), layer: new Uint8Array(256) };
  hex.forEach((h, i) => {
    [colours.r[i], colours.g[i], colours.b[i]] = rgb(h);
    colours.layer[i] = hidden.has(i) ? 3 : isCause ? 0 : i === STOPPED ? 2 : isWait(i) ? 1 : 0;
  });
  return colours;
}

export interface Source {
  segments: SegmentArrays;
  from: number;
  to: number;
  levels: Levels | null;
  /** Whether spans of the lane were left out. */
  partial?: boolean;
}

/** Scratch: ticks of each class within a bucket. */
const kept = new Float64Array(CLASSES.length);
const whole = new Float64Array(CLASSES.length);

/** Adds a colour to the columns from `x0` to `x1`, which are within the picture: one loop, no call for each column. */
function spread(into: Float32Array, width: number, x0: number, x1: number, red: number, green: number, blue: number, weight: number): void {
  const r = red * weight;
  const g = green * weight;
  const b = blue * weight;
  const first = x0 | 0;
  const final = Math.min(width - 1, x1 | 0);
  for (let x = first; x <= final; x++) {
    const area = x > first && x < final ? 1 : Math.min(x1, x + 1) - Math.max(x0, x);
    if (area <= 0) continue;
    const at = 4 * x;
    into[at] += r * area;
    into[at + 1] += g * area;
    into[at + 2] += b * area;
    into[at + 3] += area * weight;
  }
}

export class Columns {
  /** Red, green, blue and area of work and of waits, by column. */
  work: Float32Array;
  wait: Float32Array;
  stop: Float32Array;
  hasStop = false;
  hasWork = false;
  hasWait = false;

  constructor(readonly width: number) {
    this.work = new Float32Array(width * 4);
    this.wait = new Float32Array(width * 4);
    this.stop = new Float32Array(width);
  }

  clear(): void {
    if (this.hasWork) this.work.fill(0);
    if (this.hasWait) this.wait.fill(0);
    if (this.hasStop) this.stop.fill(0);
    this.hasStop = this.hasWork = this.hasWait = false;
  }

  private put(x: number, area: number, c: number, k: Colours): void {
    const layer = k.layer[c];
    if (layer === 0) {
      const at = x * 4;
      this.work[at] += k.r[c] * area;
      this.work[at + 1] += k.g[c] * area;
      this.work[at + 2] += k.b[c] * area;
      this.work[at + 3] += area;
      this.hasWork = true;
    } else if (layer === 1) {
      const at = x * 4;
      this.wait[at] += k.r[c] * area;
      this.wait[at + 1] += k.g[c] * area;
      this.wait[at + 2] += k.b[c] * area;
      this.wait[at + 3] += area;
      this.hasWait = true;
    } else if (layer === 2) {
      this.stop[x] += area;
      this.hasStop = true;
    }
  }

  private interval(x0: number, x1: number, c: number, k: Colours, weight: number): void {
    const last = this.width - 1;
    const a = Math.max(0, x0);
    const b = Math.min(this.width, x1);
    if (b <= a) return;
    const first = Math.min(last, Math.floor(a));
    const final = Math.min(last, Math.floor(b));
    if (first === final) return this.put(first, (b - a) * weight, c, k);
    this.put(first, (first + 1 - a) * weight, c, k);
    for (let x = first + 1; x < final; x++) this.put(x, weight, c, k);
    if (b > final) this.put(final, (b - final) * weight, c, k);
  }

  /** Adds a lane; `mask` leaves out spans that do not match. */
  add(source: Source, view: View, k: Colours, weight = 1, mask: Uint8Array | null = null): void {
    if (source.partial && !mask) return this.addPartial(source, view, k, weight);
    const { start, end } = source.segments;
    const first = upper(end, source.from, source.to, view.a);
    const last = upper(start, first, source.to, view.b);
    const level = mask || last - first < DIRECT ? -1 : this.levelFor(source.levels, view);
    if (level >= 0) this.addLevel(source.levels!, level, view, k, weight);
    else this.addSegments(source.segments, first, last, view, k, weight, mask);
  }

  private addSegments(segments: SegmentArrays, first: number, last: number, view: View, k: Colours, weight: number, mask: Uint8Array | null): void {
    const { start, end, span, kind } = segments;
    const scale = this.width / (view.b - view.a);
    const { work, wait, width } = this;
    for (let i = first; i < last; i++) {
      if (mask && !mask[span[i]]) continue;
      const x0 = Math.max(0, (start[i] - view.a) * scale);
      const x1 = Math.min(width, (end[i] - view.a) * scale);
      const c = kind[i];
      const layer = k.layer[c];
      if (layer > 1) {
        this.interval(x0, x1, c, k, weight);
        continue;
      }
      if (layer === 0) this.hasWork = true;
      else this.hasWait = true;
      spread(layer === 0 ? work : wait, width, x0, x1, k.r[c], k.g[c], k.b[c], weight);
    }
  }

  /**
   * Adds a lane of which spans were left out. Where the finest buckets are wider than columns, the spans that are there are drawn, and
   * what the bucket has beyond them, spread over the bucket. A span of whose time shorter ones within it took a part is as much fainter.
   */
  private addPartial(source: Source, view: View, k: Colours, weight: number): void {
    const levels = source.levels!;
    const level = this.levelFor(levels, view);
    if (level >= 0) this.addLevel(levels, level, view, k, weight);
    else this.blend(source, view, k, weight);
    // Before and after the buckets there is nothing but the spans.
    const { start, end } = source.segments;
    const after = levels.from + levels.total;
    if (view.a < levels.from) this.outside(source, upper(end, source.from, source.to, view.a), upper(start, source.from, source.to, levels.from), view, { a: view.a, b: levels.from }, k, weight);
    if (view.b > after) this.outside(source, upper(end, source.from, source.to, after), upper(start, source.from, source.to, view.b), view, { a: after, b: view.b }, k, weight);
  }

  /** Adds the parts of segments that lie within an interval. */
  private outside(source: Source, first: number, last: number, view: View, within: View, k: Colours, weight: number): void {
    const { start, end, kind } = source.segments;
    const scale = this.width / (view.b - view.a);
    for (let i = first; i < last; i++) {
      const [a, b] = [Math.max(start[i], within.a), Math.min(end[i], within.b)];
      if (b > a) this.interval((a - view.a) * scale, (b - view.a) * scale, kind[i], k, weight);
    }
  }

  /** Adds an interval of columns, which may reach out of the picture. */
  private part(x0: number, x1: number, c: number, k: Colours, weight: number): void {
    const layer = k.layer[c];
    if (layer > 1) return this.interval(x0, x1, c, k, weight);
    if (layer === 0) this.hasWork = true;
    else this.hasWait = true;
    spread(layer === 0 ? this.work : this.wait, this.width, Math.max(0, x0), Math.min(this.width, x1), k.r[c], k.g[c], k.b[c], weight);
  }

  /** Adds what a bucket has beyond its spans: one mixture for work and one for waits, not a pass over the columns for each class. */
  private rest(classes: number[], ticks: number, x0: number, x1: number, k: Colours, weight: number): void {
    const mixture = [new Float64Array(4), new Float64Array(4)];
    for (const c of classes) {
      const rest = ((whole[c] - kept[c]) / ticks) * weight;
      if (rest <= ROUNDED * weight) continue;
      const layer = k.layer[c];
      if (layer > 1) {
        this.interval(x0, x1, c, k, rest);
        continue;
      }
      const into = mixture[layer];
      into[0] += k.r[c] * rest;
      into[1] += k.g[c] * rest;
      into[2] += k.b[c] * rest;
      into[3] += rest;
    }
    mixture.forEach(([r, g, b, area], layer) => {
      if (!area) return;
      if (layer === 0) this.hasWork = true;
      else this.hasWait = true;
      spread(layer === 0 ? this.work : this.wait, this.width, Math.max(0, x0), Math.min(this.width, x1), r / area, g / area, b / area, area);
    });
  }

  private blend(source: Source, view: View, k: Colours, weight: number): void {
    const levels = source.levels!;
    const { start, end, kind } = source.segments;
    const n = levels.classes.length;
    const ticks = levels.total / levels.buckets[0];
    const scale = this.width / (view.b - view.a);
    const final = Math.min(levels.buckets[0], Math.ceil((view.b - levels.from) / ticks));
    let first = upper(end, source.from, source.to, Math.max(view.a, levels.from));
    for (let b = Math.max(0, Math.floor((view.a - levels.from) / ticks)); b < final; b++) {
      const t0 = levels.from + b * ticks;
      const t1 = t0 + ticks;
      kept.fill(0);
      whole.fill(0);
      // The bucket's first span may begin left of the view.
      while (first > source.from && end[first - 1] > t0) first--;
      let last = first;
      for (; last < source.to && start[last] < t1; last++) kept[kind[last]] += Math.min(end[last], t1) - Math.max(start[last], t0);
      for (let c = 0; c < n; c++) whole[levels.classes[c]] = (levels.areas[0][b * n + c] / FULL) * ticks;
      for (let i = first; i < last; i++) {
        const c = kind[i];
        const strength = Math.min(1, (whole[c] + ticks * ROUNDED) / kept[c]);
        this.part((Math.max(start[i], t0) - view.a) * scale, (Math.min(end[i], t1) - view.a) * scale, c, k, strength * weight);
      }
      this.rest(levels.classes, ticks, (t0 - view.a) * scale, (t1 - view.a) * scale, k, weight);
      first = last;
    }
  }

  /** The coarsest level whose buckets are not wider than a column; -1 if the finest is wider than two columns. */
  private levelFor(levels: Levels | null, view: View): number {
    if (!levels) return -1;
    const needed = (this.width * levels.total) / (view.b - view.a);
    if (levels.buckets[0] < needed / 2) return -1;
    let level = 0;
    while (level + 1 < levels.buckets.length && levels.buckets[level + 1] >= needed) level++;
    return level;
  }

  addLevel(levels: Levels, level: number, view: View, k: Colours, weight: number): void {
    const { classes } = levels;
    const n = classes.length;
    const areas = levels.areas[level];
    const buckets = levels.buckets[level];
    const ticks = levels.total / buckets;
    const scale = this.width / (view.b - view.a);
    const first = Math.max(0, Math.floor((view.a - levels.from) / ticks));
    const last = Math.min(buckets, Math.ceil((view.b - levels.from) / ticks));
    const wide = ticks * scale;
    for (let b = first; b < last; b++) {
      const x0 = (levels.from + b * ticks - view.a) * scale;
      const one = Math.floor(x0) === Math.floor(x0 + wide) && x0 >= 0 && x0 < this.width;
      for (let c = 0; c < n; c++) {
        const area = areas[b * n + c];
        if (area === 0) continue;
        if (one) this.put(Math.floor(x0), (area / FULL) * wide * weight, classes[c], k);
        else this.interval(x0, x0 + wide, classes[c], k, (area / FULL) * weight);
      }
    }
  }
}
