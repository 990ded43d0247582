// A note at the pointer. What it says is also in a table or a status line, so it is hidden from screen readers.

import { useLayoutEffect, useRef } from "preact/hooks";

export interface TipAt {
  x: number;
  y: number;
  lines: string[];
}

export function Tip({ at }: { at: TipAt | null }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !at) return;
    const right = at.x + 16 + element.offsetWidth < innerWidth;
    element.style.left = `${right ? at.x + 16 : Math.max(4, at.x - element.offsetWidth - 12)}px`;
    element.style.top = `${Math.max(4, Math.min(at.y + 14, innerHeight - element.offsetHeight - 4))}px`;
  });
  return (
    <div class="hover" ref={box} aria-hidden="true" hidden={!at}>
      {at?.lines.map((line, i) => <bdi key={i} class={i ? "faint block" : "block"}>{line}</bdi>)}
    </div>
  );
}
