// Measurements to look around in: one picture whose axes the reader chooses, the causes along the parameter, the chosen point, the table.

import { useMemo, useState } from "preact/hooks";
import { Figure, useHint, type Cells } from "../chart/Figure";
import { Heat } from "../chart/Heat";
import { figure } from "../chart/scale";
import { Stacks } from "../chart/Stacks";
import { interval, Xy } from "../chart/Xy";
import { causeWords } from "../answer/help";
import { causeColour } from "../palette";
import { percent, shown } from "../view/format";
import { useTheme } from "../view/theme";
import { Controls } from "./Controls";
import { dimensionAt, firstChoice, isHeat, metricAt, nameOf, others, type Choice, type Dataset } from "./data";
import { heatOf, stacksOf, xyOf, type StackPicture } from "./pictures";
import { Point } from "./Point";
import { Table } from "./Table";

/** What the values of parameters without an axis are, for the subtitle. */
function held(data: Dataset, choice: Choice): string {
  const parts = others(data, choice).filter((d) => choice.fixed[d] >= 0).map((d) => `${data.dimensions[d].name}=${data.dimensions[d].values[choice.fixed[d]].label}`);
  return parts.length ? `, at ${parts.join(", ")}` : "";
}

const nameOfAxis = (data: Dataset, axis: string): string => (metricAt(axis) >= 0 ? data.metrics[metricAt(axis)].name : data.dimensions[dimensionAt(axis)].name);

/** The lines beside the pointer. */
function lines(data: Dataset, choice: Choice, i: number): string[] {
  const row = data.rows[i];
  const wanted = [metricAt(choice.x), metricAt(choice.y), isHeat(choice) ? choice.shade : -1].filter((m) => m >= 0);
  const figures = wanted.map((m) => {
    const e = data.metrics[m].values[i];
    return `${data.metrics[m].name}: ${e ? `${figure(e.median, data.metrics[m].unit)}${e.low !== e.high ? ` (${interval(e, data.metrics[m].unit)})` : ""}` : row.state}`;
  });
  const bound = wanted.map((m) => data.metrics[m].bounds?.[i]).find((b) => typeof b === "number");
  const cause = row.cause ? [`largest cause: ${causeWords(row.cause)} (${row.cause})${row.shares[0] ? ` ${percent(row.shares[0][1])}` : ""}`] : [];
  return [nameOf(data, i), ...figures, ...(typeof bound === "number" ? [`at most: ${figure(bound, data.metrics[wanted.at(-1)!].unit)}`] : []), ...cause, ...(row.problem ? [row.problem] : [])];
}

function Causes({ data, rows }: { data: Dataset; rows: number[] }) {
  const { dark } = useTheme();
  const causes = [...new Set(rows.map((i) => data.rows[i].cause).filter((c): c is string => !!c))];
  if (!causes.length) return null;
  return <ul class="parts" aria-label="Largest cause of a recorded run">{causes.map((c) => <li key={c}><span class="swatch" style={{ background: causeColour(c, dark) }} aria-hidden="true" />{shown(causeWords(c), 80)} <code class="faint">{shown(c, 40)}</code></li>)}</ul>;
}

interface Drawn {
  data: Dataset;
  choice: Choice;
  selected: number;
  choose: (i: number) => void;
}

