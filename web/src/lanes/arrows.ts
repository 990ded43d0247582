// Arrows over the lanes: from a request to where it was served and back by its reply, from a message's sender to its receiver, from the
// thread that ended a wait to the thread that waited. Drawn for what is selected or under the pointer, and for all messages if few are in
// view: hundreds of arrows are a haze that hides the lanes.

import { arrowsIn, arrowsOf } from "../data/arrows";
import { firstReaching } from "../data/breakdown";
import type { Model } from "../model";
import { duration, shown } from "../view/format";
import type { Pen } from "../view/pen";
import { toX } from "../view/scale";
import { uncertaintyOf, type Row } from "./rows";

/** All messages are drawn if at most as many are in view. */
export const MOST_MESSAGES = 160;
/** Arrows have words beside them if they are at most as many. */
const MOST_WORDS = 6;
/** Arrows are drawn strongly, clear of the lanes, if they are at most as many. */
const MOST_STRONG = 16;
/** Distance in pixels at which an arrow is under the pointer. */
const NEAR = 6;

export type ArrowKind = "request" | "reply" | "message" | "wake";

/** One end: a lane, an instant, and a span if one is known. */
export interface End {
  lane: number;
  tick: number;
  span: number;
}

export interface Arrow {
  kind: ArrowKind;
  from: End;
  to: End;
  /** Whether the selected span, the selected interval or the pointer asks for the arrow. */
  wanted: boolean;
}

