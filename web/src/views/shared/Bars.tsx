// A histogram on a log axis whose bars are divided by colour. Its figures are in a table beside or below.

export interface Bar {
  from: number;
  parts: { colour: string; value: number }[];
}

interface Props {
  title: string;
  note: string;
  /** Bars of equal ratio: from × ratio is the end. */
  bars: Bar[];
  ratio: number;
  tick: (value: number) => string;
}

/** Values with a label: powers of ten with 2 and 5 between, or powers of two; not at the very ends, where a label would be cut off. */
function ticks(bars: Bar[], ratio: number, base: number): number[] {
  const [from, to] = [bars[0].from, bars[bars.length - 1].from * ratio];
  const octaves = Math.log2(to / from);
  const found: number[] = [];
  if (base === 2) {
    const step = Math.max(1, Math.ceil(octaves / 5));
    for (let p = Math.ceil(Math.log2(from) / step); 2 ** (p * step) <= to; p++) found.push(2 ** (p * step));
  } else {
    for (let p = Math.floor(Math.log10(from)); 10 ** p <= to; p++) for (const s of octaves > 9 ? [1] : octaves > 4 ? [1, 3] : [1, 2, 5]) found.push(s * 10 ** p);
  }
  const share = (value: number) => Math.log2(value / from) / octaves;
  return found.filter((value) => share(value) > 0.05 && share(value) < 0.95);
}

export function Bars({ title, note, bars, ratio, tick, base = 10 }: Props & { base?: number }) {
  if (!bars.length) return null;
  const most = Math.max(...bars.map((bar) => bar.parts.reduce((n, p) => n + p.value, 0)), 1e-9);
  const [from, to] = [Math.log(bars[0].from), Math.log(bars[bars.length - 1].from * ratio)];
  const x = (value: number) => ((Math.log(value) - from) / (to - from)) * 100;
  const width = 100 / bars.length;
  return (
    <figure class="bars">
      <figcaption><strong>{title}</strong> <span class="faint">{note}</span></figcaption>
      <svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={`${title}: in the table below`}>
        {bars.flatMap((bar, i) => {
          let y = 100;
          return bar.parts.map((part, k) => {
            const h = (part.value / most) * 100;
            y -= h;
            return <rect key={`${i} ${k}`} x={i * width + width * 0.05} y={y} width={width * 0.9} height={h} fill={part.colour} />;
          });
        })}
      </svg>
      <div class="lataxis" aria-hidden="true">{ticks(bars, ratio, base).map((value) => <span key={value} style={{ left: `${x(value)}%` }}>{tick(value)}</span>)}</div>
    </figure>
  );
}

/** Fewer bars would be as wide as blocks. */
const LEAST_BARS = 12;

/** Counts values by bins of equal ratio. */
export function logBars(values: { value: number; colour: string }[], perOctave: number): { bars: Bar[]; ratio: number } {
  const used = values.filter((v) => v.value > 0);
  if (!used.length) return { bars: [], ratio: 2 };
  const bin = (value: number) => Math.floor(perOctave * Math.log2(value) + 1e-9);
  const bins = used.map((v) => bin(v.value));
  const [low, high] = [bins.reduce((x, y) => Math.min(x, y), Infinity), bins.reduce((x, y) => Math.max(x, y), -Infinity)];
  const margin = Math.max(1, Math.ceil((LEAST_BARS - (high - low)) / 2));
  const [from, to] = [low - margin, high + margin];
  const counts = Array.from({ length: to - from + 1 }, () => new Map<string, number>());
  used.forEach((v, i) => counts[bins[i] - from].set(v.colour, (counts[bins[i] - from].get(v.colour) ?? 0) + 1));
  return { ratio: 2 ** (1 / perOctave), bars: counts.map((parts, i) => ({ from: 2 ** ((from + i) / perOctave), parts: [...parts].map(([colour, value]) => ({ colour, value })) })) };
}
