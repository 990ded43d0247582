import { describe, expect, it } from "vitest";
import { clauses } from "../../src/answer/clauses";
import { partsOf, tableOf } from "../../src/answer/parts";
import { placed } from "../../src/answer/places";
import { isWish, plan } from "../../src/answer/predictions";
import type { Explanation, WhatIf } from "../../src/data/header";

const change = (id: string, predicted_wall_s: number, more: Partial<WhatIf> = {}): WhatIf => ({
  id, change: `do ${id}`, basis: "replayed", predicted_wall_s, interval_s: [predicted_wall_s, predicted_wall_s], speedup: 10 / predicted_wall_s, about: ["client.cpu"], how: `how ${id}`, ...more,
});
const explanation = (...what_if: WhatIf[]): Explanation => ({ wall_s: 10, what_if, critical_path: [{ cause: "client.cpu", where: "", seconds: 9, share: 0.9, basis: "", evidence: "" }] });
const short = (...changes: WhatIf[]): string => changes.map((w) => `  ${w.change}  10 s -> ${w.predicted_wall_s} s`).join("\n");
const ids = (e: Explanation, text = short(...e.what_if!)) => {
  const { can, could } = plan(e, text);
  return { can: can.map((p) => [p.change.id, ...p.or.map((o) => o.id)].join()), could: could.map((w) => w.id) };
};

describe("the plan", () => {
  it("has what the reader can do before other hardware", () => {
    const e = explanation(change("rtt.half", 4), change("window.x4", 6), change("cpu.client.x2", 7));
    expect(ids(e)).toEqual({ can: ["window.x4"], could: ["rtt.half", "cpu.client.x2"] });
    expect(["disk.requests.x4", "requests.x4", "no_hog", "processors.all", "no_loss"].some((id) => isWish(change(id, 1)))).toBe(false);
    expect(["device.read.x2", "link.x2", "processors.x2", "server.x2", "disk.x3"].every((id) => isWish(change(id, 1)))).toBe(true);
    expect(isWish(change("device.read.x2", 1, { command: ["cp"] }))).toBe(false);
  });
  it("begins with a change that gives nothing up where the gains are alike", () => {
    expect(ids(explanation(change("a", 4, { gives_up: "fairness" }), change("b", 4.5))).can).toEqual(["b", "a"]);
    expect(ids(explanation(change("a", 4, { gives_up: "fairness" }), change("b", 6))).can).toEqual(["a", "b"]);
    expect(ids(explanation(change("no_sync", 4), change("b", 4.5))).can).toEqual(["b", "no_sync"]);
  });
  it("makes variants of one change one proposal", () => {
    expect(ids(explanation(change("walk.window.128", 1, { change: "ask 128 ahead" }), change("walk.window.32", 2, { change: "ask 32 ahead" }))).can).toEqual(["walk.window.128,walk.window.32"]);
  });
  it("proposes nothing that the text does not have", () => {
    const [half, words, command] = [change("rtt.half", 4), change("walk.window.8", 3), change("requests.x4", 5, { command: ["curl", "-Z"] })];
    expect(ids(explanation(half, words, command), short(half))).toEqual({ can: [], could: ["rtt.half"] });
    expect(ids(explanation(half), short(half))).toEqual({ can: [], could: ["rtt.half"] });
  });
});

describe("the parts", () => {
  const row = (cause: string, share: number) => ({ cause, share, subject: "", figures: "" });
  it("add up to 100 %", () => {
    const table = tableOf([row("a", 0.605), row("b", 0.205), row("c", 0.105), row("d", 0.045), row("d", 0.025), row("e", 0.015)]);
    expect(table.rows.map((r) => r.cause)).toEqual(["a", "b", "c"]);
    expect(table.percent).toBe(100 - 61 - 21 - 11);
    expect(table.chips).toEqual([{ cause: "d", percent: 7 }]);
  });
  it("are those of the rows, and of the causes where rows are missing", () => {
    const header = { causes: [{ name: "a", label: "", ns: 3 }, { name: "b", label: "", ns: 1 }], explanation: { wall_s: 1, summary: { rows: [row("a", 0.6), row("b", 0.4)] } } };
    expect(partsOf(header as never).map((p) => p.share)).toEqual([0.6, 0.4]);
    header.explanation.summary.rows.pop();
    expect(partsOf(header as never).map((p) => p.share)).toEqual([0.75, 0.25]);
  });
});

describe("words of the answer", () => {
  it("has the largest clause apart", () => {
    const sentence = "For 36 % of the time io0 waited, for 28 % the mount waited and for 10 % io1 computed.";
    expect(clauses(sentence)).toEqual(["For 36 % of the time io0 waited,", " for 28 % the mount waited and for 10 % io1 computed."]);
    expect(clauses("For 60 % of the time a was stopped and for 36 % b sent.")[1]).toBe(" and for 36 % b sent.");
    expect(clauses("For 89 % of the time a waited. A gap every 16 MiB, 4 times.")).toEqual(["For 89 % of the time a waited.", " A gap every 16 MiB, 4 times."]);
    expect(clauses("Nothing was slow.")).toEqual(["Nothing was slow.", ""]);
  });
  it("names a host where there are several", () => {
    const header = (...hosts: string[]) => ({ lanes: hosts.map((host) => ({ host })) }) as never;
    expect(placed(header("here", "here"), "nginx, CPUs of here")).toBe("nginx");
    expect(placed(header("here", "there"), "nginx, CPUs of here")).toBe("nginx, CPUs of here");
  });
});
