// Counters over time, by what they have in common: a connection's windows beside its bytes in flight are one chart, other counters one
// chart for each name.

import { upper } from "../data/levels";
import type { Recording } from "../data/recording";
import { shown } from "../view/format";

export interface Track {
  counter: number;
  label: string;
  unit: string;
  at: Float64Array;
  value: Float64Array;
}

export interface Chart {
  key: string;
  title: string;
  unit: string;
  /** Whether what is drawn is the increase in a second. */
  accumulates: boolean;
  tracks: Track[];
}

/** The unit of an increase in a second: of nanoseconds, it is a share of the time. */
const RATE: Record<string, string> = { bytes: "bytes/s", ns: "share", us: "share" };
const SCALE: Record<string, number> = { ns: 1e-9, us: 1e-6 };


const WINDOWS = /^tcp\.(cwnd|in_flight_bytes|receive_window_bytes|send_buffer_bytes|unsent_bytes)$/;
const MOST_CHARTS = 8;
const MOST_TRACKS = 5;

export function tracksOf(r: Recording): Track[] {
  const counts = new Uint32Array(r.header.counters.length);
  for (const of of r.counter.of) if (of < counts.length) counts[of]++;
  const tracks = r.header.counters.map((c, i) => {
    const lane = c.of === null ? undefined : r.header.lanes[c.of];
    const label = lane ? shown(lane.name, 60) : shown(c.label || c.name, 60);
    return { counter: i, label, unit: c.unit, at: new Float64Array(counts[i]), value: new Float64Array(counts[i]) };
  });
  const next = new Uint32Array(counts.length);
  for (let i = 0; i < r.counter.of.length; i++) {
    const of = r.counter.of[i];
    if (of >= counts.length) continue;
    tracks[of].at[next[of]] = r.counter.at[i];
    tracks[of].value[next[of]++] = r.counter.value[i];
  }
  return tracks;
}

/** Groups tracks into charts, the ones with most points first. */
export function chartsOf(r: Recording): Chart[] {
  const charts = new Map<string, Chart>();
  for (const track of tracksOf(r)) {
    // A counter that is always 0 says nothing beside others; nor does one that never grows.
    const least = r.header.counters[track.counter].accumulates ? track.value[0] : 0;
    if (!track.value.some((v) => v !== least)) continue;
    const counter = r.header.counters[track.counter];
    const isWindow = WINDOWS.test(counter.name);
    const key = isWindow ? `windows ${counter.of}` : counter.name;
    const lane = counter.of === null ? "" : shown(r.header.lanes[counter.of]?.name ?? "", 60);
    let chart = charts.get(key);
    if (!chart) charts.set(key, (chart = { key, title: isWindow ? `In flight against the windows: ${lane}` : shown(counter.label || counter.name, 80), unit: counter.accumulates ? RATE[track.unit] ?? "per s" : track.unit, accumulates: !!counter.accumulates, tracks: [] }));
    chart.tracks.push(isWindow ? { ...track, label: shown(counter.label || counter.name, 60) } : track);
  }
  const points = (c: Chart) => c.tracks.reduce((n, t) => n + t.at.length, 0);
  for (const chart of charts.values()) {
    // Both ends may count the same of one connection: one curve of a name is enough, that with most points.
    const names = new Set<string>();
    const sorted = chart.tracks.sort((a, b) => b.at.length - a.at.length);
    chart.tracks = sorted.filter((t) => !names.has(t.label) && names.add(t.label)).slice(0, MOST_TRACKS);
  }
  const windowsFirst = (c: Chart) => (c.key.startsWith("windows") ? 1 : 0);
  return [...charts.values()].sort((a, b) => windowsFirst(b) - windowsFirst(a) || points(b) - points(a)).slice(0, MOST_CHARTS);
}

/** The value that holds in each of `count` parts of `a..b`: the largest within it, else the last before it. */
export function sampled(track: Track, a: number, b: number, count: number): (number | null)[] {
  const step = (b - a) / count;
  const out: (number | null)[] = new Array(count).fill(null);
  let i = upper(track.at, 0, track.at.length, a);
  let last: number | null = i > 0 ? track.value[i - 1] : null;
  for (let k = 0; k < count; k++) {
    let most: number | null = null;
    while (i < track.at.length && track.at[i] <= a + (k + 1) * step) {
      if (most === null || track.value[i] > most) most = track.value[i];
      last = track.value[i++];
    }
    out[k] = most ?? last;
  }
  return out;
}

/** What a counter that only grows has grown by in a second, as an average over `window` of `count` parts. */
export function increase(track: Track, a: number, b: number, count: number, window: number, tick_s: number): (number | null)[] {
  const { at, value } = track;
  const scale = SCALE[track.unit] ?? 1;
  const step = (b - a) / count;
  const half = (window / 2) * step;
  const valueAt = (tick: number): number => {
    const i = upper(at, 0, at.length, tick);
    if (i === 0) return value[0];
    if (i === at.length) return value[i - 1];
    return value[i - 1] + ((tick - at[i - 1]) / (at[i] - at[i - 1])) * (value[i] - value[i - 1]);
  };
  const first = at[0];
  const last = at[at.length - 1];
  return Array.from({ length: count }, (_, k) => {
    const middle = a + (k + 0.5) * step;
    if (middle < first || middle > last) return null;
    const [from, to] = [Math.max(first, middle - half), Math.min(last, middle + half)];
    return to > from ? (Math.max(0, valueAt(to) - valueAt(from)) * scale) / ((to - from) * tick_s) : null;
  });
}
