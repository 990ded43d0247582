// By which rules time was charged, as `explain --why` says it.

import type { Charge, Header } from "../data/header";

export interface Ground {
  name: string;
  /** Share of the charge. */
  share: number;
  when: string;
  basis: string;
  stretches: { start_s: number; end_s: number; kind: string }[];
}

/** Smaller charges are left out, as `explain --why` leaves them out. */
export const SMALL_SHARE = 0.01;

/** The rules of a charge, most time first; of a rule that the page does not know, the name alone. */
export function rulesOf(header: Header, charge: Charge): Ground[] {
  return (charge.rules ?? []).map((applied) => {
    const known = header.rules?.[applied.rule];
    return {
      name: applied.rule, share: charge.seconds > 0 ? applied.seconds / charge.seconds : 0, when: known?.when ?? "", basis: known?.basis ?? "",
      stretches: (applied.rests_on ?? []).map((s) => ({ start_s: s.start_s, end_s: s.end_s, kind: s.kind ?? "between spans" })),
    };
  });
}

/** The charges of a cause that are large enough to speak of, largest first. */
export function chargesOf(header: Header, cause: string): Charge[] {
  const all = (header.explanation.critical_path ?? []).filter((c) => c.cause === cause).sort((a, b) => b.seconds - a.seconds);
  const large = all.filter((c) => c.share >= SMALL_SHARE);
  return large.length ? large : all.slice(0, 1);
}
