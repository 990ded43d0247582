// Everything over time as one picture: who was waited for, drain cycles, stalls, what was sent again, and the curves.

import { fitted, textWidth } from "../chart/looks";
import { part, ticks } from "../chart/scale";
import { legendPlaces } from "../chart/Xy";
import type { Pair, Theme } from "../palette";
import { duration, instant } from "../view/format";
import { axisSteps } from "../view/scale";
import { CLIENT, folded, NETWORK, SERVER, WAITING, type Line, type Panel } from "./curves";
import type { RpcStat } from "./document";

const PLOT = 92;
const ROW = 20;
const RED: Pair = ["#B3001B", "#FF8A98"];

interface Props {
  d: RpcStat;
  panels: Panel[];
  width: number;
  a: number;
  b: number;
  theme: Theme;
  selection: { a: number; b: number } | null;
  id: string;
}

interface Frame extends Props {
  left: number;
  right: number;
  x: (seconds: number) => number;
  side: 0 | 1;
}

export const LEFT = 84;
export const RIGHT = 62;

function stepPath(f: Frame, line: Line, panel: Panel, bottom: number): string {
  const scale = line.own ?? panel.scale;
  const columns = folded(line.values, f.d.series.bin_s, line.fold, f.a, f.b, f.right - f.left, f.d.wall_s);
  const px = (s: number) => Math.min(f.right, Math.max(f.left, f.x(s))).toFixed(1);
  let path = "";
  let open = false;
  for (const { from, to, value } of columns) {
    if (value === null || (scale.log && value <= 0)) {
      if (open && line.filled) path += `V${bottom}Z`;
      open = false;
      continue;
    }
    const y = (bottom - part(scale, value) * PLOT).toFixed(1);
    path += open ? `V${y}H${px(to)}` : line.filled ? `M${px(from)} ${bottom}V${y}H${px(to)}` : `M${px(from)} ${y}H${px(to)}`;
    open = true;
  }
  return open && line.filled ? `${path}V${bottom}Z` : path;
}

function Shades({ f, top, bottom }: { f: Frame; top: number; bottom: number }) {
  return <g>{f.d.waits.filter((w) => w.end_s > f.a && w.start_s < f.b).map((w, i) => {
    const look = WAITING.find((l) => l.kind === w.waited_for);
    const [from, to] = [Math.max(f.left, f.x(w.start_s)), Math.min(f.right, f.x(w.end_s))];
    return look && to - from > 0.4 ? <rect key={i} x={from} y={top} width={to - from} height={bottom - top} fill={look.colour[f.side]} opacity={look.hatched ? 0.09 : 0.16} /> : null;
  })}</g>;
}

interface Interval {
  from: number;
  to: number;
  colour: string;
  text: string;
  letter: string;
  hatched?: boolean;
}

/** A row of intervals with its name at the left. */
function Intervals({ f, y, name, list, hollow }: { f: Frame; y: number; name: string; list: Interval[]; hollow?: boolean }) {
  return (
    <g>
      <text x={f.left - 6} y={y + 14} text-anchor="end" fill={f.theme.faint} font-size="11">{fitted(name, f.left - 4, 11)}</text>
      <line x1={f.left} x2={f.right} y1={y + ROW - 1} y2={y + ROW - 1} stroke={f.theme.rule} />
      {list.filter((i) => i.to > f.a && i.from < f.b).map((i, k) => {
        const [from, to] = [Math.max(f.left, f.x(i.from)), Math.min(f.right, f.x(i.to))];
        const wide = Math.max(0.6, to - from);
        return <g key={k}><rect x={from} y={y + 2} width={wide} height={ROW - 5} fill={hollow ? f.theme.paper : i.colour} stroke={hollow ? i.colour : "none"}><title>{i.text}</title></rect>
          {i.hatched && <rect x={from} y={y + 2} width={wide} height={ROW - 5} fill={`url(#${f.id}-hatch)`} pointer-events="none" />}
          {wide > textWidth(i.letter, 11) + 6 && <text x={from + wide / 2} y={y + 14} text-anchor="middle" font-size="11" font-weight="600" fill={hollow ? f.theme.ink : "#ffffff"} stroke={hollow ? "none" : "#00000055"} stroke-width="2" paint-order="stroke" pointer-events="none">{i.letter}</text>}</g>;
      })}
    </g>
  );
}

