import { describe, expect, it } from "vitest";
import { helpFor, isStopped, plainLabel, usuallyHelps } from "../../src/answer/help";
import { chargesOf, rulesOf } from "../../src/answer/why";
import { waiting, rankBytes, ranksOf } from "../../src/curves/ranks";
import { plots } from "../../src/curves/plots";
import { arrowsIn, arrowsOf } from "../../src/data/arrows";
import { load } from "../../src/data/prepare";
import type { Recording } from "../../src/data/recording";
import { arrowAt, arrowsOfSpan, arrowsToDraw, MOST_MESSAGES, place, type Drawn } from "../../src/lanes/arrows";
import { firstOf } from "../../src/lanes/clocks";
import { lostEvents, markForm } from "../../src/lanes/marks";
import { rowsByLane } from "../../src/lanes/overlay";
import { foldedAtFirst, makeRows } from "../../src/lanes/rows";
import { sampleAt } from "../../src/lanes/samples";
import { Model } from "../../src/model";
import { instant } from "../../src/view/format";
import { axisSteps } from "../../src/view/scale";
import { pixelPaths, SvgPen, xml } from "../../src/view/svg";
import { make } from "../fixtures/make.mjs";
import { ranks } from "../fixtures/more.mjs";

async function recording(name: string): Promise<Recording> {
  const { header, data } = make(name);
  return { ...(await load(header, data)), header };
}

async function model(name: string): Promise<Model> {
  const r = await recording(name);
  const m = new Model(r.header);
  m.changed = () => undefined;
  m.recording = r;
  m.view = m.run();
  m.folded = foldedAtFirst(r);
  m.layout();
  return m;
}

const lane = (m: Model, name: string) => m.header.lanes.findIndex((l) => l.name === name);

describe("arrows", () => {
  it("are found by their spans and by time", async () => {
    const r = await recording("both-ends");
    expect(r.arrow.from.length).toBeGreaterThan(100);
    for (let i = 0; i < r.arrow.from.length; i++) {
      expect(arrowsOf(r.arrowIndex, r.arrow.fromSpan[i] - 1)).toContain(i);
      expect(arrowsOf(r.arrowIndex, r.arrow.toSpan[i] - 1)).toContain(i);
      expect(r.span.lane[r.arrow.fromSpan[i] - 1]).toBe(r.arrow.fromLane[i]);
    }
    const [a, b] = [300_000, 350_000];
    const expected = [...r.arrow.from.keys()].filter((i) => r.arrow.from[i] <= b && r.arrow.to[i] >= a);
    expect(arrowsIn(r.arrowIndex, r.arrow.to, a, b, 1000, () => true)!.sort((x, y) => x - y)).toEqual(expected);
    expect(arrowsIn(r.arrowIndex, r.arrow.to, 0, r.total, 10, () => true)).toBeNull();
  });

  it("lead from a call to where it was served and back, also from a wait within the call", async () => {
    const m = await model("both-ends");
    const client = m.recording!.lanes[lane(m, "nfs-cp")];
    const kinds = m.header.kinds.map((k) => k.name);
    for (let i = client.spanFrom; i < client.spanTo; i++) {
      const kind = kinds[m.recording!.span.kind[i]];
      const found = arrowsOfSpan(m, i).map((a) => a.kind);
      if (kind === "rpc.call") expect(found).toEqual(["request", "reply"]);
      if (kind === "wait.network") expect(found).toEqual(["request", "reply", "wake"]);
    }
  });

  it("never lead to a host whose clock could not be aligned", async () => {
    const m = await model("both-ends");
    m.selection = { a: 0, b: m.total };
    m.selectedSpan = m.recording!.lanes[lane(m, "ost-0")].spanFrom;
    for (const a of arrowsToDraw(m, rowsByLane(m.rows))) for (const end of [a.from, a.to]) expect(m.header.lanes[end.lane].host).not.toBe("server-2");
    expect(arrowsOfSpan(m, m.selectedSpan)).toEqual([]);
  });

  it("are all drawn for few messages, and none for many", async () => {
    const m = await model("ranks");
    expect(arrowsToDraw(m, rowsByLane(m.rows)).filter((a) => a.kind === "message").length).toBe(96);
    const { header, data } = ranks(8, 40);
    m.recording = { ...(await load(header, data)), header };
    m.view = { a: 0, b: m.total };
    expect(m.recording.arrow.from.length).toBeGreaterThan(MOST_MESSAGES);
    expect(arrowsToDraw(m, rowsByLane(m.rows))).toEqual([]);
  });

  it("are hit by a pointer near their line, not beyond their ends", () => {
    const d = { x0: 0, y0: 0, x1: 0, y1: 100 } as Drawn;
    expect(arrowAt([d], 4, 50)).toBe(d);
    expect(arrowAt([d], 9, 50)).toBeNull();
    expect(arrowAt([d], 0, 110)).toBeNull();
  });

  it("within one folded row are left out", async () => {
    const m = await model("ranks");
    const all = arrowsToDraw(m, rowsByLane(m.rows));
    const rows = m.rows.slice(0, 1).map((row) => ({ ...row, type: "group" as const, folded: true, lanes: [...m.header.lanes.keys()] }));
    expect(place(m, all, rowsByLane(rows), 1000, 0)).toEqual([]);
  });

  it("lead there and back again", async () => {
    const m = await model("both-ends");
    const client = m.recording!.lanes[lane(m, "nfs-cp")];
    const call = [...Array(client.spanTo).keys()].find((i) => i >= client.spanFrom && m.header.kinds[m.recording!.span.kind[i]].name === "rpc.call")!;
    m.remember = () => undefined;
    m.goToSpan(call);
    m.followFirst();
    expect(m.header.kinds[m.recording!.span.kind[m.selectedSpan]].name).toBe("rpc.serve");
    m.followFirst();
    expect(m.selectedSpan).toBe(call);
  });
});

