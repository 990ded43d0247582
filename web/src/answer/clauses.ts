// The text of `explain` about the run: the clause with the largest share, and what follows.

/** Where the next clause or the next sentence begins. */
const NEXT = /(?:,| and) for (?:under )?\d+ %|\. (?=[A-Z])/;

/** The first clause and the rest; the rest is empty if there is one clause. Together they are the sentence. */
export function clauses(sentence: string): [first: string, rest: string] {
  const at = sentence.search(NEXT);
  if (at <= 0) return [sentence, ""];
  const end = sentence[at] === " " ? at : at + 1;
  return [sentence.slice(0, end), sentence.slice(end)];
}
