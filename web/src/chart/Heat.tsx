// A cell for each pair of two parameters' values: the figure as text and as shade, the largest cause as a stripe. A point without a figure
// is hatched and says why.

import { isLight } from "../palette";
import { useTheme } from "../view/theme";
import { fitted, shade, textWidth } from "./looks";

export interface HeatCell {
  text: string;
  /** From little (0) to much (1); null without a figure. */
  level: number | null;
  cause?: string;
  causeName?: string;
  id: number;
}

interface Props {
  width: number;
  xName: string;
  yName: string;
  columns: string[];
  rows: string[];
  cells: HeatCell[][];
  label: string;
  selected: number;
  framed?: number;
  choose: (id: number) => void;
  over: (e: PointerEvent, id: number) => void;
  leave: () => void;
}

const CELL = 40;

export function Heat(p: Props) {
  const theme = useTheme();
  const left = Math.min(p.width * 0.3, Math.max(46, ...p.rows.map((r) => textWidth(r) + 14)));
  const wide = Math.max(34, Math.min(140, (p.width - left - 6) / Math.max(1, p.columns.length)));
  const [top, right] = [44, left + wide * p.columns.length];
  const height = top + CELL * p.rows.length + 8;
  const width = Math.max(p.width, Math.ceil(right + 6));
  return (
    <svg class="picture" viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={p.label} font-family="system-ui, sans-serif" font-size="12" onPointerLeave={p.leave}>
      <defs><pattern id="no-figure" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="7" height="7" fill={theme.paper} /><line x1="0" x2="0" y1="0" y2="7" stroke={theme.rule} stroke-width="4" /></pattern></defs>
      <text x={left} y="14" fill={theme.faint}>{fitted(p.xName, width - left)} →</text>
      {p.yName && <text x={left - 8} y="34" text-anchor="end" fill={theme.faint}>{fitted(p.yName, left - 22)} ↓</text>}
      {p.columns.map((c, i) => <text key={i} x={left + wide * (i + 0.5)} y="34" text-anchor="middle" fill={theme.ink}>{fitted(c, wide - 4)}</text>)}
      {p.rows.map((r, i) => <text key={i} x={left - 8} y={top + CELL * (i + 0.5) + 4} text-anchor="end" fill={theme.ink}>{fitted(r, left - 12)}</text>)}
      {p.cells.map((row, y) => row.map((cell, x) => {
        const fill = cell.level === null ? "url(#no-figure)" : shade(cell.level, theme.dark);
        const ink = cell.level === null ? theme.ink : isLight(fill) ? "#000000" : "#ffffff";
        const chosen = cell.id >= 0 && cell.id === p.selected;
        return <g key={`${x} ${y}`} transform={`translate(${left + wide * x} ${top + CELL * y})`} class={cell.id >= 0 ? "hit" : ""}
          onClick={() => cell.id >= 0 && p.choose(cell.id)} onPointerMove={(e) => cell.id >= 0 && p.over(e, cell.id)}>
          <rect x="1" y="1" width={wide - 2} height={CELL - 2} rx="2" fill={fill} />
          {cell.cause && <rect x="1" y={CELL - 7} width={wide - 2} height="6" fill={cell.cause} stroke={theme.paper} stroke-width="0.5" />}
          <text x={wide / 2} y={cell.cause ? 21 : CELL / 2 + 4} text-anchor="middle" fill={ink}>{fitted(cell.text, wide - 4)}</text>
          {cell.id >= 0 && cell.id === p.framed && <rect x="2" y="2" width={wide - 4} height={CELL - 4} fill="none" stroke={theme.ink} stroke-width="2" />}
          {chosen && <rect x="3" y="3" width={wide - 6} height={CELL - 6} fill="none" stroke={theme.accent} stroke-width="3" />}
        </g>;
      }))}
    </svg>
  );
}
