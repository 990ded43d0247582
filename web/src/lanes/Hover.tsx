// The evidence under the pointer: the spans of the lane at that instant, what the instant was charged to, and by which rule.

import { useLayoutEffect, useRef } from "preact/hooks";
import { causeName, plainCause } from "../answer/help";
import { rulesOf } from "../answer/why";
import { breakdown, pathAt } from "../data/breakdown";
import { NO_CHARGE } from "../data/recording";
import { arrowText } from "./arrows";
import { firstOf } from "./clocks";
import { sampleAt } from "./samples";
import { useModel, type Model } from "../model";
import { CLASS_LABEL, type SpanClass } from "../palette";
import { bytes, duration, instant, percent, shown } from "../view/format";

export interface Evidence {
  cause: string;
  length: string;
  evidence: string;
  rule: string;
}

/** What an instant was charged to, the evidence, and the rule. */
export function evidenceAt(model: Model, tick: number): Evidence | null {
  const r = model.recording!;
  const at = pathAt(r, tick);
  if (at < 0) return null;
  const s = r.pathSegments;
  const cause = r.header.causes[s.kind[at]]?.name ?? "";
  const e = r.header.explanation;
  const charge = e.critical_path?.[r.path.charge[s.span[at]] ?? NO_CHARGE] ?? e.critical_path?.find((c) => c.cause === cause);
  const [first] = charge ? rulesOf(r.header, charge) : [];
  return {
    cause: `${shown(plainCause(r.header, cause), 80)} (${causeName(e, cause)})`, length: duration(model.seconds(s.end[at] - s.start[at])),
    evidence: charge ? `${charge.where}: ${charge.evidence}` : "", rule: first ? `by ${first.name}: ${first.when}` : charge?.rule ?? charge?.basis ?? "",
  };
}

export function spanLines(model: Model, i: number): string[] {
  const { span, header } = model.recording!;
  const kind = header.kinds[span.kind[i]]?.name ?? "?";
  const lines = [`${kind}, ${duration(model.seconds(span.duration[i]))}${span.size[i] ? `, ${bytes(span.size[i])}` : ""}`];
  if (span.object[i]) lines.push(shown(header.objects[span.object[i]] ?? ""));
  return lines;
}

/** What a lane did around an instant where spans are left out: the shares of the finest bucket. */
function leftOutLine(model: Model, lane: number, tick: number): string {
  const r = model.recording!;
  const { levels, partial } = r.lanes[lane];
  if (!partial || !levels) return "";
  const ticks = levels.total / levels.buckets[0];
  const a = levels.from + Math.floor((tick - levels.from) / ticks) * ticks;
  const parts = breakdown(r, a, a + ticks, [lane]).classes.filter((c) => c.ticks >= ticks / 100).slice(0, 4);
  const shares = parts.map((c) => `${CLASS_LABEL[c.name as SpanClass]} ${percent(c.ticks / ticks)}`).join(", ") || "nothing";
  return `In the ${duration(model.seconds(ticks))} around: ${shares}. Shorter spans are left out.`;
}

export function Hover({ model }: { model: Model }) {
  const box = useRef<HTMLDivElement>(null);
  const cursor = useModel(model, (m) => (m.moving || m.cursor?.linked ? null : m.cursor));
  useLayoutEffect(() => {
    const at = (e: PointerEvent) => {
      const element = box.current;
      if (!element) return;
      const right = e.clientX + 16 + element.offsetWidth < innerWidth;
      element.style.left = `${right ? e.clientX + 16 : Math.max(4, e.clientX - element.offsetWidth - 12)}px`;
      element.style.top = `${Math.min(e.clientY + 14, innerHeight - element.offsetHeight - 4)}px`;
    };
    addEventListener("pointermove", at);
    return () => removeEventListener("pointermove", at);
  }, []);
  const visible = !!cursor;
  const row = cursor?.row;
  const spans = cursor && row?.type === "lane" ? model.spansAt(row.lanes[0], cursor.tick) : [];
  const leftOut = cursor && row?.type === "lane" ? leftOutLine(model, row.lanes[0], cursor.tick) : "";
  const path = cursor && !row?.clock ? evidenceAt(model, cursor.tick) : null;
  const arrow = cursor ? model.arrow : null;
  const sample = cursor && row?.type === "lane" ? sampleAt(model.recording!, row.lanes[0], cursor.tick, (2 * (model.view.b - model.view.a)) / innerWidth) : "";
  return (
    <div class="hover" ref={box} role="tooltip" hidden={!visible}>
      {cursor && <p class="faint">{instant(row?.clock ? model.seconds(cursor.tick - firstOf(model.recording!, row.clock)) : model.at(cursor.tick), model.seconds((model.view.b - model.view.a) / 500))}{row ? ` · ${row.label}` : ""}</p>}
      {arrow && <p><strong>{arrowText(model, arrow)}</strong><span class="faint block">click to go to the other end</span></p>}
      {spans.map((i) => <p key={i}>{spanLines(model, i).map((line, k) => <bdi key={k} class={k ? "faint block" : "block"}>{line}</bdi>)}</p>)}
      {leftOut && <p class="faint">{leftOut}</p>}
      {sample && <p class="faint">sampled here: {shown(sample, 60)}</p>}
      {path && (
        <p class="ruled">critical path: <strong>{path.cause}</strong> for {path.length}
          {path.evidence && <bdi class="faint block">{shown(path.evidence, 240)}</bdi>}
          {path.rule && <bdi class="faint block">{shown(path.rule, 200)}</bdi>}
        </p>
      )}
    </div>
  );
}
