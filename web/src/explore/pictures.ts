// From points and a choice of axes to what the pictures draw. Nothing here draws.

import { figure, scaleOf, tightScale, type Scale } from "../chart/scale";
import type { HeatCell } from "../chart/Heat";
import type { Stack } from "../chart/Stacks";
import type { Axis, Curve, Dot } from "../chart/Xy";
import { causeWords } from "../answer/help";
import { causeColour } from "../palette";
import { COLOURS } from "../chart/looks";
import { bestOf, chosen, dimensionAt, FAR, metricAt, positions, type Choice, type Dataset, type Dimension, type Metric } from "./data";

function axisOf(dimension: Dimension): Axis {
  const at = positions(dimension);
  const marks = dimension.values.map((v, i) => ({ value: at[i], text: v.label }));
  const numeric = dimension.values[0]?.number !== undefined;
  const positive = at.filter((v) => v > 0);
  const far = numeric && at.every((v) => v > 0) && Math.max(...positive) / Math.min(...positive) >= FAR;
  const scale: Scale = at.length < 2 ? { log: false, min: at[0] - 1, max: at[0] + 1 } : far ? { log: true, min: Math.min(...at), max: Math.max(...at) } : { log: false, min: Math.min(...at), max: Math.max(...at) };
  return { name: dimension.name, unit: dimension.unit ?? "count", scale, marks };
}

function metricAxis(metric: Metric, rows: number[], tight: boolean): Axis {
  const values = rows.flatMap((i) => {
    const e = metric.values[i];
    const bound = metric.bounds?.[i];
    return e ? [e.low, e.high, ...(typeof bound === "number" ? [bound] : [])] : [];
  });
  if (metric.reference && !tight) values.push(metric.reference.value);
  return { name: metric.name, unit: metric.unit, scale: tight ? tightScale(values) : scaleOf(values) };
}

/** Which curve a row is in: its look and its name. */
function groupOf(data: Dataset, choice: Choice, row: number): { key: number; name: string } {
  if (choice.by === -2) return { key: 0, name: "" };
  if (choice.by < 0) return { key: 0, name: metricAt(choice.y) >= 0 ? data.metrics[metricAt(choice.y)].name : "points" };
  const at = data.rows[row].at[choice.by];
  const dimension = data.dimensions[choice.by];
  return { key: at, name: dimension.values[0].number !== undefined ? `${dimension.name}=${dimension.values[at].label}` : dimension.values[at].label };
}

export interface Xy {
  x: Axis;
  y: Axis;
  curves: Curve[];
  /** Points of the choice that have no figure. */
  missing: number[];
}

/** A picture of points; a parameter across gives curves, a figure across gives a cloud. */
export function xyOf(data: Dataset, choice: Choice, dark: boolean): Xy {
  const flipped = choice.y[0] === "d";
  const [across, up] = flipped ? [choice.y, choice.x] : [choice.x, choice.y];
  const rows = chosen(data, choice);
  const metric = data.metrics[metricAt(up)];
  const dimension = data.dimensions[dimensionAt(across)];
  const other = data.metrics[metricAt(across)];
  // Words have no order that a line could follow.
  const numeric = dimension?.values[0]?.number !== undefined;
  const at = dimension ? positions(dimension) : [];
  const xAt = (i: number) => (dimension ? at[data.rows[i].at[dimensionAt(across)]] : other.values[i]?.median);
  const has = (i: number) => !!metric.values[i] && xAt(i) !== undefined;
  const groups = new Map<number, Curve>();
  for (const i of rows.filter(has)) {
    const { key, name } = groupOf(data, choice, i);
    const curve = groups.get(key) ?? { name, look: key, dots: [] as Dot[], joined: numeric };
    groups.set(key, curve);
    const e = metric.values[i]!;
    const bound = metric.bounds?.[i];
    curve.dots.push({ x: xAt(i)!, y: e.median, ...(e.low !== e.high ? { low: e.low, high: e.high } : {}), ...(typeof bound === "number" ? { bound } : {}), id: i, ...(choice.by === -2 && data.rows[i].cause ? { colour: causeColour(data.rows[i].cause!, dark) } : {}) });
  }
  const curves = [...groups.values()].sort((a, b) => a.look - b.look);
  for (const curve of curves) {
    curve.dots.sort((a, b) => a.x - b.x);
    // Several points at one place are no curve.
    curve.joined &&= curve.dots.every((d, k) => k === 0 || d.x !== curve.dots[k - 1].x);
  }
  const shown = rows.filter(has);
  const x = dimension ? axisOf(dimension) : metricAxis(other, shown, true);
  if (metric.reference) curves.push({ name: metric.reference.name, look: 0, joined: true, reference: true, dots: [x.scale.min, x.scale.max].map((v) => ({ x: v, y: metric.reference!.value, id: -1 })) });
  return { x, y: metricAxis(metric, shown, false), curves, missing: rows.filter((i) => !has(i)) };
}

