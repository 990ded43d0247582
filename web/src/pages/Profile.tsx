// A profile of whole machines, or several beside each other: what processors did, for whom, over time, and in which functions.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Figure, useHint, type Cells } from "../chart/Figure";
import { figure, part, scaleOf, ticks } from "../chart/scale";
import { legendOf, Stacks, type Stack } from "../chart/Stacks";
import { legendPlaces } from "../chart/Xy";
import type { Model } from "../model";
import { count, duration, percent, shown } from "../view/format";
import { axisSteps } from "../view/scale";
import { useTheme } from "../view/theme";
import { colourOf } from "../views/profile/classes";
import { Lead } from "./parts";

interface ClassShare {
  class: string;
  title: string;
  share: number;
  low?: number;
  high?: number;
  seconds: number;
  samples: number;
}

interface Host {
  name: string;
  cpus: number;
  wall_s: number;
  busy_s: number;
  samples: number;
  enough: boolean;
  lost: number;
  classes: ClassShare[];
  for: ClassShare[];
  functions: { function: string; module: string; class: string; title: string; share?: number; samples: number }[];
  programs: { program: string; role?: string; processes: number; share: number; samples?: number; classes?: { class: string; samples: number }[] }[];
  over_time: { bin_s: number; lines: { class: string; shares: number[] }[] };
  rates?: { what: string; bytes: number; bytes_per_s: number }[];
}

interface Profile {
  schema: string;
  command: string[];
  hosts: Host[];
  notes: string[];
}

interface Column {
  name: string;
  host: Host;
}

const titleIn = (columns: Column[], name: string): string => columns.flatMap((c) => c.host.classes).find((c) => c.class === name)?.title ?? name;

/** A document of `thalweg profile`, a list of them, or a machine of one: each as a document. */
export function profilesOf(found: unknown): Profile[] {
  if (Array.isArray(found)) return found.flatMap(profilesOf);
  if (!found || typeof found !== "object") return [];
  const d = found as Partial<Profile> & Partial<Host>;
  if (d.hosts) return [{ schema: "", ...d, command: d.command ?? [], hosts: d.hosts, notes: d.notes ?? [] }];
  return d.classes ? [{ schema: "", command: [], hosts: [d as Host], notes: [] }] : [];
}

function columnsOf(profiles: Profile[], names?: string[]): Column[] {
  return profiles.flatMap((p, i) => p.hosts.map((host) => ({ host, name: profiles.length > 1 ? `${names?.[i] ?? (p.command.join(" ") || `recording ${i + 1}`)}${p.hosts.length > 1 ? `, ${host.name}` : ""}` : host.name })));
}

function Shares({ columns, what }: { columns: Column[]; what: "classes" | "for" }) {
  const { dark } = useTheme();
  const stacks = columns.map((c, i): Stack => ({ label: c.name, id: i, note: "too few samples for shares", parts: c.host.enough ? c.host[what].filter((x) => x.share > 0.0005).map((x) => ({ name: x.title, share: x.share, colour: colourOf(x.class, dark) })) : [] }));
  const title = what === "classes" ? "What processors did" : "What processors worked for";
  const cells = (): Cells => [["machine", "class", "share", "95 % interval", "processor time", "samples"], ...columns.flatMap((c) => c.host[what].map((x) => [c.name, x.title, percent(x.share), x.low === undefined ? "" : `${(x.low * 100).toFixed(1)} to ${((x.high ?? x.low) * 100).toFixed(1)} %`, duration(x.seconds), x.samples]))];
  return <Figure title={title} subtitle="part of the processors' time, idle time included" cells={cells}>{(width) => <Stacks width={width} stacks={stacks} name={columns.length > 1 ? "recording" : "machine"} label={`${title}: ${legendOf(stacks).slice(0, 4).map((l) => l.name).join(", ")}`} />}</Figure>;
}

