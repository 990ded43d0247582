// Which rows the time view has: hosts and roles, processes, lanes. Groups fold; lanes that did nothing are folded into one row. The order
// is by time on the critical path, so that what matters is at the top and the path runs through neighbouring lanes.

import type { ClockInfo, LaneInfo } from "../data/header";
import { groupKey, type Recording } from "../data/recording";
import { duration, shown } from "../view/format";

export type RowType = "section" | "group" | "lane" | "idle" | "clock";

export interface Row {
  type: RowType;
  key: string;
  label: string;
  detail: string;
  depth: number;
  /** The lanes drawn in the row. */
  lanes: number[];
  folded: boolean;
  foldable: boolean;
  /** What else a row's title says. */
  note?: string;
  /** The host whose clock could not be aligned, if the row is on that host's own axis; else empty. */
  clock: string;
  y: number;
  h: number;
}

/** A lane is idle if it is not on the critical path and did something in less than this part of the run. */
const IDLE_SHARE = 0.001;
/** Groups with more lanes are folded to begin with. */
const MANY = 12;
/** More processes of one command are one group: a loop of a shell starts hundreds. */
const MANY_PROCESSES = 6;
/** Groups of more ranks are folded to begin with. */
const MANY_RANKS = 64;
/** Beyond this number of lanes in all, every group of several lanes is folded to begin with. */
const VERY_MANY = 150;

/** Height of a row that folds: large enough for a finger. */
const FOLD_HEIGHT = 24;
/** Height of the row with a sentence and the axis of a clock of its own. */
export const CLOCK_HEIGHT = 44;

interface Group {
  key: string;
  /** The command of a group of processes; empty for one process. */
  name: string;
  lanes: number[];
  onPath: number;
  busy: number;
}

export function isIdle(r: Recording, lane: number): boolean {
  const l = r.lanes[lane];
  return l.onPath === 0 && l.busy < IDLE_SHARE * r.total;
}

const ROLE: Record<string, string> = { client: "client", server: "server", kernel: "kernel", recorder: "recorder", none: "others" };
const KIND: Record<string, string> = {
  thread: "threads", connection: "connections", server: "servers", device: "devices", cpu: "processors", rank: "MPI ranks", path: "paths",
};

function order(a: { onPath: number; busy: number }, b: { onPath: number; busy: number }): number {
  return b.onPath - a.onPath || b.busy - a.busy;
}

/** A process's command, without its number. */
const commandOf = (process: string): string => process.replace(/^\d+ /, "");

/**
 * The key under which lanes are folded: their process, or all processes of one command where a section has many busy ones with one thread
 * each. Processes with several threads stay apart: their threads belong together.
 */
function keysOf(r: Recording): string[] {
  const { lanes } = r.header;
  const threads = new Map<string, number>();
  for (const info of lanes) threads.set(groupKey(info), (threads.get(groupKey(info)) ?? 0) + 1);
  const family = (info: LaneInfo) => (info.process && threads.get(groupKey(info)) === 1 ? JSON.stringify([info.host, info.role, info.kind, commandOf(info.process)]) : "");
  const families = lanes.map(family);
  const sizes = new Map<string, number>();
  families.forEach((key, i) => {
    if (!isIdle(r, i)) sizes.set(key, (sizes.get(key) ?? 0) + 1);
  });
  return lanes.map((info, i) => (families[i] && (sizes.get(families[i]) ?? 0) > (info.kind === "rank" ? MANY : MANY_PROCESSES) ? families[i] : groupKey(info)));
}

function groupsOf(r: Recording): Map<string, Group[]> {
  const groups = new Map<string, Group & { section: string }>();
  const keys = keysOf(r);
  r.header.lanes.forEach((info, i) => {
    let group = groups.get(keys[i]);
    if (!group) groups.set(keys[i], (group = { key: keys[i], name: "", lanes: [], onPath: 0, busy: 0, section: JSON.stringify([info.host, info.role]) }));
    if (keys[i] !== groupKey(info)) group.name = commandOf(info.process);
    group.lanes.push(i);
    group.onPath += r.lanes[i].onPath;
    group.busy += r.lanes[i].busy;
  });
  const sections = new Map<string, Group[]>();
  for (const group of [...groups.values()].sort(order)) {
    group.lanes.sort((a, b) => order(r.lanes[a], r.lanes[b]));
    const list = sections.get(group.section);
    if (list) list.push(group);
    else sections.set(group.section, [group]);
  }
  return sections;
}