/** Cells of a heat map: where several points are in one cell, the best of them. */
export function heatOf(data: Dataset, choice: Choice, dark: boolean): { cells: HeatCell[][]; several: boolean } {
  const [dx, dy] = [dimensionAt(choice.x), dimensionAt(choice.y)];
  const metric = data.metrics[choice.shade];
  const rows = chosen(data, choice);
  const medians = rows.map((i) => metric.values[i]?.median).filter((v): v is number => v !== undefined);
  const scale = scaleOf(medians);
  const [least, most] = [Math.min(...medians), Math.max(...medians)];
  const level = (v: number) => (most <= least ? 0.5 : scale.log ? Math.log(v / least) / Math.log(most / least) : (v - least) / (most - least));
  let several = false;
  const cells = data.dimensions[dy].values.map((_, y) => data.dimensions[dx].values.map((__, x): HeatCell => {
    const here = rows.filter((i) => data.rows[i].at[dx] === x && data.rows[i].at[dy] === y);
    if (!here.length) return { text: "not measured", level: null, id: -1 };
    several ||= here.length > 1;
    const best = bestOf(metric, here);
    const i = best < 0 ? here[0] : best;
    const value = metric.values[i]?.median;
    const cause = data.rows[i].cause;
    return { text: value === undefined ? data.rows[i].state === "done" ? "no figure" : data.rows[i].state : figure(value, metric.unit), level: value === undefined ? null : level(value), id: i, ...(cause ? { cause: causeColour(cause, dark), causeName: cause } : {}) };
  }));
  return { cells, several };
}

export interface StackPicture {
  title: string;
  stacks: Stack[];
}

/** Where the time went along a dimension: a picture for each value of the curves' dimension. */
export function stacksOf(data: Dataset, choice: Choice, dark: boolean, what: "shares" | "classes"): StackPicture[] {
  const d = dimensionAt(choice.x) >= 0 ? dimensionAt(choice.x) : dimensionAt(choice.y);
  if (d < 0) return [];
  const rows = chosen(data, choice);
  const by = isSplit(data, choice, d) ? choice.by : choice.y[0] === "d" && choice.x[0] === "d" ? dimensionAt(choice.y) : -1;
  const titles = [...new Set(data.rows.flatMap((row) => row.classes?.map(([t]) => t) ?? []))];
  const colour = (name: string) => (what === "shares" ? causeColour(name, dark) : COLOURS[titles.indexOf(name) % COLOURS.length][dark ? 1 : 0]);
  const of = (value: number): StackPicture => {
    const stacks = data.dimensions[d].values.map((v, k): Stack => {
      const i = rows.find((r) => data.rows[r].at[d] === k && (by < 0 || data.rows[r].at[by] === value)) ?? -1;
      const row = data.rows[i];
      const parts = (what === "shares" ? row?.shares : row?.classes) ?? [];
      return { label: v.label, id: i, parts: parts.filter(([, share]) => share > 0.002).map(([name, share]) => ({ name: what === "shares" ? causeWords(name) : name, share, colour: colour(name) })), note: !row ? "not measured" : row.state !== "done" ? row.state : "not recorded" };
    });
    return { title: by < 0 ? "" : `${data.dimensions[by].name}=${data.dimensions[by].values[value].label}`, stacks };
  };
  const pictures = by < 0 ? [of(0)] : data.dimensions[by].values.slice(0, 8).map((_, value) => of(value));
  return pictures.filter((p) => p.stacks.some((s) => s.parts.length));
}

const isSplit = (data: Dataset, choice: Choice, d: number): boolean => choice.by >= 0 && choice.by !== d && data.dimensions[choice.by].values.length > 1;