/** Classes over time, stacked; the columns are bins. */
function OverTime({ column, columns }: { column: Column; columns: Column[] }) {
  const theme = useTheme();
  const { show, hide, hint } = useHint();
  const { lines, bin_s } = column.host.over_time;
  const bins = Math.max(0, ...lines.map((l) => l.shares.length));
  if (!bins) return null;
  const title = `What processors did over time${columns.length > 1 ? `, ${column.name}` : ""}`;
  const order = [...lines].sort((a, b) => Number(a.class === "idle") - Number(b.class === "idle"));
  const height = 170;
  return (
    <Figure title={title} subtitle={`part of the processors' time in each ${duration(bin_s)}`} cells={() => [["from (s)", ...order.map((l) => titleIn(columns, l.class))], ...Array.from({ length: bins }, (_, i) => [Number((i * bin_s).toPrecision(6)), ...order.map((l) => Number((l.shares[i] ?? 0).toFixed(4)))])]}>
      {(width) => {
        const legend = legendPlaces(order.map((l) => titleIn(columns, l.class)), width - 8);
        const [left, right, top] = [46, width - 8, 10 + legend.lines * 18 + 6];
        const bottom = top + height;
        const x = (i: number) => left + (i / bins) * (right - left);
        const scale = { ...scaleOf([0, 1], "linear"), max: 1 };
        const below = new Float64Array(bins);
        const { at, step } = axisSteps(0, bins * bin_s, Math.max(3, Math.floor(width / 110)));
        const over = (e: PointerEvent) => {
          const i = Math.floor(((e.clientX - (e.currentTarget as Element).getBoundingClientRect().left - left) / (right - left)) * bins);
          if (i < 0 || i >= bins) return hide();
          show(e, [`${duration(i * bin_s)} to ${duration((i + 1) * bin_s)}`, ...order.filter((l) => (l.shares[i] ?? 0) > 0.005).sort((a, b) => b.shares[i] - a.shares[i]).slice(0, 8).map((l) => `${titleIn(columns, l.class)} ${percent(l.shares[i])}`)]);
        };
        return <>
          <svg class="picture" viewBox={`0 0 ${width} ${bottom + 24}`} width={width} height={bottom + 24} role="img" aria-label={title} font-family="system-ui, sans-serif" font-size="12" onPointerMove={over} onPointerLeave={hide}>
            {order.map((l, i) => <g key={l.class} transform={`translate(${4 + legend.places[i].x} ${10 + legend.places[i].line * 18})`}><rect width="12" height="12" y="-8" rx="2" fill={colourOf(l.class, theme.dark)} stroke={theme.rule} /><text x="18" y="3" fill={theme.ink}>{legend.places[i].text}</text></g>)}
            {order.map((l) => {
              let [up, down] = ["", ""];
              for (let i = 0; i < bins; i++) {
                const y0 = bottom - below[i] * height;
                below[i] = Math.min(1, below[i] + (l.shares[i] ?? 0));
                up += `${i ? "L" : "M"}${x(i).toFixed(1)} ${(bottom - below[i] * height).toFixed(1)}H${x(i + 1).toFixed(1)}`;
                down = `L${x(i + 1).toFixed(1)} ${y0.toFixed(1)}H${x(i).toFixed(1)}${down}`;
              }
              return <path key={l.class} d={`${up}${down}Z`} fill={colourOf(l.class, theme.dark)} />;
            })}
            {ticks(scale, "share", 4).map((t) => <g key={t.value}><line x1={left} x2={right} y1={bottom - part(scale, t.value) * height} y2={bottom - part(scale, t.value) * height} stroke={theme.ink} opacity="0.15" /><text x={left - 5} y={bottom - part(scale, t.value) * height + 4} text-anchor="end" fill={theme.faint} font-size="11">{t.text}</text></g>)}
            {at.map((s) => <text key={s} x={x(s / bin_s)} y={bottom + 16} text-anchor={s === 0 ? "start" : x(s / bin_s) > right - 24 ? "end" : "middle"} fill={theme.faint} font-size="11">{figure(s, "s")}{step ? "" : ""}</text>)}
          </svg>
          {hint}
        </>;
      }}
    </Figure>
  );
}

function Functions({ columns }: { columns: Column[] }) {
  const { dark } = useTheme();
  const [text, set] = useState("");
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = columns.flatMap((c) => c.host.functions.map((f) => ({ ...f, column: c.name }))).filter((f) => words.every((w) => `${f.function} ${f.module} ${f.title} ${f.column}`.toLowerCase().includes(w)));
  return (
    <section aria-labelledby="functions-title">
      <h2 id="functions-title">Functions <span class="faint">that ran longest themselves</span></h2>
      <div class="toolbar"><label>Find <input type="search" value={text} placeholder="function, module, class" onInput={(e) => set(e.currentTarget.value)} /></label><span class="faint" role="status">{count(rows.length)} functions</span></div>
      <div class="scroll" tabIndex={0} role="group" aria-label="Functions"><table class="sortable">
        <thead><tr>{columns.length > 1 && <th scope="col">recording</th>}<th scope="col" class="n">share</th><th scope="col">function</th><th scope="col">module</th><th scope="col">class</th><th scope="col" class="n">samples</th></tr></thead>
        <tbody>{rows.slice(0, 200).map((f, i) => <tr key={i}>{columns.length > 1 && <td><bdi>{shown(f.column, 40)}</bdi></td>}<td class="n">{f.share === undefined ? "–" : `${(f.share * 100).toFixed(1)} %`}</td><td><bdi>{shown(f.function, 100)}</bdi></td><td><bdi>{shown(f.module, 60)}</bdi></td><td><span class="swatch" style={{ background: colourOf(f.class, dark) }} aria-hidden="true" />{shown(f.title, 40)}</td><td class="n">{count(f.samples)}</td></tr>)}</tbody>
      </table></div>
    </section>
  );
}

