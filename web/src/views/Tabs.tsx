// The tabs under the answer, and the view that is chosen. Keys as in the ARIA pattern: arrows, Home and End move between tabs.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { useModel, type Model } from "../model";
import { currentView, viewsOf, type PageView } from "./list";

/** Whether the keys of the time view act: they would move what is not visible. */
export const isTime = (model: Model): boolean => ["time", "both"].includes(currentView(model)?.id ?? "");

function TabList({ model, views, current }: { model: Model; views: PageView[]; current: PageView }) {
  const list = useRef<HTMLDivElement>(null);
  const byKey = useRef(false);
  useEffect(() => {
    const [bar, tab] = [list.current!, list.current!.querySelector<HTMLElement>('[aria-selected="true"]')];
    if (byKey.current) tab?.focus();
    byKey.current = false;
    // On a phone the tabs are wider than the page: the chosen one is brought into sight, without moving the page itself.
    if (tab) bar.scrollLeft = Math.min(Math.max(bar.scrollLeft, tab.offsetLeft - bar.offsetLeft + tab.offsetWidth - bar.clientWidth), tab.offsetLeft - bar.offsetLeft);
  }, [current]);
  const press = (e: KeyboardEvent) => {
    const at = views.indexOf(current);
    const to = { ArrowRight: (at + 1) % views.length, ArrowLeft: (at + views.length - 1) % views.length, Home: 0, End: views.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    e.stopPropagation();
    byKey.current = true;
    model.showTab(to === 0 ? "" : views[to].id);
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views" ref={list} onKeyDown={press}>
      {views.map((view, i) => (
        <button type="button" role="tab" key={view.id} id={`tab-${view.id}`} aria-selected={view === current} aria-controls={view === current ? "view" : undefined}
          tabIndex={view === current ? 0 : -1} onClick={() => model.showTab(i === 0 ? "" : view.id)}>{view.title}</button>
      ))}
    </div>
  );
}

export function Tabs({ model }: { model: Model }) {
  const recording = useModel(model, (m) => m.recording);
  const isAll = useModel(model, (m) => m.isAll);
  const error = useModel(model, (m) => m.error);
  const views = useMemo(() => viewsOf(model), [recording]);
  useModel(model, (m) => m.tab);
  const current = currentView(model, views);
  if (error) return <p class="remark" role="alert">The recording cannot be shown: {error}</p>;
  if (!current) return null;
  const View = current.Component;
  // The time view begins before the spans are read.
  const ready = !!model.header.view || (current.id === "time" ? !!recording : isAll);
  const body = ready ? <View model={model} /> : <p class="faint" role="status">Reading the recording…</p>;
  return (
    <div class="views" id="views">
      {views.length > 1 && <TabList model={model} views={views} current={current} />}
      {views.length > 1 ? <div id="view" role="tabpanel" aria-labelledby={`tab-${current.id}`}>{body}</div> : <div id="view">{body}</div>}
    </div>
  );
}
