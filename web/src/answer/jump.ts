// From the answer to the time view.

import type { Model } from "../model";
import { around } from "../view/scale";

export function toTime(model: Model): void {
  (model.suffix ? model.other! : model).showTab("");
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  document.getElementById("views")?.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
}

/** Selects an interval, in seconds of the run, and shows it. */
export function showInterval(model: Model, a_s: number, b_s: number): void {
  const ticks = (s: number) => (s * 1e9 + model.header.start_ns) / model.header.tick_ns;
  model.setView(around(ticks(a_s), ticks(b_s), model.total, 0.6));
  model.select({ a: ticks(a_s), b: ticks(b_s) });
  toTime(model);
}

export function jump(model: Model, cause: string): void {
  if (model.goToCause(cause)) toTime(model);
}
