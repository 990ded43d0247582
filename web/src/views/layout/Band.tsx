// A band on a canvas: each operation from where and when it began to where and when it ended; beside it, which parts were touched.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { offsetOf } from "../../data/recording";
import { useModel, type Model } from "../../model";
import { classColour, CLASSES } from "../../palette";
import { bytes, duration, instant, shown } from "../../view/format";
import { axisSteps } from "../../view/scale";
import type { Limits } from "../shared/limits";
import { Tip, type TipAt } from "../shared/Tip";
import { touched, type Band } from "./bands";
import { direction } from "./objects";

const HEIGHT = 120;
const LEFT = 66;
const AXIS = 18;
/** Width of the strip of touched parts. */
const MAP = 26;
const NEAR = 12;

const colourOf = (way: number, dark: boolean): string => classColour(CLASSES.indexOf(way === 2 ? "write" : "read"), dark);

interface Place {
  x: (tick: number) => number;
  y: (offset: number) => number;
  height: number;
}

function placeOf(band: Band, limits: Limits, width: number): Place {
  const height = HEIGHT - AXIS;
  return {
    height, y: (offset) => 4 + (1 - (offset - band.begin) / (band.end - band.begin)) * (height - 8),
    x: (tick) => LEFT + ((tick - limits.a) / Math.max(1, limits.b - limits.a)) * (width - LEFT - MAP - 12),
  };
}

/** Offsets with a label: multiples of a power of two, about four. */
function offsets({ begin, end }: Band): number[] {
  const step = 2 ** Math.ceil(Math.log2(Math.max(1, end - begin) / 4));
  const first = Math.ceil(begin / step);
  return Array.from({ length: Math.floor(end / step) - first + 1 }, (_, i) => (first + i) * step);
}

function axes(ctx: CanvasRenderingContext2D, model: Model, band: Band, limits: Limits, width: number, p: Place): void {
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  for (const offset of offsets(band)) {
    const y = Math.round(p.y(offset));
    ctx.fillStyle = model.theme.rule;
    ctx.fillRect(LEFT, y, width - LEFT, 1);
    ctx.fillStyle = model.theme.faint;
    ctx.fillText(bytes(offset), LEFT - 6, Math.max(7, y));
  }
  ctx.textAlign = "left";
  const [a, b] = [model.at(limits.a), model.at(limits.b)];
  const { at, step } = axisSteps(a, b, (width - LEFT) / 120);
  for (const t of at) {
    const x = Math.round(LEFT + ((t - a) / (b - a)) * (width - LEFT - MAP - 12));
    ctx.fillStyle = model.theme.rule;
    ctx.fillRect(x, 0, 1, HEIGHT);
    ctx.fillStyle = model.theme.faint;
    if (x < width - MAP - 50) ctx.fillText(instant(t, step), x + 4, HEIGHT - AXIS / 2 + 1);
  }
}

function drawBand(canvas: HTMLCanvasElement, model: Model, band: Band, limits: Limits, marked: number): void {
  const width = canvas.clientWidth;
  if (width < 40) return;
  const r = model.recording!;
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(HEIGHT * ratio)];
  const ctx = canvas.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  const p = placeOf(band, limits, width);
  axes(ctx, model, band, limits, width, p);
  const colours = [1, 2].map((way) => colourOf(way, model.theme.dark));
  ctx.save();
  ctx.beginPath();
  ctx.rect(LEFT, 0, width - LEFT - MAP - 12, p.height);
  ctx.clip();
  for (const i of band.spans) {
    const offset = offsetOf(r, i);
    const [x0, x1] = [p.x(r.span.start[i]), p.x(r.span.start[i] + r.span.duration[i])];
    const [y0, y1] = [p.y(offset + r.span.size[i]), p.y(offset)];
    ctx.fillStyle = colours[direction(r, i) - 1];
    ctx.fillRect(x0, y0, Math.max(2, x1 - x0), Math.max(2, y1 - y0));
  }
  ctx.restore();
  const parts = Math.floor(p.height - 8);
  const [reads, writes] = touched(r, band, parts);
  const half = MAP / 2;
  [reads, writes].forEach((values, k) => {
    ctx.fillStyle = colours[k];
    for (let y = 0; y < parts; y++) {
      if (!values[y]) continue;
      ctx.globalAlpha = 0.35 + 0.65 * Math.min(1, values[y]);
      ctx.fillRect(width - MAP + k * half, 4 + (parts - 1 - y), half - 1, 1);
    }
  });
  ctx.globalAlpha = 1;
  if (marked < 0) return;
  const offset = offsetOf(r, marked);
  const [x0, x1] = [p.x(r.span.start[marked]), p.x(r.span.start[marked] + r.span.duration[marked])];
  const [y0, y1] = [p.y(offset + r.span.size[marked]), p.y(offset)];
  ctx.strokeStyle = model.theme.accent;
  ctx.lineWidth = 2;
  ctx.strokeRect(x0 - 3, y0 - 3, Math.max(8, x1 - x0 + 6), Math.max(8, y1 - y0 + 6));
}

