// The document `thalweg.rpcstat/1`, as far as the page reads it. Seconds count from the document's start.

export type WaitedFor = "server-queue-full" | "server-queue-partly" | "client-queue-partly" | "client-queue-empty" | "network";

export interface Procedure {
  server: string;
  program?: string;
  version?: string;
  name: string;
  answered: number;
  unanswered: number;
  errors: number;
  retransmissions: number;
  not_captured?: number;
  callback?: boolean;
  min_s?: number;
  median_s?: number;
  p99_s?: number;
  max_s?: number;
  total_s: number;
  bytes: number;
}

export interface Stall {
  start_s: number;
  length_s: number;
  pending: number;
  window: number;
  queue: string;
  ended_by: string;
  retransmissions: number;
  tcp_retransmissions: number;
  zero_window: boolean;
  who: "server" | "client" | "network";
  why: string;
}

export interface CloseUp {
  kind: "drain-cycle" | "stall" | "beginning";
  start_s: number;
  end_s: number;
  from_s: number;
  to_s: number;
  sentence: string;
  calls: { procedure: string; bytes: number; start_s: number; end_s: number; outcome: "answered" | "error" | "unanswered" | "not-captured" }[];
  left_out: number;
}

type Known = (number | null)[];

export interface Series {
  bin_s: number;
  sent_bytes_per_s: number[];
  received_bytes_per_s: number[];
  calls: number[];
  replies: number[];
  pending_mean: number[];
  pending_max: number[];
  response_mean_s: Known;
  response_max_s: Known;
  response_median_s: Known;
  window: Known;
  cwnd_bytes: Known;
  in_flight_bytes: Known;
  receive_window_bytes: Known;
  unsent_bytes: Known;
  retransmissions: number[];
  timeouts: number[];
  tcp_retransmissions: number[];
}

export interface RpcStat {
  schema: string;
  recorder: string;
  start_ns: number;
  wall_s: number;
  sentence: string;
  calls: number;
  unanswered: number;
  not_captured: number;
  errors: number;
  retransmissions: number;
  timeouts: number;
  tcp_retransmissions: number;
  tcp_timeouts: number;
  sent_bytes?: number;
  received_bytes?: number;
  pending: { mean: number; max: number; empty_share: number; window_median: number; window_min: number; sent_only?: boolean; unsent?: { mean_bytes: number; max_bytes: number; max_calls: number } };
  procedures: Procedure[];
  quiet: { full_s: number; empty_s: number; between_then_reply_s: number; between_then_call_s: number; within_messages_s: number; network_s: number; unanswered_s?: number };
  stalls: { least_s: number; count: number; total_s: number; by: { who: string; count: number; total_s: number; median_s: number }[]; longest: Stall[] };
  drain_cycles?: {
    count: number; median_s: number; period_s: number; total_s: number; pending_at_start: number; pending_at_end: number;
    longest: { start_s: number; length_s: number; pending_at_start: number; pending_at_end: number }[]; lengths: { from_s: number; to_s: number; count: number }[];
  };
  slow_start?: { until_s: number; bytes_per_s: number; later_bytes_per_s: number; full_share: number; empty_share: number };
  waits: { start_s: number; end_s: number; waited_for: WaitedFor }[];
  close_ups: CloseUp[];
  series: Series;
  connections: { name: string; calls: number; bytes: number; srtt_s?: number | null }[];
  notes: string[];
}

/** The documents of a header: one, or a list of several runs; a pair has two. */
export function documentsOf(found: unknown): RpcStat[] {
  if (Array.isArray(found)) return found.flatMap(documentsOf);
  if (!found || typeof found !== "object") return [];
  const d = found as Record<string, unknown>;
  if (typeof d.schema === "string" && d.schema.startsWith("thalweg.rpcstat/")) return [d as unknown as RpcStat];
  return Object.values(d).filter((v) => v && typeof v === "object").flatMap(documentsOf);
}
