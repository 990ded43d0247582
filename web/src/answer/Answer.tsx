// The first screen: what was slow, what it was charged to, what to change.

import { useModel, type Model } from "../model";
import { duration, shown } from "../view/format";
import { Bar, Rows } from "./Bar";
import { Changes } from "./Changes";
import { clauses } from "./clauses";
import { showInterval } from "./jump";
import { Prose } from "./Prose";
import { Tip, useAsker, WhyList } from "./Why";

export function Answer({ model }: { model: Model }) {
  const { header } = model;
  const asker = useAsker();
  useModel(model, (m) => !!m.recording);
  const e = header.explanation;
  const summary = e.summary;
  const title = summary?.sentence || e.verdict?.sentence || summary?.about || "This recording has no explanation";
  const [first, further] = clauses(title);
  const remarks = [...(summary?.remarks ?? []), ...(header.notes ?? [])];
  const lost = e.dropped_events ?? 0;
  return (
    <section class="answer" aria-labelledby="answer-title">
      <p class="ran"><code><bdi>{shown(summary?.command ?? (e.command ?? []).join(" "), 300)}</bdi></code>{summary?.about && <span><span class="colon">: </span>{shown(summary.about, 200)}</span>}{summary?.ended && !title.includes(summary.ended) && <strong> {shown(summary.ended, 120)}</strong>}</p>
      <h1 id="answer-title"><bdi><Prose text={first} most={400} /></bdi>{further && <span class="further"><bdi><Prose text={further} most={400} /></bdi></span>}</h1>
      {summary?.numbers?.[0] && <p class="number"><bdi>{shown(summary.numbers[0].sentence, 300)}</bdi></p>}
      <div class="columns">
        <div class="where">
          <h2>Where the time went <span class="faint">{duration(e.wall_s)}, by cause</span></h2>
          <Bar model={model} asker={asker} />
        </div>
        <Changes model={model} />
        <div class="grounds">
          <Rows model={model} asker={asker} />
          {!!summary?.innocent.length && <p class="innocent"><span class="faint">not the limit:</span> {summary.innocent.map((i) => `${shown(i.what, 60)} (${shown(i.figure, 80)})`).join(", ")}</p>}
          {lost > 0 && <p class="remark">{lost.toLocaleString("en-US")} events were lost: shares may be off by as much as their time.</p>}
          {!!header.left_out?.spans && <p class="remark">{header.left_out.spans.toLocaleString("en-US")} short spans are left out of this page; the answer counts them, and the lanes show their time.</p>}
          {remarks.map((remark, i) => <p class="remark" key={i}><Prose text={remark} most={400} /></p>)}
          <WhyList model={model} go={(a_s, b_s) => showInterval(model, a_s, b_s)} />
        </div>
      </div>
      <Tip model={model} asker={asker} />
    </section>
  );
}
