// What limits a view: the selected interval, else the run; and the search, if there is one.

import { useMemo } from "preact/hooks";
import { useModel, type Interval, type Model } from "../../model";

export interface Limits extends Interval {
  /** Whether this is the whole run. */
  whole: boolean;
  /** 1 for each span that matches the search; null: all do. */
  mask: Uint8Array | null;
}

export function limitsOf(model: Model): Limits {
  const { a, b } = model.selection ?? model.run();
  return { a, b, whole: !model.selection, mask: model.matches?.mask ?? null };
}

/** The limits; the object changes when they do. */
export function useLimits(model: Model): Limits {
  const selection = useModel(model, (m) => (m.selection ? `${m.selection.a} ${m.selection.b}` : ""));
  const matches = useModel(model, (m) => m.matches);
  return useMemo(() => limitsOf(model), [selection, matches]);
}

/** Shows an interval in the time view. */
export function showInTime(model: Model, a: number, b: number): void {
  const margin = Math.max(8, (b - a) * 0.6);
  model.selectedSpan = -1;
  model.select({ a, b: Math.max(b, a + 1) });
  model.setView({ a: a - margin, b: b + margin });
  model.showTab("");
}

/** Shows a span in the time view. */
export function showSpan(model: Model, span: number): void {
  model.showTab("");
  model.goToSpan(span);
}
