// The flame graph: callers above, what they called below, as wide as their part of the weight. Drawn on a canvas; one row each depth.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useModel, type Model } from "../../model";
import { CLASSES, classColour, isLight } from "../../palette";
import { shown } from "../../view/format";
import { Tip, type TipAt } from "../shared/Tip";
import { colourOf } from "./classes";
import { matches, type Node } from "./tree";

const ROW = 18;
const LEAST_TEXT = 26;
/** Thinner boxes are not drawn one by one. */
const LEAST_BOX = 0.8;
const MOST_ROWS = 400;

interface Box {
  node: Node;
  x: number;
  w: number;
  depth: number;
}

export interface FlameWords {
  /** A weight with its part of the whole. */
  weight: (value: number) => string;
  class: (name: string) => string;
}

interface Props {
  model: Model;
  root: Node;
  label: string;
  search: string;
  words: FlameWords;
  /** What to do with the chosen frame beside zooming; shown as a button. */
  show?: { label: string; act: (n: Node) => void } | undefined;
}

const known = new WeakMap<Node, Map<number, Node>>();

/** The children from `from` on as one node, which is the same node each time. */
function others(n: Node, from: number): Node {
  let of = known.get(n);
  if (!of) known.set(n, (of = new Map()));
  let made = of.get(from);
  if (!made) {
    const rest = n.children.slice(from);
    made = { name: `${rest.length} smaller`, module: "", class: "", total: rest.reduce((sum, c) => sum + c.total, 0), self: 0, parent: n, children: [], longest: -1 };
    of.set(from, made);
  }
  return made;
}

