// Names of places for a reader who does not know how hosts are named in a recording.

import type { Header } from "../data/header";

/** A subject of `explain`: a host is named where there are several; of one host, the processors are just the CPUs. */
export function placed(header: Header, subject: string): string {
  const hosts = new Set(header.lanes.map((lane) => lane.host).filter(Boolean));
  if (hosts.size !== 1) return subject;
  const [host] = hosts;
  return subject.replace(`, CPUs of ${host}`, "").replace(`CPUs of ${host}`, "this machine's CPUs");
}
