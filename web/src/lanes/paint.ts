// Paints the visible rows into an image: per lane one row of pixels for work, one for waits (the middle band), one for stops (stripes),
// each copied down as often as the lane is high.

import type { Levels } from "../data/levels";
import type { Recording } from "../data/recording";
import { causeColour, classColour, CLASSES, rgb, STOPPED, type Theme } from "../palette";
import type { View } from "../view/scale";
import { Columns, makeColours, type Colours, type Source } from "./columns";
import { alpha, Mixes, pack } from "./mixes";
import type { Row } from "./rows";

/** How strongly the gaps carry the colour of their cause. */
const TINT_LIGHT = 0.13;
const TINT_DARK = 0.2;
/** The largest causes tint the background; more would be a rainbow. */
const TINTED = 3;
/** While the view moves, a bucket may be this many columns wide. */
const COARSE = 4;
/** Rows of at most this height are low: hundreds are in view. */
const LOW = 8;
/** What does not match the filter is drawn this faintly. */
const DIMMED = 0.16;

export interface PaintOptions {
  theme: Theme;
  hidden: Set<number>;
  mask: Uint8Array | null;
  tint: boolean;
  /** Whether the view moves: then the picture may be coarser by a column or two. */
  moving: boolean;
}

/** The critical path's pieces by lane: `index[from[l]..from[l+1]]`. */
export interface PathByLane {
  from: Uint32Array;
  index: Uint32Array;
}

export function pathByLane(r: Recording): PathByLane {
  const n = r.lanes.length;
  const from = new Uint32Array(n + 1);
  for (const lane of r.path.lane) if (lane < n) from[lane + 1]++;
  for (let i = 0; i < n; i++) from[i + 1] += from[i];
  const [next, index] = [from.slice(), new Uint32Array(from[n])];
  r.path.lane.forEach((lane, i) => {
    if (lane < n) index[next[lane]++] = i;
  });
  return { from, index };
}

export class Painter {
  private columns = new Columns(1);
  private dim = new Columns(1);
  /** The row behind a lane: tinted by cause; plain for lanes on an axis of their own, since no cause was charged at their instants. */
  private background = new Uint32Array(1);
  private tinted = new Uint32Array(1);
  private plain = new Uint32Array(1);
  private full = new Uint32Array(1);
  private middle = new Uint32Array(1);
  private striped = new Uint32Array(1);
  private classes: Colours = makeColours([], false, new Set());
  private causes: Colours = makeColours([], true, new Set());

  constructor(private r: Recording, private byLane: PathByLane) {}

  /** Mixes colours ahead, for up to `ms`; returns whether there is more to do. */
  ahead(ms: number): boolean {
    const all = [...Object.values(this.r.groups), ...this.r.lanes.map((lane) => lane.levels).filter((l): l is Levels => !!l)];
    return this.mixes.ahead(all, ms);
  }

  private resize(width: number): void {
    if (this.columns.width === width) return;
    this.columns = new Columns(width);
    this.dim = new Columns(width);
    this.tinted = new Uint32Array(width);
    this.plain = new Uint32Array(width);
    this.background = this.tinted;
    this.full = new Uint32Array(width);
    this.middle = new Uint32Array(width);
    this.striped = new Uint32Array(width);
  }

  private prepare(width: number, o: PaintOptions): void {
    this.resize(width);
    this.stopped = pack(...rgb(classColour(STOPPED, o.theme.dark)));
    this.classes = makeColours(CLASSES.map((_, c) => classColour(c, o.theme.dark)), false, o.hidden);
    this.causes = makeColours(this.r.header.causes.map((c) => causeColour(c.name, o.theme.dark)), true, new Set());
  }

  private pathSource(): Source {
    const s = this.r.pathSegments;
    return { segments: s, from: 0, to: s.start.length, levels: this.r.pathLevels };
  }

  /** The row behind all lanes: paper, tinted by the cause that the critical path was charged to. */
  private makeBackground(view: View, o: PaintOptions): void {
    const paper = pack(...rgb(o.theme.paper));
    this.plain.fill(paper);
    this.background = this.tinted;
    this.background.fill(paper);
    if (!o.tint) return;
    const largest = new Set(this.r.header.causes.map((_, i) => i).sort((a, b) => this.r.header.causes[b].ns - this.r.header.causes[a].ns).slice(TINTED, 256));
    const some = makeColours(this.r.header.causes.map((c) => causeColour(c.name, o.theme.dark)), true, largest);
    this.columns.clear();
    this.columns.add(this.pathSource(), view, some);
    const { work } = this.columns;
    const strength = o.theme.dark ? TINT_DARK : TINT_LIGHT;
    for (let x = 0; x < this.columns.width; x++) {
      const area = Math.min(1, work[4 * x + 3]);
      if (area <= 0) continue;
      const w = work[4 * x + 3];
      this.background[x] = mix(paper, pack(work[4 * x] / w, work[4 * x + 1] / w, work[4 * x + 2] / w), (255 * strength * area) | 0);
    }
  }

