// A parameter sweep: what mattered, which point is best and why, then every point to look around in.

import { useMemo } from "preact/hooks";
import { figure } from "../chart/scale";
import { nameOf, type Dataset } from "../explore/data";
import { Explorer } from "../explore/Explorer";
import { ofSweep, type Sweep } from "../explore/sweep";
import { causeWords } from "../answer/help";
import { Prose } from "../answer/Prose";
import type { Model } from "../model";
import { causeColour } from "../palette";
import { percent, shown } from "../view/format";
import { useTheme } from "../view/theme";
import { Lead, machineText } from "./parts";

function Shares({ sweep }: { sweep: Sweep }) {
  const { shares } = sweep.findings;
  if (!shares.length) return null;
  return (
    <section aria-labelledby="mattered-title">
      <h2 id="mattered-title">What mattered <span class="faint">part of the differences between points that a parameter explains by itself, with its 95 % interval</span></h2>
      <ul class="mattered">{shares.map((s) => (
        <li key={s.parameter}><strong><bdi>{shown(s.parameter, 40)}</bdi></strong>
          <span class="track" aria-hidden="true"><span class={s.matters ? "fill" : "fill not"} style={{ width: `${s.share * 100}%` }} /><span class="whisker" style={{ left: `${s.low * 100}%`, width: `${Math.max(0.4, (s.high - s.low) * 100)}%` }} /></span>
          <span>{percent(s.share)} <span class="faint">{percent(s.low) !== percent(s.high) && `(${percent(s.low)} to ${percent(s.high)})`}{s.matters ? "" : ": does not matter"}</span></span></li>
      ))}</ul>
    </section>
  );
}

/** How much better the best point is than the worst, by the first figure. */
function verdict(data: Dataset): string {
  const { best } = data;
  const [metric] = data.metrics;
  const found = best === undefined ? undefined : metric?.values[best]?.median;
  if (best === undefined || !metric || found === undefined) return "";
  const all = metric.values.flatMap((v) => (v ? [v.median] : []));
  const worst = metric.better === "less" ? Math.max(...all) : Math.min(...all);
  const times = metric.better === "less" ? worst / found : found / worst;
  return `Best: ${shown(nameOf(data, best), 200)}: ${figure(found, metric.unit)}${Number.isFinite(times) && times >= 1.05 ? `, ${times.toFixed(1)} times as fast as the slowest point` : ""}.`;
}

function Best({ data }: { data: Dataset }) {
  const { best } = data;
  if (best === undefined) return null;
  const row = data.rows[best];
  const equals = [...data.equals].filter((i) => i !== best);
  return (
    <section class="change first" aria-labelledby="best-title">
      <span class="badge">best point</span>
      <h2 id="best-title"><bdi>{shown(nameOf(data, best), 300)}</bdi></h2>
      <p class="gain">{data.metrics.slice(0, 2).map((m) => m.values[best] && `${figure(m.values[best]!.median, m.unit)}`).filter(Boolean).join(", ")}</p>
      {row.sentence && <p><bdi><Prose text={row.sentence} most={400} /></bdi></p>}
      {!!equals.length && <p class="faint">{equals.length} other {equals.length === 1 ? "point" : "points"} cannot be told from the best: {equals.slice(0, 6).map((i) => nameOf(data, i)).join("; ")}{equals.length > 6 && "; …"}</p>}
    </section>
  );
}

function Handovers({ sweep }: { sweep: Sweep }) {
  const { dark } = useTheme();
  const list = sweep.findings.handovers;
  if (!list.length) return null;
  const cause = (name: string) => <><span class="swatch" style={{ background: causeColour(name, dark) }} aria-hidden="true" />{shown(causeWords(name), 80)} <code class="faint">{shown(name, 40)}</code></>;
  return (
    <section aria-labelledby="handover-title">
      <h2 id="handover-title">Where the limit changes</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Where the limit changes"><table class="short">
        <thead><tr><th scope="col">between</th><th scope="col">the largest cause changes from</th><th scope="col">to</th><th scope="col" class="n">times</th></tr></thead>
        <tbody>{list.slice(0, 12).map((h, i) => <tr key={i}><td><bdi>{shown(`${h.parameter}=${h.before}`, 60)}</bdi> and <bdi>{shown(h.after, 40)}</bdi></td><td>{cause(h.from)}</td><td>{cause(h.to)}</td><td class="n">{h.times}</td></tr>)}</tbody>
      </table></div>
    </section>
  );
}

export function SweepPage({ model }: { model: Model }) {
  const sweep = model.header.document as Sweep;
  const data = useMemo(() => ofSweep(sweep), [sweep]);
  return (
    <div class="document">
      <p class="ran"><code><bdi>{shown(sweep.command.join(" "), 400)}</bdi></code></p>
      <h1>{verdict(data) ? <><bdi>{verdict(data)}</bdi><span class="further block"><bdi><Prose text={sweep.findings.sentence} most={500} /></bdi></span></> : <bdi>{shown(sweep.findings.sentence, 500)}</bdi>}</h1>
      {sweep.findings.failures && <p class="remark"><bdi>{shown(sweep.findings.failures, 400)}</bdi></p>}
      <div class="two"><Best data={data} /><Shares sweep={sweep} /></div>
      <Explorer data={data} title="The points" />
      <Handovers sweep={sweep} />
      <Lead lines={[sweep.server && `server: ${sweep.server}`, sweep.ceiling_command && `ceiling: ${sweep.ceiling_command}`, sweep.ceiling_problem, `${sweep.points.length} points, ${sweep.repeat} runs of each at most. ${machineText(sweep.machine)}`]} />
    </div>
  );
}
