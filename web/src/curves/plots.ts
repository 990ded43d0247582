// Which curves a recording has, and their values: bytes moved by the command first, then ranks, then counters.

import type { Model } from "../model";
import { counterColour, type Pair } from "../palette";
import { bytes, count as number, quantity, rate } from "../view/format";
import { chartsOf, increase, sampled } from "./counters";
import { isCountable, rankBytes, ranksOf, waiting } from "./ranks";
import { bytesIn, movesByRole, smooth, type Series } from "./rates";

export const HEIGHT = 110;
/** A rate is averaged over this many pixels. */
export const WINDOW_PX = 24;
export const STROKES: Pair[] = [
  ["#0072B2", "#56A8E8"], ["#D55E00", "#F0803C"], ["#00795A", "#25C295"], ["#7B4FA3", "#B68BE0"], ["#8C7A00", "#D0BC3A"], ["#B3001B", "#FF7A8A"],
];
export const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3], [10, 4]];

export interface Plotted {
  title: string;
  unit: string;
  names: string[];
  /** The values of each curve over the view, at `count` points. */
  values: (a: number, b: number, count: number) => (number | null)[][];
  stepped: boolean;
  colours: Pair[];
  /** The top of the scale, if it is known: a number of ranks. */
  most?: number;
}

/** A window has its cause's colour; other curves take the next of the list that is not one of those. */
function coloursOf(names: string[]): Pair[] {
  if (!names.some(counterColour)) return STROKES;
  const free = [STROKES[0], STROKES[1], STROKES[4]];
  return names.map((name) => counterColour(name) ?? free.shift() ?? STROKES[0]);
}

function moved(model: Model, title: string, series: Series[]): Plotted {
  const r = model.recording!;
  return {
    title, unit: "bytes/s", names: series.map((s) => s.name), stepped: false, colours: STROKES,
    values: (a, b, count) => series.map((s) => {
      // Beyond the view's ends too, so that an average at its edge is over a whole window.
      const margin = ((b - a) / count) * WINDOW_PX;
      const values = smooth(bytesIn(r, s, a - margin, b + margin, count + 2 * WINDOW_PX), WINDOW_PX);
      const seconds = model.seconds((b - a) / count);
      return [...values.subarray(WINDOW_PX, WINDOW_PX + count)].map((v) => v / seconds);
    }),
  };
}

function ofRanks(model: Model): Plotted[] {
  const r = model.recording!;
  const ranks = ranksOf(r);
  if (ranks.length < 2) return [];
  const found: Plotted[] = [{
    title: `Ranks that wait, of ${number(ranks.length)}`, unit: "ranks", names: ["for other ranks, in MPI", "for a disk, lock, CPU or other"], stepped: false, colours: STROKES, most: ranks.length,
    values: (a, b, count) => {
      if (!isCountable(r, ranks, a)) return [new Array(count).fill(null), new Array(count).fill(null)];
      const w = waiting(r, ranks, a, b, count);
      return [smooth(w.forRanks, WINDOW_PX), smooth(w.otherwise, WINDOW_PX)].map((v) => [...v]);
    },
  }];
  const each = rankBytes(r, ranks, WINDOW_PX);
  if (each) {
    found.push({
      title: each.title, unit: "bytes/s", names: each.names, stepped: false, colours: STROKES,
      values: (a, b, count) => each.values(a, b, count).map((v) => [...v].map((x) => x / model.seconds((b - a) / count))),
    });
  }
  return found;
}

export function plots(model: Model): Plotted[] {
  const r = model.recording!;
  const [first, ...rest] = movesByRole(r).map((group) => moved(model, group.title, group.series));
  const found = [...(first ? [first] : []), ...ofRanks(model), ...rest];
  for (const chart of chartsOf(r)) {
    found.push({
      title: chart.title, unit: chart.unit, names: chart.tracks.map((t) => t.label), stepped: !chart.accumulates, colours: coloursOf(chart.tracks.map((t) => model.header.counters[t.counter].name)),
      values: (a, b, count) => chart.tracks.map((t) => (chart.accumulates ? increase(t, a, b, count, WINDOW_PX, model.seconds(1)) : sampled(t, a, b, count))),
    });
  }
  return found;
}

/** The curves of a model: made once, since adding up bytes takes a while. */
const made = new WeakMap<object, Plotted[]>();

export function plotsOf(model: Model): Plotted[] {
  const r = model.recording;
  if (!r) return [];
  let found = made.get(r);
  if (!found) made.set(r, (found = plots(model)));
  return found;
}

export function value(v: number, unit: string): string {
  if (unit === "ranks") return `${v < 10 ? v.toFixed(1) : v.toFixed(0)} ranks`;
  return unit === "bytes/s" ? rate(v) : unit === "bytes" ? bytes(v) : quantity(v, unit);
}
