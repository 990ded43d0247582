// Short names for where something happened.

import type { Header, LaneInfo } from "../data/header";

/** The program or server that a lane belongs to, without process and thread numbers: "ganesha.nfsd", "io0", "curl". */
export function programOf(lane: LaneInfo): string {
  if (lane.kind === "connection" || lane.kind === "device" || lane.kind === "cpu" || lane.kind === "path") return lane.name;
  const last = lane.name.slice(lane.name.lastIndexOf("/") + 1);
  const word = last.split(" ", 1)[0];
  if (lane.kind === "server") return word || lane.name;
  return lane.process.replace(/^\d+ */, "") || word || lane.name;
}

/** Of each lane, the program or server with its role, and with the host if there are several. */
export function placesOf(header: Header): string[] {
  const several = new Set(header.lanes.map((l) => l.host)).size > 1;
  return header.lanes.map((lane) => {
    const role = lane.role === "client" || lane.role === "server" ? ` (${lane.role})` : "";
    return `${programOf(lane)}${role}${several && lane.host && lane.kind !== "connection" ? ` on ${lane.host}` : ""}`;
  });
}
