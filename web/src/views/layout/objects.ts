// Which files and devices have spans with offsets, and how they were read and written: how much, how often over, in which order, by whom.

import { offsetOf, type Recording } from "../../data/recording";
import { CLASSES } from "../../palette";
import { SLICE, type Work } from "../shared/work";

const WRITES = new Set(["write", "send"].map((name) => CLASSES.indexOf(name as "write")));
const READS = new Set(["read", "receive"].map((name) => CLASSES.indexOf(name as "read")));
/** Objects for which the bytes that were moved more than once are found; twice as many, with 1, fit into a byte. */
const DETAILED = 48;
/** Their operations in all; an object with more has no such figure. */
const MOST_OPERATIONS = 2_000_000;

export interface Moved {
  object: number;
  name: string;
  /** Objects that together are one: the datafiles of a file in a store. */
  group: string;
  read: number;
  written: number;
  reads: number;
  writes: number;
  /** The first byte moved, and one past the last. */
  begin: number;
  end: number;
  /** The bytes that began where the same lane's last operation on the object had ended. */
  inOrder: number;
  /** The bytes that began there or further on. */
  forward: number;
  /** How often each byte that was read (written) was read (written), on the average; 0: not found. */
  timesRead: number;
  timesWritten: number;
  lanes: Set<number>;
}

/** 0: neither, 1: reads, 2: writes. What is on the wire is what a thread sends, too, and counts once. */
export function direction(r: Recording, span: number): number {
  if (r.header.lanes[r.span.lane[span]].kind === "connection") return 0;
  const c = r.classOf[r.span.kind[span]];
  return WRITES.has(c) ? 2 : READS.has(c) ? 1 : 0;
}

const DATAFILE = /([0-9a-f]{8,})\.(\d+)$/;

/** Datafiles of a store are named by their file and their number. */
export function groupOf(name: string): string {
  const found = DATAFILE.exec(name);
  return found ? found[1] : "";
}

/** Files first, then devices, then connections; the most bytes first. */
function rank(name: string): number {
  return name.startsWith("file ") ? 0 : name.startsWith("device ") ? 1 : name.startsWith("connection ") ? 3 : 2;
}

/** Bytes at distinct offsets, by object and direction: a table with open addressing, since there may be millions of offsets. */
class Distinct {
  private offsets: Float64Array;
  private keys: Uint8Array;
  private sizes: Uint32Array;
  private readonly mask: number;

  constructor(most: number) {
    const room = 2 ** Math.ceil(Math.log2(Math.max(16, most * 2)));
    this.offsets = new Float64Array(room);
    this.keys = new Uint8Array(room);
    this.sizes = new Uint32Array(room);
    this.mask = room - 1;
  }

  /** Adds an operation; `key` is not 0. Returns by how much the distinct bytes grow. */
  add(key: number, offset: number, size: number): number {
    let at = (Math.imul((offset % 4294967296) ^ (key * 0x9e3779b9), 0x85ebca6b) >>> 7) & this.mask;
    while (this.keys[at] && (this.keys[at] !== key || this.offsets[at] !== offset)) at = (at + 1) & this.mask;
    const grown = Math.max(0, size - this.sizes[at]);
    this.keys[at] = key;
    this.offsets[at] = offset;
    this.sizes[at] += grown;
    return grown;
  }
}

/**
 * How often bytes were moved: all bytes by those at distinct offsets. What overlaps at other offsets is not taken as moved twice: a span may be
 * a run of calls with steps between them, whose bytes do not all follow its offset.
 */
function* repeated(r: Recording, list: Moved[], w: Wanted): Work<void> {
  const slot = new Map(list.map((m, i) => [m.object, i]));
  const distinct = new Distinct(list.reduce((n, m) => n + m.reads + m.writes, 0));
  const once = new Float64Array(2 * list.length);
  for (let i = 0; i < r.span.size.length; i++) {
    if (i % SLICE === 0) yield;
    const at = isWithin(r, i, w) ? slot.get(r.span.object[i]) : undefined;
    const way = at === undefined ? 0 : direction(r, i);
    const offset = way ? offsetOf(r, i) : -1;
    if (at !== undefined && offset >= 0) once[2 * at + way - 1] += distinct.add(2 * at + way, offset, r.span.size[i]);
  }
  list.forEach((moved, i) => {
    moved.timesRead = moved.read ? moved.read / once[2 * i] : 0;
    moved.timesWritten = moved.written ? moved.written / once[2 * i + 1] : 0;
  });
}

export interface Wanted {
  a: number;
  b: number;
  mask: Uint8Array | null;
}

/** Whether a span has bytes and is within what is wanted. */
export function isWithin(r: Recording, i: number, w: Wanted): boolean {
  const { start, duration, size } = r.span;
  return size[i] > 0 && start[i] <= w.b && start[i] + duration[i] >= w.a && (!w.mask || w.mask[i] === 1);
}

export function* movedIn(r: Recording, w: Wanted): Work<Moved[]> {
  const found = new Map<number, Moved>();
  const next = new Map<number, number>();
  const { size, object, lane } = r.span;
  for (let i = 0; i < size.length; i++) {
    if (i % SLICE === 0) yield;
    if (!isWithin(r, i, w)) continue;
    const offset = offsetOf(r, i);
    const way = offset < 0 ? 0 : direction(r, i);
    if (!way) continue;
    let moved = found.get(object[i]);
    if (!moved) {
      const name = r.header.objects[object[i]] ?? "";
      found.set(object[i], (moved = { object: object[i], name, group: groupOf(name), read: 0, written: 0, reads: 0, writes: 0, begin: offset, end: 0, inOrder: 0, forward: 0, timesRead: 0, timesWritten: 0, lanes: new Set() }));
    }
    if (way === 1) [moved.read, moved.reads] = [moved.read + size[i], moved.reads + 1];
    else [moved.written, moved.writes] = [moved.written + size[i], moved.writes + 1];
    moved.begin = Math.min(moved.begin, offset);
    moved.end = Math.max(moved.end, offset + size[i]);
    moved.lanes.add(lane[i]);
    const key = (object[i] * 65_536 + lane[i]) * 4 + way;
    // A lane's first operation is in order wherever it begins.
    const expected = next.get(key) ?? offset;
    if (expected === offset) moved.inOrder += size[i];
    if (expected <= offset) moved.forward += size[i];
    next.set(key, offset + size[i]);
  }
  const list = [...found.values()].sort((x, y) => rank(x.name) - rank(y.name) || y.read + y.written - (x.read + x.written));
  let operations = 0;
  const detailed = list.slice(0, DETAILED).filter((m) => (operations += m.reads + m.writes) <= MOST_OPERATIONS);
  yield* repeated(r, detailed, w);
  return list;
}
