// The document `thalweg.diff/1`, as far as the page reads it.

export interface DiffRow {
  cause?: string;
  subject: string;
  subject_after?: string;
  before_s: number;
  after_s: number;
  change_s: number;
}

export interface OfRun {
  command: string[];
  wall_s: number;
  runs: number;
  interval_s?: [number, number];
  size_bytes?: number;
  rate_bytes_per_s?: number;
  sentence: string;
}

export interface Made {
  id: string;
  change: string;
  basis: "replayed" | "bounded";
  predicted_s: number;
  interval_s: [number, number];
  achieved_s: number;
  error: number;
  within: boolean;
}

export interface Diff {
  schema: string;
  before: OfRun;
  after: OfRun;
  change_s: number;
  speedup: number;
  rows: DiffRow[];
  made?: Made;
  different_work?: string;
  notes: string[];
}

/** Differences below this part are none, for one pair of runs. */
const ALIKE = 0.005;

export function verdict(diff: Diff): string {
  if (Math.abs(diff.speedup - 1) < ALIKE) return "as fast as before";
  return diff.speedup > 1 ? `${diff.speedup.toFixed(2)} times as fast` : `${(1 / Math.max(1e-9, diff.speedup)).toFixed(2)} times as long`;
}
