// CPU samples on the lanes: ticks at the foot of a lane in the colour of what the thread was doing, one for each pixel that has a sample.

import { upper } from "../data/levels";
import type { Recording } from "../data/recording";
import type { Model } from "../model";
import type { Frame } from "../view/pen";
import { toX } from "../view/scale";
import type { Row } from "./rows";
import { sampleColour } from "../palette";

/** Rows below this height have no room for samples. */
const LEAST_HEIGHT = 16;
const TICK_HEIGHT = 4;
const NO_CLASS = 0xff;

interface SampleIndex {
  /** Samples of lane `l`: `from[l]..from[l + 1]`, in order of time. */
  from: Uint32Array;
  index: Uint32Array;
  at: Uint32Array;
}

const known = new WeakMap<Recording, SampleIndex>();

function makeIndex(r: Recording): SampleIndex {
  const { lane, at } = r.sample;
  const n = r.lanes.length;
  const from = new Uint32Array(n + 1);
  for (const l of lane) if (l < n) from[l + 1]++;
  for (let l = 0; l < n; l++) from[l + 1] += from[l];
  const [next, index] = [from.slice(), new Uint32Array(from[n])];
  lane.forEach((l, i) => {
    if (l < n) index[next[l]++] = i;
  });
  for (let l = 0; l < n; l++) index.subarray(from[l], from[l + 1]).sort((i, j) => at[i] - at[j]);
  return { from, index, at: Uint32Array.from(index, (i) => at[i]) };
}

export function samplesByLane(r: Recording): SampleIndex {
  let found = known.get(r);
  if (!found) known.set(r, (found = makeIndex(r)));
  return found;
}

/** The class of the sample nearest to an instant within `slack` ticks; empty if there is none. */
export function sampleAt(r: Recording, lane: number, tick: number, slack: number): string {
  if (!r.sample.at.length) return "";
  const { from, index, at } = samplesByLane(r);
  const i = upper(at, from[lane], from[lane + 1], tick);
  const near = [i - 1, i].filter((k) => k >= from[lane] && k < from[lane + 1] && Math.abs(at[k] - tick) <= slack);
  if (!near.length) return "";
  const best = near.reduce((a, b) => (Math.abs(at[b] - tick) < Math.abs(at[a] - tick) ? b : a));
  return r.header.sample_classes?.[r.sample.class[index[best]]] ?? "";
}

function lane(frame: Frame, model: Model, row: Row, samples: SampleIndex): void {
  const r = model.recording!;
  const { from, index, at } = samples;
  const end = from[row.lanes[0] + 1];
  const { view } = model;
  const y = row.y - frame.top + row.h - TICK_HEIGHT;
  const step = (view.b - view.a) / frame.width;
  let k = upper(at, from[row.lanes[0]], end, view.a);
  while (k < end && at[k] <= view.b) {
    const x = Math.floor(toX(view, at[k], frame.width));
    const c = r.sample.class[index[k]];
    frame.ctx.fillStyle = c === NO_CLASS ? model.theme.faint : sampleColour(r.header.sample_classes?.[c] ?? "", c, model.theme.dark);
    frame.ctx.fillRect(x, y, 1, TICK_HEIGHT);
    // A pixel has one tick: the next that counts is beyond the pixel.
    k = upper(at, k + 1, end, view.a + (x + 1) * step - 1e-9);
  }
}

export function drawSamples(frame: Frame, model: Model, rows: Row[]): void {
  if (!model.recording!.sample.at.length) return;
  const samples = samplesByLane(model.recording!);
  for (const row of rows) if (row.type === "lane" && row.h >= LEAST_HEIGHT) lane(frame, model, row, samples);
}
