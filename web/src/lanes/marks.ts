// Marks on the lanes: pins whose head depends on the kind. A signal that stopped a thread is an octagon, other signals are diamonds; the beginning and end of a thread are small ticks, since
// they say nothing about the speed; lost events are a line through all lanes.

import type { Recording } from "../data/recording";
import type { Model } from "../model";
import { count } from "../view/format";
import type { Frame, Pen } from "../view/pen";
import { toX } from "../view/scale";
import type { Row } from "./rows";

const BAD_COLOUR: [light: string, dark: string] = ["#B3001B", "#FF8A98"];
const SIGNAL_COLOUR: [light: string, dark: string] = ["#A3004F", "#FF7AB8"];
/** Marks of these kinds say that something went wrong; others are drawn in ink. */
const BAD = /retransmit|timeout|zero_window|lost|not_accepted|accept_queue/;
const QUIET = /^(thread\.|process\.|name\.|tune\.)/;

export type MarkForm = "disc" | "square" | "triangle" | "octagon" | "diamond" | "tick" | "rule";
const FORMS: MarkForm[] = ["disc", "square", "triangle"];

/** A signal stopped the thread; other signals are marks of the kind "signal". */
const STOP = "signal.stop";
const isSignal = (kind: string): boolean => kind === STOP || kind === "signal";
export const isLost = (kind: string): boolean => kind === "lost";

export function markForm(kind: string, number: number): MarkForm {
  if (isLost(kind)) return "rule";
  if (kind === STOP) return "octagon";
  if (kind === "signal") return "diamond";
  return QUIET.test(kind) ? "tick" : FORMS[number % FORMS.length];
}

export function markColour(kind: string, model: Model): string {
  const side = model.theme.dark ? 1 : 0;
  if (isSignal(kind)) return SIGNAL_COLOUR[side];
  if (QUIET.test(kind)) return model.theme.faint;
  return BAD.test(kind) ? BAD_COLOUR[side] : model.theme.ink;
}

/** A regular polygon of 4 or 8 corners: a diamond, or a stop sign. */
function polygon(pen: Pen, x: number, y: number, size: number, corners: number): void {
  for (let k = 0; k < corners; k++) {
    const angle = (2 * Math.PI * k) / corners + (corners === 8 ? Math.PI / 8 : 0);
    const at: [number, number] = [x + size * Math.cos(angle), y + size * Math.sin(angle)];
    if (k === 0) pen.moveTo(...at);
    else pen.lineTo(...at);
  }
  pen.closePath();
}

export function pin(pen: Pen, x: number, y: number, h: number, form: MarkForm, colour: string, paper: string): void {
  pen.fillStyle = colour;
  if (form === "tick") return pen.fillRect(x, y + h - Math.min(7, h), 1, Math.min(7, h));
  pen.fillRect(x, y, 1, h);
  pen.strokeStyle = paper;
  pen.lineWidth = 1;
  pen.beginPath();
  if (form === "disc") pen.arc(x + 0.5, y + 3.5, 3.5, 0, 7);
  else if (form === "square") pen.rect(x - 3, y, 7, 7);
  else if (form === "octagon") polygon(pen, x + 0.5, y + Math.min(7, h / 2), Math.min(7, h / 2), 8);
  else if (form === "diamond") polygon(pen, x + 0.5, y + Math.min(5, h / 2), Math.min(5, h / 2), 4);
  else {
    pen.moveTo(x - 4, y);
    pen.lineTo(x + 5, y);
    pen.lineTo(x + 0.5, y + 8);
    pen.closePath();
  }
  pen.fill();
  pen.stroke();
}

/** Many marks of a kind in one column are one pin. */
export function marks(frame: Frame, model: Model, rowOf: Map<number, Row>): void {
  const { mark, header } = model.recording!;
  const last = new Map<number, number>();
  for (let i = 0; i < mark.at.length; i++) {
    if (mark.at[i] < model.view.a || mark.at[i] > model.view.b) continue;
    const kind = header.marks[mark.kind[i]]?.kind ?? "";
    const row = rowOf.get(mark.lane[i]);
    if (isLost(kind) || !row || row.y + row.h < frame.top || row.y > frame.top + frame.height) continue;
    // A head at the edge of the picture would be cut in half.
    const edge = isSignal(kind) ? 7 : 0;
    const x = Math.min(frame.width - 1 - edge, Math.max(edge, Math.round(toX(model.view, mark.at[i], frame.width))));
    const key = row.y * 256 + mark.kind[i];
    if (last.get(key) === x) continue;
    last.set(key, x);
    pin(frame.ctx, x, row.y - frame.top, row.h, markForm(kind, mark.kind[i]), markColour(kind, model), model.theme.paper);
  }
}

/** Events lost by the recorder before an instant; a mark without a number stands for at least one. */
export function lostEvents(r: Recording): { at: number; events: number }[] {
  const lost = new Set(r.header.marks.flatMap((m, k) => (isLost(m.kind) ? [k] : [])));
  if (!lost.size) return [];
  const found: { at: number; events: number }[] = [];
  r.mark.at.forEach((at, i) => lost.has(r.mark.kind[i]) && found.push({ at, events: Math.max(1, r.mark.value[i]) }));
  return found.sort((x, y) => x.at - y.at);
}

/** Lines through all lanes where events were lost, with their number; neighbours are one line. */
export function lost(frame: Frame, model: Model, height: number): void {
  const { ctx, width } = frame;
  const shown: { x: number; events: number }[] = [];
  for (const { at, events } of lostEvents(model.recording!)) {
    const x = Math.round(toX(model.view, at, width));
    if (x < 0 || x > width) continue;
    const before = shown[shown.length - 1];
    if (before && x - before.x < 60) before.events += events;
    else shown.push({ x, events });
  }
  ctx.textBaseline = "middle";
  ctx.font = "600 11px system-ui, sans-serif";
  for (const { x, events } of shown) {
    const colour = BAD_COLOUR[model.theme.dark ? 1 : 0];
    const text = `${count(events)} lost`;
    const wide = ctx.measureText(text).width + 8;
    const left = Math.min(x, width - wide);
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.setLineDash([4, 3]);
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.moveTo(x, 0);
    ctx.lineTo(x, height);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.fillRect(left, 3, wide, 16);
    ctx.fillStyle = model.theme.dark ? "#000000" : "#ffffff";
    ctx.fillText(text, left + 4, 11.5);
  }
  ctx.lineWidth = 1;
}
