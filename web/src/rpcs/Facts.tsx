// The RPCs in numbers: who was waited for, what the selected interval consists of, procedures, stalls, drain cycles, connections.

import { useTheme } from "../view/theme";
import { bits } from "../chart/scale";
import { bytes, count, duration, instant, percent, shown } from "../view/format";
import { WAITING, within } from "./curves";
import type { RpcStat } from "./document";

export function WaitedBar({ d }: { d: RpcStat }) {
  const { dark } = useTheme();
  const parts = WAITING.map((w) => ({ ...w, share: w.seconds(d) / d.wall_s })).filter((w) => w.share > 0.0005);
  const moving = 1 - parts.reduce((sum, w) => sum + w.share, 0) - (d.quiet.unanswered_s ?? 0) / d.wall_s;
  return (
    <div class="waited">
      <div class="bar low" role="img" aria-label={`While nothing moved, everything waited for: ${parts.map((w) => `${w.name} ${percent(w.share)}`).join(", ")}`}>
        {parts.map((w) => <span key={w.kind} class={w.hatched ? "piece hatched" : "piece"} style={{ flexGrow: w.share, background: w.colour[dark ? 1 : 0] }} />)}
        {moving > 0.001 && <span class="piece" style={{ flexGrow: moving }} />}
      </div>
      <ul class="parts">{parts.map((w) => <li key={w.kind}><span class={w.hatched ? "swatch hatched" : "swatch"} style={{ background: w.colour[dark ? 1 : 0] }} aria-hidden="true" />{w.letter}: waiting for {w.name} <strong>{percent(w.share)}</strong></li>)}{moving > 0.001 && <li><span class="swatch empty" aria-hidden="true" />bytes move <strong>{percent(moving)}</strong></li>}</ul>
    </div>
  );
}

export function Figures({ d }: { d: RpcStat }) {
  const p = d.pending;
  const again = [d.retransmissions && `${count(d.retransmissions)} calls${d.timeouts ? ` (${count(d.timeouts)} after a timeout)` : ""}`, d.tcp_retransmissions && `${count(d.tcp_retransmissions)} TCP segments${d.tcp_timeouts ? ` (${count(d.tcp_timeouts)} after a timeout)` : ""}`].filter(Boolean).join(", ");
  const rows: [string, string][] = [
    ["calls", `${count(d.calls)} in ${duration(d.wall_s)}${d.unanswered ? `, ${count(d.unanswered)} unanswered` : ""}${d.errors ? `, ${count(d.errors)} answered with an error` : ""}`],
    ["pending calls", `${p.mean.toFixed(1)} at the mean, ${p.max} at most, none for ${percent(p.empty_share)} of the time`],
    ["sent again", again || "nothing"],
  ];
  if (d.sent_bytes !== undefined) rows.push(["bytes", `${bytes(d.sent_bytes)} sent (${bits((8 * d.sent_bytes) / d.wall_s)}), ${bytes(d.received_bytes ?? 0)} received`]);
  if (d.drain_cycles) rows.push(["drain cycles", `${d.drain_cycles.count}, ${duration(d.drain_cycles.median_s)} at the median, about every ${duration(d.drain_cycles.period_s)}: the pending queue falls from ${d.drain_cycles.pending_at_start} to ${d.drain_cycles.pending_at_end}`]);
  if (d.stalls.count) rows.push(["stalls", `${d.stalls.count}, ${duration(d.stalls.total_s)} together (${d.stalls.by.map((b) => `${b.who}: ${b.count}, ${duration(b.total_s)}`).join("; ")})`]);
  if (d.slow_start) rows.push(["slow beginning", `${duration(d.slow_start.until_s)} at ${bits(8 * d.slow_start.bytes_per_s)}, then ${bits(8 * d.slow_start.later_bytes_per_s)}`]);
  return <dl>{rows.map(([name, text]) => <><dt>{name}</dt><dd>{text}</dd></>)}</dl>;
}

