// Curves on the axis of the lanes.

import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { useModel, type Model } from "../model";
import { counterColour, type Pair } from "../palette";
import { bytes, duration, instant, quantity, rate } from "../view/format";
import { chartsOf, increase, sampled } from "./counters";
import { bytesIn, makeSeries, smooth } from "./rates";

const HEIGHT = 110;
/** Curves shown without asking. */
const FIRST = 4;
/** A rate is averaged over this many pixels. */
const WINDOW_PX = 24;
const STROKES: Pair[] = [
  ["#0072B2", "#56A8E8"], ["#D55E00", "#F0803C"], ["#00795A", "#25C295"], ["#7B4FA3", "#B68BE0"], ["#8C7A00", "#D0BC3A"], ["#B3001B", "#FF7A8A"],
];
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3], [10, 4]];

interface Plotted {
  title: string;
  unit: string;
  names: string[];
  /** The values of each curve over the view, at `count` points. */
  values: (a: number, b: number, count: number) => (number | null)[][];
  stepped: boolean;
  colours: Pair[];
}

/** A window has its cause's colour; other curves take the next of the list that is not one of those. */
function coloursOf(names: string[]): Pair[] {
  if (!names.some(counterColour)) return STROKES;
  const free = [STROKES[0], STROKES[1], STROKES[4]];
  return names.map((name) => counterColour(name) ?? free.shift() ?? STROKES[0]);
}

function plots(model: Model): Plotted[] {
  const r = model.recording!;
  const found: Plotted[] = [];
  const series = makeSeries(r);
  if (series.length) {
    found.push({
      title: "Bytes moved", unit: "bytes/s", names: series.map((s) => s.name), stepped: false, colours: STROKES,
      values: (a, b, count) => series.map((s) => {
        // Beyond the view's ends too, so that an average at its edge is over a whole window.
        const margin = ((b - a) / count) * WINDOW_PX;
        const values = smooth(bytesIn(r, s, a - margin, b + margin, count + 2 * WINDOW_PX), WINDOW_PX);
        const seconds = model.seconds((b - a) / count);
        return [...values.subarray(WINDOW_PX, WINDOW_PX + count)].map((v) => v / seconds);
      }),
    });
  }
  for (const chart of chartsOf(r)) {
    found.push({
      title: chart.title, unit: chart.unit, names: chart.tracks.map((t) => t.label), stepped: !chart.accumulates, colours: coloursOf(chart.tracks.map((t) => model.header.counters[t.counter].name)),
      values: (a, b, count) => chart.tracks.map((t) => (chart.accumulates ? increase(t, a, b, count, WINDOW_PX, model.seconds(1)) : sampled(t, a, b, count))),
    });
  }
  return found;
}

const value = (v: number, unit: string): string => (unit === "bytes/s" ? rate(v) : unit === "bytes" ? bytes(v) : quantity(v, unit));

