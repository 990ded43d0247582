// A parameter sweep, `thalweg.sweep/1`.

import { duration } from "../view/format";
import { exact, type Dataset, type Estimate, type Metric, type Row } from "./data";

interface SweepPoint {
  values: string[];
  state: string;
  problem?: string;
  wall_s?: Estimate;
  rate_bytes_per_s?: Estimate;
  ceiling_bytes_per_s?: Estimate;
  of_ceiling?: Estimate;
  client_cpu_s?: number;
  server_cpu_s?: number;
  cpu_ns_per_byte?: number;
  cache?: unknown;
  explanation?: { cause: string; where: string; sentence: string; shares: [string, number][] };
  profile?: { samples: number; shares: { class: string; title: string; share: number }[] };
  runs: { wall_s: number }[];
}

export interface Machine {
  cpus?: number;
  cpu_model?: string;
  memory_bytes?: number;
  kernel?: string;
  system?: string;
  virtual_machine?: boolean;
  load?: number;
}

export interface Sweep {
  schema: string;
  command: string[];
  server?: string;
  parameters: { name: string; values: { label: string; number?: number }[] }[];
  machine?: Machine;
  repeat: number;
  ceiling_bytes_per_s?: number;
  ceiling_command?: string;
  ceiling_problem?: string;
  points: SweepPoint[];
  findings: {
    sentence: string;
    differs?: boolean;
    shares: { parameter: string; share: number; low: number; high: number; matters: boolean }[];
    best?: string[];
    equals: string[][];
    handovers: { parameter: string; before: string; after: string; from: string; to: string; times: number }[];
    failures?: string;
  };
}

const STATES: Record<string, string> = { timed_out: "timed out" };

function rowOf(sweep: Sweep, point: SweepPoint): Row {
  const facts: [string, string][] = [];
  if (point.explanation) facts.push(["where", point.explanation.where]);
  if (typeof point.cache === "string") facts.push(["page cache before", point.cache]);
  else if (point.cache) facts.push(["page cache before", JSON.stringify(point.cache)]);
  if (point.runs.length) facts.push(["runs", `${point.runs.length}: ${point.runs.slice(0, 12).map((r) => duration(r.wall_s)).join(", ")}${point.runs.length > 12 ? ", …" : ""}`]);
  if (point.profile && !point.profile.shares.length) facts.push(["profile", `${point.profile.samples} samples: too few for shares`]);
  return {
    at: point.values.map((label, d) => Math.max(0, sweep.parameters[d].values.findIndex((v) => v.label === label))),
    state: STATES[point.state] ?? point.state, problem: point.problem, cause: point.explanation?.cause, where: point.explanation?.where,
    sentence: point.explanation?.sentence, shares: point.explanation?.shares ?? [], facts, runs: point.runs.map((r) => r.wall_s),
    ...(point.profile?.shares.length ? { classes: point.profile.shares.map((s) => [s.title, s.share] as [string, number]) } : {}),
  };
}

export function ofSweep(sweep: Sweep): Dataset {
  const { points } = sweep;
  const by = (pick: (p: SweepPoint) => Estimate | null | undefined) => points.map((p) => (p.state === "done" ? pick(p) ?? null : null));
  const time: Metric = { name: "Time", unit: "s", better: "less", values: by((p) => p.wall_s) };
  const rate: Metric = { name: "Rate", unit: "bytes/s", better: "more", values: by((p) => p.rate_bytes_per_s) };
  if (sweep.ceiling_bytes_per_s) rate.reference = { name: "ceiling", value: sweep.ceiling_bytes_per_s };
  else if (points.some((p) => p.ceiling_bytes_per_s)) rate.bounds = points.map((p) => p.ceiling_bytes_per_s?.median ?? null);
  const candidates: Metric[] = [
    rate, time, { name: "Part of the ceiling", unit: "share", better: "more", values: by((p) => p.of_ceiling) },
    { name: "CPU time of the command", unit: "s", better: "less", values: by((p) => exact(p.client_cpu_s)) },
    { name: "CPU time of the server", unit: "s", better: "less", values: by((p) => exact(p.server_cpu_s)) },
    { name: "CPU time of both ends for each byte", unit: "ns/byte", better: "less", values: by((p) => exact(p.cpu_ns_per_byte)) },
  ];
  const causes = [...new Set(points.flatMap((p) => p.explanation?.shares.map(([cause]) => cause) ?? []))];
  for (const cause of causes) {
    candidates.push({ name: `Share of ${cause}`, unit: "share", better: "", values: by((p) => (p.explanation ? exact(p.explanation.shares.find(([name]) => name === cause)?.[1] ?? 0) : null)) });
  }
  const place = (values?: string[]) => (values ? points.findIndex((p) => p.values.every((v, i) => v === values[i])) : -1);
  const ranks = sweep.findings.shares.map((s) => sweep.parameters.findIndex((p) => p.name === s.parameter)).filter((d) => d >= 0);
  sweep.parameters.forEach((_, d) => ranks.includes(d) || ranks.push(d));
  const best = place(sweep.findings.best);
  return {
    name: "sweep", rows: points.map((p) => rowOf(sweep, p)), metrics: candidates.filter((m) => m.values.some((v) => v)), ranks,
    dimensions: sweep.parameters.map((p) => ({ name: p.name, values: p.values })),
    ...(best >= 0 ? { best } : {}), equals: new Set(sweep.findings.equals.map(place).filter((i) => i >= 0)),
  };
}
