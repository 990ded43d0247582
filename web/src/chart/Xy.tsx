// Points over two axes, with their intervals, joined where they are one series.

import { textWidth, fitted, look } from "./looks";
import { figure, part, ticks, type Scale, type Unit } from "./scale";
import { useTheme } from "../view/theme";

export interface Dot {
  x: number;
  y: number;
  low?: number;
  high?: number;
  /** A bound beside the point: what could be reached at most. */
  bound?: number;
  /** Whatever the caller knows the point by. */
  id: number;
  colour?: string;
  hatched?: boolean;
}

export interface Curve {
  name: string;
  look: number;
  dots: Dot[];
  joined: boolean;
  /** A straight line from end to end: a ceiling. */
  reference?: boolean;
}

export interface Axis {
  name: string;
  unit: Unit;
  scale: Scale;
  /** Named places instead of round numbers. */
  marks?: { value: number; text: string }[];
}

export interface XyProps {
  width: number;
  x: Axis;
  y: Axis;
  curves: Curve[];
  label: string;
  selected: number;
  framed?: number;
  choose?: (id: number) => void;
  over?: (e: PointerEvent, id: number) => void;
  leave?: () => void;
}

const TOP = 14;
/** Curves are drawn this far beside each other, so that intervals at one place do not hide each other. */
const BESIDE = 5;
const LEGEND = 18;

/** Leaves out marks whose texts would touch. */
function spaced(marks: { at: number; text: string }[]): { at: number; text: string }[] {
  let end = -Infinity;
  return [...marks].sort((a, b) => a.at - b.at).filter((mark) => {
    const half = textWidth(mark.text, 11) / 2;
    if (mark.at - half < end + 6) return false;
    end = mark.at + half;
    return true;
  });
}

/** Puts names into lines of a width; returns each name's place. */
export function legendPlaces(names: string[], width: number): { places: { x: number; line: number; text: string }[]; lines: number } {
  let [x, line] = [0, 0];
  const places = names.map((name) => {
    const text = fitted(name, Math.min(330, width - 34));
    const wide = 34 + textWidth(text) + 10;
    if (x > 0 && x + wide > width) [x, line] = [0, line + 1];
    const place = { x, line, text };
    x += wide;
    return place;
  });
  return { places, lines: names.length ? line + 1 : 0 };
}

