// What can have gaps: bytes that move on connections, by a program in one direction, on a device. When they moved, as a union of spans.

import type { Recording } from "../../data/recording";
import { CLASSES } from "../../palette";
import { shown } from "../../view/format";
import { SLICE, type Work } from "../shared/work";

export interface Channel {
  id: string;
  name: string;
  lanes: number[];
  /** Which classes of spans move its bytes. */
  moves: number[];
  bytes: number;
}

const MOVES = ["read", "write", "send", "receive"] as const;
const MOVE_CLASSES = MOVES.map((name) => CLASSES.indexOf(name));
const DONE = ["read", "written", "sent", "received"];
/** Connections and devices offered one by one. */
const MOST_OF_A_KIND = 24;
/** Smaller than this part of the size that moves half of the bytes: a message about data, not data. */
const CONTROL = 1 / 64;
/** A channel with less of what the largest one moved is not offered. */
const LEAST_PART = 0.001;

/** Bytes by lane and direction. */
function* bytesByLane(r: Recording): Work<Float64Array> {
  const slot = new Int8Array(256).fill(-1);
  r.header.kinds.forEach((_, kind) => (slot[kind] = MOVE_CLASSES.indexOf(r.classOf[kind])));
  const bytes = new Float64Array(r.header.lanes.length * 4);
  const { lane, kind, size } = r.span;
  for (let i = 0; i < size.length; i++) {
    if (i % (4 * SLICE) === 0) yield;
    if (size[i] && slot[kind[i]] >= 0) bytes[4 * lane[i] + slot[kind[i]]] += size[i];
  }
  return bytes;
}

function ofPrograms(r: Recording, bytes: Float64Array): Channel[] {
  const found = new Map<string, Channel>();
  r.header.lanes.forEach((lane, i) => {
    if (lane.role === "recorder" || !["thread", "server", "rank"].includes(lane.kind)) return;
    MOVES.forEach((_, m) => {
      if (!bytes[4 * i + m]) return;
      const role = lane.role === "none" ? "" : lane.role;
      const id = `${role}:${MOVES[m]}`;
      let channel = found.get(id);
      if (!channel) found.set(id, (channel = { id, name: `${role ? `${role}: ` : ""}${DONE[m]}`, lanes: [], moves: [MOVE_CLASSES[m]], bytes: 0 }));
      channel.lanes.push(i);
      channel.bytes += bytes[4 * i + m];
    });
  });
  return [...found.values()];
}

function ofLanes(r: Recording, bytes: Float64Array, kind: string, moves: number[]): Channel[] {
  const found: Channel[] = [];
  r.header.lanes.forEach((lane, i) => {
    const sum = moves.reduce((n, m) => n + bytes[4 * i + MOVE_CLASSES.indexOf(m)], 0);
    if (lane.kind === kind && sum > 0) found.push({ id: `lane:${i}`, name: shown(lane.name, 80), lanes: [i], moves, bytes: sum });
  });
  return found.sort((x, y) => y.bytes - x.bytes);
}

/** The channels, the one that the others follow from first: all connections, else what moved most. */
export function* channelsOf(r: Recording): Work<Channel[]> {
  const bytes = yield* bytesByLane(r);
  const send = [CLASSES.indexOf("send")];
  const connections = ofLanes(r, bytes, "connection", send);
  const all: Channel[] = connections.length > 1
    ? [{ id: "connections", name: "all connections", lanes: connections.flatMap((c) => c.lanes), moves: send, bytes: connections.reduce((n, c) => n + c.bytes, 0) }] : [];
  const programs = ofPrograms(r, bytes).sort((x, y) => y.bytes - x.bytes);
  const devices = ofLanes(r, bytes, "device", [CLASSES.indexOf("read"), CLASSES.indexOf("write")]).map((c) => ({ ...c, name: `device ${c.name}` }));
  const most = Math.max(0, ...connections.map((c) => c.bytes), ...programs.map((c) => c.bytes));
  const named = connections.slice(0, MOST_OF_A_KIND).map((c) => ({ ...c, name: `connection ${c.name}` }));
  const carried = all[0]?.bytes ?? connections[0]?.bytes ?? 0;
  // A transfer over the network is seen best on the wire, unless what crossed it is a small part of what moved.
  const list = carried >= 0.2 * most ? [...all, ...named, ...programs, ...devices] : [...programs, ...all, ...named, ...devices];
  return list.filter((c) => c.bytes >= LEAST_PART * most || c.moves.length > 1);
}

