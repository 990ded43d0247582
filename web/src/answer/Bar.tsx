// The run as a bar of causes, and the rows that name them.

import type { Row } from "../data/header";
import { useModel, type Model } from "../model";
import { causeColour, isLight } from "../palette";
import { percent, shown } from "../view/format";
import { causeName, plainCause } from "./help";
import { partsOf, SMALL, tableOf } from "./parts";
import { placed } from "./places";
import { jump } from "./jump";
import type { Asker } from "./Why";

export function Bar({ model, asker }: { model: Model; asker: Asker }) {
  const dark = useModel(model, (m) => m.theme.dark);
  const { header } = model;
  const ready = useModel(model, (m) => !!m.recording);
  const parts = partsOf(header);
  if (!parts.length) return null;
  const large = parts.filter((p) => p.share >= SMALL);
  const rest = 1 - large.reduce((total, p) => total + p.share, 0);
  return (
    <div class="bar" role="group" aria-label="The critical path by cause: choose a cause to see its longest instance">
      {large.map((p, i) => {
        const colour = causeColour(p.cause, dark);
        const words = shown(plainCause(header, p.cause), 60);
        return (
          <button type="button" key={i} class="piece" aria-disabled={!ready} onClick={() => jump(model, p.cause)} {...asker.props(p.cause)}
            style={{ flexGrow: p.share, background: colour, color: isLight(colour) ? "#000000" : "#ffffff" }}
            aria-label={`${percent(p.share)} ${words} (${causeName(header.explanation, p.cause)}${p.subject ? `, ${placed(header, shown(p.subject, 80))}` : ""}). Show the longest instance.`}>
            <span class="words" aria-hidden="true"><strong>{percent(p.share)}</strong> <span><bdi>{words}</bdi></span></span>
          </button>
        );
      })}
      {rest > 0.001 && <span class="piece rest" style={{ flexGrow: rest }} title={`others: ${percent(rest)}`} />}
    </div>
  );
}

function Line({ model, row, asker }: { model: Model; row: Row; asker: Asker }) {
  const dark = useModel(model, (m) => m.theme.dark);
  const { header } = model;
  return (
    <li>
      <span class="share">{percent(row.share).replace("under", "<")}</span>
      <span class="cause">
        <button type="button" class="link" onClick={() => jump(model, row.cause)} {...asker.props(row.cause)}>
          <span class="swatch" style={{ background: causeColour(row.cause, dark) }} aria-hidden="true" /><strong><bdi>{shown(plainCause(header, row.cause), 80)}</bdi></strong>
        </button> <code class="faint">{causeName(header.explanation, row.cause)}</code>
      </span>
      {row.subject && <span class="what"><bdi>{placed(header, shown(row.subject))}</bdi>{row.figures && <>: {shown(row.figures, 300)}</>}</span>}
    </li>
  );
}

/** The largest parts as rows; the others are named by the colours of their pieces, and are rows when opened. */
export function Rows({ model, asker }: { model: Model; asker: Asker }) {
  const dark = useModel(model, (m) => m.theme.dark);
  const { header } = model;
  const table = tableOf(partsOf(header));
  const { rows, others, chips } = table;
  if (!rows.length) return null;
  return (
    <>
      <ul class="rows">{rows.map((row, i) => <Line key={i} model={model} row={row} asker={asker} />)}</ul>
      {table.percent > 0 && !!others.length && (
        <details class="others">
          <summary><span class="share">{table.percent} %</span><span class="faint opens">{others.length} {others.length === 1 ? "other" : "others"}{!!chips.length && ": "}</span>
            {chips.map((c) => <span class="chip" key={c.cause}><span class="swatch" style={{ background: causeColour(c.cause, dark) }} aria-hidden="true" />{c.percent} % {shown(plainCause(header, c.cause), 60)}</span>)}
          </summary>
          <ul class="rows">{others.map((row, i) => <Line key={i} model={model} row={row} asker={asker} />)}</ul>
        </details>
      )}
    </>
  );
}
