// The visible interval and what moves it. Times are ticks, as in the planes; `a` and `b` may lie between ticks.

export interface View {
  a: number;
  b: number;
}

/** The shortest interval that can be shown, in ticks. */
export const SHORTEST = 16;

export function clampView(view: View, total: number): View {
  const length = Math.min(total, Math.max(Math.min(SHORTEST, total), view.b - view.a));
  const a = Math.min(Math.max(0, view.a), total - length);
  return { a, b: a + length };
}

/** Zooms by `factor` (below 1: nearer); the instant at `share` of the view stays in place. */
export function zoom(view: View, factor: number, share: number, total: number): View {
  const length = view.b - view.a;
  const next = Math.min(total, Math.max(Math.min(SHORTEST, total), length * factor));
  const a = view.a + (length - next) * share;
  return clampView({ a, b: a + next }, total);
}

/** Moves by a share of the view. */
export function pan(view: View, share: number, total: number): View {
  const by = (view.b - view.a) * share;
  return clampView({ a: view.a + by, b: view.b + by }, total);
}

/** An interval with a margin on both sides, so that its surroundings are visible. */
export function around(start: number, end: number, total: number, margin = 1): View {
  const by = Math.max(SHORTEST, end - start) * margin;
  return clampView({ a: start - by, b: end + by }, total);
}

export const toX = (view: View, tick: number, width: number): number => ((tick - view.a) / (view.b - view.a)) * width;
export const toTick = (view: View, x: number, width: number): number => view.a + (x / width) * (view.b - view.a);

/** A step of 1, 2 or 5 times a power of ten, of which about `count` fit into `length`. */
export function niceStep(length: number, count: number): number {
  const rough = length / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const lead = rough / power;
  return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

/** Steps of a minute and more: their parts are not those of ten. */
const LONG_STEPS = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400];

/** Positions of the axis's labels, in seconds. */
export function axisSteps(a_s: number, b_s: number, count: number): { at: number[]; step: number } {
  const nice = niceStep(b_s - a_s, count);
  const step = nice < 60 ? nice : LONG_STEPS.find((s) => s >= (b_s - a_s) / Math.max(1, count)) ?? nice;
  const at: number[] = [];
  for (let k = Math.ceil(a_s / step); k * step <= b_s && at.length < 100; k++) at.push(k * step);
  return { at, step };
}
