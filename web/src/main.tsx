// The page: reads the data elements, shows the answer at once, and the time view as soon as the worker has the lanes.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { render } from "preact";
import { Answer } from "./answer/Answer";
import { Curves } from "./curves/Curves";
import { readHeader } from "./data/header";
import { open } from "./data/open";
import { key } from "./lanes/input";
import { Timeline } from "./lanes/Timeline";
import { Model, useModel } from "./model";
import { Legend } from "./panels/Legend";
import { Search, Toolbar } from "./panels/Toolbar";
import { Selection } from "./panels/Selection";
import { count } from "./view/format";

const KEYS = "Keys: W and S zoom, A and D pan, 0 the whole run; J and K choose a lane, . and , the next and previous span, F zooms to it, M breaks it down; / searches, N and P go through what was found; Escape clears. Mouse: drag pans, the wheel zooms after a click (or with Ctrl), Shift and drag measures, drag on the axis selects.";

function Theme({ model }: { model: Model }) {
  const choice = useModel(model, (m) => m.themeChoice);
  return (
    <label class="theme">Colours <select value={choice} onChange={(e) => model.setTheme(e.currentTarget.value as Model["themeChoice"])}>
      <option value="system">as the system</option><option value="light">light</option><option value="dark">dark</option>
    </select></label>
  );
}

function Time({ model }: { model: Model }) {
  const recording = useModel(model, (m) => m.recording);
  const error = useModel(model, (m) => m.error);
  const isAll = useModel(model, (m) => m.isAll);
  if (error) return <p class="remark" role="alert">The time view cannot be shown: {error}</p>;
  if (!recording) return <p class="faint" role="status">Reading the recording…</p>;
  if (isAll && !recording.span.start.length && !recording.path.start.length) return <p class="faint">The recording has no spans: there is nothing to show over time.</p>;
  return (
    <>
      <Toolbar model={model} />
      <details class="find" open={innerWidth > 800 || !!model.matches}><summary>Find and filter</summary><Search model={model} /></details>
      <Timeline model={model} />
      <Legend model={model} />
      <Selection model={model} />
      <details class="keys"><summary>Keys and mouse</summary><p id="time-keys">{KEYS}</p></details>
      {isAll ? <Curves model={model} /> : <p class="faint" role="status">Reading the spans…</p>}
    </>
  );
}

function Page({ model }: { model: Model }) {
  const spans = useModel(model, (m) => m.recording?.span.start.length ?? 0);
  return (
    <>
      <header class="top"><span class="brand">thalweg report</span><button type="button" class="small" onClick={() => document.getElementById("time")?.scrollIntoView()}>Go to time</button><span class="grow" /><Theme model={model} /></header>
      <main>
        <Answer model={model} />
        <section id="time" class="time" aria-labelledby="time-title">
          <h2 id="time-title">Time {spans > 0 && <span class="faint">{count(model.header.lanes.length)} lanes, {count(spans)} spans. Bars: work. Thin bands: waits. Shade: what the critical path was charged to.</span>}</h2>
          <Time model={model} />
        </section>
        {model.header.short && <details class="astext"><summary>As text</summary><pre>{model.header.short}</pre></details>}
      </main>
    </>
  );
}

function canDraw(): boolean {
  return !!document.createElement("canvas").getContext("2d") && typeof DecompressionStream === "function";
}

async function start(): Promise<void> {
  const header = document.getElementById("thalweg-header")?.textContent;
  const app = document.getElementById("app");
  if (!header || !app || !canDraw()) return;
  const model = new Model(readHeader(header));
  model.setTheme("system");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => model.setTheme(model.themeChoice));
  matchMedia("print").addEventListener("change", (e) => model.print(e.matches));
  window.addEventListener("keydown", (e: KeyboardEvent) => {
    if (model.recording && key(model, e)) e.preventDefault();
  });
  window.addEventListener("hashchange", () => {
    model.restore(location.hash);
    model.layout();
  });
  const still = document.getElementById("static");
  if (still) {
    still.hidden = true;
    // The still part's style is for a page without the app.
    for (const style of still.querySelectorAll("style")) style.remove();
  }
  render(<Page model={model} />, app);
  try {
    const element = document.getElementById("thalweg-data");
    const recording = await open(model.header, element?.textContent ?? "", (first) => model.start(first, false));
    element?.remove();
    model.start(recording);
  } catch (error) {
    model.error = error instanceof Error ? error.message : String(error);
    model.changed();
  }
}

start().catch((error: unknown) => {
  // The static part of the page stays; say why there is no more.
  const note = document.createElement("p");
  note.textContent = `The interactive part did not start: ${error instanceof Error ? error.message : String(error)}`;
  document.body.prepend(note);
});