function options(plot: Plotted, model: Model, width: number): uPlot.Options {
  const dark = model.theme.dark ? 1 : 0;
  return {
    width, height: HEIGHT, legend: { show: false }, cursor: { show: false }, padding: [6, 0, 4, 0],
    scales: { x: { time: false, range: () => [model.at(model.view.a), model.at(model.view.b)] }, y: { range: (_, __, most) => [0, Math.max(most * 1.08, 1e-9)] } },
    axes: [{ show: false }, { show: false, grid: { show: true } }],
    series: [{}, ...plot.names.map((name, i) => ({
      label: name, stroke: plot.colours[i % plot.colours.length][dark], width: 1.5, dash: DASHES[i % DASHES.length], points: { show: false }, spanGaps: false,
      ...(plot.stepped ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
    }))],
  };
}

function Plot({ plot, model }: { plot: Plotted; model: Model }) {
  const box = useRef<HTMLDivElement>(null);
  const top = useRef<HTMLSpanElement>(null);
  const readout = useRef<HTMLSpanElement>(null);
  const dark = useModel(model, (m) => m.theme.dark);
  useLayoutEffect(() => {
    const element = box.current!;
    let chart: uPlot | null = null;
    let drawn = "";
    let data: (number | null)[][] = [];
    const draw = () => {
      const width = element.clientWidth;
      if (width < 10) return;
      const now = `${model.view.a} ${model.view.b} ${width}`;
      if (now !== drawn && (!model.moving || drawn === "")) {
        drawn = now;
        const count = Math.max(2, Math.min(width, 2000));
        data = plot.values(model.view.a, model.view.b, count);
        const [a, b] = [model.at(model.view.a), model.at(model.view.b)];
        const x = Array.from({ length: count }, (_, i) => a + ((i + 0.5) / count) * (b - a));
        if (!chart) chart = new uPlot(options(plot, model, width), [x, ...data] as uPlot.AlignedData, element);
        else if (chart.width !== width) chart.setSize({ width, height: HEIGHT });
        chart.setData([x, ...data] as uPlot.AlignedData);
        const most = data.reduce((m, s) => s.reduce<number>((n, v) => Math.max(n, v ?? 0), m), 0);
        const window = plot.stepped ? "" : `, averages of ${duration(model.seconds((model.view.b - model.view.a) / count) * WINDOW_PX)}`;
        top.current!.textContent = `up to ${value(most, plot.unit)}${window}`;
      }
      else if (chart && now !== drawn) chart.setScale("x", { min: model.at(model.view.a), max: model.at(model.view.b) });
      readout.current!.textContent = atCursor(model, data, plot);
    };
    const end = model.subscribe(draw);
    const resized = new ResizeObserver(draw);
    resized.observe(element);
    draw();
    return () => {
      end();
      resized.disconnect();
      chart?.destroy();
    };
  }, [plot, dark]);
  const side = dark ? 1 : 0;
  return (
    <div class="plot">
      <div class="about">
        <strong><bdi>{plot.title}</bdi></strong>
        <span class="faint" ref={top} />
        <ul>{plot.names.map((name, i) => (
          <li key={i}><svg width="22" height="8" aria-hidden="true"><line x1="0" x2="22" y1="4" y2="4" stroke={plot.colours[i % plot.colours.length][side]} stroke-width="2" stroke-dasharray={DASHES[i % DASHES.length].join(" ")} /></svg><bdi>{name}</bdi></li>
        ))}</ul>
        <span class="faint readout" ref={readout} />
      </div>
      <div class="curve" ref={box} role="img" aria-label={`${plot.title}: ${plot.names.join(", ")} over time`} />
    </div>
  );
}

function atCursor(model: Model, data: (number | null)[][], plot: Plotted): string {
  if (!model.cursor || !data.length || model.moving) return "";
  const count = data[0].length;
  const i = Math.floor(((model.cursor.tick - model.view.a) / (model.view.b - model.view.a)) * count);
  if (i < 0 || i >= count) return "";
  const at = instant(model.at(model.cursor.tick), model.seconds((model.view.b - model.view.a) / count));
  return `${at}: ${data.map((s) => (s[i] === null ? "–" : value(s[i]!, plot.unit))).join(", ")}`;
}

export function Curves({ model }: { model: Model }) {
  const r = useModel(model, (m) => m.recording);
  const found = useMemo(() => (r ? plots(model) : []), [r]);
  if (!found.length) return null;
  return (
    <section class="curves" aria-labelledby="curves-title">
      <h2 id="curves-title">Curves <span class="faint">on the same axis</span></h2>
      {found.slice(0, FIRST).map((plot, i) => <Plot key={i} plot={plot} model={model} />)}
      {found.length > FIRST && <details class="keys"><summary>{found.length - FIRST} more curves</summary>
        {found.slice(FIRST).map((plot, i) => <Plot key={i} plot={plot} model={model} />)}</details>}
    </section>
  );
}
