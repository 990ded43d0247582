// When nothing moved: each gap by length and time, how often gaps recur, and what the critical path was charged to meanwhile.

import { useMemo, useState } from "preact/hooks";
import { plainCause } from "../../answer/help";
import { useModel, type Model } from "../../model";
import { causeColour } from "../../palette";
import { bytes, count, duration, instant, percent } from "../../view/format";
import { AsTable } from "../shared/AsTable";
import { Bars, logBars } from "../shared/Bars";
import { showInTime, useLimits } from "../shared/limits";
import { Scatter, type Points } from "../shared/Scatter";
import { Strip } from "../shared/Strip";
import { useWork } from "../shared/work";
import { burstsOf, channelsOf, type Channel } from "./channels";
import { byCause, gapsOf, type Gap, type GapSum } from "./gaps";

interface Words {
  time: (ticks: number) => string;
  cause: (cause: number) => string;
  colour: (cause: number) => string;
}

function wordsOf(model: Model, dark: boolean): Words {
  const { causes } = model.header;
  return {
    time: (ticks) => duration(model.seconds(ticks)),
    cause: (c) => (c < 0 ? "not on the critical path" : plainCause(model.header, causes[c].name)),
    colour: (c) => (c < 0 ? model.theme.faint : causeColour(causes[c].name, dark)),
  };
}

function recurrence(s: GapSum, w: Words): string {
  const parts = [s.period_bytes ? `every ${bytes(s.period_bytes)}` : "", s.period ? `every ${w.time(s.period)}` : ""].filter(Boolean);
  return parts.join(" and ") || "–";
}

/** What there is to say in a sentence. */
function Summary({ gaps, sums, length, channel, w, most: atMost }: { gaps: Gap[]; sums: GapSum[]; length: number; channel: Channel; w: Words; most: boolean }) {
  if (!gaps.length) return <p class="lead">No gaps here: {channel.name} never paused for much longer than usual.</p>;
  const total = sums.reduce((n, s) => n + s.ticks, 0);
  const [most] = sums;
  const again = recurrence(most, w);
  return (
    <p class="lead">For {atMost && "at most "}<strong>{percent(total / length)}</strong> of the time ({w.time(total)}) nothing moved: {count(gaps.length)} {gaps.length === 1 ? "gap" : "gaps"}.
      {" "}{sums.length > 1 ? "Most of that time" : "All of it"}: <strong>{w.cause(most.cause)}</strong>, {count(most.count)} {most.count === 1 ? "gap" : "gaps"} of {w.time(most.median)}
      {most.count > 1 && " (median)"}{again !== "–" && <>, <strong>one {again}</strong></>}.</p>
  );
}

