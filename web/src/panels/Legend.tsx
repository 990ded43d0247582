// The legend: classes that occur (each can be hidden), marks, samples, arrows, causes of the critical path.

import { useModel, type Model } from "../model";
import { arrowItems, causeItems, classItems, markItems, sampleItems, type Item } from "./legend-items";

function Icon({ item }: { item: Item }) {
  const { shape, colour } = item;
  if (shape === "bar" || shape === "band" || shape === "line" || shape === "stripes") {
    const look = shape === "band" ? "thin" : shape === "line" ? "line" : shape === "stripes" ? "stopped" : "";
    return <span class={`key ${look}`} style={{ "--key": colour }} aria-hidden="true" />;
  }
  return (
    <svg width="16" height="14" aria-hidden="true">
      {shape === "tick" ? <rect x="6" y="4" width="3" height="8" fill={colour} />
        : shape === "arrow" ? <><line x1="0" x2="10" y1="7" y2="7" stroke={colour} stroke-width="2" /><path d="M16 7L9 3v8z" fill={colour} /></>
        : shape === "rule" ? <line x1="8" x2="8" y1="0" y2="14" stroke={colour} stroke-width="2" stroke-dasharray="4 2" />
        : shape === "diamond" ? <path d="M8 1l6 6-6 6-6-6z" fill={colour} />
        : shape === "octagon" ? <path d="M5 1h6l4 4v5l-4 4H5l-4-4V5z" fill={colour} />
        : <><line x1="8" x2="8" y1="0" y2="14" stroke={colour} />
          {shape === "disc" ? <circle cx="8" cy="4" r="4" fill={colour} /> : shape === "square" ? <rect x="4" y="0" width="8" height="8" fill={colour} /> : <path d="M3 0h10L8 9z" fill={colour} />}</>}
    </svg>
  );
}

function Text({ item }: { item: Item }) {
  return <span><Icon item={item} /><bdi>{item.text}</bdi>{item.detail && <span class="faint"> {item.detail}</span>}</span>;
}

function Plain({ label, items }: { label: string; items: Item[] }) {
  if (!items.length) return null;
  return <ul aria-label={label}><li class="faint" aria-hidden="true">{label}:</li>{items.map((item, i) => <li key={i}><Text item={item} /></li>)}</ul>;
}

export function Legend({ model }: { model: Model }) {
  useModel(model, (m) => m.theme.dark);
  useModel(model, (m) => [...m.hidden].join());
  return (
    <div class="legend">
      <ul aria-label="Lanes: what a thread did">
        {classItems(model).map((item) => (
          <li key={item.class}><button type="button" class="link" aria-pressed={!model.hidden.has(item.class!)} onClick={() => model.toggleClass(item.class!)} title="Show or hide"><Text item={item} /></button></li>
        ))}
      </ul>
      <Plain label="Marks" items={markItems(model)} />
      <Plain label="CPU samples, at the foot of a lane" items={sampleItems(model)} />
      <Plain label="Arrows, of what is selected" items={arrowItems(model)} />
      <ul aria-label="Critical path, line on a lane, and shade: causes">
        <li class="faint" aria-hidden="true">Critical path:</li>
        {causeItems(model).map((item, i) => (
          <li key={i}><button type="button" class="link" onClick={() => model.goToCause(item.cause!)} title="Show the longest instance"><Text item={item} /></button></li>
        ))}
      </ul>
    </div>
  );
}
