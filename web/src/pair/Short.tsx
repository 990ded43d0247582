// Both answers in short, side by side, what changed by cause, and what was predicted beside what came of it.

import { Bar } from "../answer/Bar";
import { plainCause } from "../answer/help";
import { Tip, useAsker } from "../answer/Why";
import { Figure } from "../chart/Figure";
import { fitted, textWidth } from "../chart/looks";
import { figure } from "../chart/scale";
import { useModel, type Model } from "../model";
import { causeColour } from "../palette";
import { duration, percent, shown } from "../view/format";
import { useTheme } from "../view/theme";
import { verdict, type Diff, type OfRun } from "./document";

export const namesOf = (model: Model): [string, string] => model.header.names ?? ["before", "after"];

function Card({ model, run, name, longest, letter }: { model: Model; run: OfRun; name: string; longest: number; letter: string }) {
  const asker = useAsker();
  const sentence = model.header.explanation.summary?.sentence || run.sentence;
  return (
    <section class="card" aria-labelledby={`run-${letter}`}>
      <h2 id={`run-${letter}`}><span class="letter" aria-hidden="true">{letter}</span> <bdi>{shown(name, 80)}</bdi> <strong>{duration(run.wall_s)}</strong>
        <span class="faint">{run.rate_bytes_per_s !== undefined && figure(run.rate_bytes_per_s, "bytes/s")}{run.interval_s && `, median of ${run.runs} runs (${duration(run.interval_s[0])} to ${duration(run.interval_s[1])})`}</span></h2>
      <p class="ran"><code><bdi>{shown(model.header.explanation.summary?.command ?? run.command.join(" "), 200)}</bdi></code></p>
      <div style={{ width: `${Math.max(2, (100 * run.wall_s) / longest)}%` }}><Bar model={model} asker={asker} /></div>
      <p><bdi>{shown(sentence, 400)}</bdi></p>
      <Tip model={model} asker={asker} />
    </section>
  );
}

export function Cards({ a, b, diff }: { a: Model; b: Model; diff: Diff }) {
  const longest = Math.max(diff.before.wall_s, diff.after.wall_s);
  const names = namesOf(a);
  return (
    <>
      <h1>{duration(diff.before.wall_s)} → {duration(diff.after.wall_s)}: {verdict(diff)}</h1>
      {diff.different_work && <p class="remark">The runs did different work: <bdi>{shown(diff.different_work, 400)}</bdi></p>}
      <div class="cards"><Card model={a} run={diff.before} name={names[0]} longest={longest} letter="A" /><Card model={b} run={diff.after} name={names[1]} longest={longest} letter="B" /></div>
      <p class="faint">The bars have one scale: the length of each is the time of its run.</p>
      {diff.notes.map((note, i) => <p class="remark" key={i}><bdi>{shown(note, 400)}</bdi></p>)}
    </>
  );
}

/** Changes below this part of the longer run are one row. */
const SMALL = 0.005;

function signed(seconds: number): string {
  return seconds === 0 ? "0 s" : `${seconds > 0 ? "+" : "−"}${duration(Math.abs(seconds))}`;
}

