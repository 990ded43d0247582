// The page: reads the data elements, shows the answer at once, and the time view as soon as the worker has the lanes.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import "./views/views.css";
import { render } from "preact";
import { Answer } from "./answer/Answer";
import { readHeader } from "./data/header";
import { open } from "./data/open";
import { key } from "./lanes/input";
import { Model, useModel } from "./model";
import type { Diff } from "./pair/document";
import { focused } from "./pair/link";
import { Achieved, Cards, Changes } from "./pair/Short";
import { viewsOf } from "./views/list";
import { isTime, Tabs } from "./views/Tabs";

function Theme({ model }: { model: Model }) {
  const choice = useModel(model, (m) => m.themeChoice);
  return (
    <label class="theme">Colours <select value={choice} onChange={(e) => model.setTheme(e.currentTarget.value as Model["themeChoice"])}>
      <option value="system">as the system</option><option value="light">light</option><option value="dark">dark</option>
    </select></label>
  );
}

function Page({ model }: { model: Model }) {
  return (
    <>
      <header class="top"><span class="brand">thalweg report</span><button type="button" class="small" onClick={() => document.getElementById("views")?.scrollIntoView()}>Go to the views</button><span class="grow" /><Theme model={model} /></header>
      <main>
        {model.other ? <Pair a={model} b={model.other} /> : !model.header.view && <Answer model={model} />}
        <Tabs model={model} />
        {model.header.short && <details class="astext"><summary>As text</summary><pre>{model.header.short}</pre></details>}
      </main>
    </>
  );
}

function Pair({ a, b }: { a: Model; b: Model }) {
  const diff = a.header.diff as Diff;
  return <section class="answer" aria-label="Both answers"><Cards a={a} b={b} diff={diff} /><div class={diff.made ? "columns" : "columns one"}><Changes a={a} b={b} diff={diff} /><Achieved a={a} diff={diff} /></div></section>;
}

/** Reads a recording's data element, and shows what can be drawn before its spans are read; the element is not needed afterwards. */
async function read(model: Model, id: string): Promise<void> {
  const element = document.getElementById(id);
  const recording = await open(model.header, element?.textContent ?? "", (first) => model.start(first, false));
  element?.remove();
  model.start(recording);
}

function canDraw(): boolean {
  return !!document.createElement("canvas").getContext("2d") && typeof DecompressionStream === "function";
}

async function start(): Promise<void> {
  const header = document.getElementById("thalweg-header")?.textContent;
  const app = document.getElementById("app");
  if (!header || !app || !canDraw()) return;
  const model = new Model(readHeader(header));
  const second = model.header.diff ? document.getElementById("thalweg-header-2")?.textContent : undefined;
  if (second) {
    model.other = new Model(readHeader(second), "-b");
    model.other.other = model;
  }
  // Without a view for the document, the still page is all there is.
  if (!viewsOf(model).length) return;
  model.setTheme("system");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => model.setTheme(model.themeChoice));
  matchMedia("print").addEventListener("change", (e) => model.print(e.matches));
  window.addEventListener("keydown", (e: KeyboardEvent) => {
    if (model.recording && (isTime(model) || e.key === "Escape") && key(focused(model), e)) e.preventDefault();
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
  if (model.header.view) return model.restore(location.hash);
  try {
    await read(model, "thalweg-data");
    if (model.other) await read(model.other, "thalweg-data-2");
    model.changed();
  } catch (error) {
    model.error = error instanceof Error ? error.message : String(error);
    model.changed();
  }
}

start().catch((error: unknown) => {
  // The static part of the page comes back; say why there is no more.
  const still = document.getElementById("static");
  if (still) still.hidden = false;
  document.getElementById("app")?.replaceChildren();
  const note = document.createElement("p");
  note.textContent = `The interactive part did not start: ${error instanceof Error ? error.message : String(error)}`;
  document.body.prepend(note);
});
