// The text alternative of a plot: the figures as a table, and as CSV.

import { useState } from "preact/hooks";
import { saveTable } from "../../export/files";
import { count } from "../../view/format";

/** Rows in the page; the CSV has all. */
const MOST = 200;

export interface TableData {
  columns: string[];
  /** Numbers are aligned to the right. */
  rows: (string | number)[][];
}

interface Props {
  title: string;
  file: string;
  /** Made when the table is opened or saved. */
  data: () => TableData;
  /** How a number is shown, by column. */
  show?: (value: number, column: number) => string;
}

function Body({ data, show, title }: { data: TableData; show: (value: number, column: number) => string; title: string }) {
  const numeric = data.columns.map((_, c) => data.rows.length > 0 && data.rows.every((row) => typeof row[c] === "number"));
  return (
    <div class="tables" role="region" aria-label={title} tabIndex={0}>
      <table>
        <caption>{title}</caption>
        <thead><tr>{data.columns.map((name, c) => <th key={c} scope="col" class={numeric[c] ? "n" : ""}>{name}</th>)}</tr></thead>
        <tbody>{data.rows.slice(0, MOST).map((row, i) => (
          <tr key={i}>{row.map((value, c) => <td key={c} class={numeric[c] ? "n" : ""}>{typeof value === "number" ? show(value, c) : <bdi>{value}</bdi>}</td>)}</tr>
        ))}</tbody>
      </table>
      {data.rows.length > MOST && <p class="faint">{count(data.rows.length - MOST)} more rows are in the CSV.</p>}
    </div>
  );
}

export function AsTable({ title, file, data, show = (v) => count(v) }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <details class="astable" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>As a table: {title}</summary>
      <p><button type="button" class="small" onClick={() => saveTable(file, data())}>CSV</button></p>
      {open && <Body data={data()} show={show} title={title} />}
    </details>
  );
}
