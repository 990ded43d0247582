// What is on which axis, and the values of the parameters that no axis shows.

import { shown } from "../view/format";
import { isHeat, metricAt, others, varied, type Choice, type Dataset } from "./data";

interface Props {
  data: Dataset;
  choice: Choice;
  set: (choice: Choice) => void;
}

function Axis({ label, data, value, set }: { label: string; data: Dataset; value: string; set: (v: string) => void }) {
  return (
    <label>{label} <select value={value} onChange={(e) => set(e.currentTarget.value)}>
      <optgroup label="parameters">{data.ranks.filter((d) => data.dimensions[d].values.length > 1 || value === `d${d}`).map((d) => <option key={d} value={`d${d}`}>{shown(data.dimensions[d].name, 40)}</option>)}</optgroup>
      <optgroup label="figures">{data.metrics.map((m, i) => <option key={i} value={`m${i}`}>{shown(m.name, 60)}</option>)}</optgroup>
    </select></label>
  );
}

export function Controls({ data, choice, set }: Props) {
  const heat = isHeat(choice);
  const change = (part: Partial<Choice>) => {
    const next = { ...choice, ...part };
    // An axis that moves takes its parameter from where it was.
    if (next.by >= 0 && (next.x === `d${next.by}` || next.y === `d${next.by}`)) next.by = varied(data).find((d) => next.x !== `d${d}` && next.y !== `d${d}`) ?? -1;
    if (next.x === next.y) return;
    set(next);
  };
  const curves = varied(data).filter((d) => choice.x !== `d${d}` && choice.y !== `d${d}`);
  return (
    <div class="toolbar" role="group" aria-label="Axes">
      <Axis label="Across" data={data} value={choice.x} set={(x) => change({ x })} />
      <Axis label="Up" data={data} value={choice.y} set={(y) => change({ y })} />
      {heat ? <label>Shade <select value={choice.shade} onChange={(e) => change({ shade: Number(e.currentTarget.value) })}>{data.metrics.map((m, i) => <option key={i} value={i}>{shown(m.name, 60)}</option>)}</select></label>
        : <label>Curves by <select value={choice.by} onChange={(e) => change({ by: Number(e.currentTarget.value) })}>
          <option value={-1}>nothing</option>{metricAt(choice.x) >= 0 && data.rows.some((r) => r.cause) && <option value={-2}>largest cause</option>}
          {curves.map((d) => <option key={d} value={d}>{shown(data.dimensions[d].name, 40)}</option>)}
        </select></label>}
      {others(data, choice).map((d) => (
        <label key={d}>{shown(data.dimensions[d].name, 40)} <select value={choice.fixed[d]} onChange={(e) => change({ fixed: choice.fixed.map((v, i) => (i === d ? Number(e.currentTarget.value) : v)) })}>
          <option value={-1}>all</option>{data.dimensions[d].values.map((v, i) => <option key={i} value={i}>{shown(v.label, 40)}</option>)}
        </select></label>
      ))}
    </div>
  );
}