/** An arrow as drawn. */
export interface Drawn extends Arrow {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

const COLOUR: Record<ArrowKind, [light: string, dark: string]> = {
  request: ["#0B57D0", "#8AB4F8"], reply: ["#00694B", "#5FD3AE"], message: ["#6B3FA0", "#C9A6F2"], wake: ["#8A2C00", "#FFB59A"],
};
export const WORD: Record<ArrowKind, string> = { request: "request", reply: "reply", message: "message", wake: "woke" };
export const arrowColour = (kind: ArrowKind, dark: boolean): string => COLOUR[kind][dark ? 1 : 0];

function kindOf(model: Model, arrow: number): ArrowKind {
  const name = model.header.arrows?.[model.recording!.arrow.kind[arrow]];
  return name === "request" || name === "reply" ? name : "message";
}

function recorded(model: Model, i: number, wanted: boolean): Arrow {
  const { arrow: a } = model.recording!;
  return {
    kind: kindOf(model, i), wanted, from: { lane: a.fromLane[i], tick: a.from[i], span: a.fromSpan[i] - 1 }, to: { lane: a.toLane[i], tick: a.to[i], span: a.toSpan[i] - 1 },
  };
}

/** The arrow from the lane that ended a span's wait; null if none is known. */
function wake(model: Model, span: number): Arrow | null {
  const { span: s } = model.recording!;
  if (!s.waker[span] || s.waker[span] - 1 === s.lane[span]) return null;
  const tick = s.start[span] + s.duration[span];
  return { kind: "wake", wanted: true, from: { lane: s.waker[span] - 1, tick, span: -1 }, to: { lane: s.lane[span], tick, span } };
}

/** Clocks that are not aligned have no instants in common: an arrow between them would be invented. */
function oneClock(model: Model, { from, to }: Arrow): boolean {
  const clock = (lane: number) => model.ownClock(model.header.lanes[lane]?.host ?? "");
  return clock(from.lane) === clock(to.lane);
}

/** What reaches a span or leaves the span: its own arrows, or those of the innermost span around it that has any, and who woke it. */
export function arrowsOfSpan(model: Model, span: number): Arrow[] {
  const r = model.recording!;
  const found = arrowsOf(r.arrowIndex, span);
  if (!found.length) {
    const around = model.spansAt(r.span.lane[span], r.span.start[span] + r.span.duration[span] / 2).reverse();
    for (const i of around) if (i !== span && !found.length) found.push(...arrowsOf(r.arrowIndex, i));
  }
  const woken = wake(model, span);
  return [...found.map((i) => recorded(model, i, true)), ...(woken ? [woken] : [])].filter((arrow) => oneClock(model, arrow));
}

/** The arrows within the selected interval, of the lanes that are drawn; none if they are too many. */
function ofInterval(model: Model, a: number, b: number, rowOf: Map<number, Row>): Arrow[] {
  const r = model.recording!;
  const among = arrowsIn(r.arrowIndex, r.arrow.to, a, b, MOST_MESSAGES, (i) => r.arrow.from[i] >= a && r.arrow.to[i] <= b);
  const found = (among ?? []).map((i) => recorded(model, i, true));
  let looked = 0;
  for (const lane of rowOf.keys()) {
    for (let i = firstReaching(r, lane, a); i < r.lanes[lane].spanTo && r.span.start[i] < b; i++) {
      if (++looked > 20_000) return among ? found.slice(0, among.length) : [];
      const end = r.span.start[i] + r.span.duration[i];
      const woken = end >= a && end <= b ? wake(model, i) : null;
      if (woken && found.push(woken) > MOST_MESSAGES) return among?.length ? found.slice(0, among.length) : [];
    }
  }
  return found.filter((arrow) => oneClock(model, arrow));
}

function messages(model: Model): Arrow[] {
  const r = model.recording!;
  if (!r.arrow.from.length) return [];
  const { a, b } = model.view;
  const found = arrowsIn(r.arrowIndex, r.arrow.to, a, b, MOST_MESSAGES, (i) => kindOf(model, i) === "message");
  return (found ?? []).map((i) => recorded(model, i, false)).filter((arrow) => oneClock(model, arrow));
}

/** The innermost span under the pointer; -1 if there is none. */
function hovered(model: Model): number {
  const { cursor, moving } = model;
  if (!cursor || moving || cursor.row?.type !== "lane") return -1;
  return model.spanAt(cursor.row.lanes[0], cursor.tick, 0);
}

/** The arrows to draw, those that were asked for last, so that they are on top. */
export function arrowsToDraw(model: Model, rowOf: Map<number, Row>): Arrow[] {
  const found = messages(model);
  if (model.selection) found.push(...ofInterval(model, model.selection.a, model.selection.b, rowOf));
  const under = hovered(model);
  if (under >= 0 && under !== model.selectedSpan) found.push(...arrowsOfSpan(model, under));
  if (model.selectedSpan >= 0) found.push(...arrowsOfSpan(model, model.selectedSpan));
  return found;
}

/** Places arrows on the rows; those within one row, or of a row that is not there, are left out. */
export function place(model: Model, arrows: Arrow[], rowOf: Map<number, Row>, width: number, top: number): Drawn[] {
  const drawn: Drawn[] = [];
  for (const arrow of arrows) {
    const [from, to] = [rowOf.get(arrow.from.lane), rowOf.get(arrow.to.lane)];
    if (!from || !to || from === to) continue;
    const down = to.y > from.y;
    drawn.push({
      ...arrow, x0: toX(model.view, arrow.from.tick, width), x1: toX(model.view, arrow.to.tick, width),
      y0: from.y - top + from.h / 2, y1: to.y - top + (down ? Math.min(5, to.h / 2) : to.h - Math.min(5, to.h / 2)),
    });
  }
  return drawn;
}

function line(pen: Pen, d: Drawn, colour: string, width: number): void {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.beginPath();
  pen.moveTo(d.x0, d.y0);
  pen.lineTo(d.x1, d.y1);
  pen.stroke();
}

function head(pen: Pen, d: Drawn, colour: string): void {
  const [dx, dy] = [d.x1 - d.x0, d.y1 - d.y0];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  const [bx, by] = [d.x1 - ux * 9, d.y1 - uy * 9];
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(d.x0, d.y0, 2.5, 0, 7);
  pen.fill();
  pen.beginPath();
  pen.moveTo(d.x1, d.y1);
  pen.lineTo(bx - uy * 4.5, by + ux * 4.5);
  pen.lineTo(bx + uy * 4.5, by - ux * 4.5);
  pen.closePath();
  pen.fill();
}

/** Writes what an arrow is beside it, clear of the words in `taken`. */
function words(pen: Pen, d: Drawn, model: Model, colour: string, width: number, taken: [x: number, y: number, wide: number][]): void {
  const name = d.kind === "wake" ? `woken by ${shown(model.header.lanes[d.from.lane].name, 30)}` : WORD[d.kind];
  pen.font = "600 11px system-ui, sans-serif";
  const wide = pen.measureText(name).width + 8;
  const x = Math.min(width - wide, Math.max(0, (d.x0 + d.x1) / 2 + 6));
  let y = (d.y0 + d.y1) / 2;
  for (const [tx, ty, tw] of taken) if (Math.abs(y - ty) < 17 && x < tx + tw && tx < x + wide) y = ty + 17;
  taken.push([x, y, wide]);
  pen.fillStyle = model.theme.paper;
  pen.fillRect(x, y - 8, wide, 16);
  pen.fillStyle = colour;
  pen.fillText(name, x + 4, y + 0.5);
}

export function drawArrows(pen: Pen, model: Model, drawn: Drawn[], width: number): void {
  const dark = model.theme.dark;
  const strong = drawn.filter((d) => d.wanted);
  const few = strong.length <= MOST_STRONG;
  for (const d of drawn) {
    const colour = arrowColour(d.kind, dark);
    if (d.wanted && few) line(pen, d, model.theme.paper, 5);
    pen.setLineDash(d.kind === "wake" ? [5, 3] : d.kind === "reply" ? [9, 3] : []);
    pen.globalAlpha = d.wanted ? 1 : 0.75;
    line(pen, d, colour, d.wanted && few ? 2 : 1);
    pen.setLineDash([]);
    head(pen, d, colour);
    pen.globalAlpha = 1;
  }
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  const taken: [number, number, number][] = [];
  if (strong.length <= MOST_WORDS) for (const d of strong) words(pen, d, model, arrowColour(d.kind, dark), width, taken);
}

/** An arrow in words: what it is, from where to where, and for how long. */
export function arrowText(model: Model, { kind, from, to }: Arrow): string {
  const { lanes, clocks } = model.header;
  const name = (lane: number) => shown(lanes[lane]?.name ?? "", 60) || "(no name)";
  const between = `${name(from.lane)} to ${name(to.lane)}`;
  if (kind === "wake") return `${name(from.lane)} woke ${name(to.lane)}`;
  const clock = lanes[from.lane].host === lanes[to.lane].host ? undefined : clocks?.find((c) => c.host === lanes[to.lane].host || c.host === lanes[from.lane].host);
  const within = uncertaintyOf(clock);
  return `${WORD[kind]} from ${between}, ${duration(model.seconds(Math.max(0, to.tick - from.tick)))}${within && ` (${within})`}`;
}

function distance(d: Drawn, x: number, y: number): number {
  const [dx, dy] = [d.x1 - d.x0, d.y1 - d.y0];
  const along = Math.min(1, Math.max(0, ((x - d.x0) * dx + (y - d.y0) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - d.x0 - along * dx, y - d.y0 - along * dy);
}

/** The drawn arrow at a point; the last drawn wins. */
export function arrowAt(drawn: Drawn[], x: number, y: number): Drawn | null {
  let [best, least]: [Drawn | null, number] = [null, NEAR];
  for (const d of drawn) {
    const far = distance(d, x, y);
    if (far <= least) [best, least] = [d, far];
  }
  return best;
}
