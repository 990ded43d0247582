// Where in a file its bytes were read and written, when, and by which program or server.

import { useMemo, useState } from "preact/hooks";
import { offsetOf } from "../../data/recording";
import { useModel, type Model } from "../../model";
import { classColour, CLASSES } from "../../palette";
import { bytes, count, duration, instant, percent, shown } from "../../view/format";
import { AsTable } from "../shared/AsTable";
import { showSpan, useLimits } from "../shared/limits";
import { Strip } from "../shared/Strip";
import { useWork } from "../shared/work";
import { BandPlot } from "./Band";
import { bandsOf, type Band } from "./bands";
import { movedIn, type Moved } from "./objects";

/** Rows of the table that are shown without asking. */
const FIRST = 8;

interface Choice {
  key: string;
  name: string;
  objects: Moved[];
}

/** What can be chosen: each object; the datafiles of one file together. */
function choicesOf(moved: Moved[]): Choice[] {
  const groups = new Map<string, Moved[]>();
  for (const m of moved) if (m.group) groups.set(m.group, [...(groups.get(m.group) ?? []), m]);
  const together = [...groups].filter(([, list]) => list.length > 1).map(([id, list]) => ({ key: `g${id}`, name: `file ${id} in the store: its ${list.length} datafiles`, objects: list }));
  return [...together, ...moved.map((m) => ({ key: `o${m.object}`, name: m.name, objects: [m] }))];
}

/** In which order bytes were moved, in words. */
function orderOf(inOrder: number, forward: number): string {
  if (inOrder > 0.95) return "in order";
  if (forward > 0.95) return "forward, with steps between";
  return inOrder < 0.3 ? "out of order" : `${percent(inOrder)} in order`;
}

const times = (n: number): string => (n >= 1.05 ? `${n.toFixed(1)} ×` : "once");

/** What the figures say in a sentence. */
function Summary({ choice, bands }: { choice: Choice; bands: Band[] }) {
  const sum = (of: (m: Moved) => number) => choice.objects.reduce((n, m) => n + of(m), 0);
  const [read, written] = [sum((m) => m.read), sum((m) => m.written)];
  const over = (part: (m: Moved) => number, of: (m: Moved) => number) => sum((m) => part(m) * of(m)) / Math.max(1, sum(of));
  const order = orderOf(sum((m) => m.inOrder) / Math.max(1, read + written), sum((m) => m.forward) / Math.max(1, read + written));
  const places = [...new Set(bands.map((b) => b.place))];
  const who = places.length <= 4 ? places.map((name) => shown(name, 50)).join(", ") : `${count(places.length)} programs and servers`;
  const size = (bytesMoved: number, n: number) => `in ${count(n)} ${n === 1 ? "operation" : `operations of ${bytes(bytesMoved / n)}`}`;
  return (
    <p class="lead">
      {read > 0 && <>{bytes(read)} read {size(read, sum((m) => m.reads))}{over((m) => m.timesRead, (m) => m.read) >= 1.05 && <>, <strong>each byte {over((m) => m.timesRead, (m) => m.read).toFixed(1)} times</strong></>}. </>}
      {written > 0 && <>{bytes(written)} written {size(written, sum((m) => m.writes))}{over((m) => m.timesWritten, (m) => m.written) >= 1.05 && <>, <strong>each byte {over((m) => m.timesWritten, (m) => m.written).toFixed(1)} times</strong></>}. </>}
      {choice.objects[0].name.startsWith("device ") ? <>On the device: <strong>{order}</strong>.</> : <>By {who}; each thread went <strong>{order}</strong>.</>}
    </p>
  );
}

