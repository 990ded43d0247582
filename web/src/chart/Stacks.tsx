// Shares as stacked bars: where the time went, one bar for each value.

import { isLight } from "../palette";
import { useTheme } from "../view/theme";
import { percent } from "../view/format";
import { fitted, textWidth } from "./looks";
import { legendPlaces } from "./Xy";

export interface Stack {
  label: string;
  id: number;
  parts: { name: string; share: number; colour: string }[];
  /** Why it is empty. */
  note?: string;
}

interface Props {
  width: number;
  stacks: Stack[];
  name: string;
  label: string;
  selected?: number;
  choose?: (id: number) => void;
  /** Without shares on the parts: the bars are not of one whole. */
  bare?: boolean;
}

const BAR = 26;
const LINE = 18;

/** Each name once, with its colour, the largest sum first. */
export function legendOf(stacks: Stack[]): { name: string; colour: string }[] {
  const sums = new Map<string, { colour: string; sum: number }>();
  for (const { parts } of stacks) {
    for (const part of parts) {
      const known = sums.get(part.name);
      if (known) known.sum += part.share;
      else sums.set(part.name, { colour: part.colour, sum: part.share });
    }
  }
  return [...sums].filter(([, { sum }]) => sum > 0).sort((a, b) => b[1].sum - a[1].sum).map(([name, { colour }]) => ({ name, colour }));
}

export function Stacks({ width, stacks, name, label, selected, choose, bare }: Props) {
  const theme = useTheme();
  const legend = legendOf(stacks);
  const { places, lines } = legendPlaces(legend.map((l) => l.name), width - 8);
  const left = Math.min(width * 0.35, Math.max(40, textWidth(name) + 18, ...stacks.map((s) => textWidth(s.label) + 18)));
  const top = 8 + lines * LINE + 20;
  const height = top + stacks.length * (BAR + 4) + 4;
  const full = width - left - 4;
  return (
    <svg class="picture" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={label} font-family="system-ui, sans-serif" font-size="12">
      {legend.map((l, i) => <g key={i} transform={`translate(${4 + places[i].x} ${12 + places[i].line * LINE})`}><rect width="12" height="12" y="-9" rx="2" fill={l.colour} /><text x="18" y="2" fill={theme.ink}>{places[i].text}</text></g>)}
      <text x={left - 8} y={top - 8} text-anchor="end" fill={theme.faint}>{fitted(name, left - 10)}</text>
      {stacks.map((stack, i) => {
        let x = left;
        const y = top + i * (BAR + 4);
        return <g key={i} class={choose ? "hit" : ""} onClick={() => choose?.(stack.id)}>
          <rect x="0" y={y} width={width} height={BAR} fill="transparent" />
          <text x={left - 8} y={y + BAR / 2 + 4} text-anchor="end" fill={theme.ink}>{fitted(stack.label, left - 12)}</text>
          {!stack.parts.length && <text x={left + 4} y={y + BAR / 2 + 4} fill={theme.faint}>{stack.note ?? ""}</text>}
          {stack.parts.map((part, k) => {
            const wide = Math.max(0, part.share * full);
            const at = x;
            x += wide;
            return <g key={k}><rect x={at} y={y} width={Math.max(0, wide - 0.7)} height={BAR} fill={part.colour}><title>{bare ? `${stack.label}: ${part.name}` : `${stack.label}: ${percent(part.share)} ${part.name}`}</title></rect>
              {!bare && wide > 30 && <text x={at + 5} y={y + BAR / 2 + 4} fill={isLight(part.colour) ? "#000000" : "#ffffff"} pointer-events="none">{fitted(wide > 44 + textWidth(part.name) ? `${percent(part.share)} ${part.name}` : percent(part.share), wide - 6)}</text>}</g>;
          })}
          {stack.id === selected && <rect x={left - 1} y={y - 1} width={full + 2} height={BAR + 2} fill="none" stroke={theme.accent} stroke-width="2" />}
        </g>;
      })}
    </svg>
  );
}