function Main({ data, choice, selected, choose }: Drawn) {
  const { dark } = useTheme();
  const { show, hide, hint } = useHint();
  const heat = isHeat(choice);
  const cells = useMemo(() => (heat ? heatOf(data, choice, dark) : null), [data, choice, dark]);
  const xy = useMemo(() => (heat ? null : xyOf(data, choice, dark)), [data, choice, dark]);
  const ids = cells ? cells.cells.flat().map((c) => c.id).filter((i) => i >= 0) : xy!.curves.flatMap((c) => c.dots.map((d) => d.id)).filter((i) => i >= 0);
  const title = heat ? `${data.metrics[choice.shade].name} by ${nameOfAxis(data, choice.x)} and ${nameOfAxis(data, choice.y)}${held(data, choice)}`
    : `${nameOfAxis(data, choice.y)} against ${nameOfAxis(data, choice.x)}${held(data, choice)}`;
  const bounds = xy?.curves.some((c) => c.dots.some((d) => d.bound !== undefined));
  const subtitle = heat ? `median; darker: more; stripe: the largest cause${data.best === undefined ? "" : "; framed: the best point"}; hatched: no figure${cells!.several ? "; several points in a cell: the best" : ""}`
    : `median and 95 % interval${data.best === undefined ? "" : "; ringed: the best point"}${bounds ? "; a short bar left of a point: what the hardware allows" : ""}. Click a point for its row.`;
  const table = (): Cells => {
    const metrics = [...new Set([metricAt(choice.x), metricAt(choice.y), heat ? choice.shade : -1].filter((m) => m >= 0))];
    return [["point", ...metrics.flatMap((m) => [data.metrics[m].name, "95 % interval"]), "largest cause"],
      ...[...ids, ...(xy?.missing ?? [])].map((i) => [nameOf(data, i), ...metrics.flatMap((m) => {
        const e = data.metrics[m].values[i];
        return e ? [figure(e.median, data.metrics[m].unit), interval(e, data.metrics[m].unit)] : [data.rows[i].state, ""];
      }), data.rows[i].cause ?? ""])];
  };
  const press = (e: KeyboardEvent) => {
    const columns = heat ? data.dimensions[dimensionAt(choice.x)].values.length : 0;
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns || 1, ArrowUp: -(columns || 1) }[e.key];
    if (by === undefined || !ids.length) return;
    e.preventDefault();
    const at = ids.indexOf(selected);
    choose(ids[at < 0 ? 0 : Math.min(ids.length - 1, Math.max(0, at + by))]);
  };
  const over = (e: PointerEvent, i: number) => show(e, lines(data, choice, i));
  const label = `${title}: ${ids.length} points. The arrow keys choose a point.`;
  return (
    <div class="keyed" tabIndex={0} role="group" aria-label={label} onKeyDown={press}>
      <Figure title={title} subtitle={subtitle} cells={table} least={heat ? 60 + 44 * data.dimensions[dimensionAt(choice.x)].values.length : 280}>
        {(width) => (cells ? (
          <Heat width={width} xName={nameOfAxis(data, choice.x)} yName={nameOfAxis(data, choice.y)} columns={data.dimensions[dimensionAt(choice.x)].values.map((v) => v.label)} rows={data.dimensions[dimensionAt(choice.y)].values.map((v) => v.label)}
            cells={cells.cells} label={title} selected={selected} {...(data.best !== undefined ? { framed: data.best } : {})} choose={choose} over={over} leave={hide} />
        ) : (
          <Xy width={width} x={xy!.x} y={xy!.y} curves={xy!.curves} label={title} selected={selected} {...(data.best !== undefined ? { framed: data.best } : {})} choose={choose} over={over} leave={hide} />
        ))}
      </Figure>
      {(heat || choice.by === -2) && <Causes data={data} rows={ids} />}
      {!!xy?.missing.length && <p class="faint">Without a figure: {xy.missing.slice(0, 8).map((i) => `${nameOf(data, i)} (${data.rows[i].state})`).join("; ")}{xy.missing.length > 8 && `; ${xy.missing.length - 8} more`}</p>}
      {hint}
    </div>
  );
}

function StackRow({ pictures, title, name, selected, choose }: { pictures: StackPicture[]; title: string; name: string; selected: number; choose: (i: number) => void }) {
  if (!pictures.length) return null;
  return (
    <div class="multiples">
      {pictures.map((p, i) => {
        const full = p.title ? `${title}, ${p.title}` : title;
        const cells = (): Cells => [[name, "part", "share of the time"], ...p.stacks.flatMap((s) => (s.parts.length ? s.parts.map((part) => [s.label, part.name, percent(part.share)]) : [[s.label, s.note ?? "", ""]]))];
        return <Figure key={i} title={full} cells={cells}>{(width) => <Stacks width={width} stacks={p.stacks} name={name} label={full} selected={selected} choose={(id) => id >= 0 && choose(id)} />}</Figure>;
      })}
    </div>
  );
}

export function Explorer({ data, title }: { data: Dataset; title: string }) {
  const { dark } = useTheme();
  const [choice, setChoice] = useState(() => firstChoice(data));
  const [selected, choose] = useState(-1);
  const causes = useMemo(() => stacksOf(data, choice, dark, "shares"), [data, choice, dark]);
  const classes = useMemo(() => stacksOf(data, choice, dark, "classes"), [data, choice, dark]);
  const along = dimensionAt(choice.x) >= 0 ? nameOfAxis(data, choice.x) : dimensionAt(choice.y) >= 0 ? nameOfAxis(data, choice.y) : "";
  if (!data.rows.length || !data.metrics.length) return <p class="faint">There are no points to draw.</p>;
  return (
    <section class="explorer" aria-label={title}>
      <h2>{title}</h2>
      <Controls data={data} choice={choice} set={setChoice} />
      <div class={selected >= 0 ? "seen two-columns" : "seen"}>
        <Main data={data} choice={choice} selected={selected} choose={choose} />
        {selected >= 0 && <Point data={data} row={selected} close={() => choose(-1)} />}
      </div>
      <StackRow pictures={causes} title={`Where the time goes along ${along}`} name={along} selected={selected} choose={choose} />
      <StackRow pictures={classes} title={`What processors did along ${along}`} name={along} selected={selected} choose={choose} />
      <h3 class="table-title">Every point</h3>
      <Table data={data} selected={selected} choose={choose} />
    </section>
  );
}
