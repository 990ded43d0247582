// Studies: what each layout gives, what a listing costs, whole commands side by side.

import { useMemo } from "preact/hooks";
import { figure } from "../chart/scale";
import { ofCommands, type Commands } from "../explore/commands";
import { Explorer } from "../explore/Explorer";
import { ofLayouts, type LayoutStudy } from "../explore/layout";
import { ofListings, ofNames, type ListingStudy } from "../explore/listing";
import type { Model } from "../model";
import { bytes, count, duration, shown } from "../view/format";
import { SweepPage } from "./Sweep";
import { Lead, machineText, Problems, Promises } from "./parts";

export function LayoutPage({ model }: { model: Model }) {
  const study = model.header.document as LayoutStudy;
  const data = useMemo(() => ofLayouts(study), [study]);
  const against = study.against_peers ?? [];
  return (
    <div class="document">
      <h1>What each layout gives</h1>
      <Lead lines={[study.label, `${study.nodes.length === 1 ? "One node" : `${study.nodes.length} nodes at once`}, ${study.repeat} repetitions${study.link_bytes_per_s ? `, links of ${figure(study.link_bytes_per_s, "bytes/s")}` : ""}. ${machineText(study.machine)}`]} />
      <Promises bars={study.bars} />
      <Explorer data={data} title="Rate of one node" />
      {!!against.length && <section><h2>Against other systems</h2><div class="scroll" tabIndex={0} role="group" aria-label="Against other systems"><table>
        <thead><tr><th scope="col">layout</th><th scope="col">through</th><th scope="col">other system</th><th scope="col">operation</th><th scope="col" class="n">part</th><th scope="col" class="n">times as fast</th></tr></thead>
        <tbody>{against.map((a, i) => <tr key={i}><td>{shown(a.title, 60)}</td><td>{shown(a.via, 40)}</td><td>{shown(a.peer, 60)}</td><td>{a.operation}</td><td class="n">{bytes(a.part_bytes)}</td><td class="n">{a.ratio.median.toFixed(2)} ({a.ratio.low.toFixed(2)} to {a.ratio.high.toFixed(2)})</td></tr>)}</tbody>
      </table></div></section>}
      <Problems problems={study.problems} />
    </div>
  );
}

export function ListingPage({ model }: { model: Model }) {
  const study = model.header.document as ListingStudy;
  const data = useMemo(() => ofListings(study), [study]);
  const names = useMemo(() => ofNames(study), [study]);
  const { crowd, copies } = study;
  return (
    <div class="document">
      <h1>What a listing costs</h1>
      <Lead lines={[study.label, study.links.map((l) => `${l.location}: round trip ${duration(l.round_trip_us / 1e6)}${l.bytes_per_s ? `, ${figure(l.bytes_per_s, "bytes/s")}` : ""}`).join("; "), machineText(study.machine)]} />
      <Promises bars={study.bars} />
      <Explorer data={data} title="Listing a directory" />
      {!!names.rows.length && <Explorer data={names} title="Operations on names (mdtest's pattern)" />}
      {crowd && <section><h2>Small writes beside {count(crowd.listings)} listings</h2><dl>
        <dt>99th percentile alone</dt><dd>{duration(crowd.idle_p99_s.median)}</dd><dt>beside the listings</dt><dd>{duration(crowd.loaded_p99_s.median)}, {crowd.p99_ratio.median.toFixed(2)} times as long</dd>
        <dt>median alone</dt><dd>{duration(crowd.idle_p50_s.median)}</dd><dt>beside the listings</dt><dd>{duration(crowd.loaded_p50_s.median)}</dd></dl></section>}
      {copies && <section><h2>A tree of {count(copies.files)} files copied in</h2><dl>{Object.entries(copies.rate_per_s).map(([name, e]) => <><dt>{shown(name, 60)}</dt><dd>{figure(e.median, "per s")}</dd></>)}<dt>times as fast</dt><dd>{copies.ratio.median.toFixed(2)}</dd></dl></section>}
      <Problems problems={study.problems} />
    </div>
  );
}

export function CommandsPage({ model }: { model: Model }) {
  const study = model.header.document as Commands;
  const data = useMemo(() => ofCommands(study), [study]);
  return (
    <div class="document">
      <h1><bdi>{shown(study.plan, 200)}</bdi></h1>
      <Lead lines={[machineText(study.machine)]} />
      {!!study.ratios.length && <section><h2>Side by side <span class="faint">pair by pair within each repetition; above 1: the first is faster</span></h2><div class="scroll" tabIndex={0} role="group" aria-label="Side by side"><table>
        <thead><tr><th scope="col">first</th><th scope="col">second</th><th scope="col">figure</th><th scope="col" class="n">ratio</th><th scope="col" class="n">95 % interval</th><th scope="col" class="n">pairs</th></tr></thead>
        <tbody>{study.ratios.map((r, i) => <tr key={i}><td>{shown(r.of, 80)}</td><td>{shown(r.to, 80)}</td><td>{shown(r.figure === "wall_s" ? "wall time" : r.figure, 40)}</td><td class="n">{r.ratio.median.toFixed(3)}</td><td class="n">{r.ratio.low.toFixed(3)} to {r.ratio.high.toFixed(3)}</td><td class="n">{r.pairs.length}</td></tr>)}</tbody>
      </table></div></section>}
      <Explorer data={data} title="The commands" />
    </div>
  );
}

const schemaOf = (model: Model): string => String((model.header.document as { schema?: string } | undefined)?.schema ?? "");

/** Whether the page can show the study; of another one, the still page stays. */
export const knowsStudy = (model: Model): boolean => /^thalweg\.(layout-study-result|ls-study-result|sweep|measure)\//.test(schemaOf(model));

/** The kinds of study by their document's name. */
export function StudyPage({ model }: { model: Model }) {
  const schema = schemaOf(model);
  if (schema.startsWith("thalweg.layout-study-result/")) return <LayoutPage model={model} />;
  if (schema.startsWith("thalweg.ls-study-result/")) return <ListingPage model={model} />;
  if (schema.startsWith("thalweg.sweep/")) return <SweepPage model={model} />;
  return <CommandsPage model={model} />;
}