/** A name as far as there is room. */
function cut(name: string, most: number): string {
  const text = shown(name, 400);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** The nodes above `zoomed`, itself, and all below, as boxes that are wide enough to see. */
function boxesOf(zoomed: Node, width: number): Box[] {
  const above: Node[] = [];
  for (let n: Node | null = zoomed; n; n = n.parent) above.unshift(n);
  const boxes: Box[] = above.map((node, depth) => ({ node, x: 0, w: width, depth }));
  let row = [boxes[boxes.length - 1]];
  for (let depth = above.length; row.length && depth < MOST_ROWS; depth++) {
    const next: Box[] = [];
    for (const box of row) {
      let x = box.x;
      const { children } = box.node;
      const wide = (child: Node) => (child.total / zoomed.total) * width;
      // Children are sorted: what is too thin is at the end, and is one box.
      let thin = children.findIndex((child) => wide(child) < LEAST_BOX);
      if (thin < 0) thin = children.length;
      for (let i = 0; i < thin; i++) {
        next.push({ node: children[i], x, w: wide(children[i]), depth });
        x += wide(children[i]);
      }
      const rest = others(box.node, thin);
      if (wide(rest) >= LEAST_BOX) next.push({ node: rest, x, w: wide(rest), depth });
    }
    boxes.push(...next);
    row = next;
  }
  return boxes;
}

function fill(n: Node, dark: boolean): string {
  const wait = (CLASSES as readonly string[]).indexOf(n.class);
  return wait >= 0 && n.module === "" && !n.children.length ? classColour(wait, dark) : colourOf(n.class, dark);
}

function draw(canvas: HTMLCanvasElement, boxes: Box[], chosen: Node | null, props: Props): void {
  const { model, search } = props;
  const [width, height] = [canvas.clientWidth, (1 + boxes.reduce((m, b) => Math.max(m, b.depth), 0)) * ROW];
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  for (const box of boxes) {
    const colour = fill(box.node, model.theme.dark);
    const faded = !!search && !matches(box.node, search);
    ctx.globalAlpha = faded ? 0.25 : 1;
    ctx.fillStyle = colour;
    ctx.fillRect(box.x, box.depth * ROW, Math.max(0.5, box.w - (box.w > 2 ? 0.7 : 0)), ROW - 1);
    ctx.globalAlpha = 1;
    if (box.w >= LEAST_TEXT) {
      ctx.fillStyle = faded ? model.theme.ink : isLight(colour) ? "#000000" : "#ffffff";
      ctx.fillText(cut(box.node.name, Math.max(3, Math.floor((box.w - 6) / 5.8))), box.x + 3, box.depth * ROW + ROW / 2, box.w - 5);
    }
    if (search && !faded) {
      ctx.fillStyle = model.theme.ink;
      ctx.fillRect(box.x, box.depth * ROW + ROW - 3, Math.max(1, box.w - 1), 2);
    }
  }
  const at = boxes.find((b) => b.node === chosen);
  if (!at) return;
  ctx.strokeStyle = model.theme.accent;
  ctx.lineWidth = 2;
  ctx.strokeRect(at.x + 1, at.depth * ROW + 1, Math.max(2, at.w - 2), ROW - 3);
}

/** Where a key leads from a node; within what is drawn. */
function neighbour(node: Node, key: string, zoomed: Node): Node | undefined {
  if (key === "ArrowDown") return node.children[0];
  if (key === "ArrowUp") return node.parent ?? undefined;
  if (key === "Home") return zoomed;
  const list = node.parent?.children ?? [];
  const by = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
  return by && node !== zoomed ? list[list.indexOf(node) + by] : undefined;
}

function About({ node, words, show, zoom, zoomed, root }: { node: Node; words: FlameWords; show: Props["show"]; zoom: (n: Node) => void; zoomed: Node; root: Node }) {
  return (
    <p class="flameabout"><strong><bdi>{shown(node.name, 160)}</bdi></strong>
      {node.module && <bdi class="faint">{shown(node.module, 120)}</bdi>}
      <span class="faint">{node.parent?.parent ? words.class(node.class) : ""}</span>
      <span>{words.weight(node.total)}{node.self > 0 && node.children.length > 0 && `, itself ${words.weight(node.self)}`}</span>
      {node !== zoomed && node.children.length > 0 && <button type="button" class="small" onClick={() => zoom(node)}>Zoom (Enter)</button>}
      {zoomed !== root && <button type="button" class="small" onClick={() => zoom(root)}>Whole graph (Backspace)</button>}
      {show && <button type="button" class="small" onClick={() => show.act(node)}>{show.label}</button>}
    </p>
  );
}

export function Flame(props: Props) {
  const { model, root, label, words, search } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [zoomed, setZoomed] = useState(root);
  const [chosen, setChosen] = useState<Node | null>(null);
  const [width, setWidth] = useState(0);
  const [tip, setTip] = useState<TipAt | null>(null);
  const dark = useModel(model, (m) => m.theme.dark);
  useEffect(() => {
    setZoomed(root);
    setChosen(null);
  }, [root]);
  // A tree that has just changed is drawn from its own root.
  const top = useMemo(() => {
    for (let n: Node | null = zoomed; n; n = n.parent) if (n === root) return zoomed;
    return root;
  }, [zoomed, root]);
  const boxes = useMemo(() => (width > 0 ? boxesOf(top, width) : []), [top, width]);
  useLayoutEffect(() => {
    const resized = new ResizeObserver(() => setWidth(canvas.current?.clientWidth ?? 0));
    resized.observe(canvas.current!);
    return () => resized.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (boxes.length) draw(canvas.current!, boxes, chosen, props);
  }, [boxes, chosen, search, dark]);
  const under = (e: MouseEvent): Node | null => {
    const box = canvas.current!.getBoundingClientRect();
    const [x, depth] = [e.clientX - box.left, Math.floor((e.clientY - box.top) / ROW)];
    return boxes.find((b) => b.depth === depth && x >= b.x && x < b.x + b.w)?.node ?? null;
  };
  const hover = (e: PointerEvent) => {
    const node = under(e);
    setTip(node && { x: e.clientX, y: e.clientY, lines: [shown(node.name, 200), shown(node.module, 120), node.parent?.parent ? words.class(node.class) : "", words.weight(node.total), node.children.length ? "Click: zoom" : ""].filter(Boolean) });
  };
  const zoom = (node: Node) => {
    setZoomed(node);
    setChosen(node);
  };
  const press = (e: KeyboardEvent) => {
    const now = chosen ?? top;
    if (e.key === "Enter" && now.children.length) zoom(now);
    else if (e.key === "Backspace") zoom(root);
    else {
      const next = neighbour(now, e.key, top);
      if (!next) return;
      setChosen(next);
      // Out of the zoomed part: the zoom follows.
      if (e.key === "ArrowUp" && now === top) setZoomed(next);
    }
    e.preventDefault();
  };
  return (
    <div>
      <div class="flame" role="application" aria-roledescription="flame graph" tabIndex={0} onKeyDown={press}
        aria-label={`${label}. Arrow keys go to callers, called functions and neighbours; Enter zooms, Backspace shows the whole graph. The table below has the functions`}>
        <canvas ref={canvas} aria-hidden="true" onPointerMove={hover} onPointerLeave={() => setTip(null)} onClick={(e) => {
          const node = under(e);
          if (node) zoom(node);
        }} />
      </div>
      <div aria-live="polite"><About node={chosen ?? top} words={words} show={props.show} zoom={zoom} zoomed={top} root={root} /></div>
      <Tip at={tip} />
    </div>
  );
}
