// The first view: lanes, legend, selection and curves over time.

import { Curves } from "../curves/Curves";
import { Timeline } from "../lanes/Timeline";
import { useModel, type Model } from "../model";
import { Legend } from "../panels/Legend";
import { Search, Toolbar } from "../panels/Toolbar";
import { Selection } from "../panels/Selection";
import { count } from "../view/format";

const KEYS = "Keys: W and S zoom, A and D pan, 0 the whole run; J and K choose a lane, . and , the next and previous span, F zooms to it, M breaks it down, G follows its arrow; / searches, N and P go through what was found; Escape clears. Mouse: drag pans, the wheel zooms after a click (or with Ctrl), Shift and drag measures, drag on the axis selects; a click on an arrow goes to its other end.";

export function Time({ model }: { model: Model }) {
  const { lanes } = model.header;
  const leftOut = model.header.left_out?.spans ?? 0;
  const isAll = useModel(model, (m) => m.isAll);
  const spans = useModel(model, (m) => m.recording!.span.start.length);
  if (isAll && !spans && !model.recording!.path.start.length) return <section class="time"><p class="faint">The recording has no spans: there is nothing to show over time.</p></section>;
  return (
    <section class="time" aria-labelledby="time-title">
      <h2 id="time-title">Time <span class="faint">{count(lanes.length)} lanes{isAll && `, ${count(spans)} spans${leftOut > 0 ? ` of ${count(spans + leftOut)}` : ""}`}. Bars: work. Thin bands: waits. Shade: what the critical path was charged to.</span></h2>
      <Toolbar model={model} />
      <details class="find" open={!!model.matches}><summary>Find and filter</summary><Search model={model} /></details>
      <Timeline model={model} />
      <Legend model={model} />
      <Selection model={model} />
      <details class="keys"><summary>Keys and mouse</summary><p id="time-keys">{KEYS}</p></details>
      {isAll ? <Curves model={model} /> : <p class="faint" role="status">Reading the spans…</p>}
    </section>
  );
}
