// Where processors' time went, and where threads waited: classes over time, and a flame graph of stacks on and off CPU.

import { useMemo, useState } from "preact/hooks";
import type { Model } from "../../model";
import { CLASS_LABEL, CLASSES, type SpanClass } from "../../palette";
import { count, duration, percent, shown } from "../../view/format";
import { AsTable } from "../shared/AsTable";
import { showSpan, useLimits } from "../shared/limits";
import { Strip } from "../shared/Strip";
import { useWork } from "../shared/work";
import { periodOf, titleOf } from "./classes";
import { Flame, type FlameWords } from "./Flame";
import { OverTime } from "./OverTime";
import { functionsOf, matched, treeOf, type Node } from "./tree";

type Mode = "on" | "off";

function modesOf(model: Model): Mode[] {
  const r = model.recording!;
  const modes: Mode[] = [];
  if (r.sample.stack.some((s) => s > 0)) modes.push("on");
  if (r.span.stack.some((s) => s > 0)) modes.push("off");
  return modes;
}

/** A weight in the unit of the mode: samples as processor time where the period is known; ticks as time. */
function amount(model: Model, mode: Mode, value: number): string {
  if (mode === "off") return duration(model.seconds(value));
  const period = periodOf(model.header);
  return period ? duration(value * period) : `${count(value)} samples`;
}

function wordsOf(model: Model, mode: Mode, root: Node): FlameWords {
  return {
    weight: (value) => `${amount(model, mode, value)} (${percent(value / Math.max(1, root.total))})`,
    class: (name) => ((CLASSES as readonly string[]).includes(name) ? CLASS_LABEL[name as SpanClass] : titleOf(model.header, name)),
  };
}

function Graph({ model, mode, root }: { model: Model; mode: Mode; root: Node }) {
  const [search, setSearch] = useState("");
  const words = useMemo(() => wordsOf(model, mode, root), [root]);
  const functions = useMemo(() => functionsOf(root), [root]);
  if (!root.total) return <p class="faint">{mode === "on" ? "No sample was taken in this interval." : "No wait with a stack in this interval."}</p>;
  const table = () => ({
    columns: ["function", "module", "class", mode === "on" ? "self_samples" : "self_ns", mode === "on" ? "total_samples" : "total_ns"],
    rows: functions.map((f) => [f.name, f.module, words.class(f.class), ...[f.self, f.total].map((v) => (mode === "on" ? v : Math.round(v * model.header.tick_ns)))]),
  });
  const show = mode === "off" ? { label: "Show its longest wait", act: (n: Node) => n.longest >= 0 && showSpan(model, n.longest) } : undefined;
  return (
    <>
      <div class="toolbar">
        <label>Find a function <input type="search" value={search} placeholder="part of a name" onInput={(e) => setSearch(e.currentTarget.value)} /></label>
        <span role="status" class="faint">{search ? `${words.weight(matched(root, search))} within functions that match` : ""}</span>
      </div>
      <Flame model={model} root={root} label={mode === "on" ? "Stacks that ran on a processor" : "Stacks that waited"} search={search.trim()} words={words} show={show} />
      <AsTable title={mode === "on" ? "functions by the time in them" : "functions by the waits in them"} file={mode === "on" ? "functions" : "waits"} data={table}
        show={(v) => amount(model, mode, mode === "on" ? v : v / model.header.tick_ns)} />
    </>
  );
}

export function Profile({ model }: { model: Model }) {
  const r = model.recording!;
  const limits = useLimits(model);
  const modes = useMemo(() => modesOf(model), [r]);
  const [wanted, setMode] = useState<Mode>("on");
  const hosts = useMemo(() => [...new Set(r.header.lanes.map((l) => l.host))].filter(Boolean), [r]);
  const [host, setHost] = useState("");
  const mode = modes.includes(wanted) ? wanted : modes[0];
  const { value: root, working } = useWork(function* () {
    return mode ? { mode, root: yield* treeOf(r, mode, { a: limits.a, b: limits.b, mask: limits.mask, host }) } : null;
  }, [mode, limits, host]);
  return (
    <section class="profile" aria-labelledby="profile-title">
      <h2 id="profile-title">Profile <span class="faint">which functions ran, and in which functions threads waited</span></h2>
      <Strip model={model} />
      {hosts.length > 1 && <div class="toolbar"><label>Host <select value={host} onChange={(e) => setHost(e.currentTarget.value)}>
        <option value="">all</option>{hosts.map((h) => <option key={h} value={h}>{shown(h, 60)}</option>)}
      </select></label></div>}
      {modes.includes("on") && <OverTime model={model} limits={limits} host={host} />}
      {modes.length > 1 && <fieldset class="modes"><legend class="unseen">Stacks</legend>
        <label><input type="radio" name="mode" checked={mode === "on"} onChange={() => setMode("on")} /> on a CPU <span class="faint">(samples)</span></label>
        <label><input type="radio" name="mode" checked={mode === "off"} onChange={() => setMode("off")} /> waiting <span class="faint">(threads' waits, added up; threads that did nothing all the time are left out)</span></label>
      </fieldset>}
      <h3 class="plottitle">{mode === "off" ? "Where threads waited" : "Which functions ran"} <span class="faint">callers above, the functions that they called below; as wide as their part of the time</span></h3>
      <div aria-busy={working}>{root ? <Graph key={root.mode} model={model} mode={root.mode} root={root.root} /> : <p class="faint" role="status">{mode ? "Adding stacks up…" : "The recording has no stacks."}</p>}</div>
    </section>
  );
}
