// A study of listings, `thalweg.ls-study-result/3`: directories listed by each method, and operations on names.

import { count, duration } from "../view/format";
import { dimensionOf, exact, places, type Dataset, type Estimate, type Metric, type Row } from "./data";
import type { Bar } from "./layout";
import type { Machine } from "./sweep";

interface ListingPoint {
  servers: number;
  targets: number;
  files: number;
  datafiles: number;
  location: string;
  method: string;
  per_file_us: Estimate;
  first_us?: number;
  client_cpu_us: Estimate;
  server_cpu_us?: Estimate;
  bytes_per_file: number;
  requests_per_file?: number;
  round_trips?: number;
  hit_share?: number;
  model?: { bound_us: number; of_bound: number };
  of_synchronous?: Estimate;
}

interface NamesPoint {
  location: string;
  mounted: boolean;
  shared: boolean;
  workers: number;
  batch: number;
  bytes: number;
  phase: string;
  rate_per_s: Estimate;
}

export interface ListingStudy {
  label: string;
  machine?: Machine;
  repeat: number;
  links: { location: string; asked_us: number; round_trip_us: number; bytes_per_s?: number }[];
  points: ListingPoint[];
  names: NamesPoint[];
  crowd?: { listings: number; idle_p50_s: Estimate; loaded_p50_s: Estimate; idle_p99_s: Estimate; loaded_p99_s: Estimate; p99_ratio: Estimate; listed_per_s: Estimate };
  copies?: { files: number; bytes_each: number; rate_per_s: Record<string, Estimate>; ratio: Estimate };
  bars: Bar[];
  problems: string[];
}

const METHODS: Record<string, string> = { none: "one file at a time", statahead: "attributes ahead", "glimpse-ahead": "sizes ahead too", metadata: "sizes from the service" };

interface Column {
  name: string;
  labels: (string | number)[];
  text?: (v: string | number) => string;
}

/** Dimensions of columns, and each row's places in them. */
function grid(columns: Column[]): { dimensions: Dataset["dimensions"]; at: (row: number) => number[] } {
  const found = columns.map((c) => places(c.labels));
  return { dimensions: columns.map((c) => dimensionOf(c.name, c.labels, c.text)), at: (row) => columns.map((c, d) => found[d].get(c.labels[row])!) };
}

export function ofListings(study: ListingStudy): Dataset {
  const { points } = study;
  const { dimensions, at } = grid([
    { name: "datafiles of each file", labels: points.map((p) => p.datafiles), text: (v) => (v === 0 ? "never written" : String(v)) },
    { name: "how", labels: points.map((p) => METHODS[p.method] ?? p.method) }, { name: "from", labels: points.map((p) => p.location) },
    { name: "files", labels: points.map((p) => p.files), text: (v) => count(v as number) }, { name: "targets", labels: points.map((p) => `${p.servers} × ${p.targets}`) },
  ]);
  const rows = points.map((p, i): Row => ({
    at: at(i), state: "done", shares: [],
    facts: [
      ...(p.first_us ? [["first file after", duration(p.first_us / 1e6)] as [string, string]] : []), ["bytes on the wire, a file", count(Math.round(p.bytes_per_file))],
      ...(p.model ? [["bytes and processors allow", `${duration(p.model.bound_us / 1e6)} a file`] as [string, string]] : []),
    ],
  }));
  const metrics: Metric[] = [
    { name: "Time for each file", unit: "us", better: "less", values: points.map((p) => p.per_file_us), bounds: points.map((p) => (["none", "statahead"].includes(p.method) ? null : p.model?.bound_us ?? null)) },
    { name: "Times as fast as one file at a time", unit: "times", better: "more", values: points.map((p) => p.of_synchronous ?? null) },
    { name: "CPU time of the client for each file", unit: "us", better: "less", values: points.map((p) => p.client_cpu_us) },
    { name: "CPU time of the servers for each file", unit: "us", better: "less", values: points.map((p) => p.server_cpu_us ?? null) },
    { name: "Requests for each file", unit: "count", better: "less", values: points.map((p) => exact(p.requests_per_file)) },
    { name: "Round trips", unit: "count", better: "less", values: points.map((p) => exact(p.round_trips)) },
  ];
  return {
    name: "listings", dimensions, metrics: metrics.filter((m) => m.values.some((v) => v)), rows, ranks: [0, 1, 2, 3, 4], equals: new Set(),
  };
}

export function ofNames(study: ListingStudy): Dataset {
  const { names } = study;
  const how = (n: NamesPoint) => (n.mounted ? "system calls on the mount" : n.batch === 1 ? "library, one at a time" : `library, ${n.batch} in a request`) + (n.bytes ? `; ${n.bytes} bytes, others' files` : "");
  const { dimensions, at } = grid([
    { name: "workers", labels: names.map((n) => n.workers) }, { name: "how", labels: names.map(how) }, { name: "operation", labels: names.map((n) => n.phase.replaceAll("_", " ")) },
    { name: "directory", labels: names.map((n) => (n.shared ? "one for all" : "one for each")) }, { name: "from", labels: names.map((n) => n.location) },
  ]);
  return {
    name: "names", dimensions, ranks: [0, 1, 2, 3, 4], equals: new Set(), rows: names.map((_, i) => ({ at: at(i), state: "done", shares: [], facts: [] })),
    metrics: [{ name: "Names a second", unit: "per s", better: "more", values: names.map((n) => n.rate_per_s) }],
  };
}