export function spanText(model: Model, i: number): string[] {
  const r = model.recording!;
  const offset = offsetOf(r, i);
  const length = model.seconds(r.span.duration[i]);
  return [
    `${r.header.kinds[r.span.kind[i]].name}: ${bytes(r.span.size[i])} at ${bytes(offset)}`,
    `at ${instant(model.at(r.span.start[i]), Math.max(1e-6, length / 10))}, took ${duration(length)}`,
    shown(r.header.lanes[r.span.lane[i]].name, 80),
  ];
}

export function BandPlot({ model, band, limits, pick }: { model: Model; band: Band; limits: Limits; pick: (span: number) => void }) {
  const r = model.recording!;
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = useModel(model, (m) => m.theme.dark);
  const [at, setAt] = useState(0);
  const [focus, setFocus] = useState(false);
  const [tip, setTip] = useState<TipAt | null>(null);
  const current = band.spans[Math.min(at, band.spans.length - 1)];
  const marked = focus || tip ? current : -1;
  useLayoutEffect(() => {
    const go = () => drawBand(canvas.current!, model, band, limits, marked);
    go();
    const resized = new ResizeObserver(go);
    resized.observe(canvas.current!);
    return () => resized.disconnect();
  }, [band, limits, marked, dark]);
  const under = (e: MouseEvent): number => {
    const box = canvas.current!.getBoundingClientRect();
    const p = placeOf(band, limits, box.width);
    const [px, py] = [e.clientX - box.left, e.clientY - box.top];
    let [best, least] = [-1, NEAR * NEAR];
    band.spans.forEach((i, k) => {
      const offset = offsetOf(r, i);
      const [x0, x1, y0, y1] = [p.x(r.span.start[i]), p.x(r.span.start[i] + r.span.duration[i]), p.y(offset + r.span.size[i]), p.y(offset)];
      const d = Math.max(0, x0 - px, px - x1) ** 2 + Math.max(0, y0 - py, py - y1) ** 2;
      if (d <= least) [best, least] = [k, d];
    });
    return best;
  };
  const hover = (e: PointerEvent) => {
    const k = under(e);
    if (k >= 0) setAt(k);
    setTip(k >= 0 ? { x: e.clientX, y: e.clientY, lines: [...spanText(model, band.spans[k]), "Click: show it on the time axis"] } : null);
  };
  const press = (e: KeyboardEvent) => {
    const last = band.spans.length - 1;
    const to = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, Home: 0, End: last }[e.key];
    if (to !== undefined) setAt(Math.min(last, Math.max(0, to)));
    else if (e.key === "Enter" || e.key === " ") pick(current);
    else return;
    e.preventDefault();
  };
  return (
    <div class="scatter" role="slider" tabIndex={0} aria-label={`Operations of ${band.place} on ${shown(band.name, 80)}; Enter shows the one that is chosen`} aria-valuemin={1} aria-valuemax={band.spans.length}
      aria-valuenow={at + 1} aria-valuetext={spanText(model, current).join(", ")} onKeyDown={press} onFocus={() => setFocus(true)} onBlur={() => setFocus(false)}>
      <canvas ref={canvas} class={tip ? "hit" : ""} style={{ height: `${HEIGHT}px` }} aria-hidden="true" onPointerMove={hover} onPointerLeave={() => setTip(null)} onClick={(e) => {
        const k = under(e);
        if (k >= 0) pick(band.spans[k]);
      }} />
      <Tip at={tip} />
    </div>
  );
}