function Programs({ columns }: { columns: Column[] }) {
  const { dark } = useTheme();
  const stacks = columns.flatMap((c) => c.host.programs.slice(0, 12).map((p, i): Stack => {
    const all = p.classes?.reduce((s, x) => s + x.samples, 0) || 0;
    return { label: `${p.program}${columns.length > 1 ? ` (${c.name})` : ""}`, id: i, parts: all ? p.classes!.map((x) => ({ name: titleIn(columns, x.class), share: (p.share * x.samples) / all, colour: colourOf(x.class, dark) })) : [{ name: "processor time", share: p.share, colour: colourOf("program", dark) }] };
  }));
  if (!stacks.length) return null;
  const most = Math.max(1e-9, ...stacks.map((s) => s.parts.reduce((sum, x) => sum + x.share, 0)));
  const scaled = stacks.map((s) => ({ ...s, label: `${s.label} ${percent(s.parts.reduce((sum, x) => sum + x.share, 0))}`, parts: s.parts.map((x) => ({ ...x, share: x.share / most })) }));
  const cells = (): Cells => [["program", "part of the processors' time", "processes"], ...columns.flatMap((c) => c.host.programs.map((p) => [p.program, percent(p.share), p.processes]))];
  return <Figure title="Programs" subtitle="those that ran longest; the longest fills the width; colours: what ran" cells={cells}>{(width) => <Stacks width={width} stacks={scaled} name="program" label="Programs by processor time" bare />}</Figure>;
}

/** Flame graphs of the still page: the document has no stacks, so the pictures themselves move here, with what acts on them. */
function Flames() {
  const box = useRef<HTMLDivElement>(null);
  const [found] = useState(() => [...document.querySelectorAll("#static svg.flame")]);
  useEffect(() => box.current?.append(...found), []);
  if (!found.length) return null;
  return <section aria-labelledby="flames-title"><h2 id="flames-title">Stacks <span class="faint">click to zoom in, on the top row to zoom out</span></h2><div class="scroll flames" ref={box} tabIndex={0} role="group" aria-label="Flame graphs" /></section>;
}

export function ProfilePage({ model }: { model: Model }) {
  const found = model.header.document;
  const profiles = useMemo(() => profilesOf(found), [found]);
  const columns = useMemo(() => columnsOf(profiles, model.header.names), [profiles]);
  const first = columns[0];
  if (!first) return <p class="faint">The profile has no machine.</p>;
  const top = [...first.host.classes].sort((a, b) => b.share - a.share).slice(0, 3);
  return (
    <div class="document">
      {!!profiles[0].command.length && <p class="ran"><code><bdi>{shown(profiles[0].command.join(" "), 400)}</bdi></code></p>}
      <h1>{columns.length > 1 ? `What processors did in ${columns.length} profiles` : `Processors of ${shown(first.host.name, 80)}: ${top.map((c) => `${c.title} ${percent(c.share)}`).join(", ")}`}</h1>
      <Lead lines={columns.map(({ name, host: h }) => `${name}: ${count(h.samples)} samples in ${duration(h.wall_s)} on ${h.cpus} processors, busy ${percent(h.busy_s / Math.max(1e-9, h.wall_s * h.cpus))}${h.lost ? `, ${count(h.lost)} samples lost` : ""}${(h.rates ?? []).map((r) => `; ${r.what}: ${figure(r.bytes_per_s, "bytes/s")}`).join("")}`)} />
      {profiles.flatMap((p) => p.notes).map((note, i) => <p class="remark" key={i}><bdi>{shown(note, 400)}</bdi></p>)}
      <h2>Where processors' time went</h2>
      <Shares columns={columns} what="classes" />
      <Shares columns={columns} what="for" />
      {columns.map((c, i) => <OverTime key={i} column={c} columns={columns} />)}
      <Flames />
      <Programs columns={columns} />
      <Functions columns={columns} />
    </div>
  );
}