export function Changes({ a, b, diff }: { a: Model; b: Model; diff: Diff }) {
  const { dark, ink, faint, rule } = useTheme();
  useModel(a, (m) => m.theme);
  const longest = Math.max(diff.before.wall_s, diff.after.wall_s);
  const large = diff.rows.filter((r) => Math.abs(r.change_s) >= SMALL * longest).slice(0, 12);
  const rest = diff.rows.filter((r) => !large.includes(r));
  const sum = (pick: (r: (typeof rest)[0]) => number) => rest.reduce((s, r) => s + pick(r), 0);
  const rows = [...large.map((r) => ({ ...r, name: r.cause ? plainCause(a.header, r.cause) : "others" })), ...(rest.length ? [{ name: `${rest.length} others`, subject: "", cause: "", before_s: sum((r) => r.before_s), after_s: sum((r) => r.after_s), change_s: sum((r) => r.change_s) }] : [])];
  const most = Math.max(1e-12, ...rows.map((r) => Math.max(r.before_s, r.after_s)));
  const names = namesOf(a);
  const subject = (r: (typeof rows)[0]) => ("subject_after" in r && r.subject_after && r.subject_after !== r.subject ? `${r.subject} → ${r.subject_after}` : r.subject);
  return (
    <Figure title="What changed, by cause" subtitle={`time of each cause: above ${names[0]}, below ${names[1]}; the largest change first. Click a row to see the longest instance below.`} least={330}
      cells={() => [["cause", "where", `${names[0]} (s)`, `${names[1]} (s)`, "change (s)"], ...rows.map((r) => [r.name, subject(r), r.before_s, r.after_s, r.change_s])]}>
      {(width) => {
        const left = Math.min(width * 0.42, 300);
        const right = width - 84;
        const row = 44;
        return (
          <svg class="picture" viewBox={`0 0 ${width} ${rows.length * row + 4}`} width={width} height={rows.length * row + 4} role="img" aria-label={`What changed: ${rows.map((r) => `${r.name} ${signed(r.change_s)}`).join(", ")}`} font-family="system-ui, sans-serif" font-size="12">
            {rows.map((r, i) => {
              const wide = (s: number) => Math.max(1, (s / most) * (right - left - 60));
              const colour = causeColour(r.cause || "unknown", dark);
              return <g key={i} transform={`translate(0 ${i * row + 2})`} class={r.cause ? "hit" : ""} onClick={() => r.cause && (a.goToCause(r.cause) || b.goToCause(r.cause))}>
                <rect width={width} height={row} fill="transparent" />
                <line x1="0" x2={width} y1={row - 3} y2={row - 3} stroke={rule} />
                <rect x="0" y="6" width="10" height="10" rx="2" fill={colour} /><text x="16" y="16" fill={ink} font-weight="600">{fitted(r.name, left - 22)}</text>
                <text x="16" y="32" fill={faint} font-size="11">{fitted(subject(r), left - 22, 11)}</text>
                <rect x={left} y="4" width={wide(r.before_s)} height="13" fill={colour} opacity="0.55" /><text x={left + wide(r.before_s) + 5} y="15" fill={faint} font-size="11">{duration(r.before_s)}</text>
                <rect x={left} y="20" width={wide(r.after_s)} height="13" fill={colour} /><text x={left + wide(r.after_s) + 5} y="31" fill={ink} font-size="11">{duration(r.after_s)}</text>
                <text x={width - 4} y="24" text-anchor="end" fill={ink} font-weight="600">{signed(r.change_s)}</text>
              </g>;
            })}
          </svg>
        );
      }}
    </Figure>
  );
}

/** The times before, as predicted and as achieved, on one axis. */
export function Achieved({ a, diff }: { a: Model; diff: Diff }) {
  const { dark, ink, faint, paper } = useTheme();
  useModel(a, (m) => m.theme);
  const { made } = diff;
  if (!made) return null;
  const bars = [{ name: "before", value: diff.before.wall_s, interval: diff.before.interval_s, colour: faint }, { name: made.basis === "bounded" ? "at least (a bound)" : "predicted", value: made.predicted_s, interval: made.interval_s, colour: dark ? "#8ab4f8" : "#0b57d0" }, { name: "achieved", value: made.achieved_s, interval: diff.after.interval_s, colour: dark ? "#5fd3ae" : "#00694b" }];
  const most = Math.max(...bars.flatMap((b) => [b.value, b.interval?.[1] ?? 0]));
  const off = Math.abs(made.error) < 0.005 ? "as predicted" : `the prediction was ${percent(Math.abs(made.error))} too ${made.error < 0 ? "short" : "long"}`;
  const says = made.basis === "bounded" ? made.achieved_s >= made.predicted_s ? "not below the bound" : "below the bound" : made.within ? "within the prediction's interval" : "outside of the prediction's interval";
  return (
    <Figure title="Achieved beside predicted" subtitle={`${made.change}: ${off}; ${says}`} cells={() => [["time", "seconds", "from", "to"], ...bars.map((b) => [b.name, b.value, b.interval?.[0] ?? "", b.interval?.[1] ?? ""])]}>
      {(width) => {
        const left = Math.min(width * 0.36, 16 + Math.max(...bars.map((b) => textWidth(b.name))));
        const full = width - left - 84;
        const x = (s: number) => left + (s / most) * full;
        return <svg class="picture" viewBox={`0 0 ${width} 100`} width={width} height={100} role="img" aria-label={`Achieved beside predicted: ${bars.map((b) => `${b.name} ${duration(b.value)}`).join(", ")}; ${says}`} font-family="system-ui, sans-serif" font-size="12">
          {bars.map((b, i) => <g key={i} transform={`translate(0 ${i * 32 + 6})`}><text x={left - 8} y="15" text-anchor="end" fill={ink}>{b.name}</text><rect x={left} y="2" width={Math.max(1, x(b.value) - left)} height="20" fill={b.colour} />
            {b.interval && <><path d={`M${x(b.interval[0])} 12H${x(b.interval[1])}M${x(b.interval[0])} 6v12M${x(b.interval[1])} 6v12`} stroke={paper} stroke-width="4" fill="none" /><path d={`M${x(b.interval[0])} 12H${x(b.interval[1])}M${x(b.interval[0])} 6v12M${x(b.interval[1])} 6v12`} stroke={ink} stroke-width="1.6" fill="none" /></>}
            <text x={Math.max(x(b.value), b.interval ? x(b.interval[1]) : 0) + 8} y="17" fill={ink} font-weight="600">{duration(b.value)}</text></g>)}
        </svg>;
      }}
    </Figure>
  );
}