export interface Bursts {
  start: Float64Array;
  end: Float64Array;
  /** Bytes up to each burst's end, in order of time. */
  bytes: Float64Array;
}

/** The size at which half of the bytes are moved by larger spans, from bytes by power of two; the power below, so that nothing is lost. */
function usualSize(bytesByPower: Float64Array): number {
  const half = bytesByPower.reduce((n, b) => n + b, 0) / 2;
  let sum = 0;
  for (let p = 0; p < bytesByPower.length; p++) {
    sum += bytesByPower[p];
    if (sum >= half) return 2 ** p;
  }
  return 0;
}

interface Pieces {
  start: Float64Array;
  end: Float64Array;
  bytes: Float64Array;
}

/** Overlapping pieces of two lists in order of time become one. */
function merge(x: Pieces, y: Pieces): Pieces {
  const n = x.start.length + y.start.length;
  const out = { start: new Float64Array(n), end: new Float64Array(n), bytes: new Float64Array(n) };
  let [i, j, k] = [0, 0, -1];
  while (i < x.start.length || j < y.start.length) {
    const fromX = j >= y.start.length || (i < x.start.length && x.start[i] <= y.start[j]);
    const source = fromX ? x : y;
    const at = fromX ? i++ : j++;
    if (k >= 0 && source.start[at] <= out.end[k]) {
      out.end[k] = Math.max(out.end[k], source.end[at]);
      out.bytes[k] += source.bytes[at];
    } else {
      k++;
      out.start[k] = source.start[at];
      out.end[k] = source.end[at];
      out.bytes[k] = source.bytes[at];
    }
  }
  return { start: out.start.slice(0, k + 1), end: out.end.slice(0, k + 1), bytes: out.bytes.slice(0, k + 1) };
}

function isData(r: Recording, channel: Channel, span: number): boolean {
  return r.span.size[span] > 0 && channel.moves.includes(r.classOf[r.span.kind[span]]);
}

function lanePieces(r: Recording, channel: Channel, lane: number, least: number): Pieces {
  const { spanFrom, spanTo } = r.lanes[lane];
  const wanted: number[] = [];
  for (let i = spanFrom; i < spanTo; i++) if (isData(r, channel, i) && r.span.size[i] >= least) wanted.push(i);
  const of = (value: (i: number) => number) => Float64Array.from(wanted, value);
  const alone = { start: of((i) => r.span.start[i]), end: of((i) => r.span.start[i] + r.span.duration[i]), bytes: of((i) => r.span.size[i]) };
  return merge(alone, { start: new Float64Array(0), end: new Float64Array(0), bytes: new Float64Array(0) });
}

/** When a channel's bytes moved. */
export function* burstsOf(r: Recording, channel: Channel): Work<Bursts> {
  const byPower = new Float64Array(33);
  for (const lane of channel.lanes) {
    for (let i = r.lanes[lane].spanFrom; i < r.lanes[lane].spanTo; i++) {
      if (isData(r, channel, i)) byPower[31 - Math.clz32(r.span.size[i])] += r.span.size[i];
    }
    yield;
  }
  const least = usualSize(byPower) * CONTROL;
  let lists: Pieces[] = [];
  for (const lane of channel.lanes) {
    lists.push(lanePieces(r, channel, lane, least));
    yield;
  }
  while (lists.length > 1) {
    const next: Pieces[] = [];
    for (let i = 0; i < lists.length; i += 2) {
      next.push(i + 1 < lists.length ? merge(lists[i], lists[i + 1]) : lists[i]);
      yield;
    }
    lists = next;
  }
  const { start, end, bytes } = lists[0] ?? { start: new Float64Array(0), end: new Float64Array(0), bytes: new Float64Array(0) };
  for (let i = 1; i < bytes.length; i++) bytes[i] += bytes[i - 1];
  return { start, end, bytes };
}
