// What the time was charged to: the rows of `explain`, from which sentence, bar, rows and legend all come, so that they agree.

import type { Header, Row } from "../data/header";

/** Parts below this share are one piece of the bar. */
export const SMALL = 0.02;
/** Rows below this share are among the others, however few rows there are. */
const LARGE = 0.05;
const MOST_ROWS = 3;

/** The run by cause and place, largest first; where there are no rows, by cause. The shares add up to 1. */
export function partsOf(header: Header): Row[] {
  const rows = header.explanation.summary?.rows ?? [];
  const sum = rows.reduce((total, row) => total + row.share, 0);
  // Rows of an incomplete document would make a bar that is too long.
  if (sum > 0.98 && sum < 1.02) return [...rows].sort((a, b) => b.share - a.share);
  const all = header.causes.reduce((total, c) => total + c.ns, 0);
  return header.causes.filter((c) => c.ns > 0).map((c) => ({ cause: c.name, share: c.ns / all, subject: "", figures: "" }));
}

export interface Chip {
  cause: string;
  percent: number;
}

export interface Table {
  rows: Row[];
  others: Row[];
  /** Percent of the others: what the rows leave of 100, so that the figures add up. */
  percent: number;
  /** The others by cause, each with at least one piece of the bar. */
  chips: Chip[];
}

const round = (share: number): number => Math.round(share * 100);

export function tableOf(parts: Row[]): Table {
  const rows = parts.filter((row, i) => i === 0 || (i < MOST_ROWS && row.share >= LARGE));
  const others = parts.slice(rows.length);
  const shares = new Map<string, number>();
  for (const row of others.filter((r) => r.share >= SMALL)) shares.set(row.cause, (shares.get(row.cause) ?? 0) + row.share);
  const chips = [...shares].map(([cause, share]) => ({ cause, percent: round(share) })).sort((a, b) => b.percent - a.percent);
  return { rows, others, percent: Math.max(0, 100 - rows.reduce((sum, row) => sum + round(row.share), 0)), chips };
}
