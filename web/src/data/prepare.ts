// From planes to a recording that can be drawn: lanes found in the sorted spans, flattened, with levels of detail.

import { CLASSES, OTHER, isWait } from "../palette";
import { decode, type Planes } from "./decode";
import { indexArrows } from "./arrows";
import type { Header } from "./header";
import { addAreas, flatten, makeLevels, pyramid, Segments, usedClasses, type Levels } from "./levels";
import { addToGroup, levelsInPage, ticksByClass } from "./partial";
import { groupKey, NO_LANE, type Lane, type Prepared } from "./recording";

/** Groups of more lanes than these get levels of their own; the lanes of smaller ones are added up as they are drawn. */
const LARGE_GROUP = 8;
const GROUP_BUCKETS = 2048;

function u8(planes: Planes, name: string): Uint8Array {
  return (planes[name] as Uint8Array | undefined) ?? new Uint8Array(0);
}
function u16(planes: Planes, name: string): Uint16Array {
  return (planes[name] as Uint16Array | undefined) ?? new Uint16Array(0);
}
function u32(planes: Planes, name: string): Uint32Array {
  return (planes[name] as Uint32Array | undefined) ?? new Uint32Array(0);
}

export function classIndex(name: string): number {
  const at = (CLASSES as readonly string[]).indexOf(name);
  return at < 0 ? OTHER : at;
}

/** The run's end in ticks: that of the run, or of the last event if that is later. */
function endOf(header: Header, planes: Planes): number {
  let end = Math.max((header.start_ns + header.wall_ns) / header.tick_ns, header.pyramid?.span[1] ?? 0);
  const [start, duration] = [u32(planes, "span.start"), u32(planes, "span.duration")];
  for (let i = 0; i < start.length; i++) end = Math.max(end, start[i] + duration[i]);
  const [path, length] = [u32(planes, "path.start"), u32(planes, "path.duration")];
  if (path.length) end = Math.max(end, path[path.length - 1] + length[path.length - 1]);
  return Math.max(1, end);
}

function arrays(s: Segments): Prepared["segments"] {
  return { start: s.start.slice(0, s.length), end: s.end.slice(0, s.length), span: s.span.slice(0, s.length), kind: s.kind.slice(0, s.length) };
}

function makeLane(s: Segments, from: number, total: number, spans: Prepared["span"], spanFrom: number, spanTo: number): Lane {
  const lane: Lane = { spanFrom, spanTo, from, to: s.length, levels: makeLevels(s, from, s.length, total), partial: false, busy: 0, waiting: 0, onPath: 0, longest: 0 };
  for (let i = from; i < s.length; i++) {
    if (isWait(s.kind[i])) lane.waiting += s.end[i] - s.start[i];
    else lane.busy += s.end[i] - s.start[i];
  }
  for (let i = spanFrom; i < spanTo; i++) lane.longest = Math.max(lane.longest, spans.duration[i]);
  return lane;
}

/** The classes of a lane's segments, or of its levels if spans were left out. */
function classesOf(lane: Lane, s: Segments): number[] {
  return lane.partial ? lane.levels!.classes : usedClasses(s, lane.from, lane.to).classes;
}

/** What a lane did is in the page's levels: then those are the lane's. */
function fromPage(lane: Lane, levels: Levels): void {
  [lane.levels, lane.partial, lane.busy, lane.waiting] = [levels, true, 0, 0];
  ticksByClass(levels).forEach((ticks, c) => {
    if (isWait(c)) lane.waiting += ticks;
    else lane.busy += ticks;
  });
}

function makeGroups(header: Header, lanes: Lane[], s: Segments, total: number): Record<string, Levels> {
  const members = new Map<string, number[]>();
  header.lanes.forEach((info, i) => {
    const key = groupKey(info);
    const list = members.get(key);
    if (list) list.push(i);
    else members.set(key, [i]);
  });
  const groups: Record<string, Levels> = {};
  for (const [key, list] of members) {
    if (list.length <= LARGE_GROUP) continue;
    const used = new Set<number>();
    for (const i of list) for (const c of classesOf(lanes[i], s)) used.add(c);
    const classes = [...used];
    if (!classes.length) continue;
    const slot = new Int8Array(256).fill(-1);
    classes.forEach((c, k) => (slot[c] = k));
    const finest = new Float32Array(GROUP_BUCKETS * classes.length);
    for (const i of list) {
      if (lanes[i].partial) addToGroup(lanes[i].levels!, total / GROUP_BUCKETS, slot, classes.length, finest);
      else addAreas(s, lanes[i].from, lanes[i].to, total / GROUP_BUCKETS, slot, classes.length, finest);
    }
    groups[key] = pyramid(classes, finest, 1 / list.length, total);
  }
  return groups;
}

