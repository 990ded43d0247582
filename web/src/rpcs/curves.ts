// The curves of the RPCs over time, and how their bins are folded into the columns of a picture. Nothing here draws.

import { figure, scaleOf, type Scale, type Unit } from "../chart/scale";
import type { Pair } from "../palette";
import type { RpcStat, WaitedFor } from "./document";

export interface Line {
  name: string;
  values: (number | null)[];
  fold: "mean" | "most";
  colour: Pair;
  filled?: boolean;
  dash?: string;
  width?: number;
  /** An axis of its own at the right, where values are far smaller. */
  own?: Scale;
}

export interface Panel {
  title: string;
  unit: Unit;
  scale: Scale;
  lines: Line[];
  /** Why there is nothing to draw. */
  empty?: string;
}

const SENT: Pair = ["#00795A", "#25C295"];
const BACK: Pair = ["#123F6D", "#7CC8F2"];
const BOUND: Pair = ["#882255", "#D26A9B"];
const SECOND: Pair = ["#7B4FA3", "#B68BE0"];
const WIDE: Pair = ["#3FA98A", "#1C7F62"];
const FLIGHT: Pair = ["#0072B2", "#56A8E8"];
const UNSENT: Pair = ["#B85000", "#F0803C"];
/** A direction that carries less than this part of the other has an axis of its own. */
const FAR_LESS = 0.05;

const most = (values: (number | null)[]): number => values.reduce<number>((m, v) => Math.max(m, v ?? 0), 0);
const known = (values: (number | null)[]): boolean => values.some((v) => v !== null);
const numbers = (values: (number | null)[]): number[] => values.filter((v): v is number => v !== null);

function throughput({ series: s }: RpcStat): Panel {
  const sent: Line = { name: `sent: ${figure(8 * most(s.sent_bytes_per_s), "bits/s")} at most`, values: s.sent_bytes_per_s.map((v) => v * 8), fold: "mean", colour: SENT };
  const back: Line = { name: `received: ${figure(8 * most(s.received_bytes_per_s), "bits/s")} at most`, values: s.received_bytes_per_s.map((v) => v * 8), fold: "mean", colour: BACK };
  const [more, less] = most(sent.values) >= most(back.values) ? [sent, back] : [back, sent];
  more.filled = true;
  if (most(less.values) < FAR_LESS * most(more.values) && most(less.values) > 0) {
    less.own = scaleOf(numbers(less.values), "linear");
    less.name += " (right axis)";
  }
  return { title: "Throughput", unit: "bits/s", scale: scaleOf(numbers(less.own ? more.values : [...more.values, ...less.values]), "linear"), lines: [more, less] };
}

function calls({ series: s }: RpcStat): Panel {
  const rate = (values: number[]) => values.map((n) => n / Math.max(s.bin_s, 1e-12));
  const lines: Line[] = [
    { name: `sent: ${figure(most(rate(s.calls)), "per s")} at most`, values: rate(s.calls), fold: "mean", colour: WIDE, width: 3 },
    { name: "completed", values: rate(s.replies), fold: "mean", colour: BACK, width: 1.2 },
  ];
  return { title: "Calls a second", unit: "per s", scale: scaleOf(lines.flatMap((l) => numbers(l.values)), "linear"), lines };
}

function pending({ series: s, pending: p }: RpcStat): Panel {
  const lines: Line[] = [
    { name: `most: ${p.max}`, values: s.pending_max, fold: "most", colour: FLIGHT, filled: true },
    { name: `mean: ${figure(p.mean, "count")}`, values: s.pending_mean, fold: "mean", colour: BACK },
  ];
  if (known(s.window)) lines.push({ name: "RPC window of the client", values: s.window, fold: "most", colour: BOUND });
  else if (p.window_median > 0) lines.push({ name: `RPC window that is visible: ${p.window_median}${p.sent_only ? " or more" : ""}`, values: s.pending_max.map(() => p.window_median), fold: "most", colour: BOUND, dash: "6 3" });
  return { title: "Pending calls", unit: "count", scale: scaleOf(lines.flatMap((l) => numbers(l.values)), "linear"), lines };
}

function tcp({ series: s }: RpcStat): Panel {
  const all: Line[] = [
    { name: "congestion window", values: s.cwnd_bytes, fold: "mean", colour: SECOND },
    { name: "in flight", values: s.in_flight_bytes, fold: "most", colour: FLIGHT, filled: true },
    { name: "receive window", values: s.receive_window_bytes, fold: "mean", colour: UNSENT, dash: "7 3" },
    { name: "in the client's socket, not sent", values: s.unsent_bytes, fold: "most", colour: BOUND, dash: "2 3" },
  ];
  const lines = all.filter((line) => known(line.values) && most(line.values) > 0);
  const values = lines.flatMap((l) => numbers(l.values)).filter((v) => v > 0);
  return { title: "TCP", unit: "bytes", scale: scaleOf(values), lines, ...(lines.length ? {} : { empty: "congestion window, bytes in flight and receive window were not recorded" }) };
}