/** Keys of the rows folded when the page opens. */
export function foldedAtFirst(r: Recording): Set<string> {
  const folded = new Set<string>();
  const veryMany = r.lanes.length > VERY_MANY;
  for (const [section, groups] of groupsOf(r)) {
    const [, role] = JSON.parse(section) as [string, string];
    if (role === "recorder") folded.add(`s${section}`);
    folded.add(`i${section}`);
    for (const group of groups) {
      const live = group.lanes.filter((l) => !isIdle(r, l)).length;
      const kind = r.header.lanes[group.lanes[0]].kind;
      // Ranks are what a reader of an MPI program came for.
      if (kind === "rank" ? live > MANY_RANKS : live > MANY || (group.name && live > 1) || (veryMany && live > 1) || (kind === "cpu" && live > 1)) folded.add(`g${group.key}`);
    }
  }
  return folded;
}

export interface RowOptions {
  folded: Set<string>;
  height: number;
  /** Lanes that match the filter; null if there is none. */
  only: Set<number> | null;
  /** Whether a folded row is shown unfolded, because a match is within. */
  open: boolean;
}

/** A process with the server that most of its threads work for: several servers may be processes of one command. */
function withServer(r: Recording, group: Group, process: string): string {
  const found = new Map<string, number>();
  for (const lane of group.lanes) {
    const info = r.header.lanes[lane];
    const word = info.kind === "server" ? /^[^/]+\/(\S+) /.exec(info.name)?.[1] : undefined;
    if (word) found.set(word, (found.get(word) ?? 0) + 1);
  }
  const [word, count] = [...found].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
  return count > group.lanes.length / 2 && !process.includes(word) ? `${process}: ${word}` : process;
}

/** Names of lanes that several processes have: these need the process too. */
function repeatedNames(lanes: LaneInfo[]): Set<string> {
  const processes = new Map<string, string>();
  const repeated = new Set<string>();
  for (const lane of lanes) {
    const before = processes.get(lane.name);
    if (before !== undefined && before !== lane.process) repeated.add(lane.name);
    processes.set(lane.name, lane.process);
  }
  return repeated;
}

class Builder {
  rows: Row[] = [];
  y = 0;
  clock = "";
  private repeated: Set<string>;
  constructor(private r: Recording, private options: RowOptions) {
    this.repeated = repeatedNames(r.header.lanes);
  }

  push(row: Omit<Row, "y" | "h" | "folded" | "clock">, h: number): boolean {
    const folded = row.foldable && this.options.folded.has(row.key);
    this.rows.push({ ...row, folded, clock: this.clock, y: this.y, h });
    this.y += h;
    return folded;
  }

  /** Adds a lane; without its process above it, the label says which of several it is. */
  lane(index: number, depth: number, process = "", alone = false): void {
    const info = this.r.header.lanes[index];
    const name = shown(info.name) || "(no name)";
    const number = /^\d+/.exec(info.process)?.[0];
    const label = process && !process.endsWith(info.name) ? `${name} · ${process}` : alone && number && this.repeated.has(info.name) ? `${name} · ${number}` : name;
    this.push({ type: "lane", key: `l${index}`, label, detail: "", depth, lanes: [index], foldable: false }, this.options.height);
  }

