// Points over time on a log axis: a canvas; arrow keys move from point to point, Enter shows one, as a click does.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Model } from "../../model";
import { instant } from "../../view/format";
import { axisSteps } from "../../view/scale";
import { Tip, type TipAt } from "./Tip";

const LEFT = 62;
const BOTTOM = 20;
const TOP = 8;
/** Pixels from a point within which a pointer means the point. */
const NEAR = 14;

export interface Points {
  /** Ticks, in order; a point that lasts is drawn as long as it lasts. */
  x: Float64Array;
  end: Float64Array;
  y: Float64Array;
  /** The colour of each point. */
  colour: (i: number) => string;
  lines: (i: number) => string[];
}

interface Props {
  model: Model;
  points: Points;
  a: number;
  b: number;
  height: number;
  label: string;
  /** Text of a value on the axis. */
  tick: (value: number) => string;
  pick: (i: number) => void;
}

interface Range {
  from: number;
  to: number;
}

function rangeOf(y: Float64Array): Range {
  let [from, to] = [Infinity, 0];
  for (const value of y) [from, to] = [Math.min(from, value), Math.max(to, value)];
  if (!(to > 0)) return { from: 0, to: 1 };
  const [low, high] = [Math.log10(Math.max(from, to / 1e9)), Math.log10(to)];
  const margin = Math.max(0.1, (high - low) * 0.08, (0.6 - (high - low)) / 2);
  return { from: low - margin, to: high + margin };
}

/** Values with a label: powers of ten, with 2 and 5 between if these are few. */
function labels({ from, to }: Range): number[] {
  const steps = to - from > 3 ? [1] : to - from > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
  const found: number[] = [];
  for (let p = Math.floor(from); p <= to; p++) for (const s of steps) if (p + Math.log10(s) >= from && p + Math.log10(s) <= to) found.push(s * 10 ** p);
  return found;
}

class Plot {
  readonly range: Range;
  constructor(private p: Props, readonly width: number) {
    this.range = rangeOf(p.points.y);
  }
  x(tick: number): number {
    return LEFT + ((tick - this.p.a) / (this.p.b - this.p.a)) * (this.width - LEFT - 8);
  }
  y(value: number): number {
    const { from, to } = this.range;
    return TOP + (1 - (Math.log10(Math.max(value, 1e-12)) - from) / (to - from)) * (this.p.height - TOP - BOTTOM);
  }

  draw(ctx: CanvasRenderingContext2D, chosen: number): void {
    const { model, points, height } = this.p;
    ctx.clearRect(0, 0, this.width, height);
    this.axes(ctx);
    for (let i = 0; i < points.x.length; i++) {
      ctx.fillStyle = points.colour(i);
      const [x0, x1] = [this.x(points.x[i]), this.x(points.end[i])];
      ctx.fillRect(Math.round(x0), Math.round(this.y(points.y[i])) - 2, Math.max(5, Math.round(x1 - x0)), 5);
    }
    if (chosen < 0 || chosen >= points.x.length) return;
    ctx.strokeStyle = model.theme.accent;
    ctx.lineWidth = 2;
    const [x0, x1] = [this.x(points.x[chosen]), this.x(points.end[chosen])];
    ctx.strokeRect(Math.round(x0) - 4, Math.round(this.y(points.y[chosen])) - 6, Math.max(13, Math.round(x1 - x0) + 8), 13);
  }

  private axes(ctx: CanvasRenderingContext2D): void {
    const { model, a, b, height } = this.p;
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    let last = Infinity;
    for (const value of labels(this.range)) {
      const y = Math.round(this.y(value));
      ctx.fillStyle = model.theme.rule;
      ctx.fillRect(LEFT, y, this.width - LEFT, 1);
      if (last - y < 14) continue;
      last = y;
      ctx.fillStyle = model.theme.faint;
      ctx.fillText(this.p.tick(value), LEFT - 6, y);
    }
    ctx.textAlign = "left";
    const [from, to] = [model.at(a), model.at(b)];
    const { at, step } = axisSteps(from, to, (this.width - LEFT) / 110);
    for (const t of at) {
      const x = Math.round(LEFT + ((t - from) / (to - from)) * (this.width - LEFT - 8));
      ctx.fillStyle = model.theme.rule;
      ctx.fillRect(x, TOP, 1, height - TOP);
      ctx.fillStyle = model.theme.faint;
      ctx.fillText(instant(t, step), x + 4, height - BOTTOM / 2);
    }
  }

  near(px: number, py: number): number {
    let [best, least] = [-1, NEAR * NEAR];
    const { x, y, end } = this.p.points;
    for (let i = 0; i < x.length; i++) {
      const [from, to] = [this.x(x[i]), this.x(end[i])];
      const across = px < from ? from - px : px > to ? px - to : 0;
      const d = across ** 2 + (this.y(y[i]) - py) ** 2;
      if (d <= least) [best, least] = [i, d];
    }
    return best;
  }
}

export function Scatter(props: Props) {
  const { model, points, height, label, pick } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const plot = useRef<Plot | null>(null);
  const [chosen, setChosen] = useState(-1);
  const [focus, setFocus] = useState(false);
  const [tip, setTip] = useState<TipAt | null>(null);
  const current = Math.min(Math.max(0, chosen), points.x.length - 1);
  useLayoutEffect(() => {
    const draw = () => {
      const element = canvas.current!;
      const width = element.clientWidth;
      if (width < 10) return;
      const ratio = Math.min(2, window.devicePixelRatio || 1);
      [element.width, element.height] = [Math.round(width * ratio), Math.round(height * ratio)];
      const ctx = element.getContext("2d")!;
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      plot.current = new Plot(props, width);
      plot.current.draw(ctx, focus || tip ? current : -1);
    };
    draw();
    const resized = new ResizeObserver(draw);
    resized.observe(canvas.current!);
    return () => resized.disconnect();
  }, [points, props.a, props.b, current, focus, !!tip, model.theme]);
  const under = (e: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return plot.current?.near(e.clientX - box.left, e.clientY - box.top) ?? -1;
  };
  const hover = (e: PointerEvent) => {
    const i = under(e);
    if (i >= 0) setChosen(i);
    setTip(i >= 0 ? { x: e.clientX, y: e.clientY, lines: points.lines(i) } : null);
  };
  const press = (e: KeyboardEvent) => {
    const to = { ArrowRight: current + 1, ArrowUp: current + 1, ArrowLeft: current - 1, ArrowDown: current - 1, Home: 0, End: points.x.length - 1 }[e.key];
    if (to !== undefined) setChosen(Math.min(points.x.length - 1, Math.max(0, to)));
    else if (e.key === "Enter" || e.key === " ") pick(current);
    else return;
    e.preventDefault();
  };
  return (
    <div class="scatter" role="slider" tabIndex={0} aria-label={`${label}; Enter shows the one that is chosen`} aria-valuemin={1} aria-valuemax={Math.max(1, points.x.length)}
      aria-valuenow={current + 1} aria-valuetext={points.x.length ? points.lines(current).join(", ") : "none"} onKeyDown={press} onFocus={() => setFocus(true)} onBlur={() => setFocus(false)}>
      <canvas ref={canvas} style={{ height: `${height}px` }} class={tip ? "hit" : ""} aria-hidden="true" onPointerMove={hover} onPointerLeave={() => setTip(null)} onClick={(e) => {
        const i = under(e);
        if (i >= 0) pick(i);
      }} />
      <Tip at={tip} />
    </div>
  );
}