/** What was sent again: calls above, TCP segments below; after a timeout taller. */
function Again({ f, y }: { f: Frame; y: number }) {
  const { series: s } = f.d;
  const colour = RED[f.side];
  const bins = s.retransmissions.map((calls, i) => ({ calls, tcp: s.tcp_retransmissions[i], timeouts: s.timeouts[i], at: (i + 0.5) * s.bin_s })).filter((x) => x.calls + x.tcp + x.timeouts > 0 && x.at >= f.a && x.at <= f.b);
  return (
    <g>
      <text x={f.left - 6} y={y + 14} text-anchor="end" fill={f.theme.faint} font-size="11">sent again</text>
      <line x1={f.left} x2={f.right} y1={y + ROW - 1} y2={y + ROW - 1} stroke={f.theme.rule} />
      {bins.map((b, i) => {
        const top = b.timeouts ? 1 : b.calls ? 6 : 11;
        return <g key={i}><line x1={f.x(b.at)} x2={f.x(b.at)} y1={y + top} y2={y + ROW - 2} stroke={colour} stroke-width="1.6" />{b.timeouts > 0 && <circle cx={f.x(b.at)} cy={y + 3} r="3" fill={colour} />}<title>{`${b.calls} calls (${b.timeouts} after a timeout), ${b.tcp} TCP segments`}</title></g>;
      })}
    </g>
  );
}

function Plot({ f, panel, y }: { f: Frame; panel: Panel; y: number }) {
  const { places, lines } = legendPlaces(panel.lines.map((l) => l.name), f.width - 150);
  const top = y + 8 + Math.max(1, lines) * 16;
  const bottom = top + PLOT;
  return (
    <g>
      <text x="4" y={y + 14} fill={f.theme.ink} font-weight="600">{panel.title}{panel.scale.log && panel.lines.length ? <tspan fill={f.theme.faint} font-weight="400">, log.</tspan> : null}</text>
      {panel.empty ? <text x="150" y={y + 14} fill={f.theme.faint}>{fitted(panel.empty, f.width - 154)}</text> : <>
        {panel.lines.map((l, i) => <g key={i} transform={`translate(${146 + places[i].x} ${y + 10 + places[i].line * 16})`}>
          {l.filled ? <rect width="20" height="9" y="-5" fill={l.colour[f.side]} opacity="0.45" /> : <line x2="22" y1="0" y2="0" stroke={l.colour[f.side]} stroke-width={Math.max(1.6, l.width ?? 1.6)} stroke-dasharray={l.dash ?? ""} />}
          <text x="28" y="4" fill={f.theme.ink} font-size="11.5">{places[i].text}</text></g>)}
        <Shades f={f} top={top} bottom={bottom} />
        {ticks(panel.scale, panel.unit, 3).map((t) => <g key={t.value}><line x1={f.left} x2={f.right} y1={bottom - part(panel.scale, t.value) * PLOT} y2={bottom - part(panel.scale, t.value) * PLOT} stroke={f.theme.rule} /><text x={f.left - 5} y={bottom - part(panel.scale, t.value) * PLOT + 4} text-anchor="end" fill={f.theme.faint} font-size="11">{t.text}</text></g>)}
        {panel.lines.map((l, i) => <path key={i} d={stepPath(f, l, panel, bottom)} fill={l.filled ? l.colour[f.side] : "none"} fill-opacity={l.filled ? 0.4 : 0} stroke={l.filled ? "none" : l.colour[f.side]} stroke-width={l.width ?? 1.5} stroke-dasharray={l.dash ?? ""} />)}
        {panel.lines.filter((l) => l.own).flatMap((l) => ticks(l.own!, panel.unit, 2).filter((t) => t.value > 0).map((t) => <text key={t.value} x={f.right + 4} y={bottom - part(l.own!, t.value) * PLOT + 4} fill={l.colour[f.side]} font-size="10.5">{t.text}</text>))}
        <line x1={f.left} x2={f.right} y1={bottom} y2={bottom} stroke={f.theme.faint} />
      </>}
    </g>
  );
}

const plotHeight = (panel: Panel, width: number): number => (panel.empty ? 26 : 8 + Math.max(1, legendPlaces(panel.lines.map((l) => l.name), width - 150).lines) * 16 + PLOT + 10);

