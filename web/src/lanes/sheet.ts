// The drawing area of the time view: its canvases, when they are drawn, and what acts on them.

import type { Model } from "../model";
import { arrowAt } from "./arrows";
import { AXIS_HEIGHT, drawAxis, PATH_HEIGHT } from "./axis";
import { attach } from "./input";
import { drawOverlay } from "./overlay";
import type { Painter } from "./paint";

export interface Canvases {
  axis: HTMLCanvasElement;
  lanes: HTMLCanvasElement;
  overlay: HTMLCanvasElement;
}

/** Sizes a canvas for the screen's pixels; returns its context in CSS pixels. */
function fit(canvas: HTMLCanvasElement, width: number, height: number, ratio: number): CanvasRenderingContext2D {
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
  const ctx = canvas.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}

class Drawer {
  private image: ImageData | null = null;
  private pathImage: ImageData | null = null;
  private buffer: OffscreenCanvas | null = null;
  constructor(private model: Model, private painter: Painter, private canvases: Canvases) {}

  draw(width: number, height: number, top: number): void {
    const { model, canvases } = this;
    if (width < 10) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    this.lanes(width, height, top, ratio);
    const axis = fit(canvases.axis, width, PATH_HEIGHT + AXIS_HEIGHT, ratio);
    if (this.pathImage?.width !== width) this.pathImage = new ImageData(width, PATH_HEIGHT);
    drawAxis(axis, model, this.painter, width, this.pathImage);
    const visible = model.rows.filter((row) => row.y + row.h > top && row.y < top + height);
    const ctx = fit(canvases.overlay, width, height, ratio);
    ctx.clearRect(0, 0, width, height);
    model.arrows = drawOverlay({ ctx, width, height, top }, model, visible);
  }

  /** Draws at the screen's resolution at rest and at CSS resolution while the view moves. */
  private lanes(width: number, height: number, top: number, ratio: number): void {
    const { model, canvases } = this;
    const scale = model.moving ? 1 : ratio;
    const [w, h] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
    if (this.image?.width !== w || this.image.height !== h) this.image = new ImageData(w, h);
    const ctx = fit(canvases.lanes, width, height, ratio);
    const visible = model.rows.filter((row) => row.y + row.h > top && row.y < top + height);
    const options = { theme: model.theme, hidden: model.hidden, mask: model.matches?.mask ?? null, tint: model.tint, moving: model.moving };
    this.painter.paint(new Uint32Array(this.image.data.buffer), w, h, visible, top, scale, model.view, options);
    if (scale === ratio) return ctx.putImageData(this.image, 0, 0);
    if (this.buffer?.width !== w || this.buffer.height !== h) this.buffer = new OffscreenCanvas(w, h);
    this.buffer.getContext("2d")!.putImageData(this.image, 0, 0);
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(this.buffer, 0, 0, width, height);
  }
}

function revealRow(model: Model, box: HTMLElement): void {
  const row = model.rows.find((candidate) => candidate.key === model.reveal);
  model.reveal = null;
  if (!row) return;
  if (row.y < box.scrollTop) box.scrollTop = Math.max(0, row.y - 30);
  else if (row.y + row.h > box.scrollTop + box.clientHeight) box.scrollTop = row.y + row.h - box.clientHeight + 30;
}

/** Mixes colours ahead while the page is idle; returns what ends the work. */
function whileIdle(painter: Painter): () => void {
  const idle = window.requestIdleCallback ?? ((f: (d: { timeRemaining: () => number }) => void) => setTimeout(() => f({ timeRemaining: () => 8 }), 30));
  let live = true;
  const ahead = (deadline: { timeRemaining: () => number }) => {
    if (live && painter.ahead(Math.min(12, deadline.timeRemaining()))) idle(ahead);
  };
  idle(ahead);
  return () => (live = false);
}

/** Connects the drawing area with the model; returns what disconnects it. */
export function connect(
  model: Model, painter: Painter, canvases: Canvases, box: HTMLElement, head: HTMLElement, onScroll: (s: { top: number; height: number }) => void,
): () => void {
  const drawer = new Drawer(model, painter, canvases);
  const draw = () => {
    if (model.reveal) revealRow(model, box);
    drawer.draw(canvases.axis.clientWidth, box.clientHeight, box.scrollTop);
    document.documentElement.dataset.drawn = String(model.version);
  };
  const resized = new ResizeObserver(() => {
    onScroll({ top: box.scrollTop, height: box.clientHeight });
    draw();
  });
  resized.observe(box);
  const scrolled = () => {
    onScroll({ top: box.scrollTop, height: box.clientHeight });
    model.changed();
  };
  box.addEventListener("scroll", scrolled);
  const rowAt = (y: number) => {
    const at = y - box.getBoundingClientRect().top + box.scrollTop;
    return model.rows.find((row) => at >= row.y && at < row.y + row.h) ?? null;
  };
  const pointed = (clientX: number, clientY: number) => {
    const [left, y] = [canvases.axis.getBoundingClientRect().left, box.getBoundingClientRect().top];
    return arrowAt(model.arrows, clientX - left, clientY - y);
  };
  const area = () => {
    const rect = canvases.axis.getBoundingClientRect();
    return { left: rect.left, width: rect.width };
  };
  const ends = [
    model.subscribe(draw),
    whileIdle(painter),
    attach(model, { element: box, area, rowAt, arrowAt: pointed, selects: false }),
    attach(model, { element: head, area, rowAt: () => null, arrowAt: () => null, selects: true }),
  ];
  draw();
  return () => {
    ends.forEach((end) => end());
    resized.disconnect();
    box.removeEventListener("scroll", scrolled);
  };
}
