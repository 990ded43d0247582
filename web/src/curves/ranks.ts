// Curves of MPI ranks: how many wait, and the bytes that each moves. With many ranks, the fastest, the middle and the slowest one.

import { firstReaching } from "../data/breakdown";
import { upper } from "../data/levels";
import type { Recording } from "../data/recording";
import { CLASSES, isWait } from "../palette";
import { shown } from "../view/format";
import { bytesIn, kindsWhere, movesOf, smooth } from "./rates";

/** Up to this number of ranks, each has a curve of its own. */
const EACH = 6;
/** Above this number of segments in view, waiting is not counted. Instead: the share is taken at fewer instants. */
const DIRECT = 400_000;
const MPI = CLASSES.indexOf("mpi");

/** MPI calls that end when another rank has done its part. */
const FOR_OTHERS = /^mpi\.(collective|wait|receive)$/;

export const ranksOf = (r: Recording): number[] => r.header.lanes.flatMap((lane, i) => (lane.kind === "rank" && r.lanes[i].spanTo > r.lanes[i].spanFrom ? [i] : []));

export interface Waiting {
  /** Number of ranks, by part: in an MPI call that waits for others, and waiting for anything else. */
  forRanks: Float64Array;
  otherwise: Float64Array;
}

/** How many ranks wait in each of `count` parts of `a..b`, on average over the part. */
export function waiting(r: Recording, ranks: number[], a: number, b: number, count: number): Waiting {
  const out = { forRanks: new Float64Array(count), otherwise: new Float64Array(count) };
  const { start, end, span, kind } = r.segments;
  const step = (b - a) / count;
  const forOthers = r.header.kinds.map((k) => FOR_OTHERS.test(k.name));
  for (const rank of ranks) {
    const lane = r.lanes[rank];
    const last = upper(start, lane.from, lane.to, b);
    for (let i = upper(end, lane.from, lane.to, a); i < last; i++) {
      const into = kind[i] === MPI ? (forOthers[r.span.kind[span[i]]] ? out.forRanks : null) : isWait(kind[i]) ? (within(r, rank, span[i], forOthers) ? out.forRanks : out.otherwise) : null;
      if (!into) continue;
      const [x0, x1] = [Math.max(0, (start[i] - a) / step), Math.min(count, (end[i] - a) / step)];
      for (let x = Math.floor(x0); x < x1 && x < count; x++) into[x] += Math.min(x1, x + 1) - Math.max(x0, x);
    }
  }
  return out;
}

/** Whether a wait is within an MPI call that waits for other ranks. Bound: few spans before it are looked at. */
function within(r: Recording, rank: number, wait: number, forOthers: boolean[]): boolean {
  const { start, duration, kind } = r.span;
  const first = Math.max(r.lanes[rank].spanFrom, wait - 40);
  for (let i = wait - 1; i >= first; i--) if (forOthers[kind[i]] && start[i] + duration[i] >= start[wait] + duration[wait]) return true;
  return false;
}

/** Whether waiting can be counted for an interval in a frame's time. */
export const isCountable = (r: Recording, ranks: number[], a: number): boolean => ranks.reduce((n, lane) => n + r.lanes[lane].spanTo - firstReaching(r, lane, a), 0) <= DIRECT;

export interface RankCurves {
  title: string;
  names: string[];
  values: (a: number, b: number, count: number) => Float64Array[];
}

/** Bytes that ranks move, all directions together, averaged over `window` parts: what they gave to MPI, or else what they read and wrote. */
export function rankBytes(r: Recording, ranks: number[], window: number): RankCurves | null {
  const byMpi = kindsWhere(r, (name) => /^mpi\.(read|write|send|receive)$/.test(name));
  const byFiles = kindsWhere(r, (_, cls) => cls === CLASSES.indexOf("read") || cls === CLASSES.indexOf("write"));
  const moved = (kinds: Uint8Array) => ranks.map((lane) => movesOf(r, [lane], kinds));
  let moves = moved(byMpi);
  const throughMpi = moves.some((m) => m.bytes > 0);
  if (!throughMpi) moves = moved(byFiles);
  if (!moves.some((m) => m.bytes > 0)) return null;
  const title = throughMpi ? "Bytes of each rank, by MPI calls" : "Bytes of each rank, read and written";
  const each = (a: number, b: number, count: number) => moves.map((m) => {
    const margin = ((b - a) / count) * window;
    return smooth(bytesIn(r, m, a - margin, b + margin, count + 2 * window), window).subarray(window, window + count);
  });
  if (ranks.length <= EACH) return { title, names: ranks.map((lane) => shown(r.header.lanes[lane].name, 40)), values: each };
  return {
    title, names: ["most of any rank", "middle rank", "least of any rank"],
    values: (a, b, count) => {
      const all = each(a, b, count);
      const out = [0, 1, 2].map(() => new Float64Array(count));
      const column = new Float64Array(all.length);
      for (let x = 0; x < count; x++) {
        all.forEach((values, i) => (column[i] = values[x]));
        column.sort();
        [out[0][x], out[1][x], out[2][x]] = [column[column.length - 1], column[column.length >> 1], column[0]];
      }
      return out;
    },
  };
}
