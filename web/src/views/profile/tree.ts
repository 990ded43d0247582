// A flame graph's tree: samples or waits within an interval, by program, then by stack from the outermost function inwards.
// On a CPU a node's weight is its samples; off CPU, the ticks of the waits, with the kind of wait as the innermost node.

import type { Recording } from "../../data/recording";
import { isIdle } from "../../lanes/rows";
import { CLASS_LABEL, CLASSES, isWait } from "../../palette";
import { programOf } from "../../view/names";
import { SLICE, type Work } from "../shared/work";

export interface Node {
  name: string;
  module: string;
  /** A class of code, or of waits. */
  class: string;
  total: number;
  self: number;
  parent: Node | null;
  children: Node[];
  /** Off CPU: the longest wait within; -1 on a CPU. */
  longest: number;
}

export interface Wanted {
  a: number;
  b: number;
  mask: Uint8Array | null;
  /** All hosts if empty. */
  host: string;
}

/** Nodes below this part of the whole are not kept: they are thinner than a pixel at every zoom that shows text. */
const LEAST_PART = 1 / 50_000;

/** What is gathered of one program: weights by the innermost node of the stack, and by kind of wait. */
interface Leaf {
  weight: number;
  longest: number;
}
type Leaves = Map<number, Leaf>;

const KINDS = 256;
/** What the recorder itself ran to take the stack of a wait. */
const RECORDER = /^(__)?bpf_(prog|trace_run|trampoline)/;

/** The innermost node of each stack that is not the recorder's: index + 1, by index. */
function withoutRecorder(r: Recording): Uint32Array {
  const { parent, frame } = r.stack;
  const own = (r.header.frames ?? []).map((f) => f.class === "recorder" || RECORDER.test(f.name));
  const out = new Uint32Array(parent.length);
  for (let i = 0; i < out.length; i++) out[i] = !own[frame[i]] ? i + 1 : parent[i] > 0 && parent[i] - 1 < i ? out[parent[i] - 1] : 0;
  return out;
}

function add(programs: Map<string, Leaves>, program: string, key: number, weight: number, span: number, r: Recording): void {
  let leaves = programs.get(program);
  if (!leaves) programs.set(program, (leaves = new Map()));
  const leaf = leaves.get(key);
  if (!leaf) leaves.set(key, { weight, longest: span });
  else {
    leaf.weight += weight;
    if (span >= 0 && r.span.duration[span] > r.span.duration[leaf.longest]) leaf.longest = span;
  }
}

function* onCpu(r: Recording, w: Wanted): Work<Map<string, Leaves>> {
  const programs = new Map<string, Leaves>();
  const names = r.header.lanes.map((lane) => (w.host && lane.host !== w.host ? "" : programOf(lane)));
  const { at, lane, stack } = r.sample;
  for (let i = 0; i < stack.length; i++) {
    if (i % SLICE === 0) yield;
    if (!stack[i] || at[i] < w.a || at[i] > w.b) continue;
    const name = lane[i] < names.length ? names[lane[i]] : "other programs";
    if (name) add(programs, name, stack[i] * KINDS, 1, -1, r);
  }
  return programs;
}

function* offCpu(r: Recording, w: Wanted): Work<Map<string, Leaves>> {
  const programs = new Map<string, Leaves>();
  const { start, duration, stack, kind } = r.span;
  const inner = withoutRecorder(r);
  for (let lane = 0; lane < r.lanes.length; lane++) {
    const info = r.header.lanes[lane];
    // A server's idle threads wait all the time: their waits would hide the others.
    if (info.role === "recorder" || isIdle(r, lane) || (w.host && info.host !== w.host)) continue;
    const name = programOf(info);
    for (let i = r.lanes[lane].spanFrom; i < r.lanes[lane].spanTo; i++) {
      if (i % SLICE === 0) yield;
      if (!stack[i] || (w.mask && !w.mask[i]) || !isWait(r.classOf[kind[i]])) continue;
      const inside = Math.min(w.b, start[i] + duration[i]) - Math.max(w.a, start[i]);
      if (inside > 0) add(programs, name, (inner[stack[i] - 1] || stack[i]) * KINDS + 1 + r.classOf[kind[i]], inside, i, r);
    }
  }
  return programs;
}

const node = (name: string, module: string, cls: string, parent: Node | null): Node => ({ name, module, class: cls, total: 0, self: 0, parent, children: [], longest: -1 });

function count(n: Node, leaf: Leaf, r: Recording): void {
  n.total += leaf.weight;
  if (leaf.longest >= 0 && (n.longest < 0 || r.span.duration[leaf.longest] > r.span.duration[n.longest])) n.longest = leaf.longest;
}