describe("clocks", () => {
  it("that could not be aligned stand below the others with an axis of their own", async () => {
    const r = await recording("both-ends");
    const rows = makeRows(r, { folded: new Set(), height: 22, only: null, open: false }).rows;
    const at = rows.findIndex((row) => row.type === "clock");
    expect(rows.slice(0, at).every((row) => row.clock === "")).toBe(true);
    expect(rows.slice(at).every((row) => row.clock === "server-2")).toBe(true);
    expect(rows.filter((row) => row.type === "clock").length).toBe(1);
    expect(rows.find((row) => row.label.includes("server-1"))!.note).toContain("41.0 µs");
    expect(firstOf(r, "server-2")).toBe(19_000);
  });
});

describe("samples, marks and lost events", () => {
  it("are told by lane and instant", async () => {
    const m = await model("both-ends");
    expect(sampleAt(m.recording!, lane(m, "nfs-cp"), 1115, 20)).toBe("read");
    expect(sampleAt(m.recording!, lane(m, "nfs-cp"), 15_000, 20)).toBe("");
    expect(lostEvents(m.recording!).map((l) => l.events)).toEqual([1234, 1]);
  });
  it("have forms that differ: a stop from a signal and from a loss, a thread's beginning from both", () => {
    expect(["signal.stop", "signal", "lost", "thread.start", "tcp.retransmit"].map((kind) => markForm(kind, 0))).toEqual(["octagon", "diamond", "rule", "tick", "disc"]);
  });
});

describe("rules", () => {
  it("are those of the charge, with when and basis where the page knows them", async () => {
    const { header } = await recording("both-ends");
    const [charge] = chargesOf(header, "network.sndbuf");
    const [first, second] = rulesOf(header, charge);
    expect(first).toMatchObject({ name: "lock.held", basis: "the waker, the lock's object" });
    expect(first.share).toBeCloseTo(0.9);
    expect(first.stretches[0].kind).toBe("wait.network");
    expect(second).toMatchObject({ name: "not.in.the.list", when: "" });
  });
  it("may be absent", async () => {
    const { header } = await recording("small");
    expect(rulesOf(header, chargesOf(header, "network.sndbuf")[0])).toEqual([]);
  });
});

describe("ranks", () => {
  it("wait for the late one", async () => {
    const r = await recording("ranks");
    const w = waiting(r, ranksOf(r), 50_000, 62_000, 1);
    expect(w.forRanks[0]).toBeCloseTo(8, 0);
    expect(w.otherwise[0]).toBe(0);
  });
  it("have curves of the most, the middle and the least where they are many", async () => {
    const curves = rankBytes(await recording("ranks"), [0, 1, 2, 3, 4, 5, 6, 7], 24)!;
    expect(curves.names.length).toBe(3);
    const [most, middle, least] = curves.values(0, 900_000, 50);
    most.forEach((v, i) => expect(v >= middle[i] && middle[i] >= least[i]).toBe(true));
  });
  it("come after the bytes that the command moves", async () => {
    expect(plots(await model("ranks")).map((p) => p.title)).toEqual(["Bytes moved by the command", "Ranks that wait, of 8", "Bytes of each rank, by MPI calls"]);
    expect(plots(await model("small"))[0].title).toBe("Bytes moved by the command");
  });
});

