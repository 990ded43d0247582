// The head of the time view: the critical path in the colours of its causes, and the axis.

import { causeName, plainCause } from "../answer/help";
import type { Model } from "../model";
import { instant } from "../view/format";
import type { Pen } from "../view/pen";
import { axisSteps, toX } from "../view/scale";
import type { Painter } from "./paint";
import { causeColour, isLight } from "../palette";
import { upper } from "../data/levels";

export const PATH_HEIGHT = 24;
export const AXIS_HEIGHT = 22;

/** Names the stretches of the critical path that are wide enough. */
function nameCauses(pen: Pen, model: Model, width: number): void {
  const r = model.recording!;
  const s = r.pathSegments;
  const first = upper(s.end, 0, s.end.length, model.view.a);
  const last = upper(s.start, first, s.start.length, model.view.b);
  if (last - first > 2000) return;
  pen.font = "11px system-ui, sans-serif";
  for (let i = first; i < last; i++) {
    const from = i;
    while (i + 1 < last && s.kind[i + 1] === s.kind[from]) i++;
    const x0 = Math.max(0, toX(model.view, s.start[from], width));
    const x1 = Math.min(width, toX(model.view, s.end[i], width));
    const cause = r.header.causes[s.kind[from]]?.name ?? "";
    const fits = (words: string) => pen.measureText(words).width + 8 <= x1 - x0;
    const name = [plainCause(model.header, cause), causeName(model.header.explanation, cause)].find(fits);
    if (!name) continue;
    pen.fillStyle = isLight(causeColour(cause, model.theme.dark)) ? "#000000" : "#ffffff";
    pen.fillText(name, x0 + 4, PATH_HEIGHT / 2);
  }
}

/** Names and the axis: all that is not pixels. */
export function writeAxis(pen: Pen, model: Model, width: number): void {
  const { theme, view } = model;
  pen.textBaseline = "middle";
  if (!model.moving) nameCauses(pen, model, width);
  const [a, b] = [model.at(view.a), model.at(view.b)];
  const { at, step } = axisSteps(a, b, width / 110);
  pen.font = "11px system-ui, sans-serif";
  for (const t of at) {
    const x = Math.round(((t - a) / (b - a)) * width);
    pen.fillStyle = theme.rule;
    pen.fillRect(x, PATH_HEIGHT, 1, AXIS_HEIGHT);
    pen.fillStyle = theme.faint;
    if (x + 4 + pen.measureText(instant(t, step)).width <= width) pen.fillText(instant(t, step), x + 4, PATH_HEIGHT + AXIS_HEIGHT / 2);
  }
}

export function drawAxis(ctx: CanvasRenderingContext2D, model: Model, painter: Painter, width: number, image: ImageData): void {
  const { theme, view } = model;
  const pixels = new Uint32Array(image.data.buffer);
  painter.paintPath(pixels, width, PATH_HEIGHT, view, { theme, hidden: model.hidden, mask: null, tint: false, moving: model.moving });
  ctx.fillStyle = theme.paper;
  ctx.fillRect(0, 0, width, PATH_HEIGHT + AXIS_HEIGHT);
  const own = ctx.getTransform().a;
  if (own === 1) ctx.putImageData(image, 0, 0);
  else {
    const copy = new OffscreenCanvas(width, PATH_HEIGHT);
    copy.getContext("2d")!.putImageData(image, 0, 0);
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(copy, 0, 0);
  }
  writeAxis(ctx, model, width);
}
