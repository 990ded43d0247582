// The time view: names of the rows as elements (so that they can be read and operated without a mouse), lanes on a canvas beside them.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Recording } from "../data/recording";
import { useModel, type Model } from "../model";
import { count, duration, instant, shown } from "../view/format";
import { connect } from "./sheet";
import { Hover } from "./Hover";
import { Painter, pathByLane } from "./paint";
import type { Row } from "./rows";

const MOST_HEIGHT = 560;

function RowName({ row, model }: { row: Row; model: Model }) {
  const style = { top: `${row.y}px`, height: `${row.h}px`, paddingLeft: `${6 + row.depth * 12}px` };
  if (row.foldable) {
    return (
      <button type="button" class={`row ${row.type}`} style={style} title={row.note || undefined} aria-expanded={!row.folded} onClick={() => model.toggleFold(row.key)}>
        <span class="fold" aria-hidden="true">{row.folded ? "▸" : "▾"}</span>
        <bdi>{row.label}</bdi>
        {row.detail && <span class="faint"> {row.detail}<span class="unseen"> lanes</span></span>}
      </button>
    );
  }
  if (row.type === "clock") return <div class="row clock" style={style}><span><bdi>{row.label}</bdi><span class="faint block">{row.detail}</span></span></div>;
  if (row.h < 9) return null;
  const info = model.header.lanes[row.lanes[0]];
  return (
    <div class="row lane" style={style} title={shown(`${info.name} · ${info.process || info.kind} · ${info.role} ${info.host}`, 400)}>
      <bdi>{row.label}</bdi>
    </div>
  );
}

function viewText(model: Model): string {
  const [a, b] = [model.at(model.view.a), model.at(model.view.b)];
  const wall = model.header.wall_ns / 1e9;
  return `Showing ${instant(a, (b - a) / 100)} to ${instant(b, (b - a) / 100)}, ${duration(b - a)}${b - a > wall * 1.001 ? `; the run took ${duration(wall)}` : ` of ${duration(wall)}`}`;
}

/** What is missing at this zoom: where a column is narrower than a bucket of a lane of which spans were left out. */
function leftOutText(model: Model, width: number): string {
  const spans = model.header.left_out?.spans ?? 0;
  const levels = spans ? model.recording!.lanes.find((lane) => lane.partial)?.levels : null;
  if (!levels) return "";
  const bucket = levels.total / levels.buckets[0];
  if ((model.view.b - model.view.a) / width >= bucket) return "";
  return `; ${count(spans)} shorter spans are left out: within ${duration(model.seconds(bucket))} their time is spread evenly`;
}

const painters = new WeakMap<Recording, Painter>();

/** The painter of a recording, with the colours that it has mixed: the time view comes and goes. */
function painterOf(r: Recording): Painter {
  let painter = painters.get(r);
  if (!painter) painters.set(r, (painter = new Painter(r, pathByLane(r))));
  return painter;
}

export function Timeline({ model, tallest = MOST_HEIGHT }: { model: Model; tallest?: number }) {
  const body = useRef<HTMLDivElement>(null);
  const head = useRef<HTMLDivElement>(null);
  const axis = useRef<HTMLCanvasElement>(null);
  const lanes = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 400 });
  const rows = useModel(model, (m) => m.rows);
  const text = useModel(model, (m) => (m.moving ? "" : viewText(m) + leftOutText(m, axis.current?.clientWidth || 800)));
  const r = model.recording!;
  const painter = useMemo(() => painterOf(r), [r]);

  useLayoutEffect(() => {
    const canvases = { axis: axis.current!, lanes: lanes.current!, overlay: overlay.current! };
    return connect(model, painter, canvases, body.current!, head.current!, setScroll);
  }, [painter]);

  const near = rows.filter((row) => row.y + row.h > scroll.top - 200 && row.y < scroll.top + scroll.height + 200);
  const most = model.rowSize === "all" ? Math.max(tallest, innerHeight - 160) : tallest;
  const height = Math.max(44, Math.min(model.rowsHeight, most));
  const below = rows.filter((row) => row.y + row.h / 2 > scroll.top + scroll.height).length;
  useEffect(() => model.changed(), [rows]);
  const apart = (model.header.clocks ?? []).filter((clock) => !clock.aligned);
  return (
    <>
    {apart.map((clock) => (
      <p class="remark" key={clock.host}>The clock of <bdi>{shown(clock.host, 80)}</bdi> could not be aligned{clock.why ? <>: <bdi>{shown(clock.why, 400)}</bdi></> : "."} Its lanes have an axis of their own below the others, and no arrows lead to them.</p>
    ))}
    <div class="lanes">
      <div class="head" ref={head}>
        <div class="corner"><strong>Critical path</strong><span class="faint">drag the axis to select</span></div>
        <canvas ref={axis} class="axis" role="img" aria-label="The critical path in the colours of its causes, over the time axis" />
      </div>
      <div class="body" ref={body} tabIndex={0} role="group" aria-label={`Lanes over time: ${count(model.header.lanes.length)} lanes`} aria-describedby="time-keys" style={{ height: `${height}px` }}>
        <div class="inner" style={{ height: `${model.rowsHeight}px` }}>
          <div class="names">{near.map((row) => <RowName key={row.key} row={row} model={model} />)}</div>
          <div class="sheet">
            <canvas ref={lanes} class="layer" role="img" aria-label={text || "Lanes over time"} style={{ height: `${height}px` }} />
            <canvas ref={overlay} class="layer" aria-hidden="true" style={{ height: `${height}px` }} />
          </div>
        </div>
      </div>
      <p class="status"><span role="status" aria-live="polite">{text}</span>{below > 0 && <span class="below"> ↓ {count(below)} more rows below: scroll</span>}</p>
      <Hover model={model} />
    </div>
    </>
  );
}
