// Two recordings on one page: what is done in one view is done in the other, through the mapping between the runs.

import { bytesIn, movesByRole, type Moves } from "../curves/rates";
import type { Recording } from "../data/recording";
import type { Model } from "../model";
import type { View } from "../view/scale";
import { byByte, byPhase, byTime, progressOf, type Mapping, type Progress } from "./mapping";

export type Alignment = "time" | "phase" | "byte";
export const ALIGNMENTS: Alignment[] = ["time", "phase", "byte"];
const POINTS = 2048;

export type Named = Moves & { name: string };

/** What each role moved in each direction, the command's first. */
function seriesOf(r: Recording): Named[] {
  return movesByRole(r).flatMap((group) => group.series.map((s) => ({ ...s, name: `${group.title}, ${s.name}` })));
}

/** The series that both runs have and that moved most; else the first of each. */
export function commonSeries<T extends { name: string; bytes: number }>(a: T[], b: T[]): [T, T] | null {
  if (!a.length || !b.length) return null;
  const common = a.flatMap((s) => b.filter((o) => o.name === s.name).map((o): [T, T] => [s, o]));
  common.sort((p, q) => Math.min(q[0].bytes, q[1].bytes) - Math.min(p[0].bytes, p[1].bytes));
  return common[0] ?? [a[0], b[0]];
}

function progress(r: Recording, s: Moves, model: Model): Progress {
  const run = model.run();
  const moved = bytesIn(r, s, run.a, run.b, POINTS);
  const cumulative = new Float64Array(POINTS + 1);
  for (let i = 0; i < POINTS; i++) cumulative[i + 1] = cumulative[i] + moved[i];
  return progressOf(cumulative, wallOf(model));
}

const wallOf = (m: Model): number => m.header.wall_ns / 1e9;

export class Link {
  alignment: Alignment = "time";
  mapping: Mapping = byTime();
  readonly possible = new Map<Alignment, Mapping>([["time", byTime()]]);
  /** The series of the byte alignment. */
  series: [Named, Named] | null;
  readonly progress: [Progress, Progress] | null;
  private last = new Map<Model, { view: View; selection: Model["selection"]; cursor: Model["cursor"]; filter: Model["filter"] }>();

  constructor(readonly a: Model, readonly b: Model) {
    const [p, q] = [a.header.explanation.phases ?? [], b.header.explanation.phases ?? []];
    const phase = byPhase(p, q, wallOf(a), wallOf(b));
    if (phase) this.possible.set("phase", phase);
    this.series = commonSeries(seriesOf(a.recording!), seriesOf(b.recording!));
    this.progress = this.series && [progress(a.recording!, this.series[0], a), progress(b.recording!, this.series[1], b)];
    if (this.progress) this.possible.set("byte", byByte(...this.progress));
    // The same number of seconds must fit into both axes.
    const longest = Math.max(a.seconds(a.total), b.seconds(b.total));
    for (const m of [a, b]) m.extent = (longest * 1e9) / m.header.tick_ns;
    a.other = b;
    b.other = a;
    this.showBoth();
  }

  tickOf(m: Model, seconds: number): number {
    return (seconds * 1e9 + m.header.start_ns) / m.header.tick_ns;
  }

  /** The instant of the other run. */
  across(from: Model, tick: number): number {
    const seconds = from.at(tick);
    return this.tickOf(from.other!, from === this.a ? this.mapping.to(seconds) : this.mapping.back(seconds));
  }

  align(alignment: Alignment): void {
    const mapping = this.possible.get(alignment);
    if (!mapping) return;
    [this.alignment, this.mapping] = [alignment, mapping];
    this.last.clear();
    this.keep(this.a);
    this.lead(this.a);
    this.a.changed();
  }

  /** Both whole runs. */
  showBoth(): void {
    const length = this.alignment === "time" ? Math.max(wallOf(this.a), wallOf(this.b)) : wallOf(this.a);
    this.a.setView({ a: this.tickOf(this.a, 0), b: this.tickOf(this.a, length) });
    this.lead(this.a);
  }

  /** Lets the other run follow. */
  private lead(from: Model): void {
    const to = from.other!;
    to.setView({ a: this.across(from, from.view.a), b: this.across(from, from.view.b) });
    to.selection = from.selection && { a: this.across(from, from.selection.a), b: this.across(from, from.selection.b) };
    if (from.cursor) to.cursor = { tick: this.across(from, from.cursor.tick), row: null, linked: true };
    else if (to.cursor?.linked) to.cursor = null;
    if (to.filter !== from.filter && JSON.stringify(to.filter) !== JSON.stringify(from.filter)) to.setFilter(from.filter);
    if (to.rowSize !== from.rowSize) to.setRowSize(from.rowSize);
    to.tint = from.tint;
    this.keep(from);
    this.keep(to);
    to.changed();
  }

  private keep(m: Model): void {
    this.last.set(m, { view: m.view, selection: m.selection, cursor: m.cursor, filter: m.filter });
  }

  /** Follows whichever of the two models was changed by a person; returns what ends that. */
  connect(): () => void {
    const follow = (m: Model) => () => {
      const was = this.last.get(m);
      if (was && was.view === m.view && was.selection === m.selection && was.cursor === m.cursor && was.filter === m.filter && m.other!.rowSize === m.rowSize && m.other!.tint === m.tint) return;
      this.lead(m);
    };
    const theme = () => {
      if (this.b.theme === this.a.theme) return;
      this.b.theme = this.a.theme;
      this.b.changed();
    };
    const ends = [this.a.subscribe(follow(this.a)), this.b.subscribe(follow(this.b)), this.a.subscribe(theme)];
    return () => ends.forEach((end) => end());
  }

  /** Where a run is: its phase and the part of its bytes. */
  place(m: Model, tick: number): string {
    const seconds = m.at(tick);
    const phase = m.header.explanation.phases?.find((p) => p.start_s <= seconds && p.end_s > seconds)?.name;
    const moved = this.progress?.[m === this.a ? 0 : 1];
    const part = moved ? Math.round(100 * partAt(moved, seconds)) : null;
    return [phase, part === null ? "" : `${part} % of the bytes`].filter(Boolean).join(", ");
  }
}

function partAt({ t, part }: Progress, seconds: number): number {
  const at = Math.min(t.length - 1, Math.max(0, Math.round((seconds / t[t.length - 1]) * (t.length - 1))));
  return part[at];
}

/** The model that keys act on: that of the view with the focus. */
export function focused(model: Model): Model {
  return model.other && document.activeElement?.closest("[data-run='b']") ? model.other : model;
}
