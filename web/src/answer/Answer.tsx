// The first screen: what was slow, what it was charged to, what to change.

import { useState } from "preact/hooks";
import type { Header, WhatIf } from "../data/header";
import { useModel, type Model } from "../model";
import { causeColour, isLight } from "../palette";
import { duration, percent, shown } from "../view/format";
import { around } from "../view/scale";
import { causeName, helpFor, plainLabel, usuallyHelps } from "./help";
import { commandLine, gain, nothingKnown, proposed, wasCutShort } from "./predictions";
import { Prose } from "./Prose";
import { Tip, useAsker, WhyList, type Asker } from "./Why";

/** Causes below this share are one piece of the bar. */
const SMALL = 0.02;

function toTime(model: Model): void {
  (model.suffix ? model.other! : model).showTab("");
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  document.getElementById("views")?.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
}

/** Selects an interval, in seconds of the run, and shows it. */
function showInterval(model: Model, a_s: number, b_s: number): void {
  const ticks = (s: number) => (s * 1e9 + model.header.start_ns) / model.header.tick_ns;
  model.setView(around(ticks(a_s), ticks(b_s), model.total, 0.6));
  model.select({ a: ticks(a_s), b: ticks(b_s) });
  toTime(model);
}

function jump(model: Model, cause: string): void {
  if (model.goToCause(cause)) toTime(model);
}

export function Bar({ model, asker }: { model: Model; asker: Asker }) {
  const dark = useModel(model, (m) => m.theme.dark);
  const e = model.header.explanation;
  const ready = useModel(model, (m) => !!m.recording);
  const sum = model.header.causes.reduce((total, c) => total + c.ns, 0);
  if (sum <= 0) return null;
  const large = model.header.causes.filter((c) => c.ns / sum >= SMALL);
  const rest = 1 - large.reduce((total, c) => total + c.ns / sum, 0);
  return (
    <div class="bar" role="group" aria-label="The critical path by cause: choose a cause to see its longest instance">
      {large.map((c) => {
        const colour = causeColour(c.name, dark);
        const share = c.ns / sum;
        return (
          <button type="button" key={c.name} class="piece" aria-disabled={!ready} onClick={() => jump(model, c.name)} {...asker.props(c.name)}
            style={{ flexGrow: share, background: colour, color: isLight(colour) ? "#10151b" : "#ffffff" }}
            aria-label={`${percent(share)} ${causeName(e, c.name)}: ${shown(plainLabel(model.header, c))}. Show the longest instance.`}>
            <span class="words" aria-hidden="true"><strong>{percent(share)}</strong> <span>{causeName(e, c.name)}</span> <span><bdi>{shown(plainLabel(model.header, c), 60)}</bdi></span></span>
          </button>
        );
      })}
      {rest > 0.001 && <span class="piece rest" style={{ flexGrow: rest }} title={`others: ${percent(rest)}`} />}
    </div>
  );
}

/** The causes of the rows that are left out, largest first: the bar has their time too. */
function parts(header: Header, rows: { cause: string; share: number }[]): string {
  const shares = new Map<string, number>();
  for (const row of rows) shares.set(row.cause, (shares.get(row.cause) ?? 0) + row.share);
  const large = [...shares].filter(([, share]) => share >= 0.01).sort((a, b) => b[1] - a[1]).slice(0, 4);
  return large.map(([cause, share]) => `${causeName(header.explanation, cause)} ${percent(share)}`).join(", ");
}

function Rows({ model, asker }: { model: Model; asker: Asker }) {
  const dark = useModel(model, (m) => m.theme.dark);
  const rows = model.header.explanation.summary?.rows ?? [];
  const large = rows.filter((row) => row.share >= 0.05).slice(0, 5);
  const rest = rows.filter((row) => !large.includes(row));
  const restShare = rest.reduce((sum, row) => sum + row.share, 0);
  if (!rows.length) return null;
  return (
    <ul class="rows">
      {large.map((row, i) => (
        <li key={i}>
          <span class="share">{percent(row.share)}</span>
          <button type="button" class="link cause" onClick={() => jump(model, row.cause)} {...asker.props(row.cause)}>
            <span class="swatch" style={{ background: causeColour(row.cause, dark) }} aria-hidden="true" />{causeName(model.header.explanation, row.cause)}
          </button>
          <span class="what"><bdi>{shown(row.subject)}</bdi>{row.figures && <>: {shown(row.figures, 300)}</>}<span class="faint block">{helpFor(row.cause, row.figures)}</span></span>
        </li>
      ))}
      {restShare >= 0.03 && <li><span class="share">{percent(restShare)}</span><span class="faint">{rest.length} {rest.length === 1 ? "other" : "others"}</span><span class="what faint">{parts(model.header, rest)}</span></li>}
    </ul>
  );
}

function Copy({ text }: { text: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      setDone(false);
    }
  };
  return <button type="button" class="small" onClick={copy} aria-label="Copy the command">{done ? "copied" : "copy"}</button>;
}

