// Work in slices: an aggregation over millions of spans is a generator that yields now and then, so that the page stays responsive.

import { useEffect, useState } from "preact/hooks";

export type Work<T> = Generator<void, T, void>;

/** Spans between two yields: a few milliseconds, also on a slow machine. */
export const SLICE = 1 << 14;
const SLICE_MS = 12;

/** Does all of the work at once. */
export function finish<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

/** Does the work in slices between which the page draws; returns what gives the work up. */
export function inSlices<T>(work: Work<T>, done: (value: T) => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const go = () => {
    const until = performance.now() + SLICE_MS;
    do {
      const step = work.next();
      if (step.done) return done(step.value);
    } while (performance.now() < until);
    timer = setTimeout(go);
  };
  go();
  return () => clearTimeout(timer);
}

/** The result of work that begins again when an input changes; until the new one is there, the last one stays. */
export function useWork<T>(make: () => Work<T>, inputs: readonly unknown[]): { value: T | null; working: boolean } {
  const [state, setState] = useState<{ value: T | null; working: boolean }>({ value: null, working: true });
  useEffect(() => {
    setState((old) => (old.working ? old : { ...old, working: true }));
    return inSlices(make(), (value) => setState({ value, working: false }));
  }, inputs);
  return state;
}
