// Axes: where a value is, and the values that are named.

import { bytes, count, duration, percent, rate, three } from "../view/format";
import { niceStep } from "../view/scale";

export type Unit = "s" | "us" | "bytes" | "bytes/s" | "bits/s" | "share" | "ns/byte" | "count" | "per s" | "times";

/** A value with its unit, as the tables print it. */
export function figure(value: number, unit: Unit): string {
  switch (unit) {
    case "s": return duration(value);
    case "us": return duration(value / 1e6);
    case "bytes": return bytes(value);
    case "bytes/s": return rate(value);
    case "bits/s": return bits(value);
    case "share": return percent(value);
    case "ns/byte": return `${three(value)} ns/B`;
    case "per s": return `${number(value)}/s`;
    case "times": return `${three(value)} ×`;
    case "count": return number(value);
  }
}

export function number(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${three(value / 1e9)} G`;
  if (size >= 1e6) return `${three(value / 1e6)} M`;
  if (Number.isInteger(value) || size >= 1000) return count(Math.round(value));
  return size >= 0.01 ? three(value) : value.toPrecision(2);
}

export function bits(perSecond: number): string {
  const units = ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"];
  let u = 0;
  while (perSecond >= 999.5 && u < units.length - 1) [perSecond, u] = [perSecond / 1000, u + 1];
  return `${u === 0 ? Math.round(perSecond) : three(perSecond)} ${units[u]}`;
}

export interface Scale {
  log: boolean;
  min: number;
  max: number;
}

/** The share of the axis at which a value is; beyond the axis, its nearer end. */
export function part(scale: Scale, value: number): number {
  const { log, min, max } = scale;
  const at = log ? Math.log(Math.max(value, min) / min) / Math.log(max / min) : (value - min) / (max - min);
  return Math.min(1, Math.max(0, Number.isFinite(at) ? at : 0));
}

/** From this ratio of the most to the least on, an axis is logarithmic. */
const FAR_APART = 30;

/** An axis over values: from 0, or logarithmic where values are far apart. */
export function scaleOf(values: number[], wanted: "auto" | "log" | "linear" = "auto"): Scale {
  const finite = values.filter(Number.isFinite);
  const max = finite.length ? Math.max(...finite) : 1;
  const positive = finite.filter((v) => v > 0);
  const least = positive.length ? Math.min(...positive) : 1;
  const log = wanted === "log" || (wanted === "auto" && positive.length === finite.length && max / least >= FAR_APART);
  if (log && positive.length) return { log: true, min: least / 1.3, max: Math.max(max * 1.3, least * 2) };
  const min = Math.min(0, ...finite);
  return { log: false, min, max: max > min ? max * 1.06 : min + 1 };
}

/** An axis that does not begin at 0. */
export function tightScale(values: number[]): Scale {
  const finite = values.filter(Number.isFinite);
  const [min, max] = finite.length ? [Math.min(...finite), Math.max(...finite)] : [0, 1];
  if (min > 0 && max / min >= FAR_APART) return { log: true, min: min / 1.15, max: max * 1.15 };
  const margin = (max - min || Math.abs(max) || 1) * 0.05;
  return { log: false, min: min - margin, max: max + margin };
}

/** The binary or decimal power in which an axis counts, so that its labels are round. */
function stepUnit(unit: Unit, max: number): number {
  if (unit === "bytes" || unit === "bytes/s") return max <= 0 ? 1 : 1024 ** Math.min(4, Math.max(0, Math.floor(Math.log(max / 4) / Math.log(1024))));
  return 1;
}

/** Values to name on an axis, with their text. */
export function ticks(scale: Scale, unit: Unit, most: number): { value: number; text: string }[] {
  const base = stepUnit(unit, scale.max);
  const values: number[] = [];
  if (scale.log) {
    const octaves = unit === "bytes" || unit === "bytes/s";
    const decades = Math.log10(scale.max / scale.min);
    const leads = decades * 3 <= most ? [1, 2, 5] : decades * 2 <= most ? [1, 3] : [1];
    const every = Math.max(1, Math.ceil(decades / most));
    for (let p = Math.floor(Math.log10(scale.min / base)); p <= Math.log10(scale.max / base); p++) {
      if (leads.length === 1 && p % every) continue;
      for (const lead of leads) values.push(lead * 10 ** p * base);
    }
    if (octaves) return octaveTicks(scale, unit, most);
  } else {
    const step = niceStep((scale.max - scale.min) / base, most) * base;
    for (let k = Math.ceil(scale.min / step); k * step <= scale.max; k++) values.push(k * step);
  }
  return values.filter((v) => v >= scale.min && v <= scale.max).map((value) => ({ value, text: value === 0 ? "0" : short(figure(value, unit)) }));
}

/** Without zeros at the end: `1.00 ms` is `1 ms`. */
const short = (text: string): string => text.replace(/\.(\d*?)0+(?=\D|$)/, (_, digits: string) => (digits ? `.${digits}` : ""));

/** Powers of two, as sizes are. */
function octaveTicks(scale: Scale, unit: Unit, most: number): { value: number; text: string }[] {
  const [from, to] = [Math.ceil(Math.log2(scale.min)), Math.floor(Math.log2(scale.max))];
  const every = Math.max(1, Math.ceil((to - from + 1) / most));
  const found = [];
  for (let p = from; p <= to; p++) if (p % every === 0) found.push({ value: 2 ** p, text: figure(2 ** p, unit) });
  return found;
}