export function Xy(props: XyProps) {
  const theme = useTheme();
  const { width, x, y, curves, selected, framed, choose } = props;
  const height = Math.round(Math.min(380, Math.max(230, width * 0.42)));
  const legend = legendPlaces(curves.map((c) => c.name), width - 8);
  const named = curves.length > 1 || curves.some((c) => c.reference || (c.name && c.name !== y.name));
  const top = TOP + 16 + (named ? legend.lines * LEGEND : 0);
  const yTicks = ticks(y.scale, y.unit, 6);
  const left = Math.min(width * 0.3, Math.max(38, ...yTicks.map((t) => textWidth(t.text, 11) + 10)));
  const [right, bottom] = [width - 14, top + height];
  const px = (v: number) => left + 10 + part(x.scale, v) * (right - left - 20);
  const py = (v: number) => bottom - part(y.scale, v) * height;
  const marks = spaced((x.marks ?? ticks(x.scale, x.unit, Math.max(2, Math.floor(width / 110)))).map((m) => ({ at: px(m.value), text: m.text })));
  const drawn = curves.filter((c) => !c.reference);
  const beside = (c: Curve) => (x.marks && drawn.length < 7 && !c.reference ? (drawn.indexOf(c) - (drawn.length - 1) / 2) * BESIDE : 0);
  const dots = curves.flatMap((c) => c.dots.map((d) => ({ d, l: look(c.look, theme.dark), reference: c.reference, beside: beside(c) })));
  return (
    <svg class="picture" viewBox={`0 0 ${width} ${bottom + 44}`} width={width} height={bottom + 44} role="img" aria-label={props.label} font-family="system-ui, sans-serif" font-size="12" onPointerLeave={props.leave}>
      {named && curves.map((c, i) => {
        const place = legend.places[i];
        const l = look(c.look, theme.dark);
        return <g key={i} transform={`translate(${4 + place.x} ${12 + place.line * LEGEND})`}>
          <line x1="0" x2="24" y1="0" y2="0" stroke={c.reference ? theme.faint : l.colour} stroke-width="2" stroke-dasharray={c.reference ? "4 3" : l.dash} />
          {!c.reference && <path d={l.form} transform="translate(12 0)" fill={l.colour} />}
          <text x="30" y="4" fill={theme.ink}>{place.text}</text>
        </g>;
      })}
      <text x="4" y={top - 8} fill={theme.faint} font-size="11">{fitted(y.name + (y.scale.log ? ", logarithmic" : ""), width - 8, 11)}</text>
      {yTicks.map((t) => <g key={t.value}><line x1={left} x2={right} y1={py(t.value)} y2={py(t.value)} stroke={theme.rule} /><text x={left - 6} y={py(t.value) + 4} text-anchor="end" fill={theme.faint} font-size="11">{t.text}</text></g>)}
      <line x1={left} x2={right} y1={bottom} y2={bottom} stroke={theme.faint} />
      {marks.map((m, i) => <g key={i}><line x1={m.at} x2={m.at} y1={bottom} y2={bottom + 4} stroke={theme.faint} /><text x={Math.min(m.at, width - 2 - textWidth(m.text, 11) / 2)} y={bottom + 17} text-anchor="middle" fill={theme.faint} font-size="11">{m.text}</text></g>)}
      <text x={right} y={bottom + 36} text-anchor="end" fill={theme.faint} font-size="11">{fitted(x.name + (x.scale.log && !x.marks ? ", logarithmic" : ""), width - 20, 11)}</text>
      {curves.map((c, i) => {
        const l = look(c.look, theme.dark);
        if (!c.joined || c.dots.length < 2) return null;
        const line = c.dots.map((d, k) => `${k ? "L" : "M"}${(px(d.x) + (c.reference ? 0 : beside(c))).toFixed(1)} ${py(d.y).toFixed(1)}`).join("");
        return <path key={i} d={line} fill="none" stroke={c.reference ? theme.faint : l.colour} stroke-width={c.reference ? 1.5 : 1.8} stroke-dasharray={c.reference ? "4 3" : l.dash} />;
      })}
      {dots.filter(({ reference }) => !reference).map(({ d, l, beside: aside }, i) => (
        <g key={i} transform={`translate(${(px(d.x) + aside).toFixed(1)} ${py(d.y).toFixed(1)})`}>
          {d.low !== undefined && d.high !== undefined && <path d={`M0 ${py(d.low) - py(d.y)}V${py(d.high) - py(d.y)}M-3 ${py(d.low) - py(d.y)}H3M-3 ${py(d.high) - py(d.y)}H3`} stroke={d.colour ?? l.colour} fill="none" />}
          {d.bound !== undefined && <line x1="-14" x2="-6" y1={py(d.bound) - py(d.y)} y2={py(d.bound) - py(d.y)} stroke={theme.ink} stroke-width="2" />}
          <path d={l.form} fill={d.colour ?? l.colour} stroke={theme.paper} stroke-width="1" />
          {d.id === framed && <circle r="8" fill="none" stroke={theme.ink} stroke-width="1.5" />}
          {d.id === selected && <circle r="9" fill="none" stroke={theme.accent} stroke-width="2.5" />}
          {choose && <circle r="11" fill="transparent" class="hit" onClick={() => choose(d.id)} onPointerMove={(e) => props.over?.(e, d.id)} onPointerLeave={props.leave} />}
        </g>
      ))}
    </svg>
  );
}

export const interval = (e: { low: number; high: number }, unit: Unit): string => `${figure(e.low, unit)} to ${figure(e.high, unit)}`;
