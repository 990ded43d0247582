// The view as a link's fragment: #t=START,END&s=SELECTED&f=FOLDED&q=SEARCH… in nanoseconds from the recording's beginning.

import type { Filter } from "../data/filter";
import { noFilter } from "../data/filter";

export interface Shared {
  from_ns?: number;
  to_ns?: number;
  selected_ns?: [number, number];
  span?: number;
  filter: Filter;
  rows?: string;
  /** The tab; absent: the first. */
  view?: string;
}

export function writeFragment(shared: Shared): string {
  const parts: string[] = [];
  const add = (key: string, value: string | undefined) => value && parts.push(`${key}=${encodeURIComponent(value)}`);
  if (shared.from_ns !== undefined && shared.to_ns !== undefined) add("t", `${Math.round(shared.from_ns)},${Math.round(shared.to_ns)}`);
  if (shared.selected_ns) add("s", shared.selected_ns.map(Math.round).join(","));
  if (shared.span !== undefined) add("i", String(shared.span));
  add("q", shared.filter.text);
  add("k", shared.filter.kind);
  add("l", shared.filter.lane);
  add("o", shared.filter.object);
  if (shared.filter.least_s > 0) add("d", String(shared.filter.least_s));
  add("r", shared.rows);
  add("view", shared.view);
  return parts.length ? `#${parts.join("&")}` : "";
}

function pair(text: string | null): [number, number] | undefined {
  const numbers = (text ?? "").split(",").map(Number);
  return numbers.length === 2 && numbers.every(Number.isFinite) && numbers[0] <= numbers[1] ? [numbers[0], numbers[1]] : undefined;
}

export function readFragment(fragment: string): Shared {
  const values = new URLSearchParams(fragment.replace(/^#/, ""));
  const shared: Shared = { filter: noFilter() };
  const time = pair(values.get("t"));
  if (time) [shared.from_ns, shared.to_ns] = time;
  const selected = pair(values.get("s"));
  if (selected) shared.selected_ns = selected;
  const span = values.get("i");
  if (span && /^\d{1,9}$/.test(span)) shared.span = Number(span);
  shared.filter.text = values.get("q") ?? "";
  shared.filter.kind = values.get("k") ?? "";
  shared.filter.lane = values.get("l") ?? "";
  shared.filter.object = values.get("o") ?? "";
  const least = Number(values.get("d"));
  if (Number.isFinite(least) && least > 0) shared.filter.least_s = least;
  const rows = values.get("r");
  if (rows) shared.rows = rows;
  const view = values.get("view");
  if (view) shared.view = view;
  return shared;
}
