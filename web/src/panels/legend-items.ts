// What the legend lists: the same for the page and for an exported picture.

import { causeName, plainCause } from "../answer/help";
import type { Recording } from "../data/recording";
import { isLost, lostEvents, markColour, markForm, type MarkForm } from "../lanes/marks";
import { arrowColour, WORD, type ArrowKind } from "../lanes/arrows";
import type { Model } from "../model";
import { causeColour, classColour, CLASS_LABEL, CLASSES, isWait, sampleColour, STOPPED } from "../palette";
import { count, percent, shown } from "../view/format";

const MOST_CAUSES = 10;
const MOST_SAMPLE_CLASSES = 8;

export interface Item {
  shape: "bar" | "band" | "stripes" | "line" | "tick" | "arrow" | MarkForm;
  colour: string;
  text: string;
  /** A number or share, set apart from the text. */
  detail: string;
  /** The class that can be hidden, or the cause that can be jumped to. */
  class?: number;
  cause?: string;
}

const used = new WeakMap<Recording, { classes: number[]; marks: [number, number][]; samples: [number, number][]; arrows: ArrowKind[] }>();

function counts(values: ArrayLike<number>): [number, number][] {
  const found = new Map<number, number>();
  for (let i = 0; i < values.length; i++) found.set(values[i], (found.get(values[i]) ?? 0) + 1);
  return [...found];
}

function inUse(r: Recording) {
  let found = used.get(r);
  if (found) return found;
  // A set of millions of segments' classes would take a third of a second.
  const classes = new Uint8Array(256);
  for (const c of r.segments.kind) classes[c] = 1;
  for (const lane of r.lanes) if (lane.partial) for (const c of lane.levels!.classes) classes[c] = 1;
  const arrows: ArrowKind[] = (r.header.arrows ?? []).filter((_, k) => r.arrow.kind.includes(k)).map((name) => (name === "request" || name === "reply" ? name : "message"));
  if (r.span.waker.some((w) => w > 0)) arrows.push("wake");
  found = { classes: CLASSES.map((_, c) => c).filter((c) => classes[c]), marks: counts(r.mark.kind), samples: counts(r.sample.class).sort((a, b) => b[1] - a[1]), arrows: [...new Set(arrows)] };
  used.set(r, found);
  return found;
}

export function classItems(model: Model): Item[] {
  return inUse(model.recording!).classes.map((c) => ({
    shape: c === STOPPED ? "stripes" : isWait(c) ? "band" : "bar", colour: classColour(c, model.theme.dark), text: CLASS_LABEL[CLASSES[c]], detail: "", class: c,
  }));
}

export function markItems(model: Model): Item[] {
  const r = model.recording!;
  return inUse(r).marks.map(([number, n]) => {
    const { kind, label } = r.header.marks[number] ?? { kind: "", label: "mark" };
    const events = isLost(kind) ? lostEvents(r).reduce((sum, l) => sum + l.events, 0) : 0;
    return {
      shape: markForm(kind, number), colour: markColour(kind, model), text: events ? "events were lost" : shown(label, 80),
      detail: events ? `${count(events)} before ${count(n)} ${n === 1 ? "instant" : "instants"}` : `× ${count(n)}`,
    };
  });
}

export function sampleItems(model: Model): Item[] {
  const r = model.recording!;
  return inUse(r).samples.slice(0, MOST_SAMPLE_CLASSES).map(([c, n]) => {
    const name = r.header.sample_classes?.[c] ?? "";
    return { shape: "tick", colour: name ? sampleColour(name, c, model.theme.dark) : model.theme.faint, text: shown(name, 40) || "not classified", detail: `× ${count(n)}` };
  });
}

const ARROW_TEXT: Record<ArrowKind, string> = { request: "request to where it is served", reply: "reply", message: "message", wake: "woke the waiting thread" };

export function arrowItems(model: Model): Item[] {
  return inUse(model.recording!).arrows.map((kind) => ({ shape: "arrow", colour: arrowColour(kind, model.theme.dark), text: ARROW_TEXT[kind] ?? WORD[kind], detail: "" }));
}

export function causeItems(model: Model): Item[] {
  const sum = model.header.causes.reduce((total, c) => total + c.ns, 0) || 1;
  return model.header.causes.filter((c) => c.ns > 0).slice(0, MOST_CAUSES).map((c) => ({
    shape: "line", colour: causeColour(c.name, model.theme.dark), text: shown(plainCause(model.header, c.name), 80), detail: `${causeName(model.header.explanation, c.name)} ${percent(c.ns / sum)}`, cause: c.name,
  }));
}
