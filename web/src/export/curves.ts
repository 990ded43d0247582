// Curves as an SVG picture: lines, the axis, and beside each chart its title, its largest value and its names.

import { DASHES, HEIGHT, value, WINDOW_PX, type Plotted } from "../curves/plots";
import type { Model } from "../model";
import { duration, instant } from "../view/format";
import { axisSteps } from "../view/scale";
import { SvgPen } from "../view/svg";
import { TITLE_HEIGHT, writeTitle } from "./time";

const ABOUT = 220;
const AXIS = 22;
const LINE = 16;

function about(pen: SvgPen, model: Model, plot: Plotted, most: number, seconds: number): void {
  const side = model.theme.dark ? 1 : 0;
  pen.textBaseline = "middle";
  pen.fillStyle = model.theme.ink;
  pen.font = "600 12px system-ui, sans-serif";
  pen.fillText(plot.title, 8, 12, ABOUT - 14);
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = model.theme.faint;
  pen.fillText(`up to ${value(most, plot.unit)}${plot.stepped ? "" : `, averages of ${duration(seconds * WINDOW_PX)}`}`, 8, 28, ABOUT - 14);
  plot.names.forEach((name, i) => {
    const y = 44 + i * LINE;
    pen.strokeStyle = plot.colours[i % plot.colours.length][side];
    pen.lineWidth = 2;
    pen.setLineDash(DASHES[i % DASHES.length]);
    pen.beginPath();
    pen.moveTo(8, y);
    pen.lineTo(30, y);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = model.theme.ink;
    pen.fillText(name, 36, y, ABOUT - 42);
  });
}

function lines(pen: SvgPen, model: Model, plot: Plotted, data: (number | null)[][], most: number, width: number, height: number): void {
  const side = model.theme.dark ? 1 : 0;
  const top = plot.most ?? (most * 1.08 || 1);
  data.forEach((series, i) => {
    pen.strokeStyle = plot.colours[i % plot.colours.length][side];
    pen.lineWidth = 1.5;
    pen.setLineDash(DASHES[i % DASHES.length]);
    pen.beginPath();
    let before: number | null = null;
    series.forEach((v, k) => {
      if (v === null) return void (before = null);
      const [x, y] = [((k + 0.5) / series.length) * width, height - (v / top) * (height - 6)];
      // Points on a straight line add nothing but size.
      if (before === null) pen.moveTo(x, y);
      else if (v !== before || series[k + 1] !== v) {
        if (plot.stepped && v !== before) pen.lineTo(x, height - (before / top) * (height - 6));
        pen.lineTo(x, y);
      }
      before = v;
    });
    pen.stroke();
    pen.setLineDash([]);
  });
}

export function curvesSvg(model: Model, plots: Plotted[], width: number): string {
  const { theme, view } = model;
  const pen = new SvgPen();
  const count = Math.max(2, Math.min(Math.round(width), 2000));
  const seconds = model.seconds((view.b - view.a) / count);
  pen.part(0, 0, "", () => writeTitle(pen, model, ABOUT + width));
  let y = TITLE_HEIGHT;
  for (const plot of plots) {
    const data = plot.values(view.a, view.b, count);
    const most = data.reduce((m, s) => s.reduce<number>((n, v) => Math.max(n, v ?? 0), m), 0);
    const height = Math.max(HEIGHT, 40 + plot.names.length * LINE);
    pen.fillStyle = theme.rule;
    pen.fillRect(0, y, ABOUT + width, 1);
    pen.part(0, y, "", () => about(pen, model, plot, most, seconds));
    pen.part(ABOUT, y, "", () => lines(pen, model, plot, data, most, width, height));
    y += height + 6;
  }
  pen.part(ABOUT, y, "", () => {
    const [a, b] = [model.at(view.a), model.at(view.b)];
    const { at, step } = axisSteps(a, b, width / 110);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const t of at) {
      const x = ((t - a) / (b - a)) * width;
      pen.fillStyle = theme.rule;
      pen.fillRect(x, 0, 1, AXIS);
      pen.fillStyle = theme.faint;
      if (x + 4 + pen.measureText(instant(t, step)).width <= width) pen.fillText(instant(t, step), x + 4, AXIS / 2);
    }
  });
  const all = y + AXIS + 4;
  return pen.document(ABOUT + width, all, "Curves", plots.map((plot) => plot.title).join(", "), theme.paper, {});
}
