// The header of a page's data: what the element "thalweg-header" holds. Written by crates/report.

export const FORMAT = "thalweg.page/1";

export type LaneKind = "thread" | "connection" | "server" | "device" | "cpu" | "rank" | "path";
export type Role = "client" | "server" | "kernel" | "recorder" | "none";

export interface LaneInfo {
  name: string;
  kind: LaneKind;
  host: string;
  process: string;
  role: Role;
}

export interface PlaneInfo {
  name: string;
  type: "u8" | "u16" | "u32" | "f64";
  count: number;
}

export interface Row {
  cause: string;
  share: number;
  subject: string;
  figures: string;
}

export interface WhatIf {
  id: string;
  change: string;
  basis: string;
  predicted_wall_s: number;
  interval_s: [number, number];
  speedup: number;
  about: string[];
  how: string;
  recipe?: string;
  command?: string[];
  flags?: [string, string][];
  gives_up?: string;
}

export interface Charge {
  cause: string;
  where: string;
  seconds: number;
  share: number;
  basis: string;
  evidence: string;
  rule?: string;
  /** By which rules it was charged, most time first. */
  rules?: Applied[];
}

/** A rule at work: for how long, and its longest stretches. */
export interface Applied {
  rule: string;
  seconds: number;
  rests_on?: { kind?: string; span?: number; track?: number; start_s: number; end_s: number }[];
}

/** The parts that the page reads of the document `thalweg.explain/1`. */
export interface Explanation {
  command?: string[];
  wall_s: number;
  dropped_events?: number;
  summary?: {
    command: string;
    about: string;
    sentence: string;
    rows: Row[];
    innocent: { what: string; figure: string }[];
    remarks: string[];
    numbers?: { sentence: string }[];
    ended?: string;
  };
  verdict?: { status: string; cause: string; where: string; share: number; sentence: string };
  critical_path?: Charge[];
  channels?: { name: string }[];
  phases?: { name: string; start_s: number; end_s: number }[];
  what_if?: WhatIf[];
  advice?: { cause: string; says: string; source: string; command?: string[]; gives_up?: string }[];
  notes?: string[];
}

export interface Header {
  format: string;
  explanation: Explanation;
  short: string;
  start_ns: number;
  wall_ns: number;
  tick_ns: number;
  lanes: LaneInfo[];
  kinds: { name: string; class: string }[];
  objects: string[];
  causes: { name: string; label: string; ns: number }[];
  marks: { kind: string; label: string }[];
  counters: { name: string; unit: string; of: number | null; label: string; accumulates?: boolean }[];
  planes: PlaneInfo[];
  sample_classes?: string[];
  left_out?: { spans: number };
  /** What the planes `level.*` mean, where spans are left out: of which interval, in ticks, and of which classes, they hold the shares. */
  pyramid?: { buckets: number; span: [number, number]; classes: string[] };
  notes?: string[];
  /** What the document shows; absent: a recording. */
  view?: DocumentView;
  document?: unknown;
  /** Frames of the stacks: planes `stack.*`. */
  frames?: Frame[];
  /** Kinds of arrows: planes `arrow.*`. */
  arrows?: string[];
  clocks?: ClockInfo[];
  rules?: Record<string, { when: string; basis: string }>;
  rpcs?: unknown;
  /** A document of `thalweg profile --json` for each host with samples. */
  profile?: unknown[];
  diff?: unknown;
  names?: [a: string, b: string];
}

export type DocumentView = "sweep" | "study" | "layout" | "ls" | "profile" | "rpcstat";

export interface Frame {
  name: string;
  module: string;
  class: string;
}

/** The clock of a host other than the reference. */
export interface ClockInfo {
  host: string;
  aligned: boolean;
  uncertainty_ns: number | null;
  why: string;
}

/** Reads the header; throws with a sentence for the reader if the page cannot show it. */
export function readHeader(text: string): Header {
  const header = JSON.parse(text) as Header;
  if (header.format !== FORMAT) {
    throw new Error(`This page reads ${FORMAT}; the data is ${String(header.format)}. Make the report again with one version of thalweg.`);
  }
  return header.view ? { ...EMPTY, ...header } : header;
}

/** What a header without a time axis leaves out. */
const EMPTY = {
  explanation: { wall_s: 0 }, short: "", start_ns: 0, wall_ns: 0, tick_ns: 1, lanes: [], kinds: [], objects: [], causes: [], marks: [], counters: [], planes: [],
};

/** How many values a plane has; 0 if the page does not have the plane. */
export function planeCount(header: Header, name: string): number {
  return header.planes.find((plane) => plane.name === name)?.count ?? 0;
}