  /** Adds a process's lanes; returns those that are idle. */
  group(group: Group, depth: number): number[] {
    const { r, options } = this;
    const kept = options.only ? group.lanes.filter((l) => options.only!.has(l)) : group.lanes;
    if (!kept.length) return [];
    const live = options.only ? kept : kept.filter((l) => !isIdle(r, l));
    const idle = options.only ? [] : kept.filter((l) => isIdle(r, l));
    const info = r.header.lanes[kept[0]];
    const many = group.name && (info.kind === "rank" ? `${group.lanes.length} ranks of ${shown(group.name, 60)}` : `${group.lanes.length} ${shown(group.name, 60)} processes`);
    const label = many || (info.process && shown(withServer(r, group, info.process))) || KIND[info.kind] || "lanes";
    const header = Math.max(FOLD_HEIGHT, options.height);
    if (live.length === 1) this.lane(live[0], depth, kept.length === 1 ? "" : label, true);
    else if (live.length) {
      const row = { type: "group" as const, key: `g${group.key}`, label, detail: many ? "" : `${kept.length}`, depth, lanes: group.lanes, foldable: true };
      if (!this.push(row, header)) for (const lane of live) this.lane(lane, depth + 1);
    }
    return idle;
  }

  /** Adds the idle lanes of a section as one row. */
  idle(section: string, lanes: number[], depth: number): void {
    if (!lanes.length) return;
    const row = { type: "idle" as const, key: `i${section}`, label: `${lanes.length} idle`, detail: "", depth, lanes, foldable: true };
    if (!this.push(row, FOLD_HEIGHT)) for (const lane of lanes) this.lane(lane, depth + 1);
  }
}

/** The clocks of hosts other than the reference, by host. */
function clocksOf(r: Recording): Map<string, ClockInfo> {
  return new Map((r.header.clocks ?? []).map((clock) => [clock.host, clock]));
}

/** A host is named where there are several. */
function sectionName(host: string, role: string, several: boolean): string {
  return [ROLE[role] ?? role, several && host && `on ${shown(host, 60)}`].filter(Boolean).join(" ") || "this machine";
}

/** How exact instants of a host are on the run's axis. */
export function uncertaintyOf(clock: ClockInfo | undefined): string {
  return clock?.aligned && clock.uncertainty_ns ? `clock aligned within ${duration(clock.uncertainty_ns / 1e9)}` : "";
}

export function makeRows(r: Recording, options: RowOptions): { rows: Row[]; height: number } {
  const builder = new Builder(r, options);
  const sections = [...groupsOf(r)].map(([section, groups]) => {
    const [host, role] = JSON.parse(section) as [string, string];
    return { section, groups, host, role };
  });
  const clocks = clocksOf(r);
  const isOwn = (host: string) => clocks.get(host)?.aligned === false;
  // Lanes on the run's axis first; then, host by host, those whose clock stands alone.
  const own = [...new Set(sections.map((s) => s.host).filter(isOwn))];
  const ordered = [...sections.filter((s) => !isOwn(s.host)), ...own.flatMap((host) => sections.filter((s) => s.host === host))];
  const many = sections.length > 1;
  const hosts = new Set(sections.map((s) => s.host).filter(Boolean));
  for (const { section, groups, host, role } of ordered) {
    const lanes = groups.flatMap((g) => g.lanes);
    if (options.only && !lanes.some((l) => options.only!.has(l))) continue;
    const clock = isOwn(host) ? host : "";
    if (clock && clock !== builder.clock) {
      builder.clock = clock;
      builder.push({ type: "clock", key: `c${host}`, label: `Own axis: ${shown(host, 60)}`, detail: "clock not aligned", depth: 0, lanes: [], foldable: false }, CLOCK_HEIGHT);
    }
    let folded = false;
    if (many) {
      const note = uncertaintyOf(clocks.get(host));
      folded = builder.push({ type: "section", key: `s${section}`, label: sectionName(host, role, hosts.size > 1), note, detail: `${lanes.length}`, depth: 0, lanes: [], foldable: true }, FOLD_HEIGHT);
    }
    const depth = many ? 1 : 0;
    if (!folded) builder.idle(section, groups.flatMap((group) => builder.group(group, depth)), depth);
  }
  return { rows: builder.rows, height: builder.y };
}
