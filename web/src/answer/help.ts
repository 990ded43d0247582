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
  cpu: ["computing, copying, checksums", "less work (compression level, copies, interpreter), more processors at work"],
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

/** The rule by which time in a stop is charged. */
const STOPPED_RULE = "stopped";

/** Whether most of the time charged to a cause was spent stopped, and not asleep: the cause of the closed set is one for both. */
export function isStopped(e: Explanation, cause: string): boolean {
  if (!cause.endsWith("think")) return false;
  const charges = (e.critical_path ?? []).filter((c) => c.cause === cause);
  const stopped = charges.flatMap((c) => c.rules ?? []).filter((r) => r.rule === STOPPED_RULE).reduce((sum, r) => sum + r.seconds, 0);
  const all = charges.reduce((sum, c) => sum + c.seconds, 0);
  if (charges.some((c) => c.rules?.length)) return stopped > all / 2;
  return /\bstops?\b/.test(e.summary?.rows.find((r) => r.cause === cause)?.figures ?? "");
}

/** Whether most of the time charged to a cause was spent asleep. */
const slept = (e: Explanation, cause: string): boolean => /\b(sleeps?|pauses?)\b/.test(e.summary?.rows.find((r) => r.cause === cause)?.figures ?? "");

export function helpFor(e: Explanation, cause: string): string {
  if (isStopped(e, cause)) return "stopped by a signal, a debugger or a frozen control group";
  if (cause.endsWith("think") && slept(e, cause)) return "sleeping: a pause, a rate limit";
  return help(cause)?.[0] ?? "";
}

export function usuallyHelps(e: Explanation, cause: string): string {
  return isStopped(e, cause) ? "find out what stops the process (SIGSTOP, a debugger, a frozen control group)" : help(cause)?.[1] ?? "";
}

/** What a recording's label says in the terms of the field, and what a reader without them knows. */
const PLAINER: [label: string, plain: string][] = [
  ["the receive window was full", "the receiver's buffer (window) was full"], ["the send buffer was full", "the sender's buffer was full"],
  ["messages were in transit", "messages were in transit (round trips)"], ["the network carried data", "the link was busy with data"],
  ["waited for stable storage", "waited until data was on disk"], ["waited for a processor", "waited for a free CPU"],
  ["waited for a read", "waited for a read from storage"], ["waited for a write", "waited for a write to storage"],
  ["the recorder worked", "the recording itself"], ["the congestion window was full", "the connection was not at full speed yet"],
];

const plainer = (label: string): string => PLAINER.reduce((text, [from, to]) => text.replace(from, to), label);

/** By the last part of a cause's name: what an end did. */
const DID: Record<string, string> = {
  read: "waited for a read from storage", write: "waited for a write to storage", sync: "waited until data was on disk", metadata: "worked on names and attributes",
  memory: "waited for memory", cpu: "computed", runqueue: "waited for a free CPU", lock: "waited for a lock", think: "slept or was stopped", unknown: "was not recorded",
};

/** A cause in words, where no recording says it: documents of measurements. */
export function causeWords(cause: string): string {
  const [end, what] = cause.split(".");
  if (what && DID[what] && (end === "client" || end === "server")) return `the ${end} ${DID[what]}`;
  const meant = { "network.bandwidth": "the link was busy with data", "network.latency": "messages were in transit (round trips)", "network.loss": "packets were lost", recorder: "the recording itself" }[cause];
  return meant ?? help(cause)?.[0] ?? cause;
}

/** A cause's clause; where it is a stop or sleep, the clause says which and not "slept or was stopped". */
export function plainLabel(header: Header, cause: { name: string; label: string }): string {
  const { explanation: e } = header;
  const label = plainer(cause.label || causeWords(cause.name));
  if (!cause.name.endsWith("think")) return label;
  const said = isStopped(e, cause.name) ? "was stopped by a signal" : slept(e, cause.name) ? "slept" : "";
  return said ? label.replace("slept or was stopped", said) : label;
}

/** A cause in plain words. */
export function plainCause(header: Header, name: string): string {
  return plainLabel(header, header.causes.find((c) => c.name === name) ?? { name, label: "" });
}