function response({ series: s }: RpcStat): Panel {
  const lines: Line[] = [
    { name: "longest", values: s.response_max_s, fold: "most", colour: UNSENT },
    { name: "median", values: s.response_median_s, fold: "mean", colour: BACK },
  ].filter((line) => known(line.values)) as Line[];
  const values = lines.flatMap((l) => numbers(l.values)).filter((v) => v > 0);
  return { title: "Response time", unit: "s", scale: scaleOf(values, "log"), lines, ...(lines.length ? {} : { empty: "no call was seen with its reply" }) };
}

export const panelsOf = (d: RpcStat): Panel[] => [throughput(d), calls(d), pending(d), tcp(d), response(d)];

/** Values of bins folded into at most `columns`, over an interval in seconds: from, to, value. */
export function folded(values: (number | null)[], bin_s: number, fold: Line["fold"], a: number, b: number, columns: number, wall_s: number): { from: number; to: number; value: number | null }[] {
  const last = Math.min(values.length, Math.ceil(wall_s / bin_s));
  const first = Math.max(0, Math.min(last, Math.floor(a / bin_s)));
  const end = Math.max(first, Math.min(last, Math.ceil(b / bin_s)));
  const each = Math.max(1, Math.ceil((end - first) / Math.max(1, columns)));
  const found = [];
  // Columns begin at multiples of their width, so that panning does not change them.
  for (let i = first - (first % each); i < end; i += each) {
    const here = values.slice(i, Math.min(last, i + each)).filter((v): v is number => v !== null);
    const value = !here.length ? null : fold === "most" ? Math.max(...here) : here.reduce((sum, v) => sum + v, 0) / here.length;
    found.push({ from: i * bin_s, to: Math.min(wall_s, (i + each) * bin_s), value });
  }
  return found;
}

export interface Waiting {
  kind: WaitedFor;
  letter: string;
  name: string;
  colour: Pair;
  hatched: boolean;
  seconds: (d: RpcStat) => number;
}

export const SERVER: Pair = ["#C25000", "#F0803C"];
export const CLIENT: Pair = ["#0072B2", "#4FA6E6"];
export const NETWORK: Pair = ["#882255", "#D26A9B"];

export const WAITING: Waiting[] = [
  { kind: "server-queue-full", letter: "S", name: "the server, queue full", colour: SERVER, hatched: false, seconds: (d) => d.quiet.full_s },
  { kind: "server-queue-partly", letter: "s", name: "the server, queue partly full", colour: SERVER, hatched: true, seconds: (d) => d.quiet.between_then_reply_s },
  { kind: "client-queue-partly", letter: "c", name: "the client, queue partly full", colour: CLIENT, hatched: true, seconds: (d) => d.quiet.between_then_call_s },
  { kind: "client-queue-empty", letter: "C", name: "the client, queue empty", colour: CLIENT, hatched: false, seconds: (d) => d.quiet.empty_s },
  { kind: "network", letter: "N", name: "the network (TCP sent again)", colour: NETWORK, hatched: false, seconds: (d) => d.quiet.network_s },
];

export interface Within {
  seconds: number;
  calls: number;
  replies: number;
  sent: number;
  received: number;
  pendingMean: number;
  pendingMost: number;
  responseMost: number | null;
  again: number;
  timeouts: number;
  tcpAgain: number;
  waited: [kind: WaitedFor, seconds: number][];
  drains: number;
  stalls: number;
}

/** What an interval consists of: sums of bins, those at its ends in part. */
export function within(d: RpcStat, a: number, b: number): Within {
  const { series: s } = d;
  const [from, to] = [Math.max(0, a), Math.min(d.wall_s, b)];
  const found: Within = { seconds: Math.max(0, to - from), calls: 0, replies: 0, sent: 0, received: 0, pendingMean: 0, pendingMost: 0, responseMost: null, again: 0, timeouts: 0, tcpAgain: 0, waited: [], drains: 0, stalls: 0 };
  for (let i = Math.max(0, Math.floor(from / s.bin_s)); i < s.calls.length && i * s.bin_s < to; i++) {
    const seconds = Math.min(to, (i + 1) * s.bin_s) - Math.max(from, i * s.bin_s);
    const part = seconds / s.bin_s;
    found.calls += s.calls[i] * part;
    found.replies += s.replies[i] * part;
    found.sent += s.sent_bytes_per_s[i] * seconds;
    found.received += s.received_bytes_per_s[i] * seconds;
    found.pendingMean += (s.pending_mean[i] * seconds) / Math.max(1e-12, found.seconds);
    found.pendingMost = Math.max(found.pendingMost, s.pending_max[i]);
    const longest = s.response_max_s[i];
    if (longest !== null) found.responseMost = Math.max(found.responseMost ?? 0, longest);
    found.again += s.retransmissions[i] * part;
    found.timeouts += s.timeouts[i] * part;
    found.tcpAgain += s.tcp_retransmissions[i] * part;
  }
  for (const { kind } of WAITING) {
    const seconds = d.waits.filter((w) => w.waited_for === kind).reduce((sum, w) => sum + Math.max(0, Math.min(to, w.end_s) - Math.max(from, w.start_s)), 0);
    if (seconds > 0) found.waited.push([kind, seconds]);
  }
  const overlaps = (x: { start_s: number; length_s: number }) => x.start_s < to && x.start_s + x.length_s > from;
  found.drains = d.drain_cycles?.longest.filter(overlaps).length ?? 0;
  found.stalls = d.stalls.longest.filter(overlaps).length;
  return found;
}
