// Wheel, mouse, touch and keys over the time view. Dragging pans, with Shift measures, on the axis (or with Alt) selects; two fingers zoom.

import type { Model } from "../model";
import { around, toTick, zoom } from "../view/scale";
import type { Drawn } from "./arrows";
import type { Row } from "./rows";

export interface Surface {
  element: HTMLElement;
  /** Left edge and width of the drawing area, in client coordinates. */
  area(): { left: number; width: number };
  rowAt(clientY: number): Row | null;
  /** The drawn arrow at a point of the page. */
  arrowAt(clientX: number, clientY: number): Drawn | null;
  /** Whether dragging selects instead of panning. */
  selects: boolean;
}

/** Pixels that a pointer may move during a click. */
const CLICK = 4;
const WHEEL_ZOOM = 1.0015;

type Drag = { kind: "pan" | "measure" | "select"; x: number; tick: number; a: number; b: number; moved: boolean };

/** What the pointers do on one surface. */
class Gestures {
  private pointers = new Map<number, number>();
  private drag: Drag | null = null;
  private pinch: { length: number; middle: number; a: number; b: number } | null = null;

  constructor(private model: Model, private surface: Surface) {}

  private tickAt(x: number): number {
    const { left, width } = this.surface.area();
    return toTick(this.model.view, x - left, width);
  }

  wheel = (e: WheelEvent): void => {
    const { model, surface } = this;
    const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey;
    const scale = e.deltaMode === 1 ? 16 : 1;
    const { left, width } = surface.area();
    if (sideways) {
      e.preventDefault();
      model.panBy(((e.deltaX || e.deltaY) * scale) / width);
    } else if (e.ctrlKey || e.metaKey || surface.selects || surface.element.contains(document.activeElement)) {
      e.preventDefault();
      model.zoomBy(WHEEL_ZOOM ** (e.deltaY * scale * (e.ctrlKey ? 4 : 1)), Math.min(1, Math.max(0, (e.clientX - left) / width)));
    }
  };

  down = (e: PointerEvent): void => {
    const { model, surface, pointers } = this;
    if (e.button !== 0 || e.clientX < surface.area().left) return;
    pointers.set(e.pointerId, e.clientX);
    surface.element.setPointerCapture(e.pointerId);
    if (pointers.size === 2) {
      const [p, q] = [...pointers.values()];
      this.pinch = { length: Math.max(10, Math.abs(p - q)), middle: (p + q) / 2, a: model.view.a, b: model.view.b };
      this.drag = null;
      return;
    }
    const kind = e.shiftKey ? "measure" : surface.selects || e.altKey ? "select" : "pan";
    this.drag = { kind, x: e.clientX, tick: this.tickAt(e.clientX), a: model.view.a, b: model.view.b, moved: false };
  };

  move = (e: PointerEvent): void => {
    const { model, surface, pointers, pinch } = this;
    if (pointers.has(e.pointerId)) pointers.set(e.pointerId, e.clientX);
    const { left, width } = surface.area();
    if (pinch && pointers.size === 2) {
      const [p, q] = [...pointers.values()];
      const factor = pinch.length / Math.max(10, Math.abs(p - q));
      const zoomed = zoom({ a: pinch.a, b: pinch.b }, factor, (pinch.middle - left) / width, model.total);
      const by = ((pinch.middle - (p + q) / 2) / width) * (zoomed.b - zoomed.a);
      model.setView({ a: zoomed.a + by, b: zoomed.b + by });
      return;
    }
    model.cursor = e.clientX >= left ? { tick: this.tickAt(e.clientX), row: surface.rowAt(e.clientY) } : null;
    model.arrow = this.drag?.moved ? null : surface.arrowAt(e.clientX, e.clientY);
    surface.element.classList.toggle("over-arrow", !!model.arrow);
    if (this.drag) this.dragTo(this.drag, e.clientX, width);
    model.changed();
  };

  private dragTo(drag: Drag, x: number, width: number): void {
    const { model } = this;
    if (!drag.moved && Math.abs(x - drag.x) < CLICK) return;
    drag.moved = true;
    const [a, b] = [drag.tick, this.tickAt(x)].sort((p, q) => p - q);
    if (drag.kind === "measure") model.measure = { a, b, done: false };
    else if (drag.kind === "select") model.selection = { a: Math.max(0, a), b: Math.min(model.total, b) };
    else {
      const by = ((drag.x - x) / width) * (drag.b - drag.a);
      model.setView({ a: drag.a + by, b: drag.b + by });
    }
  }

  up = (e: PointerEvent): void => {
    const { model, drag } = this;
    this.pointers.delete(e.pointerId);
    if (this.pointers.size < 2) this.pinch = null;
    if (drag && !drag.moved && e.type === "pointerup") this.click(e);
    if (drag?.moved && drag.kind === "measure" && model.measure) model.measure.done = true;
    if (drag?.moved && drag.kind === "select") model.remember();
    this.drag = null;
    model.changed();
  };

