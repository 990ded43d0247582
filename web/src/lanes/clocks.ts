// The rows of a host whose clock could not be aligned begin with an axis of that host's own: it counts from the host's first span. A
// reader then does not compare the host's instants with those of the run's axis.

import type { Recording } from "../data/recording";
import type { Model } from "../model";
import { instant } from "../view/format";
import type { Frame, Pen } from "../view/pen";
import { axisSteps } from "../view/scale";
import { CLOCK_HEIGHT, type Row } from "./rows";

const firsts = new WeakMap<Recording, Map<string, number>>();

/** The tick of a host's first span. */
export function firstOf(r: Recording, host: string): number {
  let known = firsts.get(r);
  if (!known) firsts.set(r, (known = new Map()));
  let first = known.get(host);
  if (first === undefined) {
    first = Infinity;
    r.header.lanes.forEach((info, l) => {
      if (info.host === host && r.lanes[l].spanTo > r.lanes[l].spanFrom) first = Math.min(first!, r.span.start[r.lanes[l].spanFrom]);
    });
    known.set(host, (first = Number.isFinite(first) ? first : 0));
  }
  return first;
}

function axis(pen: Pen, model: Model, host: string, y: number, width: number): void {
  const { view, theme } = model;
  const first = firstOf(model.recording!, host);
  const [a, b] = [model.seconds(view.a - first), model.seconds(view.b - first)];
  const { at, step } = axisSteps(a, b, width / 110);
  const half = CLOCK_HEIGHT / 2;
  pen.fillStyle = theme.paper;
  pen.fillRect(0, y, width, CLOCK_HEIGHT);
  pen.fillStyle = theme.ink;
  pen.fillRect(0, y, width, 1.5);
  pen.textBaseline = "middle";
  pen.font = "600 11px system-ui, sans-serif";
  pen.fillText("own clock, counted from this host's first span: do not compare with the lanes above", 6, y + half / 2 + 1, width - 12);
  pen.font = "11px system-ui, sans-serif";
  for (const t of at) {
    const x = Math.round(((t - a) / (b - a)) * width);
    pen.fillStyle = theme.rule;
    pen.fillRect(x, y + half, 1, half);
    pen.fillStyle = theme.faint;
    if (x + 4 + pen.measureText(instant(t, step)).width <= width) pen.fillText(instant(t, step), x + 4, y + half * 1.5);
  }
}

export function drawClocks(frame: Frame, model: Model, rows: Row[]): void {
  for (const row of rows) if (row.type === "clock") axis(frame.ctx, model, row.clock, row.y - frame.top, frame.width);
}

/** How far down the run's axis holds: to the first row with an axis of its own. */
export function sharedHeight(frame: Frame, rows: Row[]): number {
  const first = rows.find((row) => row.clock);
  return first ? Math.max(0, Math.min(frame.height, first.y - frame.top)) : frame.height;
}
