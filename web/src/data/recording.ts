// What the page holds of a recording after decoding: typed arrays and an index by lane. Made by `prepare` in the worker.

import type { ArrowIndex, Arrows } from "./arrows";
import type { Header } from "./header";
import type { Levels } from "./levels";

export interface SegmentArrays {
  start: Uint32Array;
  end: Uint32Array;
  span: Uint32Array;
  kind: Uint8Array;
}

export interface Lane {
  /** Spans of the lane: `spanFrom..spanTo`. */
  spanFrom: number;
  spanTo: number;
  /** Segments of the lane. */
  from: number;
  to: number;
  levels: Levels | null;
  /** Whether spans of the lane were left out: then its levels say what it did, and its segments are of the spans that are there. */
  partial: boolean;
  /** Ticks in spans that are not waits, and in waits. */
  busy: number;
  waiting: number;
  /** Ticks of the critical path on the lane. */
  onPath: number;
  /** Longest span, for searches backwards. */
  longest: number;
}

export interface Prepared {
  span: {
    lane: Uint16Array; kind: Uint8Array; start: Uint32Array; duration: Uint32Array; object: Uint32Array; size: Uint32Array; waker: Uint32Array;
    /** Of 48 bits, all ones: none. Empty if no span has an offset. */
    offsetLow: Uint32Array; offsetHigh: Uint16Array;
    /** 1 + node of the tree of stacks; 0: none. Empty if the recording has no stacks. */
    stack: Uint32Array;
  };
  segments: SegmentArrays;
  lanes: Lane[];
  /** Levels of groups of lanes with many members, by the group's key. */
  groups: Record<string, Levels>;
  path: { start: Uint32Array; duration: Uint32Array; cause: Uint8Array; lane: Uint16Array; charge: Uint16Array };
  pathSegments: SegmentArrays;
  pathLevels: Levels | null;
  mark: { lane: Uint16Array; kind: Uint8Array; at: Uint32Array; value: Uint32Array };
  counter: { of: Uint16Array; at: Uint32Array; value: Float64Array };
  sample: { lane: Uint16Array; at: Uint32Array; class: Uint8Array; stack: Uint32Array };
  /** The tree of stacks: 1 + the parent's node (0: a root), and an index into the header's frames. */
  stack: { parent: Uint32Array; frame: Uint32Array };
  arrow: Arrows;
  arrowIndex: ArrowIndex;
  /** Counts of spans by duration where spans are left out: `bin` is floor(4 × log2(ns)). */
  latency: { lane: Uint16Array; kind: Uint8Array; bin: Uint8Array; count: Uint32Array };
  /** Area by class where spans are left out: `area` is rows × buckets. */
  level: { lane: Uint16Array; class: Uint8Array; area: Uint8Array | Uint16Array };
  /** Index into CLASSES by kind. */
  classOf: Uint8Array;
  /** The run's end in ticks. */
  total: number;
}

export interface Recording extends Prepared {
  header: Header;
}

export const NO_LANE = 0xffff;
export const NO_CHARGE = 0xffff;

/** Offset of a span in bytes; -1 if none was recorded. */
export function offsetOf(r: Prepared, span: number): number {
  const { offsetLow, offsetHigh } = r.span;
  if (span >= offsetLow.length || (offsetLow[span] === 0xffffffff && offsetHigh[span] === 0xffff)) return -1;
  return offsetHigh[span] * 2 ** 32 + offsetLow[span];
}

/** The key of the group that a lane belongs to. */
export function groupKey(lane: { host: string; role: string; process: string; kind: string }): string {
  return JSON.stringify([lane.host, lane.role, lane.process || lane.kind]);
}
