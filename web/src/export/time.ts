// The time view as an SVG picture: what is on the screen, with its title, names and legend. Lanes are runs of equal pixels, so that a picture
// of a million spans is as large as one of a thousand; text is text.

import { AXIS_HEIGHT, PATH_HEIGHT, writeAxis } from "../lanes/axis";
import { pin } from "../lanes/marks";
import { drawOverlay } from "../lanes/overlay";
import { Painter, pathByLane } from "../lanes/paint";
import { pack } from "../lanes/mixes";
import type { Model } from "../model";
import { arrowItems, causeItems, classItems, markItems, sampleItems, type Item } from "../panels/legend-items";
import { rgb } from "../palette";
import { shown } from "../view/format";
import { pixelPaths, SvgPen } from "../view/svg";

export const NAMES = 200;
export const TITLE_HEIGHT = 44;
const LEGEND_LINE = 19;
/** Pixels of a lane for each pixel of the picture. */
const FINE = 2;

export interface Extent {
  /** Width of the lanes, height of their box, and how far down the box begins. */
  width: number;
  height: number;
  top: number;
}

/** Writes the run's sentence and command at the top of a picture. */
export function writeTitle(pen: SvgPen, model: Model, width: number): void {
  const summary = model.header.explanation.summary;
  pen.textBaseline = "middle";
  pen.fillStyle = model.theme.ink;
  pen.font = "600 13px system-ui, sans-serif";
  pen.fillText(shown(summary?.sentence ?? "", 180), 8, 14, width - 16);
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = model.theme.faint;
  pen.fillText(shown(`${summary?.command ?? ""}: ${summary?.about ?? ""}`, 180), 8, 32, width - 16);
}

function names(pen: SvgPen, model: Model, extent: Extent): void {
  pen.textBaseline = "middle";
  for (const row of model.rows) {
    const y = row.y - extent.top;
    if (y + row.h < 0 || y > extent.height || row.h < 9) continue;
    pen.font = row.type === "lane" || row.type === "idle" ? "12px system-ui, sans-serif" : "600 12px system-ui, sans-serif";
    pen.fillStyle = row.type === "idle" ? model.theme.faint : model.theme.ink;
    pen.fillText(row.label, 8 + row.depth * 12, y + row.h / 2, NAMES - 16 - row.depth * 12);
  }
}

function icon(pen: SvgPen, item: Item, x: number, y: number, paper: string): void {
  pen.fillStyle = pen.strokeStyle = item.colour;
  const { shape } = item;
  if (shape === "bar") pen.fillRect(x, y - 6, 18, 12);
  else if (shape === "band") pen.fillRect(x, y - 2, 18, 4);
  else if (shape === "line") pen.fillRect(x, y - 1.5, 18, 3);
  else if (shape === "stripes") for (let k = 0; k < 4; k++) pen.fillRect(x, y - 6 + 3 * k, 18, 2);
  else if (shape === "tick" && item.detail.startsWith("×")) pen.fillRect(x + 7, y - 4, 3, 8);
  else if (shape === "rule") for (let k = 0; k < 3; k++) pen.fillRect(x + 8, y - 7 + 5 * k, 2, 3);
  else if (shape === "arrow") {
    pen.fillRect(x, y - 1, 11, 2);
    pen.beginPath();
    pen.moveTo(x + 18, y);
    pen.lineTo(x + 10, y - 4);
    pen.lineTo(x + 10, y + 4);
    pen.closePath();
    pen.fill();
  } else pin(pen, x + 8, y - 7, 14, shape, item.colour, paper);
}

/** Writes the legend; returns how far down it reaches. */
function legend(pen: SvgPen, model: Model, width: number): number {
  let [x, y] = [8, LEGEND_LINE / 2];
  const groups: [string, Item[]][] = [
    ["", classItems(model).filter((item) => !model.hidden.has(item.class!))], ["Marks:", markItems(model)], ["CPU samples:", sampleItems(model)],
    ["Arrows:", model.arrows.length ? arrowItems(model) : []], ["Critical path:", causeItems(model)],
  ];
  for (const [name, items] of groups) {
    if (!items.length) continue;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillStyle = model.theme.faint;
    if (name) pen.fillText(name, x, y);
    x += name ? pen.measureText(name).width + 10 : 0;
    for (const item of items) {
      const text = `${item.text}${item.detail ? ` ${item.detail}` : ""}`;
      const wide = pen.measureText(text).width + 40;
      if (x + wide > width && x > 8) [x, y] = [8, y + LEGEND_LINE];
      icon(pen, item, x, y, model.theme.paper);
      pen.fillStyle = model.theme.ink;
      pen.fillText(text, x + 24, y, width - x - 24);
      x += wide;
    }
    [x, y] = [8, y + LEGEND_LINE];
  }
  return y;
}

export function timeSvg(model: Model, extent: Extent): string {
  const { width, height, top } = extent;
  const { theme } = model;
  const r = model.recording!;
  const painter = new Painter(r, pathByLane(r));
  const fine = Math.round(width) * FINE;
  const options = { theme, hidden: model.hidden, mask: model.matches?.mask ?? null, tint: model.tint, moving: false };
  const visible = model.rows.filter((row) => row.y + row.h > top && row.y < top + height);
  const paper = pack(...rgb(theme.paper)) >>> 0;
  const paint = (h: number, what: (pixels: Uint32Array) => void) => {
    const pixels = new Uint32Array(fine * h);
    what(pixels);
    return pixelPaths(pixels, fine, h, width / fine, paper);
  };
  const head = PATH_HEIGHT + AXIS_HEIGHT;
  const pen = new SvgPen();
  // The pointer is not part of a picture.
  const cursor = model.cursor;
  model.cursor = null;
  pen.part(0, 0, "", () => writeTitle(pen, model, NAMES + width));
  pen.part(0, TITLE_HEIGHT, "", () => {
    pen.font = "600 12px system-ui, sans-serif";
    pen.fillStyle = theme.ink;
    pen.textBaseline = "middle";
    pen.fillText("Critical path", 8, PATH_HEIGHT / 2);
  });
  pen.part(NAMES, TITLE_HEIGHT, "head", () => {
    pen.raw(paint(PATH_HEIGHT, (pixels) => painter.paintPath(pixels, fine, PATH_HEIGHT, model.view, options)));
    writeAxis(pen, model, width);
  });
  pen.part(0, TITLE_HEIGHT + head, "names", () => names(pen, model, extent));
  pen.part(NAMES, TITLE_HEIGHT + head, "lanes", () => {
    pen.raw(paint(Math.round(height), (pixels) => painter.paint(pixels, fine, Math.round(height), visible, top, 1, model.view, options)));
    drawOverlay({ ctx: pen, width, height, top }, model, visible);
  });
  let below = 0;
  pen.part(0, TITLE_HEIGHT + head + height + 8, "", () => (below = legend(pen, model, NAMES + width)));
  model.cursor = cursor;
  const all = TITLE_HEIGHT + head + height + 8 + below + 4;
  const summary = model.header.explanation.summary;
  const clips: Record<string, [number, number, number, number]> = { head: [0, 0, width, head], lanes: [0, 0, width, height], names: [0, 0, NAMES - 4, height] };
  return pen.document(NAMES + width, all, shown(summary?.command ?? "thalweg report", 200), shown(summary?.sentence ?? "", 400), theme.paper, clips);
}
