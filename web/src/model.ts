// The page's state and what changes it. Parts of the page subscribe; all changes of one frame reach them at once, in an animation frame.

import { useEffect, useState } from "preact/hooks";
import { firstReaching, longestOf } from "./data/breakdown";
import { find, isFiltered, nextMatch, noFilter, type Filter, type Matches } from "./data/filter";
import { upper } from "./data/levels";
import type { Header } from "./data/header";
import type { Recording } from "./data/recording";
import { arrowsOfSpan, type Arrow, type Drawn, type End } from "./lanes/arrows";
import { foldedAtFirst, makeRows, type Row } from "./lanes/rows";
import { DARK, LIGHT, type Theme } from "./palette";
import { readFragment, writeFragment, type Shared } from "./view/fragment";
import { around, clampView, pan, zoom, type View } from "./view/scale";

export interface Interval {
  a: number;
  b: number;
}

export type RowSize = "tall" | "low" | "all";
const ROW_HEIGHT: Record<RowSize, number> = { tall: 22, low: 10, all: 2 };

export class Model {
  recording: Recording | null = null;
  /** Whether the spans are there too. */
  isAll = false;
  /** The fragment with which the page was opened. */
  private opened = "";
  error = "";
  view: View = { a: 0, b: 1 };
  selection: Interval | null = null;
  measure: (Interval & { done: boolean }) | null = null;
  selectedSpan = -1;
  /** The instant pointed at; `linked`: in the other of two recordings. */
  cursor: { tick: number; row: Row | null; linked?: boolean } | null = null;
  filter: Filter = noFilter();
  matches: Matches | null = null;
  folded = new Set<string>();
  rowSize: RowSize = "tall";
  rows: Row[] = [];
  rowsHeight = 0;
  hidden = new Set<number>();
  tint = true;
  theme: Theme = LIGHT;
  themeChoice: "system" | "light" | "dark" = "system";
  /** Row that the time view is asked to bring into sight. */
  reveal: string | null = null;
  moving = false;
  /** The arrows as they were drawn last, and the one under the pointer. */
  arrows: Drawn[] = [];
  arrow: Drawn | null = null;
  /** Id of the view in the tabs; empty: the first. */
  tab = "";
  version = 0;
  private listeners = new Set<() => void>();
  private scheduled = false;
  private settle: ReturnType<typeof setTimeout> | undefined;

  /** The other recording of a page of two. */
  other: Model | null = null;
  /** Ticks that the axis has at least: those of the longer of two recordings. */
  extent = 0;
  private ownClocks: Set<string>;

  /** `suffix` keeps the ids of a page's second recording apart; the address is the first one's. */
  constructor(readonly header: Header, readonly suffix = "") {
    this.ownClocks = new Set((header.clocks ?? []).filter((clock) => !clock.aligned).map((clock) => clock.host));
  }

  /** The host itself if its clock could not be aligned; empty for hosts on the run's axis. */
  ownClock(host: string): string {
    return this.ownClocks.has(host) ? host : "";
  }

