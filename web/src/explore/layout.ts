// A study of layouts, `thalweg.layout-study-result/2`.

import { bytes } from "../view/format";
import { dimensionOf, places, type Dataset, type Estimate, type Row } from "./data";
import type { Machine } from "./sweep";

export interface Bar {
  what: string;
  found: Estimate;
  least: number;
  most?: number;
  kept: boolean;
}

interface LayoutPoint {
  pattern: string;
  part_bytes: number;
  transfer_bytes?: number;
  series: string;
  via: string;
  title: string;
  operation: string;
  rate_bytes_per_s: Estimate;
  unsynced_bytes_per_s?: Estimate;
  predicted_bytes_per_s?: number;
  of_local?: Estimate;
  cache?: unknown;
  explanation?: { cause: string; place: string; share: number; charges: [string, string, number][]; sentence: string };
  nodes: { node: string; rate_bytes_per_s: Estimate; of_local?: Estimate }[];
}

export interface LayoutStudy {
  label: string;
  machine?: Machine;
  nodes: string[];
  repeat: number;
  link_bytes_per_s?: number;
  disk_bytes_per_s?: number;
  points: LayoutPoint[];
  means?: { series: string; via: string; operations: Record<string, number>; all: number }[];
  against_peers?: { title: string; via: string; peer: string; operation: string; part_bytes: number; ratio: Estimate }[];
  bars: Bar[];
  problems: string[];
}

/** Shares by cause: a cause at several places is one. */
function sharesOf(charges: [string, string, number][]): [string, number][] {
  const sums = new Map<string, number>();
  for (const [cause, , share] of charges) sums.set(cause, (sums.get(cause) ?? 0) + share);
  return [...sums].sort((a, b) => b[1] - a[1]);
}

export function ofLayouts(study: LayoutStudy): Dataset {
  const { points } = study;
  const columns: [name: string, labels: (string | number)[], text?: (v: string | number) => string][] = [
    ["each node's part", points.map((p) => p.part_bytes), (v) => bytes(v as number)], ["layout", points.map((p) => p.title)],
    ["operation", points.map((p) => p.operation)], ["through", points.map((p) => p.via)], ["pattern", points.map((p) => p.pattern)],
  ];
  const found = columns.map(([, labels]) => places(labels));
  const rows = points.map((p, i): Row => {
    const facts: [string, string][] = p.nodes.map((n) => [`node ${n.node}`, `${bytes(n.rate_bytes_per_s.median)}/s${n.of_local ? `, ${n.of_local.median.toFixed(2)} of its own disk` : ""}`]);
    if (p.explanation) facts.unshift(["where", p.explanation.place]);
    if (p.cache) facts.push(["page cache before", typeof p.cache === "string" ? p.cache : JSON.stringify(p.cache)]);
    return {
      at: columns.map(([, labels], d) => found[d].get(labels[i])!), state: "done", cause: p.explanation?.cause, where: p.explanation?.place,
      sentence: p.explanation?.sentence, shares: sharesOf(p.explanation?.charges ?? []), facts,
    };
  });
  return {
    name: "layouts", rows, ranks: [0, 1, 2, 3, 4], equals: new Set(),
    dimensions: columns.map(([name, labels, text]) => ({ ...dimensionOf(name, labels, text), ...(name === "each node's part" ? { unit: "bytes" as const } : {}) })),
    metrics: [
      { name: "Rate of one node, sync included", unit: "bytes/s" as const, better: "more" as const, values: points.map((p) => p.rate_bytes_per_s), bounds: points.map((p) => p.predicted_bytes_per_s ?? null) },
      { name: "Rate before the sync", unit: "bytes/s" as const, better: "more" as const, values: points.map((p) => p.unsynced_bytes_per_s ?? null) },
      { name: "Part of the local disk's rate", unit: "times" as const, better: "more" as const, values: points.map((p) => p.of_local ?? null) },
    ].filter((m) => m.values.some((v) => v)),
  };
}