  private click(e: PointerEvent): void {
    const { model, surface } = this;
    const row = surface.rowAt(e.clientY);
    model.measure = null;
    const arrow = surface.arrowAt(e.clientX, e.clientY);
    if (arrow) return model.follow(arrow);
    const slack = (3 / surface.area().width) * (model.view.b - model.view.a);
    model.selectedSpan = row?.type === "lane" ? model.spanAt(row.lanes[0], this.tickAt(e.clientX), slack) : -1;
    if (model.selectedSpan < 0) model.selection = null;
    model.remember();
  }

  double = (): void => {
    const { model } = this;
    const r = model.recording;
    const i = model.selectedSpan;
    if (r && i >= 0) model.setView(around(r.span.start[i], r.span.start[i] + r.span.duration[i], r.total, 0.5));
  };

  leave = (): void => {
    this.model.cursor = null;
    this.model.arrow = null;
    this.model.changed();
  };
}

/** Connects a surface; returns what disconnects it. */
export function attach(model: Model, surface: Surface): () => void {
  const { element } = surface;
  const g = new Gestures(model, surface);
  const end = new AbortController();
  const { signal } = end;
  element.addEventListener("wheel", g.wheel, { passive: false, signal });
  element.addEventListener("pointerdown", g.down, { signal });
  element.addEventListener("pointermove", g.move, { signal });
  element.addEventListener("pointerup", g.up, { signal });
  element.addEventListener("pointercancel", g.up, { signal });
  element.addEventListener("pointerleave", g.leave, { signal });
  element.addEventListener("dblclick", g.double, { signal });
  return () => end.abort();
}

/** Moves to the next or previous span of the selected span's lane, or to a neighbouring lane. */
function stepSpan(model: Model, by: number): void {
  const r = model.recording;
  if (!r) return;
  const lane = model.selectedSpan >= 0 ? r.span.lane[model.selectedSpan] : model.rows.find((row) => row.type === "lane")?.lanes[0];
  if (lane === undefined) return;
  const { spanFrom, spanTo } = r.lanes[lane];
  if (spanFrom === spanTo) return;
  const next = model.selectedSpan >= 0 ? model.selectedSpan + by : spanFrom;
  model.goToSpan(Math.min(spanTo - 1, Math.max(spanFrom, next)));
}

function stepLane(model: Model, by: number): void {
  const r = model.recording;
  if (!r) return;
  const rows = model.rows.filter((row) => row.type === "lane" && r.lanes[row.lanes[0]].spanTo > r.lanes[row.lanes[0]].spanFrom);
  if (!rows.length) return;
  const current = model.selectedSpan >= 0 ? rows.findIndex((row) => row.lanes[0] === r.span.lane[model.selectedSpan]) : -1;
  const lane = rows[Math.min(rows.length - 1, Math.max(0, current + by))].lanes[0];
  const middle = model.selectedSpan >= 0 ? r.span.start[model.selectedSpan] : model.view.a;
  const at = model.spanAt(lane, middle, model.total);
  if (at >= 0) model.goToSpan(at);
}

const KEYS: Record<string, (m: Model) => void> = {
  w: (m) => m.zoomBy(0.7), s: (m) => m.zoomBy(1 / 0.7), a: (m) => m.panBy(-0.15), d: (m) => m.panBy(0.15),
  "+": (m) => m.zoomBy(0.7), "=": (m) => m.zoomBy(0.7), "-": (m) => m.zoomBy(1 / 0.7), "0": (m) => m.showAll(),
  ".": (m) => stepSpan(m, 1), ",": (m) => stepSpan(m, -1), j: (m) => stepLane(m, 1), k: (m) => stepLane(m, -1),
  g: (m) => m.followFirst(),
  n: (m) => m.step(false), p: (m) => m.step(true),
  f: (m) => {
    const r = m.recording;
    if (r && m.selectedSpan >= 0) m.setView(around(r.span.start[m.selectedSpan], r.span.start[m.selectedSpan] + r.span.duration[m.selectedSpan], r.total, 0.5));
    else if (m.selection) m.setView(around(m.selection.a, m.selection.b, m.total, 0.05));
  },
  m: (m) => {
    const r = m.recording;
    if (r && m.selectedSpan >= 0) m.select({ a: r.span.start[m.selectedSpan], b: r.span.start[m.selectedSpan] + r.span.duration[m.selectedSpan] });
    else m.select({ ...m.view });
  },
  escape: (m) => {
    m.measure = null;
    m.selectedSpan = -1;
    m.select(null);
  },
};

/** Keys work anywhere on the page but in fields. Returns whether the key was used. */
export function key(model: Model, e: KeyboardEvent): boolean {
  if (e.ctrlKey || e.metaKey || e.altKey) return false;
  const target = e.target as HTMLElement;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return false;
  const arrows: Record<string, string> = { arrowleft: "a", arrowright: "d" };
  const pressed = e.key.toLowerCase();
  const action = KEYS[arrows[pressed] && target.closest(".time") ? arrows[pressed] : pressed];
  if (!action) return false;
  action(model);
  return true;
}
