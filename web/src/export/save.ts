// The view as a picture, the spans in view as a table.

import { firstReaching } from "../data/breakdown";
import { AXIS_HEIGHT, PATH_HEIGHT } from "../lanes/axis";
import type { Model } from "../model";
import { shown } from "../view/format";
import { plotsOf } from "../curves/plots";
import { curvesSvg } from "./curves";
import { cell, save, saveSvg } from "./files";
import { NAMES, timeSvg, TITLE_HEIGHT } from "./time";

const MOST_ROWS = 200_000;

export function csvOf(model: Model): string {
  const r = model.recording!;
  const { a, b } = model.selection ?? model.view;
  const mask = model.matches?.mask;
  const lines = ["lane,process,host,kind,object,start_ns,duration_ns,bytes"];
  for (let lane = 0; lane < r.lanes.length && lines.length < MOST_ROWS; lane++) {
    const info = r.header.lanes[lane];
    for (let i = firstReaching(r, lane, a); i < r.lanes[lane].spanTo && r.span.start[i] < b && lines.length < MOST_ROWS; i++) {
      if (r.span.start[i] + r.span.duration[i] < a || (mask && !mask[i])) continue;
      const object = r.span.object[i] ? r.header.objects[r.span.object[i]] : "";
      const values = [info.name, info.process, info.host, r.header.kinds[r.span.kind[i]].name, object, r.span.start[i] * r.header.tick_ns, r.span.duration[i] * r.header.tick_ns, r.span.size[i]];
      lines.push(values.map(cell).join(","));
    }
  }
  return `${lines.join("\r\n")}\r\n`;
}

export const saveCsv = (model: Model): void => save(new Blob([csvOf(model)], { type: "text/csv" }), "spans.csv");

/** The time view as it is on the screen. */
export function saveTimeSvg(model: Model): void {
  const box = document.querySelector<HTMLElement>(".lanes .body")!;
  const width = document.querySelector<HTMLCanvasElement>(".lanes canvas.axis")!.clientWidth;
  saveSvg(timeSvg(model, { width, height: box.clientHeight, top: box.scrollTop }), "view.svg");
}

/** The first curves; the others are folded away. */
export function saveCurves(model: Model, most: number): void {
  const width = document.querySelector<HTMLElement>(".curve")!.clientWidth;
  const all = document.querySelector<HTMLDetailsElement>(".curves details")?.open;
  saveSvg(curvesSvg(model, plotsOf(model).slice(0, all ? undefined : most), width), "curves.svg");
}

export function savePng(model: Model): void {
  const [axis, lanes, overlay] = ["canvas.axis", "canvas.layer", "canvas.layer:last-child"].map((q) => document.querySelector<HTMLCanvasElement>(`.lanes ${q}`)!);
  const ratio = axis.width / axis.clientWidth;
  const title = TITLE_HEIGHT;
  const head = PATH_HEIGHT + AXIS_HEIGHT;
  const box = document.querySelector<HTMLElement>(".lanes .body")!;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.round(NAMES * ratio) + axis.width, Math.round((title + head + box.clientHeight) * ratio)];
  const ctx = canvas.getContext("2d")!;
  ctx.fillStyle = model.theme.paper;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.drawImage(axis, NAMES * ratio, title * ratio);
  ctx.drawImage(lanes, NAMES * ratio, (title + head) * ratio);
  ctx.drawImage(overlay, NAMES * ratio, (title + head) * ratio);
  ctx.scale(ratio, ratio);
  ctx.fillStyle = model.theme.ink;
  ctx.font = "600 13px system-ui, sans-serif";
  ctx.fillText(shown(model.header.explanation.summary?.sentence ?? "", 180), 8, 18, canvas.width / ratio - 16);
  ctx.font = "12px system-ui, sans-serif";
  ctx.fillText(shown(`${model.header.explanation.summary?.command ?? ""}: ${model.header.explanation.summary?.about ?? ""}`, 180), 8, 36, canvas.width / ratio - 16);
  ctx.fillText("Critical path", 8, title + PATH_HEIGHT / 2 + 4);
  ctx.beginPath();
  ctx.rect(0, title + head, NAMES, box.clientHeight);
  ctx.clip();
  for (const row of model.rows) {
    const y = row.y - box.scrollTop;
    if (y + row.h < 0 || y > box.clientHeight || row.h < 9) continue;
    ctx.fillText(row.label, 8 + row.depth * 12, title + head + y + row.h / 2 + 4, NAMES - 16 - row.depth * 12);
  }
  canvas.toBlob((blob) => blob && save(blob, "view.png"), "image/png");
}
