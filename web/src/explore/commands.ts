// Whole commands run alternately, `thalweg.measure/2`.

import { duration } from "../view/format";
import { exact, type Dataset, type Estimate, type Metric } from "./data";
import type { Machine } from "./sweep";

export interface Commands {
  plan: string;
  machine?: Machine;
  load_after?: number;
  stopped?: string;
  baseline?: string;
  amount?: { count: number; unit: string };
  commands: { name: string; command: string[]; wall_s: Estimate; rate_per_s?: Estimate; cpu_s: number; max_rss_bytes: number; figures?: Record<string, Estimate>; runs?: { wall_s?: number; usage?: { wall_s?: number } }[] }[];
  ratios: { of: string; to: string; figure: string; ratio: Estimate; pairs: number[] }[];
}

export function ofCommands(study: Commands): Dataset {
  const { commands } = study;
  const figures = [...new Set(commands.flatMap((c) => Object.keys(c.figures ?? {})))];
  const metrics: Metric[] = [
    { name: "Time", unit: "s", better: "less", values: commands.map((c) => c.wall_s) },
    { name: study.amount?.unit === "bytes" ? "Rate" : `${study.amount?.unit ?? "Items"} a second`, unit: study.amount?.unit === "bytes" ? "bytes/s" : "per s", better: "more", values: commands.map((c) => c.rate_per_s ?? null) },
    { name: "CPU time", unit: "s", better: "less", values: commands.map((c) => exact(c.cpu_s)) },
    { name: "Most memory", unit: "bytes", better: "less", values: commands.map((c) => exact(c.max_rss_bytes)) },
    ...figures.map((name): Metric => ({ name, unit: "count", better: "", values: commands.map((c) => c.figures?.[name] ?? null) })),
  ];
  return {
    name: "commands", ranks: [0], equals: new Set(), metrics: metrics.filter((m) => m.values.some((v) => v)),
    dimensions: [{ name: "command", values: commands.map((c) => ({ label: c.name })) }],
    rows: commands.map((c, i) => {
      const runs = (c.runs ?? []).map((r) => r.wall_s ?? r.usage?.wall_s).filter((v): v is number => v !== undefined);
      return { at: [i], state: "done", shares: [], runs, facts: [["command", c.command.join(" ")], ...(runs.length ? [["runs", `${runs.length}: ${runs.slice(0, 12).map(duration).join(", ")}`] as [string, string]] : [])] };
    }),
  };
}