describe("pictures as SVG", () => {
  it("hold any text", () => {
    expect(xml("a<b>&\"\u0000\ud800x")).toBe("a&lt;b&gt;&amp;&quot;\ufffd\ufffdx");
    expect(xml("🦀\u0001")).toBe("🦀\ufffd");
  });
  it("merge equal pixels into runs", () => {
    const [p, q] = [0xff0000ff, 0xff00ff00];
    expect(pixelPaths(Uint32Array.from([p, p, 0, q, p, p, 0, q]), 4, 2, 1, 0)).toBe('<path fill="#ff0000" d="M0 0h2v2h-2z" shape-rendering="crispEdges"/>\n<path fill="#00ff00" d="M3 0h1v2h-1z" shape-rendering="crispEdges"/>');
  });
  it("are drawn by a pen", () => {
    const pen = new SvgPen();
    pen.fillStyle = "#123456";
    pen.font = "600 12px x";
    pen.fillText("<b>", 1, 2);
    pen.beginPath();
    pen.moveTo(0, 0);
    pen.lineTo(1.005, 2);
    pen.setLineDash([5, 3]);
    pen.stroke();
    const text = pen.document(10, 10, "t", "", "#fff", {});
    expect(text).toContain('font-weight="600" fill="#123456" dominant-baseline="alphabetic">&lt;b&gt;</text>');
    expect(text).toContain('d="M0 0L1 2" fill="none" stroke="#000000" stroke-width="1" stroke-dasharray="5 3"');
  });
});

describe("sleep and stops", () => {
  it("are told apart by the figures", () => {
    const of = (cause: string, figures: string) => ({ wall_s: 1, summary: { rows: [{ cause, share: 1, subject: "x", figures }] } }) as never;
    expect(helpFor(of("server.think", "one stop of 600 ms"), "server.think")).toContain("signal");
    expect(helpFor(of("client.think", "2 sleeps, 600 ms each"), "client.think")).toBe("sleeping: a pause, a rate limit");
    expect(helpFor(of("think", ""), "think")).toContain("a stopped process");
    const label = { name: "think", label: "the program slept or was stopped" };
    expect(plainLabel({ explanation: of("think", "2 sleeps") } as never, label)).toBe("the program slept");
  });
  it("are told apart by the rules that they were charged by", () => {
    const charged = (rule: string) => ({ wall_s: 4, critical_path: [{ cause: "server.think", seconds: 2, rules: [{ rule, seconds: 2 }] }] }) as never;
    expect(isStopped(charged("stopped"), "server.think")).toBe(true);
    expect(isStopped(charged("timer"), "server.think")).toBe(false);
    expect(usuallyHelps(charged("stopped"), "server.think")).toContain("SIGSTOP");
    expect(plainLabel({ explanation: charged("stopped") } as never, { name: "server.think", label: "the server slept or was stopped" })).toBe("the server was stopped by a signal");
  });
});

describe("long runs", () => {
  it("have an axis in minutes and hours", () => {
    expect(axisSteps(0, 3600, 8)).toEqual({ at: [0, 600, 1200, 1800, 2400, 3000, 3600], step: 600 });
    expect([0, 600, 5400, 7200, 10_800].map((s) => instant(s, 600))).toEqual(["0 s", "10 min", "90 min", "2 h", "3 h"]);
  });
  it("may have spans of an hour and of no length", async () => {
    const r = await recording("extremes");
    expect(r.total).toBe(3_600_000);
    expect(r.lanes[0].longest).toBe(3_600_000);
    expect(r.lanes[1].busy).toBe(300);
  });
});

describe("many processes of one command", () => {
  it("are one folded group", async () => {
    const { header, data } = make("one-lane");
    const lanes = Array.from({ length: 20 }, (_, i) => ({ name: "sh", kind: "thread" as const, host: "h", process: `${100 + i} sh`, role: "client" as const }));
    const r = { ...(await load({ ...header, lanes: [header.lanes[0], ...lanes] }, data)), header: { ...header, lanes: [header.lanes[0], ...lanes] } };
    r.lanes.forEach((l) => (l.onPath = 1));
    const rows = makeRows(r, { folded: foldedAtFirst(r), height: 22, only: null, open: false }).rows;
    expect(rows.filter((row) => row.label === "20 sh processes" && row.folded).length).toBe(1);
    expect(rows.filter((row) => row.type === "lane").length).toBe(1);
  });
});
