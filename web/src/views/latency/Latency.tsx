// How long each kind of operation and wait took: a histogram on a log axis, percentiles, and a way to the longest.

import { useMemo, useRef, useState } from "preact/hooks";
import { useModel, type Model } from "../../model";
import { classColour, CLASSES, CLASS_LABEL, COMPUTE, isWait, STOPPED } from "../../palette";
import { count, duration, shown } from "../../view/format";
import { placesOf } from "../../view/names";
import { AsTable, type TableData } from "../shared/AsTable";
import { showSpan, useLimits } from "../shared/limits";
import { Strip } from "../shared/Strip";
import { Tip, type TipAt } from "../shared/Tip";
import { useWork } from "../shared/work";
import { binOf, binStart, countsAnswer, lastFrom, latencies, type Group, type Grouping } from "./distribution";

/** Rows of a section that are shown without asking. */
const FIRST = 12;
const MOST = 100;

interface Range {
  from: number;
  to: number;
  /** Whether some spans took no time that the recorder could tell. */
  zero: boolean;
}

const time = (ns: number): string => duration(ns / 1e9);
/** A kind's name; if kinds of several classes have the name, with the class. */
function nameOf(model: Model, g: Group): string {
  const { kinds } = model.header;
  const kind = kinds[g.kind];
  const several = kinds.some((other) => other.name === kind?.name && other.class !== kind.class);
  return several ? `${kind.name}, ${CLASS_LABEL[CLASSES[model.recording!.classOf[g.kind]]]}` : kind?.name ?? "?";
}


/** Powers of ten on the axis, in nanoseconds. */
function decades({ from, to }: Range): number[] {
  const found: number[] = [];
  for (let ns = 1; binOf(ns) <= to; ns *= 10) if (binOf(ns) > from + 1) found.push(ns);
  return found;
}

const place = (ns: number, range: Range): number => (binOf(ns) === 0 ? 0.5 : Math.max(0.5, 4 * Math.log2(ns) - range.from));
const column = (bin: number, range: Range): number => (bin === 0 ? 0 : bin - range.from);

function binText(group: Group, bin: number): string {
  const length = bin ? `${time(binStart(bin))} to ${time(binStart(bin + 1))}` : "about 0";
  return `${length}: ${count(group.bins[bin])} ${group.bins[bin] === 1 ? "span" : "spans"}, ${time(group.binTime[bin])} together`;
}

/** The bin under the pointer, or the nearest with spans. */
function nearest(bins: Uint32Array, at: number): number {
  for (let d = 0; d < bins.length; d++) {
    if (bins[at + d]) return at + d;
    if (bins[at - d]) return at - d;
  }
  return -1;
}

interface PlotProps {
  group: Group;
  range: Range;
  byTime: boolean;
  colour: string;
  model: Model;
  tip: (at: TipAt | null) => void;
}

/** One histogram: a slider whose value is a bin, so that keys and screen readers reach each bin; Enter shows its longest span. */
function Plot({ group, range, byTime, colour, model, tip }: PlotProps) {
  const svg = useRef<SVGSVGElement>(null);
  const [bin, setBin] = useState(-1);
  const [focus, setFocus] = useState(false);
  const used = useMemo(() => [...group.bins.keys()].filter((b) => group.bins[b] > 0), [group]);
  const values = byTime ? group.binTime : group.bins;
  const most = used.reduce((m, b) => Math.max(m, values[b]), 0);
  const width = range.to - range.from + 1;
  const height = (b: number) => Math.max(0.04, values[b] / most);
  const path = used.map((b) => `M${column(b, range) + 0.06} 1V${(1 - height(b)).toFixed(4)}h0.88V1z`).join("");
  const current = used.includes(bin) ? bin : used[used.length - 1];
  const jump = (b: number) => group.longest[b] >= 0 && showSpan(model, group.longest[b]);
  const at = (e: MouseEvent) => {
    const box = svg.current!.getBoundingClientRect();
    const x = ((e.clientX - box.left) / box.width) * width;
    if (x < 1.5 && group.bins[0]) return 0;
    return nearest(group.bins, Math.min(range.to, Math.max(range.from, Math.floor(range.from + x))));
  };
  const press = (e: KeyboardEvent) => {
    const i = used.indexOf(current);
    const to = { ArrowRight: i + 1, ArrowUp: i + 1, ArrowLeft: i - 1, ArrowDown: i - 1, Home: 0, End: used.length - 1 }[e.key];
    if (to !== undefined) setBin(used[Math.min(used.length - 1, Math.max(0, to))]);
    else if (e.key === "Enter" || e.key === " ") jump(current);
    else return;
    e.preventDefault();
  };
  const hover = (e: PointerEvent) => {
    const b = at(e);
    setBin(b);
    const longest = group.longest[b];
    tip({ x: e.clientX, y: e.clientY, lines: [binText(group, b), longest >= 0 ? "Click: the longest of them on the time axis" : "None of them is in the page: only their number"] });
  };
  const leave = () => {
    setBin(-1);
    tip(null);
  };
  const marked = bin >= 0 || focus ? current : -1;
  return (
    <div class="histogram" role="slider" tabIndex={0} aria-label={`Durations of ${nameOf(model, group)}${group.of && ` of ${shown(group.of, 80)}`}; Enter shows the longest span of a bin`}
      aria-valuemin={used[0]} aria-valuemax={used[used.length - 1]} aria-valuenow={current} aria-valuetext={binText(group, current)}
      onKeyDown={press} onFocus={() => setFocus(true)} onBlur={() => setFocus(false)} onPointerMove={hover} onPointerLeave={leave} onClick={(e) => jump(at(e))}>
      <svg ref={svg} viewBox={`0 0 ${width} 1`} preserveAspectRatio="none" aria-hidden="true">
        {decades(range).map((ns) => <line key={ns} class="grid" x1={place(ns, range)} x2={place(ns, range)} y1="0" y2="1" />)}
        <path d={path} fill={colour} />
        {marked >= 0 && <rect x={column(marked, range)} y="0" width="1" height="1" class="binmark" />}
        <line class="pct" x1={place(group.p50_ns, range)} x2={place(group.p50_ns, range)} y1="0" y2="1" />
        <line class="pct far" x1={place(group.p99_ns, range)} x2={place(group.p99_ns, range)} y1="0" y2="1" />
      </svg>
    </div>
  );
}

