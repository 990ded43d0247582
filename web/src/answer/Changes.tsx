// What to change: what the reader can do, with its predicted time; then what other hardware would give.

import { useState } from "preact/hooks";
import type { Header, WhatIf } from "../data/header";
import type { Model } from "../model";
import { shown } from "../view/format";
import { viewsOf } from "../views/list";
import { isStopped, usuallyHelps } from "./help";
import { partsOf } from "./parts";
import { commandLine, gain, givesUp, nothingKnown, plan, shortName, wasCutShort, type Proposal } from "./predictions";

/** Changes that are shown before "more" is opened. */
const MOST = 2;

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

function Command({ words }: { words: string[] }) {
  const line = commandLine(words);
  return <div class="command"><code title={shown(line, 600)}><bdi>{shown(line, 600)}</bdi></code><Copy text={line} /></div>;
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const nameOf = (w: WhatIf): string => shown(w.change.replace(" (gives this at most)", "").replace(/ x (\d)/, "\u00a0×\u00a0$1"));

/** What a change is in words, if that is more than its name. */
function howOf(w: WhatIf): string {
  const how = (w.flags ?? []).map(([flag, value]) => `${flag} ${value}`).join(" ") || w.how;
  return how && how !== w.change ? how : "";
}

/** A card's title and what stands below: of a change that is named by what is absent then ("no stopped process"), its first step is the title. */
function wordsOf(w: WhatIf): { title: string; below: string; named: string } {
  const how = howOf(w);
  if (!w.id.startsWith("no_") || !w.how || w.flags?.length || w.command?.length) return { title: nameOf(w), below: how, named: "" };
  const end = how.search(/[;:]/);
  return { title: end < 0 ? how : how.slice(0, end), below: end < 0 ? "" : how.slice(end + 1).trim(), named: shortName(w.change) };
}

function Times({ w, wall_s }: { w: WhatIf; wall_s: number }) {
  const g = gain(w, wall_s);
  return <><span>{g.before}</span> <span aria-hidden="true">→</span><span class="unseen"> becomes </span> <strong>{g.after}</strong> <span class="faint">({g.note})</span></>;
}

function Change({ proposal, wall_s, first }: { proposal: Proposal; wall_s: number; first: boolean }) {
  const { change: w, or } = proposal;
  const after = Math.max(0.01, Math.min(1, w.predicted_wall_s / wall_s));
  const lost = givesUp(w);
  const { title, below, named } = wordsOf(w);
  return (
    <li class={first ? "change first" : "change"}>
      {first && <span class="badge">try this first</span>}
      <h3><bdi>{named ? capital(shown(title, 300)) : shown(title, 300)}</bdi></h3>
      <p class="gain"><Times w={w} wall_s={wall_s} />{named && <span class="faint"> with <bdi>{shown(named, 120)}</bdi></span>}</p>
      <div class="compare" aria-hidden="true"><span class="today" /><span class="after" style={{ width: `${after * 100}%` }} /></div>
      {w.command?.length ? <Command words={w.command} /> : below ? <p class="how"><bdi>{shown(below, 600)}</bdi></p> : null}
      {lost && <p class="faint">gives up {shown(lost, 300)}</p>}
      {or.map((other) => <p class="or" key={other.id}>or <bdi>{shown(shortName(other.change), 120)}</bdi> <span aria-hidden="true">→</span><span class="unseen"> it becomes </span> {gain(other, wall_s).after}</p>)}
    </li>
  );
}

function Wish({ w, wall_s }: { w: WhatIf; wall_s: number }) {
  const how = howOf(w);
  return <li class="wish"><span class="faint">if you could:</span> <bdi>{nameOf(w)}</bdi>: <Times w={w} wall_s={wall_s} />{how && !/^(profile it|move what is)/.test(how) && <span class="faint block"><bdi>{shown(how, 300)}</bdi></span>}</li>;
}

/** Where nothing is known that the reader can do: what the text says, and what usually helps against the largest cause. */
function NoChange({ model }: { model: Model }) {
  const { header } = model;
  const e = header.explanation;
  const [largest] = partsOf(header);
  const cause = largest?.cause ?? e.verdict?.cause ?? "";
  const nothing = nothingKnown(header.short);
  const helps = wasCutShort(e) ? "" : usuallyHelps(e, cause);
  if (wasCutShort(e)) return <li class="change"><p>The run was cut short: first remove what ended it. No change to its speed is proposed.</p></li>;
  if (!helps) return nothing ? <li class="change"><p>{shown(nothing, 200)}</p></li> : null;
  // The program that computed, and at what: there the work is to be saved.
  const computes = cause.endsWith(".cpu") && largest?.subject ? shown(largest.subject, 80) : "";
  const profile = cause.endsWith("cpu") ? viewsOf(model).find((v) => v.id === "profile") : undefined;
  return (
    <li class="change">
      <h3>No setting with a predicted gain is known</h3>
      <p class="how"><span class="faint">what usually helps:</span> {computes ? <>give <bdi>{computes}</bdi> less to do: see in a profile what takes the time, save that work, or divide the work among more processors</> : helps}</p>
      {profile && <p><button type="button" class="small" onClick={() => model.showTab("profile")}>Which functions took the time: Profile</button></p>}
    </li>
  );
}

/** Advice without a number; what helps against a sleep does not help against a stop. */
const adviceOf = (header: Header) => (header.explanation.advice ?? []).filter((a) => !isStopped(header.explanation, a.cause)).slice(0, 2);

export function Changes({ model }: { model: Model }) {
  const { header } = model;
  const e = header.explanation;
  const { can, could } = plan(e, header.short);
  const advice = adviceOf(header).map((a, i) => (
    <li class="change" key={`a${i}`}>
      <h3><bdi>{shown(a.says, 300)}</bdi></h3><p class="faint">without a predicted gain</p>
      {a.command?.length ? <Command words={a.command} /> : null}
      {a.gives_up && <p class="faint">gives up {shown(a.gives_up, 300)}</p>}
    </li>
  ));
  const none = !can.length && !advice.length && <NoChange key="none" model={model} />;
  const items = [
    ...(none ? [none] : []),
    ...can.map((proposal, i) => <Change key={proposal.change.id} proposal={proposal} wall_s={e.wall_s} first={i === 0} />),
    ...advice,
    ...could.map((w) => <Wish key={w.id} w={w} wall_s={e.wall_s} />),
  ];
  if (!items.length) return null;
  const rest = items.slice(MOST);
  return (
    <section class="changes" aria-labelledby="changes-title">
      <h2 id="changes-title">What to change{(!!can.length || !!could.length) && <span class="faint">today → after (predicted)</span>}</h2>
      <ol>{items.slice(0, MOST)}</ol>
      {!!rest.length && <details class="more"><summary>{rest.length} more</summary><ol>{rest}</ol></details>}
    </section>
  );
}
