// The legend: classes that occur (each can be hidden), causes of the critical path, kinds of marks.

import { useMemo } from "preact/hooks";
import { causeName } from "../answer/help";
import { markColour } from "../lanes/overlay";
import { useModel, type Model } from "../model";
import { causeColour, classColour, CLASS_LABEL, CLASSES, isWait, STOPPED } from "../palette";
import { count, percent, shown } from "../view/format";

function MarkIcon({ kind, colour }: { kind: number; colour: string }) {
  const form = kind % 3;
  return (
    <svg width="12" height="14" aria-hidden="true">
      <line x1="6" x2="6" y1="0" y2="14" stroke={colour} />
      {form === 0 ? <circle cx="6" cy="4" r="4" fill={colour} /> : form === 1 ? <rect x="2" y="0" width="8" height="8" fill={colour} /> : <path d="M1 0h10L6 9z" fill={colour} />}
    </svg>
  );
}

export function Legend({ model }: { model: Model }) {
  const dark = useModel(model, (m) => m.theme.dark);
  const hidden = useModel(model, (m) => [...m.hidden].join());
  const r = model.recording!;
  const used = useMemo(() => {
    const found = new Set([...new Set(r.segments.kind), ...r.lanes.flatMap((lane) => (lane.partial ? lane.levels!.classes : []))]);
    return CLASSES.map((_, c) => c).filter((c) => found.has(c));
  }, [r]);
  const marks = useMemo(() => {
    const counts = new Map<number, number>();
    for (const kind of r.mark.kind) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    return [...counts];
  }, [r]);
  const sum = model.header.causes.reduce((total, c) => total + c.ns, 0) || 1;
  const isHidden = (c: number) => hidden.split(",").includes(String(c));
  return (
    <div class="legend">
      <ul aria-label="Lanes: what a thread did">
        {used.map((c) => (
          <li key={c}><button type="button" class="link" aria-pressed={!isHidden(c)} onClick={() => model.toggleClass(c)} title="Show or hide">
            <span class={`key ${c === STOPPED ? "stopped" : isWait(c) ? "thin" : ""}`} style={{ "--key": classColour(c, dark) }} aria-hidden="true" />
            {CLASS_LABEL[CLASSES[c]]}</button></li>
        ))}
      </ul>
      {!!marks.length && <ul aria-label="Marks">
        {marks.map(([kind, n]) => <li key={kind}><MarkIcon kind={kind} colour={markColour(r.header.marks[kind]?.kind ?? "", model)} /> {shown(r.header.marks[kind]?.label ?? "mark", 80)} <span class="faint">× {count(n)}</span></li>)}
      </ul>}
      <ul aria-label="Critical path, line on a lane, and shade: causes">
        {model.header.causes.filter((c) => c.ns > 0).slice(0, 10).map((c, i) => (
          <li key={i}><button type="button" class="link" onClick={() => model.goToCause(c.name)} title="Show the longest instance">
            <span class="key line" style={{ "--key": causeColour(c.name, dark) }} aria-hidden="true" />{causeName(model.header.explanation, c.name)} <span class="faint">{percent(c.ns / sum)}</span></button></li>
        ))}
      </ul>
    </div>
  );
}
