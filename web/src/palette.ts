// Colours. Based on Okabe and Ito's palette: distinguishable with the common kinds of colour vision. Work is drawn as bars and waiting as
// thin bands, so that colour is never the only difference between the two; a stopped thread is striped.

export const CLASSES = [
  "read", "write", "send", "receive", "compute", "metadata", "mpi", "other",
  "runqueue", "wait.disk", "wait.network", "wait.lock", "wait.timer", "wait.memory", "wait.other", "stopped",
] as const;
export type SpanClass = (typeof CLASSES)[number];
export const OTHER = CLASSES.indexOf("other");
export const COMPUTE = CLASSES.indexOf("compute");
export const STOPPED = CLASSES.indexOf("stopped");
export const FIRST_WAIT = CLASSES.indexOf("runqueue");

/** Whether a class is waiting: drawn as a thin band. */
export const isWait = (c: number): boolean => c >= FIRST_WAIT && c !== STOPPED;

export const CLASS_LABEL: Record<SpanClass, string> = {
  read: "reading", write: "writing", send: "sending", receive: "receiving", compute: "computing (on a CPU)", metadata: "names and attributes",
  mpi: "MPI", other: "request, RPC, other", runqueue: "runnable, waiting for a CPU", "wait.disk": "waiting for a disk",
  "wait.network": "waiting for the network", "wait.lock": "waiting for a lock, pipe or thread", "wait.timer": "sleeping", "wait.memory": "waiting for memory",
  "wait.other": "waiting, other", stopped: "stopped (by a signal or debugger)",
};

export type Pair = [light: string, dark: string];

export const CLASS_COLOUR: Record<SpanClass, Pair> = {
  read: ["#0072B2", "#3D9BE0"], write: ["#D55E00", "#F0803C"], send: ["#009E73", "#25C295"], receive: ["#3DA5D9", "#7CC8F2"],
  compute: ["#E69F00", "#F2B633"], metadata: ["#8C7A00", "#C2AE2E"], mpi: ["#44AA99", "#6CCABB"], other: ["#8794A6", "#76859A"],
  runqueue: ["#7A3B3B", "#C98080"], "wait.disk": ["#A0527F", "#DD93BE"], "wait.network": ["#4F9BC4", "#6FB7DE"], "wait.lock": ["#007C8A", "#4FC3CF"],
  "wait.timer": ["#9AA1AB", "#8A939E"], "wait.memory": ["#882255", "#D26A9B"], "wait.other": ["#A9B1BB", "#78828E"], stopped: ["#111820", "#F2F5F8"],
};

/** A cause's colour, by its name or by the last part of its name. The network's causes all differ. */
const CAUSE_COLOUR: Record<string, Pair> = {
  "network.bandwidth": ["#009E73", "#25C295"], "network.latency": ["#56B4E9", "#7CC8F2"], "network.loss": ["#B3001B", "#FF6B7D"],
  "network.cwnd": ["#7B4FA3", "#B68BE0"], "network.rwnd": ["#B5651D", "#E09A55"], "network.sndbuf": ["#00614A", "#4FB39A"],
  read: ["#0072B2", "#3D9BE0"], write: ["#D55E00", "#F0803C"], sync: ["#CC5C9A", "#E58CC0"], cpu: ["#E69F00", "#F2B633"],
  metadata: ["#8C7A00", "#C2AE2E"], memory: ["#882255", "#D26A9B"], runqueue: ["#7A3B3B", "#C98080"], lock: ["#007C8A", "#4FC3CF"],
  think: ["#46566B", "#A9BBD3"], recorder: ["#8F8F8F", "#8F8F8F"], unknown: ["#3A4350", "#C9D0D8"],
};

/** Curves of a connection's windows have the colours of the causes that they limit by. */
export function counterColour(name: string): Pair | undefined {
  const cause = { "tcp.cwnd": "network.cwnd", "tcp.receive_window_bytes": "network.rwnd", "tcp.send_buffer_bytes": "network.sndbuf" }[name];
  return cause ? CAUSE_COLOUR[cause] : undefined;
}

export function causeColour(name: string, dark: boolean): string {
  const pair = CAUSE_COLOUR[name] ?? CAUSE_COLOUR[name.slice(name.lastIndexOf(".") + 1)] ?? CAUSE_COLOUR.unknown;
  return pair[dark ? 1 : 0];
}

export function classColour(c: number, dark: boolean): string {
  return CLASS_COLOUR[CLASSES[c]][dark ? 1 : 0];
}

/** Colours of samples' classes. A class that spans have too has the colour of those spans. */
const SAMPLE_COLOUR: Record<string, Pair> = {
  user: ["#B26F00", "#F2B633"], read: CLASS_COLOUR.read, write: CLASS_COLOUR.write, send: CLASS_COLOUR.send, receive: CLASS_COLOUR.receive,
  fault: CLASS_COLOUR["wait.memory"], softirq: ["#5E5E8A", "#A3A3D9"], other: CLASS_COLOUR.other, idle: CLASS_COLOUR["wait.other"],
};
const MORE_COLOURS: Pair[] = [["#7B4FA3", "#B68BE0"], ["#007C8A", "#4FC3CF"], ["#8C7A00", "#C2AE2E"], ["#A0527F", "#DD93BE"]];

export function sampleColour(name: string, number: number, dark: boolean): string {
  return (SAMPLE_COLOUR[name] ?? MORE_COLOURS[number % MORE_COLOURS.length])[dark ? 1 : 0];
}

export function rgb(hex: string): [number, number, number] {
  const n = parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

/** Whether text on a colour must be dark: the better of the two contrasts. */
export function isLight(hex: string): boolean {
  const [r, g, b] = rgb(hex).map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179;
}

export interface Theme {
  dark: boolean;
  paper: string;
  ink: string;
  faint: string;
  rule: string;
  accent: string;
}

export const LIGHT: Theme = { dark: false, paper: "#ffffff", ink: "#1b2430", faint: "#55606d", rule: "#d8dce2", accent: "#0b57d0" };
export const DARK: Theme = { dark: true, paper: "#14181d", ink: "#e4e8ec", faint: "#a3adb8", rule: "#343c46", accent: "#8ab4f8" };
