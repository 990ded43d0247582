// Seconds of an RPC document on the axis of the page's model, so that views, selections and cursors are one.

import type { Header } from "../data/header";
import { prepare } from "../data/prepare";
import { Model } from "../model";
import type { RpcStat } from "./document";

export class RpcAxis {
  /** Seconds of the run at which the document begins. */
  readonly offset: number;

  constructor(readonly model: Model, d: RpcStat) {
    const { origin_ns, start_ns } = model.header as Header & { origin_ns?: number };
    this.offset = origin_ns === undefined ? 0 : (d.start_ns - origin_ns - start_ns) / 1e9;
    // Clocks of two recorders may differ by more than the run: then the two begin together.
    if (Math.abs(this.offset) > model.header.wall_ns / 1e9 + d.wall_s) this.offset = 0;
  }

  at(tick: number): number {
    return this.model.at(tick) - this.offset;
  }
  tick(seconds: number): number {
    const { start_ns, tick_ns } = this.model.header;
    return ((seconds + this.offset) * 1e9 + start_ns) / tick_ns;
  }
  get a(): number {
    return this.at(this.model.view.a);
  }
  get b(): number {
    return this.at(this.model.view.b);
  }

  /** Selects an interval and shows it with what is around it. */
  show(from: number, to: number): void {
    const [a, b] = [this.tick(from), this.tick(to)];
    const margin = Math.max(1, b - a) * 1.5;
    this.model.selection = { a, b };
    this.model.setView({ a: a - margin, b: b + margin });
    this.model.remember();
  }
}

/** A model for RPCs without a recording: an axis, and nothing on it. */
export function ownModel(host: Model, wall_s: number): Model {
  const wall_ns = Math.max(1000, Math.ceil(wall_s * 1e9));
  const tick_ns = 10 ** Math.max(0, Math.ceil(Math.log10(wall_ns / 4e9)));
  const header: Header = { ...host.header, start_ns: 0, wall_ns, tick_ns, lanes: [], kinds: [], planes: [], counters: [], causes: [], objects: ["none"] };
  const model = new Model(header);
  model.theme = host.theme;
  model.start({ ...prepare(header, {}), header });
  return model;
}
