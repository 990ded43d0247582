// The critical path over the run, above each view but the time view: shows which interval limits the view, and selects one.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { plainCause } from "../../answer/help";
import { Columns, makeColours } from "../../lanes/columns";
import { useModel, type Interval, type Model } from "../../model";
import { causeColour, rgb } from "../../palette";
import { count, duration, instant, percent, shown } from "../../view/format";
import { axisSteps, toTick, toX } from "../../view/scale";
import { noFilter } from "../../data/filter";
import { useLimits } from "./limits";

const PATH = 20;
const AXIS = 18;
/** Pixels that a pointer may move during a click. */
const CLICK = 4;

function paintPath(ctx: CanvasRenderingContext2D, model: Model, width: number): void {
  const r = model.recording!;
  const columns = new Columns(width);
  const colours = makeColours(r.header.causes.map((c) => causeColour(c.name, model.theme.dark)), true, new Set());
  columns.add({ segments: r.pathSegments, from: 0, to: r.pathSegments.start.length, levels: r.pathLevels }, model.run(), colours);
  const paper = rgb(model.theme.paper);
  for (let x = 0; x < width; x++) {
    const area = Math.min(1, columns.work[4 * x + 3]);
    if (!area) continue;
    const mixed = paper.map((p, k) => Math.round((columns.work[4 * x + k] / columns.work[4 * x + 3]) * area + p * (1 - area)));
    ctx.fillStyle = `rgb(${mixed.join()})`;
    ctx.fillRect(x, 0, 1, PATH);
  }
}

function drawStrip(canvas: HTMLCanvasElement, model: Model, chosen: Interval | null): void {
  const width = canvas.clientWidth;
  if (width < 10) return;
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round((PATH + AXIS) * ratio)];
  const ctx = canvas.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  paintPath(ctx, model, width);
  const run = model.run();
  const [a, b] = [model.at(run.a), model.at(run.b)];
  const { at, step } = axisSteps(a, b, width / 110);
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  for (const t of at) {
    const x = Math.round(((t - a) / (b - a)) * width);
    ctx.fillStyle = model.theme.rule;
    ctx.fillRect(x, PATH, 1, AXIS);
    ctx.fillStyle = model.theme.faint;
    ctx.fillText(instant(t, step), x + 4, PATH + AXIS / 2 + 1);
  }
  if (!chosen) return;
  const [x0, x1] = [toX(run, chosen.a, width), Math.max(toX(run, chosen.b, width), toX(run, chosen.a, width) + 2)];
  ctx.fillStyle = model.theme.paper;
  ctx.globalAlpha = 0.72;
  ctx.fillRect(0, 0, x0, PATH + AXIS);
  ctx.fillRect(x1, 0, width - x1, PATH + AXIS);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = model.theme.accent;
  ctx.lineWidth = 2;
  ctx.strokeRect(x0, 1, x1 - x0, PATH + AXIS - 2);
}

/** The selection after a key: arrows move it, with Shift its end. */
function moved(model: Model, key: string, shift: boolean): Interval | null {
  const run = model.run();
  const step = (run.b - run.a) / 50;
  const by = key === "ArrowRight" ? step : -step;
  const now = model.selection;
  if (!now) return { a: run.a, b: run.a + 5 * step };
  if (shift) return { a: now.a, b: Math.min(run.b, Math.max(now.a + step / 5, now.b + by)) };
  const inside = Math.min(run.b - now.b, Math.max(run.a - now.a, by));
  return { a: now.a + inside, b: now.b + inside };
}

export function Strip({ model }: { model: Model }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drag = useRef<{ x: number; tick: number } | null>(null);
  const [draft, setDraft] = useState<Interval | null>(null);
  const dark = useModel(model, (m) => m.theme.dark);
  const limits = useLimits(model);
  const chosen = draft ?? (limits.whole ? null : limits);
  useLayoutEffect(() => {
    const draw = () => drawStrip(canvas.current!, model, chosen);
    draw();
    const resized = new ResizeObserver(draw);
    resized.observe(canvas.current!);
    return () => resized.disconnect();
  }, [chosen?.a, chosen?.b, dark]);
  const tickAt = (e: PointerEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const run = model.run();
    return Math.min(run.b, Math.max(run.a, toTick(run, e.clientX - box.left, box.width)));
  };
  const down = (e: PointerEvent) => {
    if (e.button !== 0) return;
    canvas.current!.setPointerCapture(e.pointerId);
    drag.current = { x: e.clientX, tick: tickAt(e) };
  };
  const move = (e: PointerEvent) => {
    const from = drag.current;
    if (!from || (!draft && Math.abs(e.clientX - from.x) < CLICK)) return;
    const to = tickAt(e);
    setDraft({ a: Math.min(from.tick, to), b: Math.max(from.tick, to) });
  };
  const up = () => {
    drag.current = null;
    if (draft) model.select(draft);
    setDraft(null);
  };
  const press = (e: KeyboardEvent) => {
    if (e.key !== "ArrowLeft" && e.key !== "ArrowRight") return;
    e.preventDefault();
    model.select(moved(model, e.key, e.shiftKey));
  };
  const seconds = model.seconds(limits.b - limits.a);
  const from = instant(model.at(limits.a), seconds / 100);
  const text = limits.whole ? `The whole run, ${duration(seconds)}` : `Only ${from} to ${instant(model.at(limits.b), seconds / 100)} (${duration(seconds)})`;
  return (
    <div class="strip">
      <p class="stripline"><strong role="status">{text}</strong>
        {limits.whole ? <span class="faint">Drag over the critical path to limit this view to an interval.</span> : <>
          <button type="button" class="small" onClick={() => model.select(null)}>Whole run</button>
          <button type="button" class="small" onClick={() => {
            model.showTab("");
            model.setView({ a: limits.a, b: limits.b });
          }}>Show in Time</button></>}
        {model.matches && <span>Only the {count(model.matches.count)} spans that match the search. <button type="button" class="small" onClick={() => model.setFilter(noFilter())}>Clear the search</button></span>}
      </p>
      <div role="group" tabIndex={0} class="striparea" onKeyDown={press}
        aria-label={`Interval of this view: ${text}. Arrow keys move a selection, with Shift its end; Escape: the whole run`}>
        <canvas ref={canvas} class="stripcanvas" onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerCancel={up} aria-hidden="true" />
      </div>
      <Causes model={model} dark={dark} />
    </div>
  );
}

/** What the colours of the critical path mean. */
function Causes({ model, dark }: { model: Model; dark: boolean }) {
  const { causes } = model.header;
  const sum = causes.reduce((total, c) => total + c.ns, 0);
  const large = causes.filter((c) => c.ns >= 0.01 * sum).slice(0, 8);
  if (sum <= 0) return null;
  return (
    <ul class="striplegend" aria-label="Critical path by cause">
      {large.map((c) => <li key={c.name}><span class="swatch" style={{ background: causeColour(c.name, dark) }} aria-hidden="true" />{shown(plainCause(model.header, c.name), 80)} <span class="faint">{percent(c.ns / sum)}</span></li>)}
    </ul>
  );
}