function Numbers({ group, model }: { group: Group; model: Model }) {
  const last = lastFrom(group.longest, 0);
  return (
    <div class="numbers">
      <span><span class="label">spans </span>{count(group.count)}</span>
      <span><span class="label">together </span>{time(group.total_ns)}</span>
      <span><span class="label">median </span>{time(group.p50_ns)}</span>
      <span><span class="label">90 % </span>{time(group.p90_ns)}</span>
      <span><span class="label">99 % </span>{time(group.p99_ns)}</span>
      <span><span class="label">longest </span>{last >= 0
        ? <button type="button" class="link" onClick={() => showSpan(model, group.longest[last])} title="Show the longest on the time axis">{time(group.max_ns)}</button> : time(group.max_ns)}</span>
    </div>
  );
}

function Head({ title, range }: { title: string; range: Range }) {
  const width = range.to - range.from + 1;
  return (
    <div class="lathead">
      <h3>{title}</h3>
      <div class="lataxis" aria-hidden="true">
        {range.zero && <span style={{ left: `${50 / width}%` }}>0</span>}
        {decades(range).map((ns, i) => <span key={ns} class={i % 2 ? "minor" : ""} style={{ left: `${(place(ns, range) / width) * 100}%` }}>{time(ns).replace(/\.0+ /, " ")}</span>)}
      </div>
      <div class="numbers faint" aria-hidden="true"><span>spans</span><span>together</span><span>median</span><span>90 %</span><span>99 %</span><span>longest</span></div>
    </div>
  );
}

interface SectionProps {
  title: string;
  groups: Group[];
  range: Range;
  byTime: boolean;
  model: Model;
  tip: (at: TipAt | null) => void;
}

function Section({ title, groups, range, byTime, model, tip }: SectionProps) {
  const dark = useModel(model, (m) => m.theme.dark);
  const [all, setAll] = useState(false);
  if (!groups.length) return null;
  const rows = groups.slice(0, all ? MOST : FIRST);
  return (
    <div class="latsection">
      <Head title={title} range={range} />
      <ul>
        {rows.map((g) => (
          <li class="latrow" key={`${g.kind} ${g.of}`}>
            <div class="what"><strong><bdi>{shown(nameOf(model, g), 90)}</bdi></strong>{g.of && <bdi class="faint block">{shown(g.of, 120)}</bdi>}</div>
            <Plot group={g} range={range} byTime={byTime} colour={classColour(model.recording!.classOf[g.kind], dark)} model={model} tip={tip} />
            <Numbers group={g} model={model} />
          </li>
        ))}
      </ul>
      {groups.length > rows.length && <p>{all ? <span class="faint">{count(groups.length - rows.length)} more are in the table below.</span>
        : <button type="button" class="small" onClick={() => setAll(true)}>Show {count(Math.min(MOST, groups.length) - FIRST)} more, which took less time</button>}</p>}
    </div>
  );
}

function tableOf(model: Model, groups: Group[]): TableData {
  return {
    columns: ["kind", "of", "spans", "together_ns", "median_ns", "p90_ns", "p99_ns", "longest_ns"],
    rows: groups.map((g) => [nameOf(model, g), g.of, g.count, Math.round(g.total_ns), ...[g.p50_ns, g.p90_ns, g.p99_ns, g.max_ns].map(Math.round)]),
  };
}

