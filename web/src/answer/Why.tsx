// Why time was charged to a cause: the evidence and the rules, beside the cause under the pointer or with the focus, and all of them in a list.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Charge } from "../data/header";
import type { Model } from "../model";
import { causeColour } from "../palette";
import { duration, instant, percent, shown } from "../view/format";
import { causeName, helpFor, plainCause } from "./help";
import { Prose } from "./Prose";
import { chargesOf, rulesOf, SMALL_SHARE, type Ground } from "./why";

/** Charges and rules of a cause that the box beside it has; the list has all. */
const MOST_IN_TIP = 3;
/** How long the box stays when the pointer leaves the cause, so that the pointer can reach the box. */
const LINGER_MS = 250;
export const TIP_ID = "why-tip";

export interface Asked {
  cause: string;
  anchor: HTMLElement;
}

/** What an element needs so that its cause is explained on hover and focus. */
export interface Asker {
  asked: Asked | null;
  props(cause: string): {
    onPointerEnter(e: PointerEvent & { currentTarget: HTMLElement }): void;
    onPointerLeave(): void;
    onFocus(e: FocusEvent & { currentTarget: HTMLElement }): void;
    onBlur(): void;
    "aria-describedby": string | undefined;
  };
  keep(): void;
  leave(): void;
  close(): void;
}

export function useAsker(): Asker {
  const [asked, setAsked] = useState<Asked | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const keep = () => clearTimeout(timer.current);
  const leave = () => {
    keep();
    timer.current = setTimeout(() => setAsked(null), LINGER_MS);
  };
  const close = () => {
    keep();
    setAsked(null);
  };
  const ask = (cause: string, anchor: HTMLElement) => {
    keep();
    setAsked({ cause, anchor });
  };
  useEffect(() => {
    if (!asked) return;
    const escape = (e: KeyboardEvent) => e.key === "Escape" && close();
    addEventListener("keydown", escape);
    return () => removeEventListener("keydown", escape);
  }, [asked]);
  return {
    asked, keep, leave, close,
    props: (cause) => ({
      onPointerEnter: (e) => e.pointerType === "mouse" && ask(cause, e.currentTarget),
      onPointerLeave: leave,
      onFocus: (e) => e.currentTarget.matches(":focus-visible") && ask(cause, e.currentTarget),
      onBlur: leave,
      "aria-describedby": asked?.cause === cause ? TIP_ID : undefined,
    }),
  };
}

function Rule({ ground }: { ground: Ground }) {
  return (
    <li>{percent(ground.share)} of it by <code><bdi>{shown(ground.name, 60)}</bdi></code>{ground.when && <>: <Prose text={ground.when} most={300} /></>}
      {ground.basis && <span class="faint"> (based on: <Prose text={ground.basis} most={200} />)</span>}
    </li>
  );
}

function Evidence({ charge }: { charge: Charge }) {
  return (
    <p><strong>{percent(charge.share)}</strong> <bdi><Prose text={charge.where} most={200} /></bdi>
      {charge.evidence && <bdi class="block"><Prose text={charge.evidence} most={400} /></bdi>}
      {charge.basis === "inferred" && <span class="faint block">inferred by a rule, not recorded</span>}
    </p>
  );
}

/** The box beside a cause. */
export function Tip({ model, asker }: { model: Model; asker: Asker }) {
  const box = useRef<HTMLDivElement>(null);
  const { asked } = asker;
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !asked) return;
    const at = asked.anchor.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, innerWidth - element.offsetWidth - 8));
    const below = at.bottom + 4 + element.offsetHeight < innerHeight || at.top < element.offsetHeight;
    element.style.left = `${left}px`;
    element.style.top = `${below ? at.bottom + 4 : at.top - element.offsetHeight - 4}px`;
    addEventListener("scroll", asker.close, { once: true, passive: true });
    return () => removeEventListener("scroll", asker.close);
  }, [asked]);
  if (!asked) return null;
  const { header } = model;
  const charges = chargesOf(header, asked.cause);
  const help = helpFor(header.explanation, asked.cause);
  return (
    <div class="tip" id={TIP_ID} ref={box} role="tooltip" onPointerEnter={asker.keep} onPointerLeave={asker.leave}>
      <p class="tip-title"><span class="swatch" style={{ background: causeColour(asked.cause, model.theme.dark) }} aria-hidden="true" /><bdi>{shown(plainCause(header, asked.cause), 120)}</bdi> <code class="faint">{causeName(header.explanation, asked.cause)}</code></p>
      {help && <p class="faint">{help}</p>}
      {charges.slice(0, MOST_IN_TIP).map((charge, i) => (
        <div key={i}><Evidence charge={charge} /><ul>{rulesOf(header, charge).slice(0, MOST_IN_TIP).map((ground, k) => <Rule key={k} ground={ground} />)}</ul></div>
      ))}
      {charges.length > MOST_IN_TIP && <p class="faint">and {charges.length - MOST_IN_TIP} smaller: see “Why”</p>}
      <p class="faint">Click to see its longest instance over time.</p>
    </div>
  );
}

function Stretches({ model, ground, go }: { model: Model; ground: Ground; go: (a_s: number, b_s: number) => void }) {
  return (
    <ul class="stretches">{ground.stretches.map((s, i) => (
      <li key={i}><button type="button" class="link" disabled={!model.recording} onClick={() => go(s.start_s, s.end_s)} title="Show on the time axis">
        at {instant(s.start_s, (s.end_s - s.start_s) / 10 || 1e-6)} for {duration(s.end_s - s.start_s)}: <bdi>{shown(s.kind, 60)}</bdi></button></li>
    ))}</ul>
  );
}

/** The list of all causes with their evidence and rules, as `explain --why` prints it. */
export function WhyList({ model, go }: { model: Model; go: (a_s: number, b_s: number) => void }) {
  const { header } = model;
  const charges = header.causes.flatMap((c) => chargesOf(header, c.name)).filter((c) => c.share >= SMALL_SHARE);
  if (!charges.length) return null;
  return (
    <details class="why">
      <summary>Why: the evidence and the rules</summary>
      {charges.map((charge, i) => (
        <section key={i}>
          <h3><span class="swatch" style={{ background: causeColour(charge.cause, model.theme.dark) }} aria-hidden="true" />{shown(plainCause(header, charge.cause), 120)} <code class="faint">{causeName(header.explanation, charge.cause)}</code></h3>
          <Evidence charge={charge} />
          <ul>{rulesOf(header, charge).map((ground, k) => <><Rule key={k} ground={ground} />{!!ground.stretches.length && <li><Stretches model={model} ground={ground} go={go} /></li>}</>)}</ul>
        </section>
      ))}
    </details>
  );
}
