// The colours of the levels' buckets, mixed once and kept: the painter's short way while the view moves. Mixing takes longer than a frame
// may, so it is done ahead while the page is idle; what is missing in a frame is mixed within a budget, else the nearest level serves.

import { FULL, type Levels } from "../data/levels";
import type { Colours } from "./columns";

export const pack = (r: number, g: number, b: number): number => (255 << 24) | (b << 16) | (g << 8) | r;

/** A column's strength, 0 to 255: one that is covered at all must be visible, and the stronger the more of it is covered. */
export const alpha = (area: number, strength: number): number => (area >= 1 ? 255 * strength : (71 + 184 * area) * strength) | 0;

/** A level's buckets as colours whose highest byte is the strength: of work, and of work and waits. */
export interface Mixed {
  full: Uint32Array;
  both: Uint32Array;
}

/** Milliseconds of a frame that may go into mixing. */
const BUDGET_MS = 6;

export class Mixes {
  private kept = new Map<Levels, (Mixed | undefined)[]>();
  private key = "";
  private colours: Colours | null = null;
  private stopped = 0;
  private until = 0;

  /** Begins a frame; other colours than before drop what was mixed. */
  begin(key: string, colours: Colours, stopped: number): void {
    if (key !== this.key) this.kept.clear();
    [this.key, this.colours, this.stopped] = [key, colours, stopped];
    this.until = performance.now() + BUDGET_MS;
  }

  private make(levels: Levels, level: number): Mixed {
    let all = this.kept.get(levels);
    if (!all) this.kept.set(levels, (all = []));
    return (all[level] ??= mixLevel(levels, level, this.colours!, this.stopped));
  }

  /** The colours of a level, or of the nearest one that is there when the frame's budget is spent. */
  of(levels: Levels, level: number): Mixed | null {
    const all = this.kept.get(levels);
    const found = all?.[level];
    if (found) return found;
    if (performance.now() < this.until) return this.make(levels, level);
    for (let by = 1; all && by < levels.buckets.length; by++) {
      const near = all[level - by] ?? all[level + by];
      if (near) return near;
    }
    return null;
  }

  /** Mixes what is missing, coarsest levels first, for up to `ms`; returns whether there is more to do. */
  ahead(all: Levels[], ms: number): boolean {
    if (!this.colours) return true;
    const end = performance.now() + ms;
    const most = all.reduce((n, levels) => Math.max(n, levels.buckets.length), 0);
    for (let up = 1; up <= most; up++) {
      for (const levels of all) {
        const level = levels.buckets.length - up;
        if (level < 0 || this.kept.get(levels)?.[level]) continue;
        if (performance.now() > end) return true;
        this.make(levels, level);
      }
    }
    return false;
  }
}

function mixLevel(levels: Levels, level: number, k: Colours, stopped: number): Mixed {
  const n = levels.classes.length;
  const areas = levels.areas[level];
  const buckets = levels.buckets[level];
  const [red, green, blue] = [k.r, k.g, k.b].map((part) => Float64Array.from(levels.classes, (c) => part[c] / FULL));
  const layer = Uint8Array.from(levels.classes, (c) => k.layer[c]);
  const mixed = { full: new Uint32Array(buckets), both: new Uint32Array(buckets) };
  for (let b = 0, i = 0; b < buckets; b++) {
    // One by one: an array taken apart here costs more than all that follows.
    let r = 0;
    let g = 0;
    let bl = 0;
    let work = 0;
    let stop = 0;
    let wr = 0;
    let wg = 0;
    let wb = 0;
    let wait = 0;
    for (let c = 0; c < n; c++, i++) {
      const area = areas[i];
      if (area === 0) continue;
      if (layer[c] === 1) {
        wr += red[c] * area;
        wg += green[c] * area;
        wb += blue[c] * area;
        wait += area;
      } else if (layer[c] !== 3) {
        r += red[c] * area;
        g += green[c] * area;
        bl += blue[c] * area;
        work += area;
        if (layer[c] === 2) stop += area;
      }
    }
    if (work > 0) {
      const p = FULL / work;
      mixed.full[b] = ((stop * 2 > work ? stopped : pack(r * p, g * p, bl * p)) & 0xffffff) | (alpha(work / FULL, 1) << 24);
    }
    if (work + wait > 0) {
      const p = FULL / (work + wait);
      mixed.both[b] = (pack((r + wr) * p, (g + wg) * p, (bl + wb) * p) & 0xffffff) | (alpha((work + wait) / FULL, 1) << 24);
    }
  }
  return mixed;
}
