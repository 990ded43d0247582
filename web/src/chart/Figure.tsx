// A picture with its title, what acts on it, and the figures as a table: who does not see the picture reads the table.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { savePngOf, saveSvg, saveTable, stem, svgText } from "../export/files";
import { useTheme } from "../view/theme";
import { shown } from "../view/format";

/** The width of an element in CSS pixels; follows the window. */
export function useWidth(): [ref: { current: HTMLDivElement | null }, width: number] {
  const ref = useRef<HTMLDivElement>(null);
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const element = ref.current!;
    const measure = () => set(Math.floor(element.clientWidth));
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    measure();
    return () => watch.disconnect();
  }, []);
  return [ref, width];
}

export type Cells = (string | number)[][];

/** The figures of a picture; the first row has the heads. Made when it is opened. */
export function AsTable({ title, cells }: { title: string; cells: () => Cells }) {
  const [open, set] = useState(false);
  const rows = open ? cells() : [];
  const most = 500;
  return (
    <details class="astable" onToggle={(e) => set(e.currentTarget.open)}>
      <summary>As a table<span class="unseen">: {title}</span></summary>
      {open && <div class="scroll" tabIndex={0} role="group" aria-label={`Figures: ${title}`}><table>
        <thead><tr>{rows[0]?.map((head, i) => <th key={i} scope="col">{shown(String(head), 60)}</th>)}</tr></thead>
        <tbody>{rows.slice(1, most).map((row, i) => <tr key={i}>{row.map((value, k) => <td key={k} class={typeof value === "number" ? "n" : ""}>{shown(String(value), 120)}</td>)}</tr>)}</tbody>
      </table>{rows.length > most && <p class="faint">{rows.length - most} more rows: in the CSV.</p>}</div>}
    </details>
  );
}

const tableOf = ([columns, ...rows]: Cells) => ({ columns: (columns ?? []).map(String), rows });

interface Props {
  title: string;
  subtitle?: string;
  cells: () => Cells;
  /** Draws for a width. */
  children: (width: number) => ComponentChildren;
  /** Left of the width in which the picture scrolls. */
  least?: number;
}

export function Figure({ title, subtitle, cells, children, least = 280 }: Props) {
  const [box, measured] = useWidth();
  const theme = useTheme();
  const width = Math.max(least, measured);
  const picture = () => box.current?.querySelector<SVGSVGElement>("svg.picture");
  const svg = () => {
    const element = picture();
    if (element) saveSvg(svgText(element, theme.paper), `${stem(title)}.svg`);
  };
  const png = () => {
    const element = picture();
    if (!element) return;
    const { width: w, height } = element.viewBox.baseVal;
    void savePngOf(svgText(element, theme.paper), w, height, `${stem(title)}.png`);
  };
  return (
    <figure class="figure">
      <figcaption>
        <h3>{shown(title, 200)}</h3>
        {subtitle && <p class="faint">{shown(subtitle, 300)}</p>}
        <span class="tools">
          <button type="button" class="small" onClick={svg}>SVG<span class="unseen"> of {title}</span></button>
          <button type="button" class="small" onClick={png}>PNG<span class="unseen"> of {title}</span></button>
          <button type="button" class="small" onClick={() => saveTable(stem(title), tableOf(cells()))}>CSV<span class="unseen"> of {title}</span></button>
        </span>
      </figcaption>
      <div class="drawn" ref={box}>{measured > 0 && children(width)}</div>
      <AsTable title={title} cells={cells} />
    </figure>
  );
}

/** A text beside the pointer. */
export function useHint(): { show: (e: PointerEvent, lines: string[]) => void; hide: () => void; hint: ComponentChildren } {
  const [at, set] = useState<{ x: number; y: number; lines: string[] } | null>(null);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current;
    if (!element || !at) return;
    element.style.left = `${Math.max(4, Math.min(at.x + 14, innerWidth - element.offsetWidth - 8))}px`;
    element.style.top = `${Math.max(4, Math.min(at.y + 14, innerHeight - element.offsetHeight - 8))}px`;
  }, [at]);
  return {
    show: (e, lines) => set({ x: e.clientX, y: e.clientY, lines }),
    hide: () => set(null),
    hint: at && <div class="hover" role="tooltip" ref={box}>{at.lines.map((line, i) => <bdi key={i} class={i ? "block" : "block strong"}>{shown(line, 260)}</bdi>)}</div>,
  };
}
