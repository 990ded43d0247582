// Causes in words: their names as `explain` prints them, what they mean and what usually helps, as in the glossary.

import type { Explanation, Header } from "../data/header";

const isElsewhere = (cause: string): boolean => cause.startsWith("server.") || cause.startsWith("network.");

/** Whether a server or the network is involved; if not, `explain` leaves "client." out. */
function hasServer(e: Explanation): boolean {
  return (e.critical_path ?? []).some((c) => isElsewhere(c.cause)) || (e.channels ?? []).some((c) => c.name.includes(" > "));
}

const known = new WeakMap<Explanation, boolean>();

export function causeName(e: Explanation, cause: string): string {
  let server = known.get(e);
  if (server === undefined) known.set(e, (server = hasServer(e)));
  return server ? cause : cause.replace(/^client\./, "");
}

/** By cause: where the time went, and what usually helps. */
const HELP: Record<string, [meaning: string, helps: string]> = {
  read: ["waiting for a device to read", "a faster or less busy device, larger reads, more reads in flight, read-ahead"],
  write: ["waiting for a device to write", "a faster or less busy device, larger writes, more writes in flight"],
  sync: ["waiting until data is on stable storage", "fewer syncs, one at the end; each gives durability up"],
  metadata: ["work on names and attributes", "fewer, larger files; batches; attributes that come with names"],
  memory: ["page faults, reclaim, the limit of dirty pages", "less memory in use, higher dirty limits, a faster disk"],
  cpu: ["computing, copying, checksums", "more processors at work, less work: compression level, copies, interpreter"],
  runqueue: ["runnable, without a processor", "fewer competitors, more processors, a larger quota"],
  lock: ["waiting for a lock", "shorter critical sections, finer locks"],
  think: ["sleeping: a pause, a rate limit, a stopped process", "leave out the pause or the limit"],
  "server.unknown": ["a server that was not recorded", "record the server too"],
  "network.bandwidth": ["data moving as fast as the path carries it", "a faster path, fewer bytes (compression, each range once)"],
  "network.latency": ["a round trip, with nothing else to wait for", "fewer round trips, several requests in flight, nearer ends"],
  "network.loss": ["resending what the network lost, and the window that loss kept small", "repair the path; another congestion control; more connections"],
  "network.sndbuf": ["the sender's socket buffer was full", "a larger send buffer (tcp_wmem, the program's own option)"],
  "network.rwnd": ["the receiver's window was full", "a larger receive buffer (tcp_rmem, the program's own option)"],
  "network.cwnd": ["the congestion window still grew", "keep connections open, a larger initial window, more connections"],
  recorder: ["the work of the recording itself", "the default tier, an idle machine"],
  unknown: ["no wait and no sample explains it", ""],
};

const help = (cause: string) => HELP[cause] ?? HELP[cause.slice(cause.lastIndexOf(".") + 1)];

/** A cause of the closed set that is sleep or a stop: which of the two, if the figures say so. */
function thinkKind(cause: string, figures: string): "stop" | "sleep" | "" {
  if (!cause.endsWith("think")) return "";
  const [stop, sleep] = [/\bstops?\b/.test(figures), /\b(sleeps?|pauses?)\b/.test(figures)];
  return stop === sleep ? "" : stop ? "stop" : "sleep";
}

const THINK = { stop: "stopped by a signal, a debugger or a frozen control group", sleep: "sleeping: a pause, a rate limit" };

export function helpFor(cause: string, figures = ""): string {
  const kind = thinkKind(cause, figures);
  return kind ? THINK[kind] : help(cause)?.[0] ?? "";
}

/** A cause's clause; where its largest row is a stop or sleep, the clause says which and not "slept or was stopped". */
export function plainLabel(header: Header, cause: { name: string; label: string }): string {
  const row = header.explanation.summary?.rows.find((r) => r.cause === cause.name);
  const kind = row ? thinkKind(cause.name, row.figures) : "";
  return kind ? cause.label.replace("slept or was stopped", kind === "stop" ? "was stopped" : "slept") : cause.label;
}
export const usuallyHelps = (cause: string): string => help(cause)?.[1] ?? "";
