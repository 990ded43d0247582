// Text of `explain` on the page.

import { shown } from "../view/format";

/** Text of `explain`: what stands between backticks is a name, in the font of names. */
export function Prose({ text, most }: { text: string; most: number }) {
  // A line does not end between a number and its percent sign.
  const parts = shown(text, most).replace(/(\d) %/g, "$1\u00a0%").split("`");
  if (parts.length % 2 === 0) return <>{parts.join("`")}</>;
  return <>{parts.map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part))}</>;
}