function rangeOf(groups: Group[]): Range {
  let [from, to] = [255, 0];
  for (const g of groups) {
    // Spans shorter than the recorder's clock can tell are in the first bin, left of the axis.
    const first = g.bins.findIndex((n, bin) => n > 0 && bin > 0);
    if (first > 0) from = Math.min(from, first);
    to = Math.max(to, lastFrom(g.bins, 1));
  }
  const zero = groups.some((g) => g.bins[0] > 0);
  return { from: Math.max(0, Math.min(from, to) - (zero ? 3 : 1)), to: to + 1, zero };
}

function Controls(props: { grouping: Grouping; setGrouping: (g: Grouping) => void; byTime: boolean; setByTime: (on: boolean) => void }) {
  return (
    <div class="toolbar" role="group" aria-label="Latency">
      <label>A row for each <select value={props.grouping} onChange={(e) => props.setGrouping(e.currentTarget.value as Grouping)}>
        <option value="kind">kind</option><option value="place">kind and program or server</option><option value="object">kind and file or connection</option><option value="lane">kind and thread</option>
      </select></label>
      <label>Height <select value={props.byTime ? "time" : "count"} onChange={(e) => props.setByTime(e.currentTarget.value === "time")}>
        <option value="count">number of spans</option><option value="time">time that they took together</option>
      </select></label>
    </div>
  );
}

/** With more programs and servers, rows for each would hide the kinds. */
const MANY_PLACES = 24;

function firstGrouping(model: Model): Grouping {
  const r = model.recording!;
  const places = placesOf(r.header);
  return new Set(r.lanes.flatMap((lane, i) => (lane.spanTo > lane.spanFrom ? [places[i]] : []))).size > MANY_PLACES ? "kind" : "place";
}

export function Latency({ model }: { model: Model }) {
  const r = model.recording!;
  const limits = useLimits(model);
  const [grouping, setGrouping] = useState<Grouping>(() => firstGrouping(model));
  const [byTime, setByTime] = useState(false);
  const [tip, setTip] = useState<TipAt | null>(null);
  const wanted = { a: limits.whole ? 0 : limits.a, b: limits.whole ? Infinity : limits.b, mask: limits.mask, grouping };
  const { value, working } = useWork(() => latencies(r, wanted, limits.whole), [r, limits, grouping]);
  const sections = useMemo(() => {
    const groups = value?.groups ?? [];
    const classOf = (g: Group) => r.classOf[g.kind];
    const isRun = (g: Group) => classOf(g) === COMPUTE;
    const isIdle = (g: Group) => isWait(classOf(g)) || classOf(g) === STOPPED;
    return [
      { title: "Operations", groups: groups.filter((g) => !isRun(g) && !isIdle(g)) },
      { title: "Waits", groups: groups.filter(isIdle) },
      { title: "Stretches on a CPU", groups: groups.filter(isRun) },
    ];
  }, [value]);
  const range = useMemo(() => rangeOf(value?.groups ?? []), [value]);
  const partial = !!r.header.left_out?.spans && !!value && !countsAnswer(r, wanted, limits.whole);
  return (
    <section class="latency" aria-labelledby="latency-title">
      <h2 id="latency-title">Latency <span class="faint">how long each operation and each wait lasted, from short (left) to long (right)</span></h2>
      <Strip model={model} />
      <Controls grouping={grouping} setGrouping={setGrouping} byTime={byTime} setByTime={setByTime} />
      <p class="legendline"><span class="sample p50" aria-hidden="true" /> median <span class="sample p99" aria-hidden="true" /> 99 % are shorter <span class="faint">Click a bar for its longest span on the time axis.</span></p>
      {partial && <p class="remark">Only the {count(r.span.start.length)} longest spans are in this page: within an interval, a search or a file, shorter ones are not counted.</p>}
      {value && !value.exact && <p class="faint">Counted over all recorded spans, also those that are not in this page; percentiles and sums are approximate, to 9 %.</p>}
      {!value && <p class="faint" role="status">Counting…</p>}
      {value && !value.groups.length && <p class="faint">No span ended in this interval{limits.mask ? " that matches the search" : ""}.</p>}
      <div aria-busy={working}>
        {sections.map((s) => <Section key={s.title} {...s} range={range} byTime={byTime} model={model} tip={setTip} />)}
      </div>
      {!!value?.groups.length && <AsTable title="percentiles of each row" file="latency" data={() => tableOf(model, value.groups)} show={(v, c) => (c < 3 ? count(v) : time(v))} />}
      <Tip at={tip} />
    </section>
  );
}
