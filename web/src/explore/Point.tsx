// The chosen point: its figures with their intervals, where its time went, and each of its runs.

import { figure } from "../chart/scale";
import { interval } from "../chart/Xy";
import { causeColour } from "../palette";
import { percent, shown } from "../view/format";
import { useTheme } from "../view/theme";
import { nameOf, type Dataset } from "./data";

export function Point({ data, row, close }: { data: Dataset; row: number; close: () => void }) {
  const { dark } = useTheme();
  const p = data.rows[row];
  const metrics = data.metrics.filter((m) => m.values[row] && !m.name.startsWith("Share of "));
  return (
    <section class="panel point" aria-live="polite" aria-labelledby="point-title">
      <h3 id="point-title"><bdi>{shown(nameOf(data, row), 300)}</bdi> {row === data.best ? <span class="mark">best</span> : data.equals.has(row) && <span class="mark faint">cannot be told from the best</span>}</h3>
      <p class="buttons"><button type="button" onClick={() => document.getElementById(`row-${data.name}-${row}`)?.scrollIntoView({ block: "center" })}>Show its row</button><button type="button" onClick={close}>Clear</button></p>
      {p.state !== "done" && <p class="remark">{p.state}{p.problem && <>: <bdi>{shown(p.problem, 600)}</bdi></>}</p>}
      {p.sentence && <p><bdi>{shown(p.sentence, 600)}</bdi></p>}
      {!!p.shares.length && <ul class="parts" aria-label="Where the time went">{p.shares.filter(([, share]) => share > 0.004).map(([cause, share]) => <li key={cause}><span class="swatch" style={{ background: causeColour(cause, dark) }} aria-hidden="true" />{shown(cause, 40)} <strong>{percent(share)}</strong></li>)}</ul>}
      <dl>
        {metrics.map((m) => {
          const e = m.values[row]!;
          const bound = m.bounds?.[row];
          return <><dt>{shown(m.name, 60)}</dt><dd>{figure(e.median, m.unit)}{e.low !== e.high && ` (${interval(e, m.unit)}${e.values ? `, ${e.values} values` : ""})`}{typeof bound === "number" && `; at most: ${figure(bound, m.unit)}`}</dd></>;
        })}
        {p.facts.map(([name, text], i) => <><dt key={i}>{shown(name, 40)}</dt><dd><bdi>{shown(text, 400)}</bdi></dd></>)}
      </dl>
    </section>
  );
}
