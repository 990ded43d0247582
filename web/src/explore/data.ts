// Measurements as the explorer shows them: points of a grid of parameters, each with figures and their intervals. What a sweep, a study of
// layouts, one of listings and whole commands have in common.

import type { Unit } from "../chart/scale";

export interface Estimate {
  median: number;
  low: number;
  high: number;
  values?: number;
}

export interface Value {
  label: string;
  /** As a number, if all values of the parameter are numbers. */
  number?: number;
}

export interface Dimension {
  name: string;
  unit?: Unit;
  values: Value[];
}

export interface Metric {
  name: string;
  unit: Unit;
  better: "more" | "less" | "";
  /** By row; null where there is no figure. */
  values: (Estimate | null)[];
  /** What could be reached at most (or at least, for times), by row. */
  bounds?: (number | null)[];
  /** A line over the whole picture. */
  reference?: { name: string; value: number };
}

export interface Row {
  /** Index into each dimension's values. */
  at: number[];
  state: string;
  problem?: string | undefined;
  cause?: string | undefined;
  where?: string | undefined;
  sentence?: string | undefined;
  shares: [cause: string, share: number][];
  /** Shares of processors' time by class, if profiled. */
  classes?: [title: string, share: number][];
  facts: [name: string, text: string][];
  runs?: number[];
}

export interface Dataset {
  name: string;
  dimensions: Dimension[];
  metrics: Metric[];
  rows: Row[];
  /** Dimensions, the one that explains most first. */
  ranks: number[];
  best?: number;
  equals: Set<number>;
}

/** Makes a dimension of the labels that occur, in the order given or by number. */
export function dimensionOf(name: string, labels: (string | number)[], text: (v: string | number) => string = String): Dimension {
  const seen = [...new Set(labels)];
  const numbers = seen.every((v) => typeof v === "number");
  if (numbers) seen.sort((a, b) => (a as number) - (b as number));
  return { name, values: seen.map((v) => ({ label: text(v), ...(numbers ? { number: v as number } : {}) })) };
}

/** The place of each label in a dimension. */
export function places(labels: (string | number)[]): Map<string | number, number> {
  const seen = [...new Set(labels)];
  if (seen.every((v) => typeof v === "number")) seen.sort((a, b) => (a as number) - (b as number));
  return new Map(seen.map((v, i) => [v, i]));
}

/** Dimensions with more than one value: the others are the same everywhere. */
export const varied = (data: Dataset): number[] => data.ranks.filter((d) => data.dimensions[d].values.length > 1);

export const exact = (value: number | null | undefined): Estimate | null => (typeof value === "number" && Number.isFinite(value) ? { median: value, low: value, high: value } : null);

/** A point's name: its values of the dimensions that vary. */
export function nameOf(data: Dataset, row: number): string {
  return varied(data).sort((a, b) => a - b).map((d) => `${data.dimensions[d].name}=${data.dimensions[d].values[data.rows[row].at[d]].label}`).join(", ") || "the only point";
}

/** What is drawn: which dimension or figure on which axis, and which values the other dimensions have. */
export interface Choice {
  /** `d0` a dimension, `m0` a figure. */
  x: string;
  y: string;
  /** The dimension that separates curves; -1: none. */
  by: number;
  /** The figure that shades a heat map. */
  shade: number;
  /** Value of each dimension that is not an axis; -1: all. */
  fixed: number[];
}

export const dimensionAt = (axis: string): number => (axis[0] === "d" ? Number(axis.slice(1)) : -1);
export const metricAt = (axis: string): number => (axis[0] === "m" ? Number(axis.slice(1)) : -1);

/** What is drawn at first: the main figure along the dimension that explains most and has numbers, curves by the next. */
export function firstChoice(data: Dataset): Choice {
  const ranked = varied(data);
  const numeric = (d: number) => data.dimensions[d].values.every((v) => v.number !== undefined);
  const x = ranked.find(numeric) ?? ranked[0] ?? 0;
  const by = ranked.find((d) => d !== x) ?? -1;
  const fixed = data.dimensions.map((_, d) => (data.best !== undefined && d !== x && d !== by ? data.rows[data.best].at[d] : -1));
  const choice = { x: `d${x}`, y: "m0", by, shade: 0, fixed };
  return data.best === undefined ? { ...choice, fixed: settled(data, choice) } : choice;
}

/** Whether two points have one place in the picture. */
function isCrowded(data: Dataset, choice: Choice): boolean {
  const seen = new Set<string>();
  return chosen(data, choice).some((i) => {
    const { at } = data.rows[i];
    const key = `${at[dimensionAt(choice.x)]} ${choice.by < 0 ? "" : at[choice.by]}`;
    return seen.has(key) || !seen.add(key);
  });
}

/** The value that most of the choice's points have. */
function commonest(data: Dataset, choice: Choice, d: number): number {
  const counts = data.dimensions[d].values.map(() => 0);
  for (const i of chosen(data, choice)) counts[data.rows[i].at[d]]++;
  return counts.indexOf(Math.max(...counts));
}

/** Fixes as few of the other dimensions as are needed for one point at each place. */
function settled(data: Dataset, start: Choice): number[] {
  let choice = start;
  const fix = (c: Choice, d: number): Choice => ({ ...c, fixed: c.fixed.map((v, k) => (k === d ? commonest(data, c, d) : v)) });
  while (isCrowded(data, choice)) {
    const free = others(data, choice).filter((d) => choice.fixed[d] < 0);
    if (!free.length) break;
    const enough = free.find((d) => !isCrowded(data, fix(choice, d)));
    choice = fix(choice, enough ?? free[0]);
  }
  return choice.fixed;
}

/** Dimensions that no axis shows. */
export function others(data: Dataset, choice: Choice): number[] {
  const shown = new Set([dimensionAt(choice.x), dimensionAt(choice.y), isHeat(choice) ? -1 : choice.by]);
  return varied(data).filter((d) => !shown.has(d)).sort((a, b) => a - b);
}

export const isHeat = (choice: Choice): boolean => choice.x[0] === "d" && choice.y[0] === "d";

/** The rows that the fixed values leave. */
export function chosen(data: Dataset, choice: Choice): number[] {
  const fixed = others(data, choice).filter((d) => choice.fixed[d] >= 0);
  return data.rows.map((_, i) => i).filter((i) => fixed.every((d) => data.rows[i].at[d] === choice.fixed[d]));
}

/** From this ratio on, numbers on an axis are far enough apart for a logarithm. */
export const FAR = 8;

/** Where a dimension's value is on an axis: its number, or its place where values are words. */
export function positions(dimension: Dimension): number[] {
  const numbers = dimension.values.map((v) => v.number);
  if (!numbers.every((n) => n !== undefined)) return numbers.map((_, i) => i + 1);
  const positive = (numbers as number[]).filter((n) => n > 0);
  const least = Math.min(...positive);
  // On a logarithmic axis, 0 is drawn half as far out as the least number.
  if (positive.length < numbers.length && positive.length > 1 && Math.min(...(numbers as number[])) === 0 && Math.max(...positive) / least >= FAR) return (numbers as number[]).map((n) => (n === 0 ? least / 2 : n));
  return numbers as number[];
}

/** Of several rows, the one with the best figure; -1 if none has one. */
export function bestOf(metric: Metric, rows: number[]): number {
  let best = -1;
  for (const i of rows) {
    const value = metric.values[i]?.median;
    if (value === undefined) continue;
    const known = best < 0 ? null : metric.values[best]!.median;
    if (known === null || (metric.better === "less" ? value < known : value > known)) best = i;
  }
  return best;
}
