// What is drawn over the lanes: names of wide spans, marks, the selection, the measured interval, lost events, arrows.

import { upper } from "../data/levels";
import type { Model } from "../model";
import { classColour, isLight, isWait, STOPPED } from "../palette";
import { duration, shown } from "../view/format";
import type { Frame } from "../view/pen";
import { toX } from "../view/scale";
import { arrowsToDraw, drawArrows, place, type Drawn } from "./arrows";
import { drawClocks, sharedHeight } from "./clocks";
import { lost, marks } from "./marks";
import type { Row } from "./rows";
import { drawSamples } from "./samples";

const MOST_LABELS = 400;
const LEAST_LABEL = 44;
const FONT = "11px system-ui, sans-serif";
function label(frame: Frame, model: Model, row: Row, y: number): number {
  const r = model.recording!;
  const lane = r.lanes[row.lanes[0]];
  const { start, end, span, kind } = r.segments;
  const first = upper(end, lane.from, lane.to, model.view.a);
  const last = upper(start, first, lane.to, model.view.b);
  if (last - first > 600) return 0;
  let drawn = 0;
  for (let i = first; i < last; i++) {
    if (model.hidden.has(kind[i]) || isWait(kind[i]) || kind[i] === STOPPED || (model.matches && !model.matches.mask[span[i]])) continue;
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
    frame.ctx.fillStyle = lane.partial ? model.theme.ink : isLight(colour) ? "#000000" : "#ffffff";
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
  ctx.fillStyle = isLight(colour) ? "#000000" : "#ffffff";
  ctx.textBaseline = "middle";
  ctx.fillText(text, at + 5, 13.5);
}

/** An outline round the selected span. */
export function selected(frame: Frame, model: Model, rowOf: Map<number, Row>): void {
  const r = model.recording!;
  const i = model.selectedSpan;
  const row = i < 0 ? undefined : rowOf.get(r.span.lane[i]);
  if (!row) return;
  const { ctx } = frame;
  const x0 = toX(model.view, r.span.start[i], frame.width);
  const x1 = toX(model.view, r.span.start[i] + Math.max(1, r.span.duration[i]), frame.width);
  ctx.strokeStyle = model.theme.accent;
  ctx.lineWidth = 2;
  ctx.strokeRect(x0, row.y - frame.top + 1, Math.max(3, x1 - x0), Math.max(2, row.h - 2));
  ctx.lineWidth = 1;
}

/** Segments of a row looked at for stops. Instead of more: no words, the stripes remain. */
const MOST_SEGMENTS = 3000;

/** The stops of a lane in view: neighbours are one. */
function stopsOf(model: Model, index: number): [start: number, end: number][] {
  const { lanes, segments } = model.recording!;
  const { start, end, kind } = segments;
  const lane = lanes[index];
  const first = upper(end, lane.from, lane.to, model.view.a);
  const last = upper(start, first, lane.to, model.view.b);
  const found: [number, number][] = [];
  if (last - first > MOST_SEGMENTS) return found;
  for (let i = first; i < last; i++) {
    if (kind[i] !== STOPPED) continue;
    const from = i;
    while (i + 1 < last && kind[i + 1] === STOPPED && start[i + 1] <= end[i] + 1) i++;
    found.push([start[from], end[i]]);
  }
  return found;
}

/** Says "stopped" on the stripes where there is room; in a folded row of several lanes, on the longest stop. */
function stops(frame: Frame, model: Model, rows: Row[]): void {
  const { ctx } = frame;
  ctx.font = "600 11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  if (model.hidden.has(STOPPED)) return;
  for (const row of rows) {
    if (row.h < 14 || !(row.type === "lane" || row.folded) || row.lanes.length > 64) continue;
    const all = row.lanes.flatMap((lane) => stopsOf(model, lane));
    const shownHere = row.type === "lane" ? all : all.sort((a, b) => b[1] - b[0] - (a[1] - a[0])).slice(0, 1);
    for (const [start, end] of shownHere) {
      const [x0, x1] = [Math.max(0, toX(model.view, start, frame.width)), Math.min(frame.width, toX(model.view, end, frame.width))];
      const text = `stopped ${duration(model.seconds(end - start))}`;
      const wide = ctx.measureText(text).width + 10;
      if (x1 - x0 < wide + 8) continue;
      ctx.fillStyle = model.theme.paper;
      ctx.fillRect((x0 + x1 - wide) / 2, row.y - frame.top + 4, wide, row.h - 8);
      ctx.fillStyle = model.theme.ink;
      ctx.fillText(text, (x0 + x1 - wide) / 2 + 5, row.y - frame.top + row.h / 2 + 0.5);
    }
  }
}

/** Which row each lane is drawn in: its own, or the folded one that it is in. */
export function rowsByLane(rows: Row[]): Map<number, Row> {
  const found = new Map<number, Row>();
  for (const row of rows) if (row.type === "lane" || row.folded) for (const lane of row.lanes) if (!found.has(lane)) found.set(lane, row);
  return found;
}

/** Draws over the visible rows; `all` rows are where arrows may lead. Returns the arrows. */
export function drawOverlay(frame: Frame, model: Model, rows: Row[], all: Row[] = model.rows): Drawn[] {
  const rowOf = rowsByLane(all);
  const { ctx } = frame;
  if (!model.moving) {
    labels(frame, model, rows);
    stops(frame, model, rows);
    drawSamples(frame, model, rows);
  }
  drawClocks(frame, model, rows);
  const shared = { ...frame, height: sharedHeight(frame, all) };
  marks(frame, model, rowOf);
  lost(shared, model, shared.height);
  const length = (i: { a: number; b: number }) => duration(model.seconds(i.b - i.a));
  if (model.selection) interval(shared, model, model.selection.a, model.selection.b, model.theme.accent, length(model.selection));
  if (model.measure) interval(shared, model, model.measure.a, model.measure.b, model.theme.dark ? "#F0E442" : "#6b3fa0", `measured: ${length(model.measure)}`);
  if (model.cursor) {
    ctx.fillStyle = model.theme.faint;
    ctx.fillRect(Math.round(toX(model.view, model.cursor.tick, frame.width)), 0, 1, model.cursor.row?.clock ? frame.height : shared.height);
  }
  selected(frame, model, rowOf);
  const drawn = model.moving ? [] : place(model, arrowsToDraw(model, rowOf), rowOf, frame.width, frame.top);
  drawArrows(ctx, model, drawn, frame.width);
  return drawn;
}
