// What is drawn over the lanes: names of wide spans, marks, the selection, the measured interval, arrows from waker to woken.

import { upper } from "../data/levels";
import type { Model } from "../model";
import { classColour, CLASSES, isLight, isWait } from "../palette";
import { duration, shown } from "../view/format";
import { toX } from "../view/scale";
import type { Row } from "./rows";

const MOST_LABELS = 400;
const LEAST_LABEL = 44;
const FONT = "11px system-ui, sans-serif";
const MARK_COLOUR: [light: string, dark: string] = ["#B3001B", "#FF8A98"];
/** Marks of these kinds say that something went wrong; others are drawn in ink. */
const BAD = /retransmit|timeout|zero_window|lost|not_accepted|accept_queue/;

export interface Frame {
  ctx: CanvasRenderingContext2D;
  width: number;
  height: number;
  top: number;
}

function label(frame: Frame, model: Model, row: Row, y: number): number {
  const r = model.recording!;
  const lane = r.lanes[row.lanes[0]];
  const { start, end, span, kind } = r.segments;
  const first = upper(end, lane.from, lane.to, model.view.a);
  const last = upper(start, first, lane.to, model.view.b);
  if (last - first > 600) return 0;
  let drawn = 0;
  for (let i = first; i < last; i++) {
    if (model.hidden.has(kind[i]) || isWait(kind[i]) || (model.matches && !model.matches.mask[span[i]])) continue;
    const x0 = Math.max(0, toX(model.view, start[i], frame.width));
    const x1 = Math.min(frame.width, toX(model.view, end[i], frame.width));
    if (x1 - x0 < LEAST_LABEL) continue;
    const colour = classColour(kind[i], model.theme.dark);
    const object = r.span.object[span[i]];
    const name = object ? `${r.header.kinds[r.span.kind[span[i]]].name} ${r.header.objects[object]}` : r.header.kinds[r.span.kind[span[i]]].name;
    const text = shown(name, Math.max(4, Math.floor((x1 - x0 - 8) / 6)));
    if (lane.partial) {
      // Its colour is mixed with those of the spans that are left out.
      frame.ctx.strokeStyle = model.theme.paper;
      frame.ctx.lineWidth = 3;
      frame.ctx.strokeText(text, x0 + 4, y + row.h / 2 + 1, x1 - x0 - 8);
      frame.ctx.lineWidth = 1;
    }
    frame.ctx.fillStyle = lane.partial ? model.theme.ink : isLight(colour) ? "#10151b" : "#ffffff";
    frame.ctx.fillText(text, x0 + 4, y + row.h / 2 + 1, x1 - x0 - 8);
    drawn++;
  }
  return drawn;
}

export function labels(frame: Frame, model: Model, rows: Row[]): void {
  frame.ctx.font = FONT;
  frame.ctx.textBaseline = "middle";
  let count = 0;
  for (const row of rows) {
    if (row.type !== "lane" || row.h < 16 || count > MOST_LABELS) continue;
    count += label(frame, model, row, row.y - frame.top);
  }
}

export function markColour(kind: string, model: Model): string {
  return BAD.test(kind) ? MARK_COLOUR[model.theme.dark ? 1 : 0] : model.theme.ink;
}

/** Marks are pins: a line with a head whose form depends on the kind. Many in one column are one pin. */
export function marks(frame: Frame, model: Model, rowOf: Map<number, Row>): void {
  const { mark, header } = model.recording!;
  const { ctx } = frame;
  let last = new Map<number, number>();
  for (let i = 0; i < mark.at.length; i++) {
    if (mark.at[i] < model.view.a || mark.at[i] > model.view.b) continue;
    const row = rowOf.get(mark.lane[i]);
    if (!row || row.y + row.h < frame.top || row.y > frame.top + frame.height) continue;
    const x = Math.round(toX(model.view, mark.at[i], frame.width));
    const key = row.y * 256 + mark.kind[i];
    if (last.get(key) === x) continue;
    last.set(key, x);
    pin(ctx, x, row.y - frame.top, row.h, mark.kind[i], markColour(header.marks[mark.kind[i]]?.kind ?? "", model), model.theme.paper);
  }
  last = new Map();
}

export function pin(ctx: CanvasRenderingContext2D, x: number, y: number, h: number, kind: number, colour: string, paper: string): void {
  ctx.fillStyle = colour;
  ctx.fillRect(x, y, 1, h);
  ctx.strokeStyle = paper;
  ctx.beginPath();
  const form = kind % 3;
  if (form === 0) ctx.arc(x + 0.5, y + 3.5, 3.5, 0, 7);
  else if (form === 1) ctx.rect(x - 3, y, 7, 7);
  else {
    ctx.moveTo(x - 4, y);
    ctx.lineTo(x + 5, y);
    ctx.lineTo(x + 0.5, y + 8);
    ctx.closePath();
  }
  ctx.fill();
  ctx.stroke();
}

