// The RPCs of a recording: on the axis of the time view where there is one, else on an axis of their own.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { Figure, type Cells } from "../chart/Figure";
import { attach, key } from "../lanes/input";
import { useModel, type Model } from "../model";
import { duration, instant, shown } from "../view/format";
import { useTheme } from "../view/theme";
import { ownModel, RpcAxis } from "./axis";
import { CloseUps, Lengths } from "./CloseUp";
import { panelsOf } from "./curves";
import { documentsOf, type RpcStat } from "./document";
import { Figures, SelectedRpcs, Tables, WaitedBar } from "./Facts";
import { LEFT, Panels, RIGHT } from "./Panels";
import { figure } from "../chart/scale";

const KEYS = "Drag pans, drag on the numbers at the top selects, Shift and drag measures, the wheel zooms after a click (or with Ctrl); W, S, A and D zoom and pan, 0 shows the whole run, F zooms to the selection, Escape clears.";

/** The instant under the pointer, and the values there. */
function Cursor({ axis, d, box }: { axis: RpcAxis; d: RpcStat; box: { current: HTMLDivElement | null } }) {
  const line = useRef<HTMLDivElement>(null);
  const text = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const draw = () => {
      const { model } = axis;
      const at = model.cursor ? axis.at(model.cursor.tick) : null;
      const svg = box.current?.querySelector("svg.picture");
      if (!line.current || !text.current || !svg) return;
      line.current.hidden = at === null || at < axis.a || at > axis.b;
      text.current.textContent = at === null ? " " : readout(d, at, axis.b - axis.a);
      if (at === null) return;
      const wide = svg.clientWidth - LEFT - RIGHT;
      line.current.style.left = `${LEFT + ((at - axis.a) / (axis.b - axis.a)) * wide}px`;
    };
    draw();
    return axis.model.subscribe(draw);
  }, [axis, d]);
  return <><div class="cursor-line" ref={line} hidden /><p class="status" ref={text} /></>;
}

export function readout(d: RpcStat, at: number, length: number): string {
  const { series: s } = d;
  const i = Math.floor(at / s.bin_s);
  if (i < 0 || i >= s.calls.length) return instant(at, length / 500);
  const known = (name: string, values: (number | null)[]) => (values[i] === null || values[i] === undefined ? "" : `, ${name} ${figure(values[i]!, "bytes")}`);
  const wait = d.waits.find((w) => w.start_s <= at && w.end_s > at);
  const response = s.response_max_s[i];
  return `${instant(at, length / 500)}: sent ${figure(8 * s.sent_bytes_per_s[i], "bits/s")}, received ${figure(8 * s.received_bytes_per_s[i], "bits/s")}, ${s.pending_max[i]} pending${response === null ? "" : `, response ${duration(response)}`}${known("congestion window", s.cwnd_bytes)}${known("in flight", s.in_flight_bytes)}${wait ? `; nothing moves: ${wait.waited_for.replaceAll("-", " ")}` : ""}`;
}

