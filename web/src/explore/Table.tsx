// Every point as a row: sorted by any column, filtered by text, saved as CSV. A row that is chosen is the point that the pictures mark.

import { useMemo, useState } from "preact/hooks";
import { causeWords } from "../answer/help";
import { figure } from "../chart/scale";
import { interval } from "../chart/Xy";
import { count, shown } from "../view/format";
import { saveTable, stem, type Table as Cells } from "../export/files";
import { varied, type Dataset } from "./data";

const PAGE = 200;

interface Column {
  name: string;
  numeric: boolean;
  /** What is sorted by; undefined comes last. */
  key: (row: number) => number | string | undefined;
  text: (row: number) => string;
  /** Cells of the CSV, with the names of their columns. */
  csv: [name: string, value: (row: number) => number | string][];
}

export function columnsOf(data: Dataset): Column[] {
  const { rows } = data;
  const columns: Column[] = varied(data).sort((a, b) => a - b).map((d) => {
    const { name, values } = data.dimensions[d];
    return { name, numeric: values.every((v) => v.number !== undefined), key: (i) => rows[i].at[d], text: (i) => values[rows[i].at[d]].label, csv: [[name, (i) => values[rows[i].at[d]].number ?? values[rows[i].at[d]].label]] };
  });
  if (rows.some((row) => row.state !== "done")) columns.push({ name: "state", numeric: false, key: (i) => rows[i].state, text: (i) => rows[i].state, csv: [["state", (i) => rows[i].state]] });
  for (const m of data.metrics.filter((m) => !m.name.startsWith("Share of "))) {
    const has = m.values.some((v) => v && v.low !== v.high);
    columns.push({
      name: m.name, numeric: true, key: (i) => m.values[i]?.median,
      text: (i) => (m.values[i] ? `${figure(m.values[i]!.median, m.unit)}${has ? ` (${interval(m.values[i]!, m.unit)})` : ""}` : "–"),
      csv: [[`${m.name} (${m.unit})`, (i) => m.values[i]?.median ?? ""], ...(has ? [[`${m.name}, low`, (i) => m.values[i]?.low ?? ""], [`${m.name}, high`, (i) => m.values[i]?.high ?? ""]] as Column["csv"] : [])],
    });
  }
  if (rows.some((row) => row.cause)) columns.push({ name: "largest cause", numeric: false, key: (i) => rows[i].cause, text: (i) => (rows[i].cause ? `${figure(rows[i].shares[0]?.[1] ?? 0, "share")} ${causeWords(rows[i].cause!)}` : "–"), csv: [["cause", (i) => rows[i].cause ?? ""], ["where", (i) => rows[i].where ?? ""]] });
  if (rows.some((row) => row.problem || row.sentence)) columns.push({ name: "in words", numeric: false, key: (i) => rows[i].problem ?? rows[i].sentence, text: (i) => rows[i].problem ?? rows[i].sentence ?? "", csv: [["in words", (i) => rows[i].problem ?? rows[i].sentence ?? ""]] });
  return columns;
}

/** Rows in the order of a column; those without a figure last, whichever way. */
export function sorted(rows: number[], key: (row: number) => number | string | undefined, down: boolean): number[] {
  return [...rows].sort((a, b) => {
    const [p, q] = [key(a), key(b)];
    if (p === undefined || q === undefined) return p === q ? a - b : p === undefined ? 1 : -1;
    const order = typeof p === "number" && typeof q === "number" ? p - q : String(p).localeCompare(String(q), "en");
    return (down ? -order : order) || a - b;
  });
}

export function csvOf(columns: Column[], rows: number[]): Cells {
  const cells = columns.flatMap((c) => c.csv);
  return { columns: cells.map(([name]) => name), rows: rows.map((i) => cells.map(([, value]) => value(i))) };
}

interface Props {
  data: Dataset;
  selected: number;
  choose: (row: number) => void;
}

export function Table({ data, selected, choose }: Props) {
  const columns = useMemo(() => columnsOf(data), [data]);
  const [order, setOrder] = useState<{ column: number; down: boolean } | null>(null);
  const [text, setText] = useState("");
  const [more, setMore] = useState(PAGE);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = useMemo(() => {
    const all = data.rows.map((_, i) => i);
    const kept = words.length ? all.filter((i) => {
      const line = columns.map((c) => c.text(i)).join(" ").toLowerCase();
      return words.every((word) => line.includes(word));
    }) : all;
    return order ? sorted(kept, columns[order.column].key, order.down) : kept;
  }, [data, columns, order, text]);
  const sort = (column: number) => setOrder(order?.column === column ? (order.down ? null : { column, down: true }) : { column, down: false });
  return (
    <section class="points" aria-label={`Table of the ${data.name}`}>
      <div class="toolbar">
        <label>Filter <input type="search" value={text} placeholder="words in a row" onInput={(e) => setText(e.currentTarget.value)} /></label>
        <span class="faint" role="status">{rows.length === data.rows.length ? `${count(rows.length)} points` : `${count(rows.length)} of ${count(data.rows.length)} points`}</span>
        <span class="grow" />
        <button type="button" onClick={() => saveTable(stem(data.name), csvOf(columns, rows))}>CSV<span class="unseen"> of the table</span></button>
      </div>
      <div class="scroll" tabIndex={0} role="group" aria-label={`Points of the ${data.name}`}>
        <table class="sortable">
          <thead><tr>{columns.map((c, i) => (
            <th key={i} scope="col" class={c.numeric ? "n" : ""} aria-sort={order?.column === i ? (order.down ? "descending" : "ascending") : "none"}>
              <button type="button" class="link" onClick={() => sort(i)} title="Sort">{shown(c.name, 40)}<span aria-hidden="true">{order?.column === i ? (order.down ? " ▼" : " ▲") : ""}</span></button>
            </th>
          ))}</tr></thead>
          <tbody>{rows.slice(0, more).map((i) => (
            <tr key={i} id={`row-${data.name}-${i}`} class={i === selected ? "chosen" : ""} onClick={() => choose(i)}>
              {columns.map((c, k) => <td key={k} class={c.numeric ? "n" : c.name === "in words" ? "sentence" : ""}>{k === 0
                ? <button type="button" class="link" aria-pressed={i === selected} onClick={(e) => { e.stopPropagation(); choose(i); }}><bdi>{shown(c.text(i), 60)}</bdi></button>
                : <bdi>{shown(c.text(i), 200)}</bdi>}{k === 0 && i === data.best && <span class="mark">best</span>}{k === 0 && i !== data.best && data.equals.has(i) && <span class="mark faint">as good</span>}</td>)}
            </tr>
          ))}</tbody>
        </table>
      </div>
      {rows.length > more && <button type="button" onClick={() => setMore(more + 5 * PAGE)}>{count(rows.length - more)} more rows</button>}
    </section>
  );
}
