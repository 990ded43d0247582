// Two runs over time, one above the other, aligned by time, by phase or by byte.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Curves } from "../curves/Curves";
import { Timeline } from "../lanes/Timeline";
import { useModel, type Model, type RowSize } from "../model";
import { Legend } from "../panels/Legend";
import { Search } from "../panels/Toolbar";
import { Selection } from "../panels/Selection";
import { bytes, count, duration, instant, shown } from "../view/format";
import { ALIGNMENTS, Link, type Alignment } from "./link";
import { Ribbon } from "./Ribbon";
import { namesOf } from "./Short";

const TALLEST = 330;
const SAYS: Record<Alignment, string> = {
  time: "second for second, from the beginning of each run",
  phase: "each phase of A over the phase of B with its name: set-up over set-up, steady over steady",
  byte: "where A has moved a part of its bytes, B has moved the same part",
};
const KEYS = "Keys act on the view that has the focus, and the other follows: W and S zoom, A and D pan, 0 the whole run; J and K choose a lane, . and , the next and previous span, F zooms to it, M breaks it down; Escape clears. Mouse: drag pans, the wheel zooms after a click (or with Ctrl), Shift and drag measures, drag on the axis selects.";

/** The instants under the pointer, in both runs. */
function Readout({ link }: { link: Link }) {
  const text = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const show = () => {
      const { a, b } = link;
      if (!text.current) return;
      const at = a.cursor?.tick ?? null;
      const step = a.seconds(a.view.b - a.view.a) / 500;
      const of = (m: Model, tick: number) => `${instant(m.at(tick), step)}${link.place(m, tick) ? ` (${link.place(m, tick)})` : ""}`;
      text.current.textContent = at === null ? "Point at an instant of one run to see the corresponding instant of the other." : `A ${of(a, at)}  ↔  B ${of(b, link.across(a, at))}`;
    };
    show();
    const ends = [link.a.subscribe(show), link.b.subscribe(show)];
    return () => ends.forEach((end) => end());
  }, [link]);
  return <p class="readout" ref={text} />;
}

function Run({ model, letter, name }: { model: Model; letter: string; name: string }) {
  const r = model.recording!;
  return (
    <section class="run" data-run={letter.toLowerCase()} aria-label={`Run ${letter}: ${name}`}>
      <h3><span class="letter" aria-hidden="true">{letter}</span> <bdi>{shown(name, 80)}</bdi> <span class="faint">{duration(model.header.wall_ns / 1e9)}, {count(r.header.lanes.length)} lanes, {count(r.span.start.length)} spans</span></h3>
      <Timeline model={model} tallest={TALLEST} />
    </section>
  );
}

function Aligned({ link }: { link: Link }) {
  const [alignment, set] = useState(link.alignment);
  const choose = (next: Alignment) => {
    link.align(next);
    set(next);
  };
  const of = link.series;
  return (
    <>
      <fieldset class="toolbar"><legend>Align by</legend>
        {ALIGNMENTS.map((x) => <label class="check" key={x}><input type="radio" name="alignment" value={x} checked={x === alignment} disabled={!link.possible.has(x)} onChange={() => choose(x)} /> {x}</label>)}
        <span class="faint">{SAYS[alignment]}{alignment === "byte" && of && `: ${of[0].name} ${bytes(of[0].bytes)}${of[0].name === of[1].name ? "" : ` and ${of[1].name}`}${of[0].bytes === of[1].bytes ? "" : ` and ${bytes(of[1].bytes)}`}`}{!link.possible.has("phase") && ". The runs have no phases in common"}{!link.possible.has("byte") && ". No bytes were recorded"}</span>
      </fieldset>
    </>
  );
}

export function Both({ model }: { model: Model }) {
  const b = model.other;
  const ready = useModel(model, (m) => !!m.recording && !!m.other?.recording);
  const link = useMemo(() => (ready && b ? new Link(model, b) : null), [ready, b]);
  useEffect(() => link?.connect(), [link]);
  const size = useModel(model, (m) => m.rowSize);
  const tint = useModel(model, (m) => m.tint);
  if (!link || !b) return <p class="faint" role="status">Reading the second recording…</p>;
  const names = namesOf(model);
  return (
    <section class="time pair" aria-labelledby="both-title">
      <h2 id="both-title">Both runs over time</h2>
      <Aligned link={link} />
      <div class="toolbar" role="group" aria-label="Time view">
        <button type="button" onClick={() => model.zoomBy(0.5)}>Zoom in</button><button type="button" onClick={() => model.zoomBy(2)}>Zoom out</button><button type="button" onClick={() => link.showBoth()}>Whole runs</button>
        <label>Rows <select value={size} onChange={(e) => model.setRowSize(e.currentTarget.value as RowSize)}><option value="tall">with names</option><option value="low">low</option><option value="all">all at once</option></select></label>
        <label class="check"><input type="checkbox" checked={tint} onChange={(e) => { model.tint = e.currentTarget.checked; model.changed(); }} /> shade by cause</label>
      </div>
      <details class="find" open={!!model.matches}><summary>Find and filter in both</summary><Search model={model} /></details>
      <Run model={model} letter="A" name={names[0]} />
      <Ribbon link={link} />
      <Run model={b} letter="B" name={names[1]} />
      <Readout link={link} />
      <div class="two legends"><div><h3>A</h3><Legend model={model} /></div><div data-run="b"><h3>B</h3><Legend model={b} /></div></div>
      <div class="two"><div><h3 class="unseen">Selected in A</h3><Selection model={model} /></div><div data-run="b"><h3 class="unseen">Selected in B</h3><Selection model={b} /></div></div>
      <details class="keys"><summary>Keys and mouse</summary><p id="time-keys">{KEYS}</p></details>
      <details class="keys"><summary>Curves of A</summary><Curves model={model} /></details>
      <details class="keys"><summary>Curves of B</summary><Curves model={b} /></details>
    </section>
  );
}