export function SelectedRpcs({ d, a, b, clear }: { d: RpcStat; a: number; b: number; clear: () => void }) {
  const w = within(d, a, b);
  const about = (v: number) => count(Math.round(v));
  if (w.seconds <= 0) return null;
  const rows: [string, string][] = [
    ["calls", `${about(w.calls)} sent, ${about(w.replies)} completed`], ["bytes", `${bytes(w.sent)} sent (${bits((8 * w.sent) / w.seconds)}), ${bytes(w.received)} received`],
    ["pending calls", `${w.pendingMean.toFixed(1)} at the mean, ${w.pendingMost} at most`], ["longest response", w.responseMost === null ? "no reply" : duration(w.responseMost)],
    ["sent again", w.again + w.tcpAgain < 0.5 ? "nothing" : `${about(w.again)} calls, ${about(w.tcpAgain)} TCP segments`],
    ["nothing moved, waiting for", w.waited.map(([kind, s]) => `${WAITING.find((x) => x.kind === kind)!.name} ${percent(s / w.seconds)}`).join("; ") || "nobody"],
    ["in it", `${w.drains} drain cycles, ${w.stalls} stalls`],
  ];
  return (
    <section class="panel" aria-labelledby="rpc-selection-title">
      <h3 id="rpc-selection-title">Selected: {duration(w.seconds)} <span class="faint">from {instant(a, w.seconds / 100)}</span></h3>
      <p class="buttons"><button type="button" onClick={clear}>Clear</button></p>
      <dl aria-live="polite">{rows.map(([name, text]) => <><dt>{name}</dt><dd>{text}</dd></>)}</dl>
    </section>
  );
}

const known = (s: number | undefined): string => (s === undefined || s === null ? "–" : duration(s));

export function Tables({ d, show }: { d: RpcStat; show: (from: number, to: number) => void }) {
  const stalls = [...d.stalls.longest].sort((a, b) => b.length_s - a.length_s).slice(0, 12);
  const cycles = [...(d.drain_cycles?.longest ?? [])].sort((a, b) => b.length_s - a.length_s).slice(0, 12);
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label="Procedures"><table>
        <caption>Response times by procedure</caption>
        <thead><tr><th scope="col">procedure</th><th scope="col">server</th>{["calls", "shortest", "median", "99 %", "longest", "time together", "bytes", "sent again"].map((h) => <th scope="col" class="n" key={h}>{h}</th>)}</tr></thead>
        <tbody>{d.procedures.slice(0, 60).map((p, i) => <tr key={i}><td><bdi>{shown(`${p.program ?? ""}${p.version ?? ""} ${p.name}`.trim(), 60)}</bdi>{p.callback && " (callback)"}</td><td><bdi>{shown(p.server, 60)}</bdi></td><td class="n">{count(p.answered + p.unanswered)}</td><td class="n">{known(p.min_s)}</td><td class="n">{known(p.median_s)}</td><td class="n">{known(p.p99_s)}</td><td class="n">{known(p.max_s)}</td><td class="n">{duration(p.total_s)}</td><td class="n">{bytes(p.bytes)}</td><td class="n">{count(p.retransmissions)}</td></tr>)}</tbody>
      </table></div>
      <div class="tables">
        {!!stalls.length && <table><caption>Longest stalls <span class="faint">(choose one to see it above)</span></caption><thead><tr><th scope="col">at</th><th scope="col" class="n">lasted</th><th scope="col">waited for</th><th scope="col" class="n">pending</th><th scope="col">why</th></tr></thead>
          <tbody>{stalls.map((s, i) => <tr key={i}><td><button type="button" class="link" onClick={() => show(s.start_s, s.start_s + s.length_s)}>{instant(s.start_s, d.wall_s / 1000)}</button></td><td class="n">{duration(s.length_s)}</td><td>the {s.who}</td><td class="n">{s.pending} of {s.window}</td><td><bdi>{shown(s.why, 160)}</bdi></td></tr>)}</tbody></table>}
        {!!cycles.length && <table><caption>Longest drain cycles</caption><thead><tr><th scope="col">at</th><th scope="col" class="n">lasted</th><th scope="col" class="n">pending</th></tr></thead>
          <tbody>{cycles.map((c, i) => <tr key={i}><td><button type="button" class="link" onClick={() => show(c.start_s, c.start_s + c.length_s)}>{instant(c.start_s, d.wall_s / 1000)}</button></td><td class="n">{duration(c.length_s)}</td><td class="n">{c.pending_at_start} → {c.pending_at_end}</td></tr>)}</tbody></table>}
        {!!d.connections.length && <table><caption>Connections</caption><thead><tr><th scope="col">connection</th><th scope="col" class="n">calls</th><th scope="col" class="n">bytes</th><th scope="col" class="n">round trip</th></tr></thead>
          <tbody>{d.connections.slice(0, 16).map((c, i) => <tr key={i}><td><bdi>{shown(c.name, 80)}</bdi></td><td class="n">{count(c.calls)}</td><td class="n">{bytes(c.bytes)}</td><td class="n">{known(c.srtt_s ?? undefined)}</td></tr>)}</tbody></table>}
      </div>
      {d.notes.map((note, i) => <p class="remark" key={i}><bdi>{shown(note, 400)}</bdi></p>)}
    </>
  );
}