  /** Mixes the columns over the background into rows of pixels. */
  private compose(columns: Columns, strength: number, over: Uint32Array): void {
    const { work, wait, stop, width } = columns;
    const { full, middle, striped } = this;
    full.set(over);
    middle.set(over);
    for (let x = 0; x < width; x++) {
      const at = 4 * x;
      const w = work[at + 3];
      const u = wait[at + 3];
      if (w > 0) {
        const p = 1 / w;
        full[x] = middle[x] = mix(over[x], pack(work[at] * p, work[at + 1] * p, work[at + 2] * p), alpha(w, strength));
      }
      if (u > 0) {
        const p = 1 / (w + u);
        const colour = pack((work[at] + wait[at]) * p, (work[at + 1] + wait[at + 1]) * p, (work[at + 2] + wait[at + 2]) * p);
        middle[x] = mix(over[x], colour, alpha(w + u, strength));
      }
    }
    if (!columns.hasStop) return;
    for (let x = 0; x < width; x++) striped[x] = stop[x] > 0 ? mix(full[x], this.stopped, alpha(stop[x], strength)) : full[x];
  }

  private stopped = 0;

  /**
   * Takes one bucket for each column, of one or two columns' width; `partial`: a low row of a lane of which spans were left out takes wider
   * ones too, and shows its spans when the view rests. Returns whether the lane has such a level.
   */
  private quick(levels: Levels | null, view: View, height: number, partial: boolean): boolean {
    const width = this.columns.width;
    if (!levels) return false;
    const needed = (width * levels.total) / (view.b - view.a);
    if (levels.buckets[0] < needed / COARSE && !(partial && height <= LOW)) return false;
    let level = 0;
    while (level + 1 < levels.buckets.length && levels.buckets[level] > needed) level++;
    const mixed = this.mixes.of(levels, level);
    if (!mixed) return false;
    const { full, both } = mixed;
    const step = both.length / needed;
    const last = both.length - 1;
    let at = ((view.a - levels.from) / levels.total) * both.length + step / 2;
    const { background } = this;
    for (let x = 0; x < width; x++, at += step) {
      const b = at > last ? last : at | 0;
      const over = background[x];
      if (at < 0) {
        this.full[x] = this.middle[x] = over;
        continue;
      }
      this.middle[x] = mix(over, both[b], both[b] >>> 24);
      if (height > 7) this.full[x] = mix(over, full[b], full[b] >>> 24);
    }
    return true;
  }

  private quickRow(row: Row, view: View, height: number): boolean {
    const group = this.groupLevels(row);
    if (group) return this.quick(group, view, height, false);
    const lane = row.lanes.length === 1 ? this.r.lanes[row.lanes[0]] : null;
    return !!lane && this.quick(lane.levels, view, height, lane.partial);
  }

  private mixes = new Mixes();

  private addLanes(columns: Columns, row: Row, view: View, mask: Uint8Array | null): void {
    columns.clear();
    const groups = this.groupLevels(row);
    const fine = groups && (columns.width * groups.total) / (view.b - view.a) > groups.buckets[0] * 2;
    if (groups && !fine && !mask) {
      let level = 0;
      const needed = (columns.width * groups.total) / (view.b - view.a);
      while (level + 1 < groups.buckets.length && groups.buckets[level + 1] >= needed) level++;
      return columns.addLevel(groups, level, view, this.classes, 1);
    }
    const weight = 1 / row.lanes.length;
    for (const index of row.lanes) {
      const lane = this.r.lanes[index];
      columns.add({ segments: this.r.segments, from: lane.from, to: lane.to, levels: lane.levels, partial: lane.partial }, view, this.classes, weight, mask);
    }
  }

  private groupLevels(row: Row): Levels | undefined {
    return row.type === "group" ? this.r.groups[row.key.slice(1)] : undefined;
  }

