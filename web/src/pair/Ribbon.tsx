// Between the two time views: lines from instants of the first run to the corresponding instants of the second, and the phases of both.

import { useWidth } from "../chart/Figure";
import { fitted } from "../chart/looks";
import { useModel } from "../model";
import { useTheme } from "../view/theme";
import { toX } from "../view/scale";
import type { Phase } from "./mapping";
import type { Link } from "./link";

const HEIGHT = 58;
const BAND = 15;

/** Instants of the first run at which lines begin: where the mapping bends, or evenly. */
function instants(link: Link, a: number, b: number): number[] {
  const knots = Array.from(link.mapping.a).filter((t) => t > a && t < b);
  if (link.alignment === "phase" && knots.length) return knots;
  const even = Array.from({ length: 19 }, (_, i) => a + ((b - a) * (i + 1)) / 20);
  return even;
}

export function Ribbon({ link }: { link: Link }) {
  const [ref, width] = useWidth();
  const theme = useTheme();
  const { a, b } = link;
  const [from, to] = [useModel(a, (m) => m.view), useModel(b, (m) => m.view)];
  const cursor = useModel(a, (m) => m.cursor?.tick);
  const line = (tick: number) => [toX(from, tick, width), toX(to, link.across(a, tick), width)];
  const phases = (model: typeof a, list: Phase[] | undefined, view: typeof from, y: number) => (list ?? []).map((p, i) => {
    const [x0, x1] = [Math.max(0, toX(view, link.tickOf(model, p.start_s), width)), Math.min(width, toX(view, link.tickOf(model, p.end_s), width))];
    return x1 - x0 > 1 ? <g key={`${y} ${i}`}><rect x={x0} y={y} width={x1 - x0 - 1} height={BAND} fill={theme.rule} /><text x={x0 + 4} y={y + 11} fill={theme.ink} font-size="11">{fitted(p.name, x1 - x0 - 6, 11)}</text></g> : null;
  });
  return (
    <div class="ribbon"><div class="corner"><span class="faint">A ↔ B, by {link.alignment}</span></div>
      <div ref={ref}>{width > 0 && <svg viewBox={`0 0 ${width} ${HEIGHT}`} width={width} height={HEIGHT} role="img" aria-label={`Which instants of the two runs correspond, aligned by ${link.alignment}`} font-family="system-ui, sans-serif">
        {phases(a, a.header.explanation.phases, from, 0)}
        {phases(b, b.header.explanation.phases, to, HEIGHT - BAND)}
        {instants(link, a.at(from.a), a.at(from.b)).map((s, i) => {
          const [x0, x1] = line(link.tickOf(a, s));
          return <line key={i} x1={x0} x2={x1} y1={BAND} y2={HEIGHT - BAND} stroke={theme.faint} stroke-width="0.8" />;
        })}
        {cursor !== undefined && <line x1={line(cursor)[0]} x2={line(cursor)[1]} y1="0" y2={HEIGHT} stroke={theme.accent} stroke-width="2" />}
      </svg>}</div>
    </div>
  );
}