function Change({ w, wall_s, first }: { w: WhatIf; wall_s: number; first: boolean }) {
  const g = gain(w, wall_s);
  const flags = (w.flags ?? []).map(([flag, value]) => `${flag} ${value}`).join(" ");
  const how = flags || w.how;
  const after = Math.max(0.01, Math.min(1, w.predicted_wall_s / wall_s));
  return (
    <li class={first ? "change first" : "change"}>
      {first && <span class="badge">try this first</span>}
      <h3><bdi>{shown(w.change.replace(" (gives this at most)", ""))}</bdi></h3>
      <p class="gain"><span>{g.before}</span> <span aria-hidden="true">→</span><span class="unseen"> becomes </span> <strong>{g.after}</strong> <span class="faint">({g.note})</span></p>
      <div class="compare" aria-hidden="true"><span class="today" /><span class="after" style={{ width: `${after * 100}%` }} /></div>
      {w.command?.length ? <div class="command"><code><bdi>{shown(commandLine(w.command), 600)}</bdi></code><Copy text={commandLine(w.command)} /></div>
        : how && how !== w.change ? <p class="how"><bdi>{shown(how, 600)}</bdi></p> : null}
      {w.gives_up && <p class="faint">gives up {shown(w.gives_up, 300)}</p>}
    </li>
  );
}

/** Where nothing is proposed: what the text says, and what usually helps against the largest cause. */
function NoChange({ header }: { header: Header }) {
  const e = header.explanation;
  const cause = e.verdict?.cause ?? header.causes[0]?.name ?? "";
  const nothing = nothingKnown(header.short);
  const helps = wasCutShort(e) ? "" : usuallyHelps(cause);
  if (!cause || (!helps && !nothing && !wasCutShort(e))) return null;
  return (
    <section class="changes" aria-labelledby="changes-title">
      <h2 id="changes-title">What to change</h2>
      <ol><li class="change">
        {wasCutShort(e) ? <p>The run was cut short: first remove what ended it. No change to its speed is proposed.</p> : nothing && <p>{shown(nothing, 200)}</p>}
        {helps && <p><span class="faint">what usually helps against {causeName(e, cause)}:</span> {helps}</p>}
      </li></ol>
    </section>
  );
}

function Changes({ header }: { header: Header }) {
  const e = header.explanation;
  const changes = proposed(e, header.short);
  const advice = (e.advice ?? []).slice(0, 2);
  if (!changes.length && !advice.length) return <NoChange header={header} />;
  return (
    <section class="changes" aria-labelledby="changes-title">
      <h2 id="changes-title">What to change <span class="faint">today → after (predicted)</span></h2>
      <ol>
        {changes.map((w, i) => <Change key={w.id} w={w} wall_s={e.wall_s} first={i === 0} />)}
        {advice.map((a, i) => (
          <li class="change" key={`a${i}`}>
            <h3><bdi>{shown(a.says, 300)}</bdi></h3><p class="faint">without a predicted gain</p>
            {a.command?.length ? <div class="command"><code><bdi>{shown(commandLine(a.command), 600)}</bdi></code><Copy text={commandLine(a.command)} /></div> : null}
          </li>
        ))}
      </ol>
    </section>
  );
}

export function Answer({ model }: { model: Model }) {
  const { header } = model;
  const asker = useAsker();
  useModel(model, (m) => !!m.recording);
  const e = header.explanation;
  const summary = e.summary;
  const title = summary?.sentence || e.verdict?.sentence || summary?.about || "This recording has no explanation";
  const remarks = [...(summary?.remarks ?? []), ...(header.notes ?? [])];
  const lost = e.dropped_events ?? 0;
  return (
    <section class="answer" aria-labelledby="answer-title">
      <p class="ran"><code><bdi>{shown(summary?.command ?? (e.command ?? []).join(" "), 300)}</bdi></code>{summary?.about && <span><span class="colon">: </span>{shown(summary.about, 200)}</span>}{summary?.ended && !title.includes(summary.ended) && <strong> {shown(summary.ended, 120)}</strong>}</p>
      <h1 id="answer-title"><bdi><Prose text={title} most={400} /></bdi></h1>
      {summary?.numbers?.[0] && <p class="number"><bdi>{shown(summary.numbers[0].sentence, 300)}</bdi></p>}
      <div class="columns">
        <div class="where">
          <h2>Where the time went <span class="faint">{duration(e.wall_s)}, by cause</span></h2>
          <Bar model={model} asker={asker} />
        </div>
        <Changes header={header} />
        <div class="grounds">
          <Rows model={model} asker={asker} />
          {!!summary?.innocent.length && <p class="innocent"><span class="faint">not the limit:</span> {summary.innocent.map((i) => `${shown(i.what, 60)} (${shown(i.figure, 80)})`).join(", ")}</p>}
          {lost > 0 && <p class="remark">{lost.toLocaleString("en-US")} events were lost: shares may be off by as much as their time.</p>}
          {!!header.left_out?.spans && <p class="remark">{header.left_out.spans.toLocaleString("en-US")} short spans are left out of this page; the answer counts them, and the lanes show their time.</p>}
          {remarks.map((remark, i) => <p class="remark" key={i}><Prose text={remark} most={400} /></p>)}
          <WhyList model={model} go={(a_s, b_s) => showInterval(model, a_s, b_s)} />
        </div>
      </div>
      <Tip model={model} asker={asker} />
    </section>
  );
}