  /** Copies the row's pixels down: margins, work, the band of waits, stripes of stops. */
  private copy(pixels: Uint32Array, width: number, height: number, y: number, h: number, hasStop: boolean): void {
    const margin = h >= 14 ? 3 : h >= 6 ? 1 : 0;
    const band = h >= 8 ? Math.max(2, Math.round(h * 0.28)) : h;
    const bandFrom = Math.round((h - band) / 2);
    for (let line = 0; line < h; line++) {
      const at = y + line;
      if (at < 0 || at >= height) continue;
      const inside = line >= margin && line < h - margin;
      const row = !inside ? this.background : hasStop && line % 3 !== 2 ? this.striped : line >= bandFrom && line < bandFrom + band ? this.middle : this.full;
      pixels.set(row, at * width);
    }
  }

  /** Draws the critical path's pieces on a lane as a line along its top. */
  private pathLine(pixels: Uint32Array, width: number, height: number, lane: number, y: number, h: number, view: View): void {
    const { from, index } = this.byLane;
    const s = this.r.pathSegments;
    const scale = width / (view.b - view.a);
    const thick = h >= 14 ? 3 : 1;
    let [lo, hi] = [from[lane], from[lane + 1]];
    const end = hi;
    while (lo < hi) {
      const mid = (lo + hi) >>> 1;
      if (s.end[index[mid]] > view.a) hi = mid;
      else lo = mid + 1;
    }
    let drawn = -1;
    for (let k = lo; k < end; k++) {
      const i = index[k];
      if (s.start[i] >= view.b) break;
      const x0 = Math.max(0, drawn + 1, Math.floor((s.start[i] - view.a) * scale));
      const x1 = Math.min(width - 1, Math.floor((s.end[i] - view.a) * scale));
      if (x1 < x0) continue;
      const c = s.kind[i];
      const colour = pack(this.causes.r[c], this.causes.g[c], this.causes.b[c]);
      for (let line = 0; line < thick; line++) {
        const at = y + line;
        if (at >= 0 && at < height) pixels.fill(colour, at * width + x0, at * width + x1 + 1);
      }
      drawn = x1;
    }
  }

  /** Paints rows that begin at `top` (in the rows' coordinates) into `width` × `height` pixels; `scale` pixels are one row unit. */
  paint(pixels: Uint32Array, width: number, height: number, rows: Row[], top: number, scale: number, view: View, o: PaintOptions): void {
    this.prepare(width, o);
    this.mixes.begin(`${o.theme.dark} ${[...o.hidden].join()}`, this.classes, this.stopped);
    this.makeBackground(view, o);
    for (let y = 0; y < height; y++) pixels.set(this.background, y * width);
    for (const row of rows) {
      const y = Math.round((row.y - top) * scale);
      const h = Math.max(1, Math.round((row.y + row.h - top) * scale) - y);
      if (y + h <= 0 || y >= height) continue;
      this.background = row.clock ? this.plain : this.tinted;
      if (row.clock) for (let at = Math.max(0, y); at < Math.min(height, y + h); at++) pixels.set(this.plain, at * width);
      if (!row.lanes.length || (row.foldable && !row.folded)) continue;
      if (o.mask) {
        this.addLanes(this.dim, row, view, null);
        this.compose(this.dim, DIMMED, this.background);
        const dimmed = this.full.slice();
        this.addLanes(this.columns, row, view, o.mask);
        this.compose(this.columns, 1, dimmed);
      } else if (!(o.moving && this.quickRow(row, view, h))) {
        this.addLanes(this.columns, row, view, null);
        this.compose(this.columns, 1, this.background);
      } else this.columns.hasStop = false;
      this.copy(pixels, width, height, y, h, this.columns.hasStop);
      if (row.type === "lane") this.pathLine(pixels, width, height, row.lanes[0], y, h, view);
    }
  }

  /** Paints the critical path itself. */
  paintPath(pixels: Uint32Array, width: number, height: number, view: View, o: PaintOptions): void {
    this.prepare(width, o);
    const [r, g, b] = rgb(o.theme.paper);
    this.background = this.tinted;
    this.background.fill(pack(r, g, b));
    this.columns.clear();
    this.columns.add(this.pathSource(), view, this.causes);
    this.compose(this.columns, 1, this.background);
    for (let y = 0; y < height; y++) pixels.set(this.full, y * width);
  }
}

/** Mixes two packed colours; `a` is the strength of the second, 0 to 255. */
function mix(below: number, colour: number, a: number): number {
  if (a === 0) return below;
  const k = a + 1;
  const br = below & 0xff00ff;
  const bg = below & 0xff00;
  const r = (br + ((((colour & 0xff00ff) - br) * k) >> 8)) & 0xff00ff;
  const g = (bg + ((((colour & 0xff00) - bg) * k) >> 8)) & 0xff00;
  return r | g | 0xff000000;
}

