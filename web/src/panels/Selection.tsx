// What the selected interval consists of, and the selected span's particulars.

import { useMemo } from "preact/hooks";
import { plainCause } from "../answer/help";
import { breakdown } from "../data/breakdown";
import { arrowsOfSpan, arrowText } from "../lanes/arrows";
import { evidenceAt } from "../lanes/Hover";
import { useModel, type Model } from "../model";
import { causeColour, classColour, CLASS_LABEL, type SpanClass } from "../palette";
import { bytes, count, duration, instant, percent, shown } from "../view/format";

/** Arrows of a span that have a button. */
const MOST_ARROWS = 6;

function Parts({ title, parts, total }: { title: string; parts: { name: string; colour: string; ticks: number; text: string }[]; total: number }) {
  if (!parts.length) return null;
  return (
    <table>
      <caption>{title}</caption>
      <tbody>{parts.slice(0, 8).map((p, i) => (
        <tr key={i}><td><span class="swatch" style={{ background: p.colour }} aria-hidden="true" /><bdi>{shown(p.name, 60)}</bdi></td><td class="n">{p.text}</td><td class="n">{percent(p.ticks / total)}</td></tr>
      ))}</tbody>
    </table>
  );
}

function IntervalPanel({ model, a, b }: { model: Model; a: number; b: number }) {
  const dark = model.theme.dark;
  const r = model.recording!;
  const only = model.matches?.lanes;
  const found = useMemo(() => breakdown(r, a, b, only ?? model.lanesOnAxis()), [r, a, b, only]);
  const length = b - a;
  const classes = found.classes.reduce((sum, c) => sum + c.ticks, 0) || 1;
  const time = (ticks: number) => duration(model.seconds(ticks));
  return (
    <section class="panel" aria-labelledby={`selection-title${model.suffix}`}>
      <h3 id={`selection-title${model.suffix}`}>Selected: {time(length)} <span class="faint">from {instant(model.at(a), model.seconds(length) / 100)}</span></h3>
      <p class="buttons">
        <button type="button" onClick={() => model.setView({ a: a - length * 0.03, b: b + length * 0.03 })}>Zoom to it</button>
        <button type="button" onClick={() => model.select(null)}>Clear</button>
      </p>
      {found.partial && <p class="faint" id="partial">Shorter spans are left out of the page. The time of lanes counts all spans; the table of spans has the longest and those on the critical path.</p>}
      <div class="tables">
        <Parts title="Critical path by cause" total={length} parts={found.causes.map((c) => ({ ...c, name: plainCause(r.header, c.name), colour: causeColour(c.name, dark), text: time(c.ticks) }))} />
        <Parts title="Lanes, time added up" total={classes} parts={found.classes.map((c) => ({ name: CLASS_LABEL[c.name as SpanClass], ticks: c.ticks, colour: classColour(c.class, dark), text: time(c.ticks) }))} />
        {!!found.kinds.length && <table>
          <caption>{found.partial ? "Spans in the page, by kind" : "Spans by kind"}</caption>
          <thead><tr><th>kind</th><th class="n">count</th><th class="n">time</th><th class="n">longest</th><th class="n">bytes</th></tr></thead>
          <tbody>{found.kinds.slice(0, 8).map((k, i) => <tr key={i}><td>{shown(k.name, 40)}</td><td class="n">{count(k.count)}</td><td class="n">{time(k.ticks)}</td><td class="n">{time(k.longest)}</td><td class="n">{k.bytes ? bytes(k.bytes) : "–"}</td></tr>)}</tbody>
        </table>}
        {!!found.marks.length && <table><caption>Marks</caption><tbody>{found.marks.map((m, i) => <tr key={i}><td>{shown(m.name, 80)}</td><td class="n">{count(m.count)}</td></tr>)}</tbody></table>}
      </div>
    </section>
  );
}

function SpanPanel({ model, i }: { model: Model; i: number }) {
  const { span, header } = model.recording!;
  const lane = header.lanes[span.lane[i]];
  const waker = span.waker[i] ? header.lanes[span.waker[i] - 1] : undefined;
  const arrows = arrowsOfSpan(model, i).slice(0, MOST_ARROWS);
  const [start, length] = [model.at(span.start[i]), model.seconds(span.duration[i])];
  const path = model.ownClock(lane.host) ? null : evidenceAt(model, span.start[i] + span.duration[i] / 2);
  const rows: [string, string][] = [
    ["kind", header.kinds[span.kind[i]]?.name ?? "?"], ["on", `${lane.name}${lane.process ? ` · ${lane.process}` : ""}${lane.host ? ` · ${lane.host}` : ""}`],
    ["from", instant(start, Math.max(1e-9, length / 100))], ["lasted", duration(length)],
  ];
  if (span.object[i]) rows.push(["object", header.objects[span.object[i]] ?? ""]);
  if (span.size[i]) rows.push(["bytes", `${bytes(span.size[i])}${length > 0 ? `, ${bytes(span.size[i] / length)}/s` : ""}`]);
  if (waker) rows.push(["woken by", `${waker.name}${waker.process ? ` · ${waker.process}` : ""}`]);
  if (path) rows.push(["critical path then", `${path.cause}${path.evidence ? `: ${path.evidence}` : ""}${path.rule ? ` (${path.rule})` : ""}`]);
  return (
    <section class="panel" aria-labelledby={`span-title${model.suffix}`}>
      <h3 id={`span-title${model.suffix}`}>Selected span</h3>
      <p class="buttons">
        <button type="button" onClick={() => model.select({ a: span.start[i], b: span.start[i] + span.duration[i] })}>Break down (M)</button>
        {arrows.map((arrow, k) => <button type="button" key={k} onClick={() => model.follow(arrow)} title={k === 0 ? "Go to the other end (G)" : "Go to the other end"}><bdi>{arrowText(model, arrow)}</bdi> <span aria-hidden="true">→</span></button>)}
      </p>
      <dl aria-live="polite">{rows.map(([name, text]) => <><dt>{name}</dt><dd><bdi>{shown(text, 600)}</bdi></dd></>)}</dl>
    </section>
  );
}

export function Selection({ model }: { model: Model }) {
  const interval = useModel(model, (m) => m.selection && `${m.selection.a} ${m.selection.b}`);
  const span = useModel(model, (m) => m.selectedSpan);
  useModel(model, (m) => m.theme.dark);
  useModel(model, (m) => m.matches);
  if (!interval && span < 0) return <p class="faint hint">Click a span for its particulars and its arrows; drag the axis to select an interval and see what it consists of; Shift and drag to measure.</p>;
  return (
    <div class="panels">
      {span >= 0 && <SpanPanel model={model} i={span} />}
      {model.selection && <IntervalPanel model={model} a={model.selection.a} b={model.selection.b} />}
    </div>
  );
}
