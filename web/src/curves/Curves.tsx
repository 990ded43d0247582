// Curves on the axis of the lanes.

import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { saveCurves } from "../export/save";
import { useModel, type Model } from "../model";
import { duration, instant } from "../view/format";
import { DASHES, HEIGHT, plotsOf, value, WINDOW_PX, type Plotted } from "./plots";

/** Curves shown without asking. */
const FIRST = 5;

function options(plot: Plotted, model: Model, width: number): uPlot.Options {
  const dark = model.theme.dark ? 1 : 0;
  return {
    width, height: HEIGHT, legend: { show: false }, cursor: { show: false }, padding: [6, 0, 4, 0],
    scales: { x: { time: false, range: () => [model.at(model.view.a), model.at(model.view.b)] }, y: { range: (_, __, most) => [0, plot.most ?? Math.max(most * 1.08, 1e-9)] } },
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
  const found = useMemo(() => plotsOf(model), [r]);
  if (!found.length) return null;
  return (
    <section class="curves" aria-labelledby={`curves-title${model.suffix}`}>
      <div class="curves-head"><h2 id={`curves-title${model.suffix}`}>Curves <span class="faint">on the same axis</span></h2><button type="button" class="small" onClick={() => saveCurves(model, FIRST)} title="The curves that are shown, as a picture">SVG</button></div>
      {found.slice(0, FIRST).map((plot, i) => <Plot key={i} plot={plot} model={model} />)}
      {found.length > FIRST && <details class="keys"><summary>{found.length - FIRST} more curves</summary>
        {found.slice(FIRST).map((plot, i) => <Plot key={i} plot={plot} model={model} />)}</details>}
    </section>
  );
}
