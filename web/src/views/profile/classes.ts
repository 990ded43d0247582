// The classes of code that a profile has: names and colours as in `thalweg profile`.

import type { Header } from "../../data/header";
import type { Pair } from "../../palette";

const CLASSES: Record<string, [title: string, colour: Pair]> = {
  idle: ["idle", ["#E9ECF0", "#2A323B"]], netdrv: ["network driver", ["#0B3D70", "#4A7FB8"]], irq: ["interrupts", ["#7A3B3B", "#C98080"]],
  net: ["TCP/IP", ["#0072B2", "#3D9BE0"]], rpc: ["RPC, NFS, FUSE", ["#56B4E9", "#7CC8F2"]], copy: ["memory copy", ["#E69F00", "#F2B633"]],
  fs: ["page cache, file system", ["#009E73", "#25C295"]], block: ["block layer, driver", ["#00604A", "#3F9F85"]], mm: ["memory management", ["#CC79A7", "#E09AC0"]],
  sched: ["scheduler, locks", ["#8C7A00", "#C2AE2E"]], syscall: ["system-call entry", ["#A9B1BB", "#8A939E"]], rest: ["rest of the kernel", ["#5B6B82", "#8C9DB5"]],
  libc: ["C library", ["#D55E00", "#F0803C"]], program: ["program", ["#F0D442", "#F0D442"]], libraries: ["other libraries", ["#F2A07B", "#F2A07B"]],
  others: ["other programs", ["#C3B6D9", "#A596C4"]], steal: ["steal", ["#1B2430", "#DDE2E8"]], recorder: ["recorder", ["#882255", "#D26A9B"]],
};
/** Classes that a user's rules define. */
const OWN: Pair[] = [["#44AA99", "#6CCABB"], ["#999933", "#BDBD55"], ["#AA4466", "#D57090"], ["#6699CC", "#8CB6E0"]];
const NONE: Pair = ["#D8DCE2", "#4A545F"];

interface ProfileHost {
  name: string;
  cpus: number;
  classes: { class: string; title: string }[];
}
interface ProfileDocument {
  period_s?: number;
  hosts: ProfileHost[];
}

export const documentsOf = (header: Header): ProfileDocument[] => (header.profile ?? []) as ProfileDocument[];

/** Seconds between two samples of a busy processor; 0 if not known. */
export const periodOf = (header: Header): number => documentsOf(header)[0]?.period_s ?? 0;

export function titleOf(header: Header, name: string): string {
  if (!name) return "no class";
  for (const document of documentsOf(header)) {
    for (const host of document.hosts) for (const c of host.classes) if (c.class === name) return c.title;
  }
  return CLASSES[name]?.[0] ?? name;
}

function hash(name: string): number {
  let h = 0;
  for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) >>> 0;
  return h;
}

export function colourOf(name: string, dark: boolean): string {
  const pair = name ? CLASSES[name]?.[1] ?? OWN[hash(name) % OWN.length] : NONE;
  return pair[dark ? 1 : 0];
}