function Objects({ list, chosen, choose, model }: { list: Moved[]; chosen: Choice; choose: (key: string) => void; model: Model }) {
  const [all, setAll] = useState(false);
  const rows = list.slice(0, all ? 100 : FIRST);
  const lanes = model.header.lanes;
  return (
    <div class="tables" role="region" aria-label="Files and devices" tabIndex={0}>
      <table class="causes">
        <caption>Files, devices and connections with known offsets</caption>
        <thead><tr><th scope="col">name</th><th scope="col" class="n">read</th><th scope="col" class="n">written</th><th scope="col" class="n">each byte read</th><th scope="col" class="n">each byte written</th><th scope="col">order in each thread</th><th scope="col" class="n">threads</th></tr></thead>
        <tbody>{rows.map((m) => (
          <tr key={m.object}>
            <td><button type="button" class="link" aria-pressed={chosen.objects.includes(m)} onClick={() => choose(`o${m.object}`)}><bdi>{shown(m.name, 70)}</bdi></button></td>
            <td class="n">{m.read ? bytes(m.read) : "–"}</td><td class="n">{m.written ? bytes(m.written) : "–"}</td>
            <td class="n">{m.timesRead ? times(m.timesRead) : "–"}</td><td class="n">{m.timesWritten ? times(m.timesWritten) : "–"}</td>
            <td>{orderOf(m.inOrder / (m.read + m.written), m.forward / (m.read + m.written))}</td><td class="n">{count([...m.lanes].filter((l) => lanes[l]).length)}</td>
          </tr>
        ))}</tbody>
      </table>
      {list.length > rows.length && !all && <p><button type="button" class="small" onClick={() => setAll(true)}>Show {count(Math.min(100, list.length) - FIRST)} more</button></p>}
    </div>
  );
}

function Bands({ model, bands }: { model: Model; bands: Band[] }) {
  const limits = useLimits(model);
  const dark = useModel(model, (m) => m.theme.dark);
  const several = new Set(bands.map((b) => b.object)).size > 1;
  const r = model.recording!;
  const key = (name: "read" | "write") => <span class="key" style={{ "--key": classColour(CLASSES.indexOf(name), dark) }} aria-hidden="true" />;
  const table = () => ({
    columns: ["program or server", "object", "operation", "offset_bytes", "size_bytes", "start_s", "duration_s"],
    rows: bands.flatMap((b) => [...b.spans].map((i) => [b.place, b.name, r.header.kinds[r.span.kind[i]].name, offsetOf(r, i), r.span.size[i], model.at(r.span.start[i]), model.seconds(r.span.duration[i])])),
  });
  return (
    <>
      <h3 class="plottitle">When which part <span class="faint">time across, the place in the file up; a row for each program or server. At the right edge: the parts that it touched</span></h3>
      <p class="legendline"><span>{key("read")}read</span><span>{key("write")}written</span><span class="faint">Click an operation to see it on the time axis.</span></p>
      {bands.map((band) => (
        <div class="band" key={`${band.object} ${band.place}`}>
          <p class="bandname"><strong><bdi>{shown(band.place, 60)}</bdi></strong> {several && <bdi class="faint">{shown(band.name, 90)}</bdi>}
            {" "}<span class="faint">{[band.read && `${bytes(band.read)} read`, band.written && `${bytes(band.written)} written`].filter(Boolean).join(", ")}</span></p>
          <BandPlot model={model} band={band} limits={limits} pick={(i) => showSpan(model, i)} />
        </div>
      ))}
      <AsTable title="each operation" file="layout" data={table} show={(v, c) => (c < 5 ? bytes(v) : c === 5 ? instant(v, 1e-6) : duration(v))} />
    </>
  );
}

export function Layout({ model }: { model: Model }) {
  const r = model.recording!;
  const limits = useLimits(model);
  const [key, setKey] = useState("");
  const moved = useWork(() => movedIn(r, limits), [r, limits]).value;
  const choices = useMemo(() => choicesOf(moved ?? []), [moved]);
  const choice = choices.find((c) => c.key === key) ?? choices[0];
  const bands = useWork(function* () {
    return choice ? { choice, bands: yield* bandsOf(r, choice.objects, limits) } : null;
  }, [choice, limits]).value;
  return (
    <section class="layout" aria-labelledby="layout-title">
      <h2 id="layout-title">Layout <span class="faint">which parts of a file were read and written, when, and by whom</span></h2>
      <Strip model={model} />
      {!moved && <p class="faint" role="status">Reading offsets…</p>}
      {moved && !choice && <p class="faint">No operation with a known offset in this interval.</p>}
      {choice && moved && <>
        <div class="toolbar"><label>Of <select value={choice.key} onChange={(e) => setKey(e.currentTarget.value)}>
          {choices.slice(0, 500).map((c) => <option key={c.key} value={c.key}>{shown(c.name, 90)}</option>)}
        </select></label></div>
        {bands && <Summary choice={bands.choice} bands={bands.bands} />}
        {bands && <Bands model={model} bands={bands.bands} />}
        <Objects list={moved} chosen={choice} choose={setKey} model={model} />
      </>}
    </section>
  );
}
