// A close-up, call by call: each call is a bar from its sending to its reply, with a dark end where the reply arrived.

import { useState } from "preact/hooks";
import { Figure, type Cells } from "../chart/Figure";
import { figure } from "../chart/scale";
import { fitted } from "../chart/looks";
import { bytes, duration, instant } from "../view/format";
import { axisSteps } from "../view/scale";
import { useTheme } from "../view/theme";
import type { CloseUp, RpcStat } from "./document";

const TITLE = { "drain-cycle": "A typical drain cycle", stall: "The longest stall", beginning: "The slow beginning" };
const BAR = 7;

function Drawn({ c, width }: { c: CloseUp; width: number }) {
  const theme = useTheme();
  const side = theme.dark ? 1 : 0;
  const [left, right] = [8, width - 8];
  const x = (s: number) => Math.min(right, Math.max(left, left + ((s - c.start_s) / (c.end_s - c.start_s)) * (right - left)));
  const top = 40;
  const height = top + c.calls.length * BAR + 8;
  const { at, step } = axisSteps(c.start_s, c.end_s, Math.max(3, Math.floor(width / 120)));
  const [bar, end, bad] = [["#8fb7d8", "#3d6f99"][side], ["#0b4f8a", "#9fd2ff"][side], ["#B3001B", "#FF8A98"][side]];
  return (
    <svg class="picture" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={c.sentence} font-family="system-ui, sans-serif" font-size="11">
      <rect x={x(c.from_s)} y="18" width={Math.max(1, x(c.to_s) - x(c.from_s))} height={height - 20} fill={theme.accent} opacity="0.1" />
      {at.map((s) => <g key={s}><line x1={x(s)} x2={x(s)} y1="16" y2={height} stroke={theme.rule} /><text x={x(s)} y="11" text-anchor={x(s) < 30 ? "start" : x(s) > right - 30 ? "end" : "middle"} fill={theme.faint}>{instant(s, step)}</text></g>)}
      <text x={x(c.from_s) + 4} y="31" fill={theme.ink}>{fitted(TITLE[c.kind].replace(/^(A|The) /, ""), Math.max(70, x(c.to_s) - x(c.from_s)), 11)}</text>
      {c.calls.map((call, i) => {
        const y = top + i * BAR;
        const [from, to] = [x(call.start_s), x(call.end_s)];
        const wrong = call.outcome === "error" || call.outcome === "unanswered";
        return <g key={i}><rect x={from} y={y} width={Math.max(1, to - from)} height={BAR - 3} fill={wrong ? bad : bar}><title>{`${call.procedure}, ${bytes(call.bytes)}: ${duration(call.end_s - call.start_s)}, ${call.outcome}`}</title></rect>
          {call.start_s < c.start_s && <path d={`M${left} ${y + 3}l6 -4v8z`} fill={end} />}
          {call.end_s > c.end_s ? <path d={`M${right} ${y + 3}l-6 -4v8z`} fill={end} /> : <rect x={to - 2} y={y} width="2.5" height={BAR - 3} fill={end} />}</g>;
      })}
    </svg>
  );
}

export function CloseUps({ d, show }: { d: RpcStat; show: (from: number, to: number) => void }) {
  const [chosen, set] = useState(0);
  if (!d.close_ups.length) return null;
  const c = d.close_ups[Math.min(chosen, d.close_ups.length - 1)];
  const cells = (): Cells => [["procedure", "bytes", "sent", "lasted", "outcome"], ...c.calls.map((call) => [call.procedure, call.bytes, duration(call.start_s), duration(call.end_s - call.start_s), call.outcome])];
  return (
    <div>
      {d.close_ups.length > 1 && <p class="toolbar" role="group" aria-label="Close-up">{d.close_ups.map((u, i) => <button type="button" key={i} aria-pressed={i === chosen} onClick={() => set(i)}>{TITLE[u.kind]}</button>)}</p>}
      <Figure title={`${TITLE[c.kind]}, call by call`} subtitle={`${c.sentence} Each bar is a call, from its sending to its reply (dark end).${c.left_out ? ` ${c.left_out} shorter calls are left out.` : ""}`} cells={cells}>{(width) => <Drawn c={c} width={width} />}</Figure>
      <p><button type="button" onClick={() => show(c.from_s, c.to_s)}>Show it on the time axis</button></p>
    </div>
  );
}

/** How long drain cycles are. */
export function Lengths({ d }: { d: RpcStat }) {
  const theme = useTheme();
  const cycles = d.drain_cycles;
  if (!cycles?.lengths.length) return null;
  const { lengths } = cycles;
  const most = Math.max(...lengths.map((l) => l.count));
  const title = "Lengths of drain cycles";
  return (
    <Figure title={title} subtitle={`${cycles.count} cycles, ${duration(cycles.median_s)} at the median, one about every ${duration(cycles.period_s)}`} cells={() => [["from", "to", "cycles"], ...lengths.map((l) => [duration(l.from_s), duration(l.to_s), l.count])]}>
      {(width) => {
        const wide = (width - 44) / lengths.length;
        return <svg class="picture" viewBox={`0 0 ${width} 150`} width={width} height={150} role="img" aria-label={`${title}: ${duration(cycles.median_s)} at the median`} font-family="system-ui, sans-serif" font-size="11">
          <text x="32" y="14" text-anchor="end" fill={theme.faint}>{figure(most, "count")}</text><line x1="36" x2={width - 8} y1="124" y2="124" stroke={theme.faint} />
          {lengths.map((l, i) => <rect key={i} x={36 + i * wide + 1} y={124 - (l.count / most) * 112} width={Math.max(1, wide - 2)} height={(l.count / most) * 112} fill={theme.accent}><title>{`${duration(l.from_s)} to ${duration(l.to_s)}: ${l.count}`}</title></rect>)}
          <text x="36" y="140" fill={theme.faint}>{duration(lengths[0].from_s)}</text><text x={width - 8} y="140" text-anchor="end" fill={theme.faint}>{duration(lengths.at(-1)!.to_s)}</text>
        </svg>;
      }}
    </Figure>
  );
}
