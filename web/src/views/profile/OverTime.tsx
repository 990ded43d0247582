// What the processors ran over time: samples by class of code, stacked.

import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { useModel, type Model } from "../../model";
import type { Recording } from "../../data/recording";
import { count, duration, instant, percent } from "../../view/format";
import { axisSteps } from "../../view/scale";
import { AsTable } from "../shared/AsTable";
import type { Limits } from "../shared/limits";
import { colourOf, documentsOf, periodOf, titleOf } from "./classes";
import { classesOfNodes } from "./tree";

const HEIGHT = 150;
const LEFT = 44;
const BOTTOM = 18;
/** Fewer samples in a bar say little. */
const LEAST_SAMPLES = 12;
const MOST_BARS = 240;

export interface ClassBins {
  bars: number;
  /** Classes with samples, the most first. */
  classes: { name: string; samples: number; bins: Uint32Array }[];
  samples: number;
}

/** Names of classes that say how a sample was taken, not what ran. */
const TAKEN = /^profile\./;

/** The class of each sample with a stack: the recorded one, else that of its innermost function that has one. */
function classesOfSamples(r: Recording): { of: (i: number) => number; names: string[] } {
  const nodes = classesOfNodes(r);
  const names = [...nodes.names];
  const recorded = (r.header.sample_classes ?? []).map((name) => {
    if (TAKEN.test(name)) return -1;
    const at = names.indexOf(name);
    return at < 0 ? names.push(name) - 1 : at;
  });
  const of = (i: number) => {
    const own = recorded[r.sample.class[i]] ?? -1;
    return own >= 0 ? own : nodes.of[r.sample.stack[i] - 1] ?? 0;
  };
  return { of, names };
}

export function binsOf(r: Recording, a: number, b: number, host: string): ClassBins {
  const { of, names } = classesOfSamples(r);
  const { at, stack, lane } = r.sample;
  const inside = (i: number) => stack[i] > 0 && at[i] >= a && at[i] <= b && (!host || r.header.lanes[lane[i]]?.host === host);
  let samples = 0;
  for (let i = 0; i < stack.length; i++) if (inside(i)) samples++;
  const bars = Math.max(1, Math.min(MOST_BARS, Math.floor(samples / LEAST_SAMPLES)));
  const found = names.map((name) => ({ name, samples: 0, bins: new Uint32Array(bars) }));
  for (let i = 0; i < stack.length; i++) {
    if (!inside(i)) continue;
    const c = found[of(i)];
    c.samples++;
    c.bins[Math.min(bars - 1, Math.floor(((at[i] - a) / Math.max(1, b - a)) * bars))]++;
  }
  return { bars, classes: found.filter((c) => c.samples > 0).sort((x, y) => y.samples - x.samples), samples };
}

function draw(canvas: HTMLCanvasElement, model: Model, found: ClassBins, limits: Limits, cpus: number): void {
  const width = canvas.clientWidth;
  if (width < 10) return;
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(HEIGHT * ratio)];
  const ctx = canvas.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  const period = periodOf(model.header);
  const bar_s = model.seconds(limits.b - limits.a) / found.bars;
  const sums = Array.from({ length: found.bars }, (_, i) => found.classes.reduce((n, c) => n + c.bins[i], 0));
  // In processors where the period is known, else in samples.
  const unit = period ? period / bar_s : 1;
  const most = Math.max(period ? cpus : 1, ...sums.map((s) => s * unit));
  const room = HEIGHT - BOTTOM - 6;
  const x = (i: number) => LEFT + (i / found.bars) * (width - LEFT);
  for (let i = 0; i < found.bars; i++) {
    let y = HEIGHT - BOTTOM;
    for (const c of found.classes) {
      const h = ((c.bins[i] * unit) / most) * room;
      ctx.fillStyle = colourOf(c.name, model.theme.dark);
      ctx.fillRect(x(i), y - h, x(i + 1) - x(i) + 0.3, h);
      y -= h;
    }
  }
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  const step = most <= 4 ? 1 : Math.ceil(most / 4);
  for (let v = 0; v <= most + 1e-6; v += step) {
    const y = HEIGHT - BOTTOM - (v / most) * room;
    ctx.fillStyle = model.theme.rule;
    ctx.fillRect(LEFT, Math.round(y), width, 1);
    ctx.fillStyle = model.theme.faint;
    ctx.fillText(count(v), LEFT - 5, Math.max(7, y));
  }
  ctx.textAlign = "left";
  const [a, b] = [model.at(limits.a), model.at(limits.b)];
  const steps = axisSteps(a, b, (width - LEFT) / 110);
  ctx.fillStyle = model.theme.faint;
  for (const t of steps.at) ctx.fillText(instant(t, steps.step), LEFT + ((t - a) / (b - a)) * (width - LEFT) + 2, HEIGHT - BOTTOM / 2 + 1);
}

export function OverTime({ model, limits, host }: { model: Model; limits: Limits; host: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = useModel(model, (m) => m.theme.dark);
  const r = model.recording!;
  const { header } = model;
  const found = useMemo(() => binsOf(r, limits.a, limits.b, host), [r, limits, host]);
  const period = periodOf(header);
  const cpus = documentsOf(header).flatMap((d) => d.hosts).filter((h) => !host || h.name === host).reduce((n, h) => n + h.cpus, 0);
  useLayoutEffect(() => {
    const go = () => draw(canvas.current!, model, found, limits, cpus);
    go();
    const resized = new ResizeObserver(go);
    resized.observe(canvas.current!);
    return () => resized.disconnect();
  }, [found, dark]);
  const table = () => ({ columns: ["class", "samples", "share"], rows: found.classes.map((c) => [titleOf(header, c.name), c.samples, c.samples / found.samples]) });
  const unit = period ? `busy processors${cpus ? `, of ${cpus}` : ""}` : "samples";
  return (
    <div class="overtime">
      <h3 class="plottitle">What the processors ran <span class="faint">over time, by class of code: {unit}</span></h3>
      <canvas ref={canvas} style={{ height: `${HEIGHT}px` }} role="img" aria-label={`${unit} over time by class: the table below has the sums`} />
      <ul class="legendline">{found.classes.slice(0, 14).map((c) => (
        <li key={c.name}><span class="swatch" style={{ background: colourOf(c.name, dark) }} aria-hidden="true" />{titleOf(header, c.name)} <span class="faint">{percent(c.samples / found.samples)}{period > 0 && `, ${duration(c.samples * period)}`}</span></li>
      ))}</ul>
      <AsTable title="classes of code" file="classes" data={table} show={(v, c) => (c === 2 ? percent(v) : count(v))} />
    </div>
  );
}