/** Programs that are neither the command's nor its servers': their own code has the class of other programs. */
function foreignPrograms(r: Recording): Set<string> {
  const lanes = r.header.lanes;
  const known = new Set(lanes.filter((l) => l.role === "client" || l.role === "server").map(programOf));
  return new Set(known.size ? lanes.map(programOf).filter((name) => !known.has(name)) : []);
}

/** Builds one program's tree below `root`. */
function* grow(r: Recording, root: Node, leaves: Leaves, isForeign: boolean): Work<void> {
  const known = new Map<number, Node>();
  const { parent, frame } = r.stack;
  const at = (index: number): Node => {
    const found = known.get(index);
    if (found) return found;
    const info = r.header.frames?.[frame[index]] ?? { name: "?", module: "", class: "" };
    const above = parent[index];
    // A parent comes before its children in the planes; what does not is a root.
    const up = above > 0 && above - 1 < index ? at(above - 1) : root;
    const cls = isForeign && (info.class === "program" || info.class === "libraries") ? "others" : info.class;
    const made = node(info.name, info.module, cls, up);
    up.children.push(made);
    known.set(index, made);
    return made;
  };
  let n = 0;
  for (const [key, leaf] of leaves) {
    if (++n % 2048 === 0) yield;
    const index = Math.floor(key / KINDS) - 1;
    if (index >= parent.length) continue;
    let inner = at(index);
    if (key % KINDS) {
      const cls = CLASSES[(key % KINDS) - 1];
      const wait = inner.children.find((c) => c.class === cls && c.module === "") ?? node(CLASS_LABEL[cls], "", cls, inner);
      if (!inner.children.includes(wait)) inner.children.push(wait);
      inner = wait;
    }
    inner.self += leaf.weight;
    for (let up: Node | null = inner; up; up = up.parent) count(up, leaf, r);
  }
}

function prune(n: Node, least: number): void {
  n.children = n.children.filter((c) => c.total >= least).sort((x, y) => y.total - x.total);
  for (const c of n.children) prune(c, least);
}

export function* treeOf(r: Recording, mode: "on" | "off", w: Wanted): Work<Node> {
  const programs = yield* mode === "on" ? onCpu(r, w) : offCpu(r, w);
  const root = node("all programs", "", "", null);
  const foreign = foreignPrograms(r);
  for (const [name, leaves] of programs) {
    const program = node(name, "", "", root);
    root.children.push(program);
    yield* grow(r, program, leaves, foreign.has(name));
  }
  prune(root, root.total * LEAST_PART);
  return root;
}

export interface FunctionSum {
  name: string;
  module: string;
  class: string;
  self: number;
  total: number;
}

/** By function: its own weight, and that with what it called; a function that calls itself counts once. */
export function functionsOf(root: Node): FunctionSum[] {
  const sums = new Map<string, FunctionSum>();
  const open = new Set<string>();
  const visit = (n: Node) => {
    const key = `${n.name}\0${n.module}`;
    const outermost = n.parent?.parent && !open.has(key);
    if (n.parent?.parent) {
      let sum = sums.get(key);
      if (!sum) sums.set(key, (sum = { name: n.name, module: n.module, class: n.class, self: 0, total: 0 }));
      sum.self += n.self;
      if (outermost) sum.total += n.total;
    }
    if (outermost) open.add(key);
    n.children.forEach(visit);
    if (outermost) open.delete(key);
  };
  visit(root);
  return [...sums.values()].sort((x, y) => y.self - x.self || y.total - x.total);
}

export const matches = (n: Node, wanted: string): boolean => !!wanted && `${n.name} ${n.module} ${n.class}`.toLowerCase().includes(wanted.toLowerCase());

/** The weight below nodes that match; a match within a match counts once. */
export function matched(root: Node, wanted: string): number {
  if (matches(root, wanted)) return root.total;
  return root.children.reduce((sum, c) => sum + matched(c, wanted), 0);
}

/** The class of what ran: that of the innermost function that has one. By node; an index into the names. */
export function classesOfNodes(r: Recording): { of: Uint16Array; names: string[] } {
  const names = [""];
  const index = new Map([["", 0]]);
  const frameClass = (r.header.frames ?? []).map((f) => {
    let at = index.get(f.class);
    if (at === undefined) index.set(f.class, (at = names.push(f.class) - 1));
    return at;
  });
  const { parent, frame } = r.stack;
  const of = new Uint16Array(parent.length);
  for (let i = 0; i < of.length; i++) of[i] = frameClass[frame[i]] || (parent[i] > 0 && parent[i] - 1 < i ? of[parent[i] - 1] : 0);
  return { of, names };
}