/** The rows above the curves: those with something in them. */
function rowsOf(d: RpcStat, side: 0 | 1): { name: string; list: Interval[]; hollow?: boolean }[] {
  const who = { server: SERVER, client: CLIENT, network: NETWORK };
  const waited = d.waits.flatMap((w): Interval[] => {
    const look = WAITING.find((l) => l.kind === w.waited_for);
    return look ? [{ from: w.start_s, to: w.end_s, colour: look.colour[side], letter: look.letter, text: `waiting for ${look.name}: ${duration(w.end_s - w.start_s)}`, hatched: look.hatched }] : [];
  });
  const drains = (d.drain_cycles?.longest ?? []).map((x): Interval => ({ from: x.start_s, to: x.start_s + x.length_s, colour: side ? "#c9d0d8" : "#3a4350", letter: `${x.pending_at_start} to ${x.pending_at_end}`, text: `drain cycle: ${duration(x.length_s)}, pending calls ${x.pending_at_start} to ${x.pending_at_end}` }));
  const stalls = d.stalls.longest.map((x): Interval => ({ from: x.start_s, to: x.start_s + x.length_s, colour: who[x.who][side], letter: x.who, text: `stall: ${duration(x.length_s)}, the ${x.who}: ${x.why}` }));
  const slow = d.slow_start ? [{ from: 0, to: d.slow_start.until_s, colour: side ? "#c9d0d8" : "#3a4350", letter: "slow beginning", text: `slow beginning: ${duration(d.slow_start.until_s)}` }] : [];
  return [{ name: "waited for", list: waited }, { name: "beginning", list: slow, hollow: true }, { name: "drain cycles", list: drains, hollow: true }, { name: "stalls", list: stalls }].filter((row) => row.list.length);
}

export function Panels(props: Props) {
  const { d, width, a, b, theme, panels, selection } = props;
  const [left, right] = [LEFT, width - RIGHT];
  const f: Frame = { ...props, left, right, side: theme.dark ? 1 : 0, x: (s) => left + ((s - a) / (b - a)) * (right - left) };
  const rows = rowsOf(d, f.side);
  const again = d.retransmissions + d.timeouts + d.tcp_retransmissions > 0;
  const axis = 24;
  let y = axis;
  const rowsAt = rows.map((row) => ({ row, y: (y += ROW) - ROW }));
  const againAt = again ? (y += ROW) - ROW : 0;
  y += 4;
  const plots = panels.map((panel) => ({ panel, y: (y += plotHeight(panel, width)) - plotHeight(panel, width) }));
  const steps = axisSteps(a, b, Math.max(3, Math.floor((right - left) / 110)));
  return (
    <svg class="picture" viewBox={`0 0 ${width} ${y}`} width={width} height={y} role="img" aria-label={`RPCs over time: ${d.sentence}`} font-family="system-ui, sans-serif" font-size="12">
      <defs><pattern id={`${props.id}-hatch`} width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" x2="0" y1="0" y2="5" stroke={theme.paper} stroke-width="3" /></pattern></defs>
      {steps.at.map((s) => <g key={s}><line x1={f.x(s)} x2={f.x(s)} y1="18" y2={y} stroke={theme.rule} /><text x={f.x(s)} y="13" text-anchor="middle" fill={theme.faint} font-size="11">{instant(s, steps.step)}</text></g>)}
      {rowsAt.map(({ row, y: at }) => <Intervals key={row.name} f={f} y={at} name={row.name} list={row.list} hollow={!!row.hollow} />)}
      {again && <Again f={f} y={againAt} />}
      {plots.map(({ panel, y: at }) => <Plot key={panel.title} f={f} panel={panel} y={at} />)}
      {d.wall_s < b && <line x1={f.x(d.wall_s)} x2={f.x(d.wall_s)} y1="18" y2={y} stroke={theme.faint} stroke-dasharray="3 3" />}
      {selection && <rect x={Math.max(left, f.x(selection.a))} y="18" width={Math.max(1, Math.min(right, f.x(selection.b)) - Math.max(left, f.x(selection.a)))} height={y - 18} fill={theme.accent} fill-opacity="0.13" stroke={theme.accent} pointer-events="none" />}
    </svg>
  );
}