function One({ model, d, title, number, bare }: { model: Model; d: RpcStat; title: string; number: number; bare?: boolean }) {
  const theme = useTheme();
  const axis = useMemo(() => new RpcAxis(model, d), [model, d]);
  const panels = useMemo(() => panelsOf(d), [d]);
  const box = useRef<HTMLDivElement>(null);
  const head = useRef<HTMLDivElement>(null);
  const view = useModel(model, (m) => m.view);
  const selected = useModel(model, (m) => m.selection ?? m.measure);
  useEffect(() => {
    const area = () => {
      const rect = box.current!.querySelector("svg.picture")?.getBoundingClientRect() ?? box.current!.getBoundingClientRect();
      return { left: rect.left + LEFT, width: rect.width - LEFT - RIGHT };
    };
    const nothing = () => null;
    const surface = (element: HTMLElement, selects: boolean) => ({ element, area, rowAt: nothing, arrowAt: nothing, selects });
    const ends = [attach(model, surface(box.current!, false)), attach(model, surface(head.current!, true))];
    return () => ends.forEach((end) => end());
  }, [model]);
  const press = (e: KeyboardEvent) => {
    if (key(model, e)) {
      e.preventDefault();
      e.stopPropagation();
    }
  };
  const { series: s } = d;
  const cells = (): Cells => [
    ["from (s)", "sent (bits/s)", "received (bits/s)", "calls sent", "calls completed", "pending, mean", "pending, most", "median response (s)", "longest response (s)", "RPC window", "congestion window (B)", "in flight (B)", "receive window (B)", "calls sent again", "timeouts", "TCP segments sent again"],
    ...s.calls.map((_, i) => [i * s.bin_s, 8 * s.sent_bytes_per_s[i], 8 * s.received_bytes_per_s[i], s.calls[i], s.replies[i], s.pending_mean[i], s.pending_max[i], s.response_median_s[i] ?? "", s.response_max_s[i] ?? "", s.window[i] ?? "", s.cwnd_bytes[i] ?? "", s.in_flight_bytes[i] ?? "", s.receive_window_bytes[i] ?? "", s.retransmissions[i], s.timeouts[i], s.tcp_retransmissions[i]]
      .map((v) => (typeof v === "number" ? Number(v.toPrecision(6)) : v))),
  ];
  const show = (from: number, to: number) => {
    axis.show(from, to);
    box.current?.scrollIntoView({ block: "nearest" });
  };
  return (
    <section class="time rpcs" aria-label={title}>
      <h2>{title}{!bare && <span class="faint"><bdi>{shown(d.sentence, 600)}</bdi></span>}</h2>
      <WaitedBar d={d} />
      <div class="toolbar" role="group" aria-label={`Time axis: ${title}`}>
        <button type="button" onClick={() => model.zoomBy(0.5)}>Zoom in</button><button type="button" onClick={() => model.zoomBy(2)}>Zoom out</button><button type="button" onClick={() => model.showAll()}>Whole run</button>
        {d.drain_cycles && d.drain_cycles.longest[0] && <button type="button" onClick={() => { const c = d.drain_cycles!.longest.reduce((m, x) => (x.length_s > m.length_s ? x : m)); show(c.start_s, c.start_s + c.length_s); }}>Longest drain cycle</button>}
        {d.stalls.longest[0] && <button type="button" onClick={() => { const c = d.stalls.longest.reduce((m, x) => (x.length_s > m.length_s ? x : m)); show(c.start_s, c.start_s + c.length_s); }}>Longest stall</button>}
      </div>
      <Figure title="RPCs over time" subtitle="shaded: nothing moves, and everything waits for the end that has this colour above" cells={cells} least={340}>
        {(width) => (
          <div class="panels-box" ref={box} tabIndex={0} role="group" aria-label={`RPCs over time, ${duration(d.wall_s)}`} aria-describedby={`rpc-keys-${number}`} onKeyDown={press}>
            <Panels d={d} panels={panels} width={width} a={axis.at(view.a)} b={axis.at(view.b)} theme={theme} id={`rpcs-${number}`} selection={selected && { a: axis.at(selected.a), b: axis.at(selected.b) }} />
            <div class="axis-strip" ref={head} />
            <Cursor axis={axis} d={d} box={box} />
          </div>
        )}
      </Figure>
      <details class="keys"><summary>Keys and mouse</summary><p id={`rpc-keys-${number}`}>{KEYS}</p></details>
      {selected && <SelectedRpcs d={d} a={axis.at(selected.a)} b={axis.at(selected.b)} clear={() => { model.measure = null; model.select(null); }} />}
      <Figures d={d} />
      <div class="two"><CloseUps d={d} show={show} /><Lengths d={d} /></div>
      <Tables d={d} show={show} />
    </section>
  );
}

/** The tab of a recording. */
export function RpcsView({ model }: { model: Model }) {
  const documents = useMemo(() => documentsOf(model.header.rpcs), [model]);
  return <>{documents.map((d, i) => <One key={i} model={model} d={d} number={i} title={documents.length > 1 ? `RPCs, run ${i + 1}` : "RPCs"} />)}</>;
}

/** The page of `thalweg rpcstat`: one document, or two on equal axes. */
export function RpcsPage({ model }: { model: Model }) {
  const documents = useMemo(() => documentsOf(model.header.document), [model]);
  const own = useMemo(() => ownModel(model, Math.max(1e-6, ...documents.map((d) => d.wall_s))), [model]);
  if (!documents.length) return <p class="faint">The document has no RPCs.</p>;
  const names = model.header.names;
  return <div class="document"><h1><bdi>{shown(documents[0].sentence, 500)}</bdi></h1>{documents.map((d, i) => <One key={i} model={own} d={d} number={i} bare={documents.length === 1} title={names?.[i] ?? (documents.length === 2 ? `RPCs ${"AB"[i]}` : documents.length > 2 ? `Run ${i + 1}` : "RPCs")} />)}</div>;
}