  /** Lanes on the run's axis: the others' instants cannot be compared with the run's. */
  lanesOnAxis(): number[] {
    return this.header.lanes.flatMap((lane, i) => (this.ownClock(lane.host) ? [] : [i]));
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  changed(): void {
    this.version++;
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.tell();
    });
  }

  private tell(): void {
    for (const listener of [...this.listeners]) listener();
  }

  get total(): number {
    return Math.max(this.extent, this.recording?.total ?? 1);
  }
  seconds(ticks: number): number {
    return (ticks * this.header.tick_ns) / 1e9;
  }

  /** An instant in seconds from the run's beginning; negative before. */
  at(tick: number): number {
    return (tick * this.header.tick_ns - this.header.start_ns) / 1e9;
  }

  /** The run itself: a recording may begin before the run and end after. */
  run(): View {
    const { start_ns, wall_ns, tick_ns } = this.header;
    return clampView({ a: start_ns / tick_ns, b: (start_ns + wall_ns) / tick_ns }, this.total);
  }

  /** Shows a recording: one whose spans are still to come, or all of it. The second keeps the view that the reader has made of the first. */
  start(recording: Recording, isAll = true): void {
    const first = !this.recording;
    const view = this.view;
    this.recording = recording;
    this.isAll = isAll;
    if (first) {
      this.view = this.run();
      this.folded = foldedAtFirst(recording);
      this.opened = this.suffix ? "" : location.hash;
      this.restore(this.opened);
    } else {
      this.findSpans(readFragment(this.opened));
      this.view = view;
    }
    this.layout();
  }

  layout(): void {
    if (!this.recording) return;
    const only = this.matches?.lanes ?? null;
    const made = makeRows(this.recording, { folded: this.folded, height: ROW_HEIGHT[this.rowSize], only, open: !!only });
    [this.rows, this.rowsHeight] = [made.rows, made.height];
    this.changed();
  }

  setView(view: View): void {
    this.view = clampView(view, this.total);
    this.moving = true;
    clearTimeout(this.settle);
    this.settle = setTimeout(() => {
      this.moving = false;
      this.remember();
      this.changed();
    }, 180);
    this.changed();
  }

  zoomBy(factor: number, share = 0.5): void {
    this.setView(zoom(this.view, factor, share, this.total));
  }
  panBy(share: number): void {
    this.setView(pan(this.view, share, this.total));
  }
  showAll(): void {
    this.setView(this.run());
  }

  select(interval: Interval | null): void {
    this.selection = interval && interval.b > interval.a ? interval : null;
    this.remember();
    this.changed();
  }

  toggleFold(key: string): void {
    if (this.folded.has(key)) this.folded.delete(key);
    else this.folded.add(key);
    this.layout();
  }

  foldAll(fold: boolean): void {
    for (const row of this.rows) if (row.foldable && row.type === "group") this.folded[fold ? "add" : "delete"](row.key);
    this.layout();
  }

  setRowSize(size: RowSize): void {
    this.rowSize = size;
    this.layout();
    this.remember();
  }

  setFilter(filter: Filter): void {
    this.filter = filter;
    this.matches = this.recording && this.isAll && isFiltered(filter) ? find(this.recording, filter) : null;
    this.layout();
    this.remember();
  }

  /** Shows a view; the time view is the first. */
  showTab(id: string): void {
    this.tab = id;
    this.cursor = null;
    this.remember();
    this.changed();
  }

  /** Goes to the next or previous match and selects it. */
  step(backwards: boolean): void {
    const { recording: r, matches } = this;
    if (!r || !matches?.count) return;
    const from = this.selectedSpan >= 0 ? r.span.start[this.selectedSpan] : backwards ? this.view.b : this.view.a - 1;
    let found = nextMatch(r, matches.mask, from, backwards);
    if (found < 0) found = nextMatch(r, matches.mask, backwards ? Infinity : -1, backwards);
    if (found >= 0) this.goToSpan(found);
  }

  goToSpan(span: number): void {
    const r = this.recording!;
    const [start, end] = [r.span.start[span], r.span.start[span] + r.span.duration[span]];
    this.selectedSpan = span;
    const inside = start >= this.view.a && end <= this.view.b && end - start > (this.view.b - this.view.a) / 50;
    if (!inside) this.setView(around(start, end, r.total, 3));
    this.revealLane(r.span.lane[span]);
    this.remember();
    this.changed();
  }

  /** Shows the longest uninterrupted instance of a cause on the critical path, and selects it. */
  goToCause(name: string): boolean {
    const r = this.recording;
    const cause = this.header.causes.findIndex((c) => c.name === name);
    const found = r && cause >= 0 ? longestOf(r, cause) : null;
    if (!r || !found) return false;
    this.setView(around(found.start, found.end, r.total, 0.6));
    this.selection = { a: found.start, b: found.end };
    this.selectedSpan = -1;
    const lane = r.path.lane[found.at];
    if (lane < r.lanes.length) this.revealLane(lane);
    this.remember();
    this.changed();
    return true;
  }

  /** Goes to an arrow's end: to where it leads, or back if the selected span is there. */
  follow(arrow: Arrow): void {
    const r = this.recording!;
    const at = this.selectedSpan;
    const there = at >= 0 && (arrow.to.span === at || (arrow.from.span !== at && arrow.to.lane === r.span.lane[at]));
    this.goToEnd(there ? arrow.from : arrow.to);
  }

  /** Follows the selected span's first arrow. */
  followFirst(): void {
    const arrow = this.recording && this.selectedSpan >= 0 ? arrowsOfSpan(this, this.selectedSpan)[0] : undefined;
    if (arrow) this.follow(arrow);
  }

  /** Selects an arrow's end: its span, or what the lane did then. */
  goToEnd(end: End): void {
    const span = end.span >= 0 ? end.span : this.spanAt(end.lane, end.tick, 0);
    if (span >= 0) return this.goToSpan(span);
    const reach = (this.view.b - this.view.a) / 2;
    if (end.tick < this.view.a || end.tick > this.view.b) this.setView({ a: end.tick - reach, b: end.tick + reach });
    this.revealLane(end.lane);
  }

  revealLane(lane: number): void {
    this.reveal = this.rows.find((row) => row.type === "lane" && row.lanes[0] === lane)?.key ?? this.rows.find((row) => row.folded && row.lanes.includes(lane))?.key ?? null;
    this.changed();
  }

  /** The innermost span of a lane at an instant; -1 if there is none. */
  spanAt(lane: number, tick: number, slack: number): number {
    const r = this.recording!;
    const l = r.lanes[lane];
    const s = r.segments;
    const i = upper(s.end, l.from, l.to, tick);
    if (i < l.to && s.start[i] <= tick) return s.span[i];
    if (i < l.to && s.start[i] <= tick + slack) return s.span[i];
    return i > l.from && s.end[i - 1] >= tick - slack ? s.span[i - 1] : -1;
  }

  /** All spans of a lane at an instant, outermost first. */
  spansAt(lane: number, tick: number): number[] {
    const r = this.recording!;
    const found: number[] = [];
    for (let i = firstReaching(r, lane, tick); i < r.lanes[lane].spanTo && r.span.start[i] <= tick; i++) {
      if (r.span.start[i] + Math.max(1, r.span.duration[i]) > tick) found.push(i);
      if (found.length > 8) break;
    }
    return found;
  }

  /** Paper is light, whatever the screen is; drawn at once, since printing does not wait for a frame. */
  print(printing: boolean): void {
    if (!printing) return this.setTheme(this.themeChoice);
    this.theme = LIGHT;
    document.documentElement.dataset.theme = "light";
    this.version++;
    this.tell();
  }

  setTheme(choice: Model["themeChoice"]): void {
    this.themeChoice = choice;
    const dark = choice === "dark" || (choice === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
    this.theme = dark ? DARK : LIGHT;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    this.changed();
  }

  toggleClass(c: number): void {
    if (this.hidden.has(c)) this.hidden.delete(c);
    else this.hidden.add(c);
    this.changed();
  }

  fragment(): string {
    const ns = this.header.tick_ns;
    const run = this.run();
    const whole = Math.abs(this.view.a - run.a) < 1 && Math.abs(this.view.b - run.b) < 1;
    return writeFragment({
      ...(whole ? {} : { from_ns: this.view.a * ns, to_ns: this.view.b * ns }),
      ...(this.selection ? { selected_ns: [this.selection.a * ns, this.selection.b * ns] as [number, number] } : {}),
      ...(this.selectedSpan >= 0 ? { span: this.selectedSpan } : {}),
      filter: this.filter,
      ...(this.rowSize === "tall" ? {} : { rows: this.rowSize }),
      ...(this.tab ? { view: this.tab } : {}),
    });
  }

  remember(): void {
    if (this.suffix) return;
    try {
      history.replaceState(null, "", this.fragment() || location.pathname + location.search);
    } catch {
      // A page shown from another document may not change its address.
    }
  }

  restore(fragment: string): void {
    const shared = readFragment(fragment);
    this.tab = shared.view ?? "";
    const ns = this.header.tick_ns;
    if (shared.from_ns !== undefined && shared.to_ns !== undefined) this.view = clampView({ a: shared.from_ns / ns, b: shared.to_ns / ns }, this.total);
    if (shared.selected_ns) this.selection = { a: shared.selected_ns[0] / ns, b: shared.selected_ns[1] / ns };
    if (shared.rows === "low" || shared.rows === "all") this.rowSize = shared.rows;
    this.filter = shared.filter;
    this.findSpans(shared);
  }

  /** Selects and finds spans, if they are there. */
  private findSpans(shared: Shared): void {
    const r = this.recording;
    if (!r || !this.isAll) return;
    if (shared.span !== undefined && shared.span < r.span.start.length) this.selectedSpan = shared.span;
    if (isFiltered(this.filter)) this.matches = find(r, this.filter);
  }
}

/** Renders a component again when what `pick` returns has changed. */
export function useModel<T>(model: Model, pick: (m: Model) => T): T {
  const [, update] = useState(0);
  const value = pick(model);
  useEffect(() => {
    let last = pick(model);
    return model.subscribe(() => {
      const next = pick(model);
      if (next === last) return;
      last = next;
      update((n) => n + 1);
    });
  }, [model]);
  return value;
}
