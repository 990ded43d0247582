// What acts on the time view: zoom, rows, search and filters, export.

import { useEffect, useRef, useState } from "preact/hooks";
import { isFiltered, noFilter, parseDuration, type Filter } from "../data/filter";
import { saveCsv, savePng, saveTimeSvg } from "../export/save";
import { useModel, type Model, type RowSize } from "../model";
import { count, duration, shown } from "../view/format";

/** A search runs when nothing was typed for this long. */
const PAUSE_MS = 250;

export function Toolbar({ model }: { model: Model }) {
  const size = useModel(model, (m) => m.rowSize);
  const tint = useModel(model, (m) => m.tint);
  return (
    <div class="toolbar" role="group" aria-label="Time view">
      <button type="button" onClick={() => model.zoomBy(0.5)} title="Zoom in (W)">Zoom in</button>
      <button type="button" onClick={() => model.zoomBy(2)} title="Zoom out (S)">Zoom out</button>
      <button type="button" onClick={() => model.showAll()} title="Show the whole run (0)">Whole run</button>
      <label>Rows <select value={size} onChange={(e) => model.setRowSize(e.currentTarget.value as RowSize)}>
        <option value="tall">with names</option><option value="low">low</option><option value="all">all at once</option>
      </select></label>
      <button type="button" onClick={() => model.foldAll(false)}>Unfold all</button>
      <button type="button" onClick={() => model.foldAll(true)}>Fold all</button>
      <label class="check"><input type="checkbox" checked={tint} onChange={(e) => {
        model.tint = e.currentTarget.checked;
        model.changed();
      }} /> shade by cause</label>
      <span class="grow" />
      <button type="button" onClick={() => saveTimeSvg(model)} title="This view as a picture whose text is text">SVG</button>
      <button type="button" onClick={() => savePng(model)} title="This view as an image">PNG</button>
      <button type="button" onClick={() => saveCsv(model)} title="The spans in view (or selected) that match the filter">CSV</button>
    </div>
  );
}

function Field(props: { label: string; value: string; placeholder: string; set: (v: string) => void; wide?: boolean; focusKey?: string }) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(props.value);
  useEffect(() => setText(props.value), [props.value]);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const typed = (value: string) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => props.set(value), PAUSE_MS);
  };
  useEffect(() => {
    if (!props.focusKey) return;
    const press = (e: KeyboardEvent) => {
      if (e.key !== props.focusKey || /^(INPUT|SELECT|TEXTAREA)$/.test((e.target as HTMLElement).tagName)) return;
      e.preventDefault();
      const folded = input.current?.closest("details");
      if (folded) folded.open = true;
      input.current?.focus();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  return (
    <label>{props.label} <input ref={input} type="search" class={props.wide ? "wide" : ""} value={text} placeholder={props.placeholder} onInput={(e) => typed(e.currentTarget.value)} /></label>
  );
}

export function Search({ model }: { model: Model }) {
  const filter = useModel(model, (m) => m.filter);
  const matches = useModel(model, (m) => m.matches);
  const set = (part: Partial<Filter>) => model.setFilter({ ...model.filter, ...part });
  const kinds = [...new Set(model.header.kinds.map((k) => k.name))].sort();
  const leftOut = model.header.left_out?.spans ?? 0;
  const least = filter.least_s > 0 ? duration(filter.least_s) : "";
  return (
    <div class="toolbar search" role="search" aria-label="Find and filter spans">
      <Field label="Find" value={filter.text} placeholder="kind, file, thread…  ( / )" set={(text) => set({ text })} wide focusKey="/" />
      <label>Kind <select value={filter.kind} onChange={(e) => set({ kind: e.currentTarget.value })}>
        <option value="">all</option>
        {kinds.map((k) => <option key={k} value={k}>{shown(k, 40)}</option>)}
      </select></label>
      <Field label="File or connection" value={filter.object} placeholder="part of a name" set={(object) => set({ object })} />
      <Field label="Lane" value={filter.lane} placeholder="thread, process, host" set={(lane) => set({ lane })} />
      <Field label="At least" value={least} placeholder="5 ms" set={(text) => set({ least_s: parseDuration(text) })} />
      {isFiltered(filter) && <>
        <button type="button" onClick={() => model.step(true)} disabled={!matches?.count} title="P">Previous</button>
        <button type="button" onClick={() => model.step(false)} disabled={!matches?.count} title="N">Next</button>
        <button type="button" onClick={() => model.setFilter(noFilter())}>Clear</button>
      </>}
      <span role="status" class="faint">{matches ? `${count(matches.count)} spans match, ${duration(model.seconds(matches.ticks))} together${leftOut ? `; ${count(leftOut)} shorter spans are left out of the page` : ""}` : ""}</span>
    </div>
  );
}