export function interval(frame: Frame, model: Model, a: number, b: number, colour: string, text: string): void {
  const x0 = toX(model.view, a, frame.width);
  const x1 = toX(model.view, b, frame.width);
  if (x1 < 0 || x0 > frame.width) return;
  const { ctx } = frame;
  ctx.globalAlpha = 0.14;
  ctx.fillStyle = colour;
  ctx.fillRect(x0, 0, Math.max(1, x1 - x0), frame.height);
  ctx.globalAlpha = 1;
  ctx.fillRect(Math.round(x0), 0, 1, frame.height);
  ctx.fillRect(Math.round(x1), 0, 1, frame.height);
  if (!text) return;
  ctx.font = "600 12px system-ui, sans-serif";
  const wide = ctx.measureText(text).width + 10;
  const at = Math.min(Math.max(0, (x0 + x1) / 2 - wide / 2), frame.width - wide);
  ctx.fillStyle = colour;
  ctx.fillRect(at, 4, wide, 18);
  ctx.fillStyle = isLight(colour) ? "#10151b" : "#ffffff";
  ctx.textBaseline = "middle";
  ctx.fillText(text, at + 5, 13.5);
}

/** An outline round the selected span, and an arrow from the lane that woke its thread. */
export function selected(frame: Frame, model: Model, rowOf: Map<number, Row>): void {
  const r = model.recording!;
  const i = model.selectedSpan;
  if (i < 0) return;
  const row = rowOf.get(r.span.lane[i]);
  if (!row) return;
  const [start, end] = [r.span.start[i], r.span.start[i] + Math.max(1, r.span.duration[i])];
  const { ctx } = frame;
  const y = row.y - frame.top;
  const x0 = toX(model.view, start, frame.width);
  const x1 = toX(model.view, end, frame.width);
  ctx.strokeStyle = model.theme.accent;
  ctx.lineWidth = 2;
  ctx.strokeRect(x0, y + 1, Math.max(3, x1 - x0), Math.max(2, row.h - 2));
  const waker = r.span.waker[i];
  const from = waker ? rowOf.get(waker - 1) : undefined;
  if (from && from !== row) arrow(ctx, x1, from.y - frame.top + from.h / 2, y + (from.y < row.y ? 0 : row.h), model.theme.accent);
  ctx.lineWidth = 1;
}

function arrow(ctx: CanvasRenderingContext2D, x: number, y0: number, y1: number, colour: string): void {
  const down = y1 > y0 ? 1 : -1;
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.beginPath();
  ctx.arc(x, y0, 3, 0, 7);
  ctx.fill();
  ctx.beginPath();
  ctx.moveTo(x, y0);
  ctx.lineTo(x, y1 - 6 * down);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x, y1);
  ctx.lineTo(x - 5, y1 - 8 * down);
  ctx.lineTo(x + 5, y1 - 8 * down);
  ctx.fill();
}

/** Which row each lane is drawn in: its own, or the folded one that it is in. */
export function rowsByLane(rows: Row[]): Map<number, Row> {
  const found = new Map<number, Row>();
  for (const row of rows) if (row.type === "lane" || row.folded) for (const lane of row.lanes) if (!found.has(lane)) found.set(lane, row);
  return found;
}

export function drawOverlay(frame: Frame, model: Model, rows: Row[]): void {
  const rowOf = rowsByLane(model.rows);
  const { ctx } = frame;
  ctx.clearRect(0, 0, frame.width, frame.height);
  if (!model.moving) labels(frame, model, rows);
  marks(frame, model, rowOf);
  selected(frame, model, rowOf);
  const length = (i: { a: number; b: number }) => duration(model.seconds(i.b - i.a));
  if (model.selection) interval(frame, model, model.selection.a, model.selection.b, model.theme.accent, length(model.selection));
  if (model.measure) interval(frame, model, model.measure.a, model.measure.b, model.theme.dark ? "#F0E442" : "#6b3fa0", `measured: ${length(model.measure)}`);
  if (model.cursor) {
    ctx.fillStyle = model.theme.faint;
    ctx.fillRect(Math.round(toX(model.view, model.cursor.tick, frame.width)), 0, 1, frame.height);
  }
}

export const CLASS_COUNT = CLASSES.length;