function Causes({ model, sums, length, w }: { model: Model; sums: GapSum[]; length: number; w: Words }) {
  return (
    <div class="tables" role="region" aria-label="Gaps by cause" tabIndex={0}>
      <table class="causes">
        <caption>By what the critical path was charged to in the gap</caption>
        <thead><tr><th scope="col">cause</th><th scope="col" class="n">gaps</th><th scope="col" class="n">together</th><th scope="col" class="n">of the time</th><th scope="col" class="n">median</th><th scope="col">recur</th><th scope="col" class="n">longest</th></tr></thead>
        <tbody>{sums.map((s) => (
          <tr key={s.cause}>
            <td><span class="swatch" style={{ background: w.colour(s.cause) }} aria-hidden="true" />{w.cause(s.cause)}</td>
            <td class="n">{count(s.count)}</td><td class="n">{w.time(s.ticks)}</td><td class="n">{percent(s.ticks / length)}</td><td class="n">{w.time(s.median)}</td><td>{recurrence(s, w)}</td>
            <td class="n"><button type="button" class="link" onClick={() => showInTime(model, s.longest.start, s.longest.end)} title="Show the longest on the time axis">{w.time(s.longest.end - s.longest.start)}</button></td>
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}

function lines(gap: Gap, model: Model, w: Words): string[] {
  const length = gap.end - gap.start;
  return [`${w.time(length)}: ${w.cause(gap.cause)}`, `at ${instant(model.at(gap.start), model.seconds(length) / 10)}, after ${bytes(gap.before)}`, "Click: show the gap on the time axis"];
}

/** Distances between successive gaps of one cause: these are what recurs. */
function distances(gaps: Gap[], of: (g: Gap) => number): { value: number; cause: number }[] {
  const last = new Map<number, number>();
  const found: { value: number; cause: number }[] = [];
  for (const gap of gaps) {
    const before = last.get(gap.cause);
    if (before !== undefined) found.push({ value: of(gap) - before, cause: gap.cause });
    last.set(gap.cause, of(gap));
  }
  return found;
}

function Histograms({ model, gaps, w }: { model: Model; gaps: Gap[]; w: Words }) {
  const seconds = (ticks: number) => model.seconds(ticks);
  const lengths = logBars(gaps.map((g) => ({ value: seconds(g.end - g.start), colour: w.colour(g.cause) })), 4);
  const coloured = (list: { value: number; cause: number }[]) => list.map((d) => ({ value: d.value, colour: w.colour(d.cause) }));
  const inBytes = logBars(coloured(distances(gaps, (g) => g.before)), 4);
  const inTime = logBars(coloured(distances(gaps, (g) => seconds(g.start))), 4);
  const plain = (s: number) => duration(s).replace(/\.0+ /, " ");
  return (
    <div class="bargrid">
      <Bars title="Length" note="how many gaps are this long" {...lengths} tick={plain} />
      <Bars title="Distance in time" note="from one gap to the next of the same cause: one high bar means that they recur" {...inTime} tick={plain} />
      <Bars title="Distance in bytes" note="moved from one gap to the next of the same cause" {...inBytes} tick={bytes} base={2} />
    </div>
  );
}

function Body({ model, all, channel }: { model: Model; all: Gap[]; channel: Channel }) {
  const limits = useLimits(model);
  const dark = useModel(model, (m) => m.theme.dark);
  const w = useMemo(() => wordsOf(model, dark), [dark]);
  const gaps = useMemo(() => all.filter((g) => g.end > limits.a && g.start < limits.b), [all, limits]);
  const sums = useMemo(() => byCause(gaps), [gaps]);
  const points = useMemo<Points>(() => ({
    x: Float64Array.from(gaps, (g) => g.start), end: Float64Array.from(gaps, (g) => g.end), y: Float64Array.from(gaps, (g) => model.seconds(g.end - g.start)),
    colour: (i) => w.colour(gaps[i].cause), lines: (i) => lines(gaps[i], model, w),
  }), [gaps, w]);
  const length = limits.b - limits.a;
  const leftOut = !!model.header.left_out?.spans;
  const table = () => ({
    columns: ["start_s", "duration_s", "bytes_before", "cause"],
    rows: gaps.map((g) => [model.at(g.start), model.seconds(g.end - g.start), g.before, w.cause(g.cause)]),
  });
  return (
    <>
      <Summary gaps={gaps} sums={sums} length={length} channel={channel} w={w} most={leftOut} />
      {leftOut && <p class="remark">Short spans are not in this page: bytes that they moved within a gap are not seen.</p>}
      {!!gaps.length && <>
        <h3 class="plottitle">Each gap <span class="faint">by when it was (across) and how long it lasted (up), in the colour of its cause</span></h3>
        <Scatter model={model} points={points} a={limits.a} b={limits.b} height={210} label={`Gaps of ${channel.name} over time`} tick={(s) => duration(s).replace(/\.0+ /, " ")}
          pick={(i) => showInTime(model, gaps[i].start, gaps[i].end)} />
        <Causes model={model} sums={sums} length={length} w={w} />
        {gaps.length > 2 && <Histograms model={model} gaps={gaps} w={w} />}
        <AsTable title="each gap" file="gaps" data={table} show={(v, c) => (c === 0 ? instant(v, 1e-6) : c === 1 ? duration(v) : bytes(v))} />
      </>}
    </>
  );
}

export function Gaps({ model }: { model: Model }) {
  const r = model.recording!;
  const channels = useWork(() => channelsOf(r), [r]).value;
  const [id, setId] = useState("");
  const channel = channels?.find((c) => c.id === id) ?? channels?.[0];
  const gaps = useWork(function* () {
    if (!channel) return null;
    const bursts = yield* burstsOf(r, channel);
    return { channel, gaps: yield* gapsOf(r, bursts) };
  }, [channel]).value;
  return (
    <section class="gaps" aria-labelledby="gaps-title">
      <h2 id="gaps-title">Gaps <span class="faint">when no data moved, and why</span></h2>
      <Strip model={model} />
      {channels && !channels.length && <p class="faint">No bytes moved in this recording.</p>}
      {!!channels?.length && <div class="toolbar"><label>Gaps of <select value={channel?.id} onChange={(e) => setId(e.currentTarget.value)}>
        {channels.map((c) => <option key={c.id} value={c.id}>{c.name}, {bytes(c.bytes)}</option>)}
      </select></label></div>}
      {gaps ? <Body model={model} all={gaps.gaps} channel={gaps.channel} /> : <p class="faint" role="status">Looking for gaps…</p>}
    </section>
  );
}