function makePath(planes: Planes, lanes: Lane[]): { path: Prepared["path"]; segments: Segments } {
  const path = {
    start: u32(planes, "path.start"), duration: u32(planes, "path.duration"), cause: u8(planes, "path.cause"), lane: u16(planes, "path.lane"),
    charge: u16(planes, "path.charge"),
  };
  const segments = new Segments(path.start.length);
  for (let i = 0; i < path.start.length; i++) {
    segments.push(path.start[i], path.start[i] + path.duration[i], i, path.cause[i]);
    if (path.lane[i] !== NO_LANE && lanes[path.lane[i]]) lanes[path.lane[i]].onPath += path.duration[i];
  }
  return { path, segments };
}

/** What a page may leave out. */
function optional(planes: Planes): Pick<Prepared, "stack" | "arrow" | "arrowIndex" | "latency" | "level"> {
  const arrow = {
    fromLane: u16(planes, "arrow.from_lane"), from: u32(planes, "arrow.from"), toLane: u16(planes, "arrow.to_lane"), to: u32(planes, "arrow.to"),
    kind: u8(planes, "arrow.kind"), fromSpan: u32(planes, "arrow.from_span"), toSpan: u32(planes, "arrow.to_span"),
  };
  return {
    stack: { parent: u32(planes, "stack.parent"), frame: u32(planes, "stack.frame") },
    arrow, arrowIndex: indexArrows(arrow),
    latency: { lane: u16(planes, "latency.lane"), kind: u8(planes, "latency.kind"), bin: u8(planes, "latency.bin"), count: u32(planes, "latency.count") },
    level: { lane: u16(planes, "level.lane"), class: u8(planes, "level.class"), area: (planes["level.area"] as Uint8Array | Uint16Array | undefined) ?? new Uint8Array(0) },
  };
}

/** Makes the recording of its planes; `early`: the spans are still to come, so that the lanes are drawn from the page's levels. */
export function prepare(header: Header, planes: Planes, early = false): Prepared {
  const span = {
    lane: u16(planes, "span.lane"), kind: u8(planes, "span.kind"), start: u32(planes, "span.start"), duration: u32(planes, "span.duration"),
    object: u32(planes, "span.object"), size: u32(planes, "span.size"), waker: u32(planes, "span.waker"),
    offsetLow: u32(planes, "span.offset_low"), offsetHigh: u16(planes, "span.offset_high"), stack: u32(planes, "span.stack"),
  };
  const classOf = new Uint8Array(256).fill(OTHER);
  header.kinds.forEach((kind, i) => (classOf[i] = classIndex(kind.class)));
  const total = endOf(header, planes);
  const segments = new Segments(Math.ceil(span.start.length * 1.3) + 16);
  const lanes: Lane[] = [];
  let at = 0;
  for (let lane = 0; lane < header.lanes.length; lane++) {
    const [first, from] = [at, segments.length];
    while (at < span.lane.length && span.lane[at] === lane) at++;
    flatten({ start: span.start, duration: span.duration, kind: span.kind, classOf }, first, at, segments);
    lanes.push(makeLane(segments, from, total, span, first, at));
  }
  if (at < span.lane.length) throw new Error("The spans are not sorted by lane, or name a lane that the header does not have.");
  if (early || header.left_out?.spans) levelsInPage(header, planes, classIndex, early).forEach((levels, lane) => lanes[lane] && fromPage(lanes[lane], levels));
  const groups = makeGroups(header, lanes, segments, total);
  const { path, segments: pathSegments } = makePath(planes, lanes);
  return {
    span, segments: arrays(segments), lanes, groups, path, pathSegments: arrays(pathSegments),
    pathLevels: makeLevels(pathSegments, 0, pathSegments.length, total),
    mark: { lane: u16(planes, "mark.lane"), kind: u8(planes, "mark.kind"), at: u32(planes, "mark.at"), value: u32(planes, "mark.value") },
    counter: { of: u16(planes, "counter.of"), at: u32(planes, "counter.at"), value: (planes["counter.value"] as Float64Array) ?? new Float64Array(0) },
    sample: { lane: u16(planes, "sample.lane"), at: u32(planes, "sample.at"), class: u8(planes, "sample.class"), stack: u32(planes, "sample.stack") },
    ...optional(planes),
    classOf, total,
  };
}

/** With fewer spans than these a first picture gains nothing. */
const MANY_SPANS = 300_000;

/** Whether the page has levels that can be drawn before the spans are there. */
function hasPreview(header: Header): boolean {
  return !!header.pyramid && (header.planes.find((plane) => plane.name === "span.start")?.count ?? 0) > MANY_SPANS;
}

/** Decodes and prepares a recording; `early` gets what can be drawn before the spans are read. */
export async function load(header: Header, base64: string, early?: (first: Prepared) => void): Promise<Prepared> {
  const first = early && hasPreview(header) ? (planes: Planes) => early(prepare(header, planes, true)) : undefined;
  return prepare(header, await decode(header, base64, first));
}

/** The buffers of a prepared recording, so that the worker hands them over without a copy. */
export function buffers(p: Prepared): ArrayBuffer[] {
  const found = new Set<ArrayBuffer>();
  const visit = (value: unknown): void => {
    if (ArrayBuffer.isView(value)) found.add(value.buffer as ArrayBuffer);
    else if (value && typeof value === "object") Object.values(value).forEach(visit);
  };
  visit(p);
  return [...found];
}
