import { describe, expect, it } from "vitest";
import { gain, proposed, quoted } from "../../src/answer/predictions";
import { increase } from "../../src/curves/counters";
import { bytesIn, movesByRole, smooth } from "../../src/curves/rates";
import { breakdown, longestOf, pathAt } from "../../src/data/breakdown";
import { find, nextMatch, noFilter, parseDuration } from "../../src/data/filter";
import { load } from "../../src/data/prepare";
import type { Recording } from "../../src/data/recording";
import { cell } from "../../src/export/files";
import { foldedAtFirst, makeRows } from "../../src/lanes/rows";
import { causeColour, counterColour } from "../../src/palette";
import { duration, instant, shown } from "../../src/view/format";
import { readFragment, writeFragment } from "../../src/view/fragment";
import { around, axisSteps, clampView, pan, SHORTEST, toTick, toX, zoom } from "../../src/view/scale";
import { make } from "../fixtures/make.mjs";

async function recording(name: string): Promise<Recording> {
  const { header, data } = make(name);
  return { ...(await load(header, data)), header };
}

describe("the visible interval", () => {
  const view = { a: 100, b: 300 };
  it("keeps the instant under the pointer in place", () => {
    const next = zoom(view, 0.5, 0.25, 1000);
    expect(toTick(next, 250, 1000)).toBeCloseTo(150);
    expect(next.b - next.a).toBeCloseTo(100);
  });
  it("stays within the run", () => {
    expect(pan(view, -9, 1000)).toEqual({ a: 0, b: 200 });
    expect(pan(view, 99, 1000)).toEqual({ a: 800, b: 1000 });
    expect(zoom(view, 100, 0.5, 1000)).toEqual({ a: 0, b: 1000 });
    expect(clampView({ a: 5, b: 5 }, 1000).b - clampView({ a: 5, b: 5 }, 1000).a).toBe(SHORTEST);
    expect(clampView({ a: 0, b: 0.5 }, 1)).toEqual({ a: 0, b: 1 });
    expect(around(10, 20, 1000).a).toBe(0);
  });
  it("maps there and back", () => expect(toTick(view, toX(view, 123, 777), 777)).toBeCloseTo(123));
  it("labels the axis at round numbers", () => expect(axisSteps(0, 2.4, 5)).toEqual({ at: [0, 0.5, 1, 1.5, 2], step: 0.5 }));
});

describe("words", () => {
  it("has three digits and the unit", () => {
    expect([0, 4e-9, 1.5e-6, 0.0206, 0.892, 2.3727, 64, 3700, 7300].map(duration)).toEqual(["0 s", "4 ns", "1.50 µs", "20.6 ms", "892 ms", "2.37 s", "64.0 s", "61 min 40 s", "2 h 2 min"]);
    expect(instant(1.25, 0.01)).toBe("1.25 s");
  });
  it("makes hostile names visible", () => {
    expect(shown("a\u202eb\u0000c\n")).toBe("a\\u202eb␀c␊");
    expect(shown("x".repeat(10_000)).length).toBeLessThanOrEqual(161);
    expect(shown("<b>")).toBe("<b>");
  });
  it("quotes for the shell and for spreadsheets", () => {
    expect(quoted("it's")).toBe("'it'\\''s'");
    expect(cell("=1+1")).toBe("'=1+1");
    expect(cell('a,"b"')).toBe('"a,""b"""');
  });
});

describe("the fragment", () => {
  it("gives the view back", () => {
    const shared = { from_ns: 5, to_ns: 900, selected_ns: [10, 20] as [number, number], span: 3, filter: { text: "a b&c", kind: "file.read", lane: "x", object: "ü", least_s: 0.005 }, rows: "low" };
    expect(readFragment(writeFragment(shared))).toEqual(shared);
  });
  it("ignores what it cannot read", () => {
    expect(readFragment("#t=9,1&s=x&i=-1&d=no&%")).toEqual({ filter: noFilter() });
    expect(writeFragment({ filter: noFilter() })).toBe("");
  });
});

describe("search", () => {
  it("finds by kind, object, lane and duration", async () => {
    const r = await recording("small");
    const all = (part: object) => find(r, { ...noFilter(), ...part }).count;
    expect(all({})).toBe(r.span.start.length);
    expect(all({ kind: "file.read" })).toBe(all({ text: "read source-24mi globus-url" }));
    expect(all({ lane: "vda" })).toBe(r.lanes[r.header.lanes.findIndex((l) => l.name === "vda")].spanTo - r.lanes[r.header.lanes.findIndex((l) => l.name === "vda")].spanFrom);
    expect(all({ object: "no such file" })).toBe(0);
    expect(find(r, { ...noFilter(), least_s: 0.1 }).count).toBeLessThan(12);
    const { mask } = find(r, { ...noFilter(), kind: "stopped" });
    const only = nextMatch(r, mask, -1, false);
    expect(only).toBe(nextMatch(r, mask, Infinity, true));
    expect(nextMatch(r, mask, r.span.start[only], false)).toBe(-1);
  });
  it("reads durations", () => expect(["5 ms", "2,5s", "300us", "7", "x"].map(parseDuration)).toEqual([0.005, 2.5, 300e-6, 0.007, 0].map((v) => expect.closeTo(v, 9))));
});

describe("breakdown", () => {
  it("adds up to the run, and finds the longest instance", async () => {
    const r = await recording("small");
    const causes = breakdown(r, 0, r.total).causes;
    expect(causes.reduce((sum, c) => sum + c.ticks, 0)).toBeCloseTo(r.total, -3);
    expect(causes[0].name).toBe("network.sndbuf");
    const loss = longestOf(r, r.header.causes.findIndex((c) => c.name === "network.loss"))!;
    expect(loss.end - loss.start).toBeGreaterThan(200_000);
    expect(r.pathSegments.kind[pathAt(r, (loss.start + loss.end) / 2)]).toBe(r.header.causes.findIndex((c) => c.name === "network.loss"));
    expect(pathAt(r, r.total + 5)).toBe(-1);
  });
});

describe("rows", () => {
  it("folds idle lanes away and begins with the critical path's", async () => {
    const r = await recording("small");
    const { rows } = makeRows(r, { folded: foldedAtFirst(r), height: 22, only: null, open: false });
    expect(rows.find((row) => row.type === "idle")!.lanes.length).toBe(19);
    expect(rows.find((row) => row.type === "lane")!.label).toContain("10.86.137.1");
    rows.reduce((y, row) => (expect(row.y).toBe(y), y + row.h), 0);
  });
  it("folds processes where there are very many lanes", async () => {
    const r = await recording("2000-lanes");
    expect(makeRows(r, { folded: foldedAtFirst(r), height: 22, only: null, open: false }).rows.length).toBeLessThan(80);
  }, 30_000);
});

describe("curves", () => {
  it("moves every byte once", async () => {
    const r = await recording("small");
    for (const s of movesByRole(r).flatMap((group) => group.series)) {
      expect(bytesIn(r, s, 0, r.total, 500).reduce((a, b) => a + b, 0)).toBeCloseTo(s.bytes, -1);
      const zoomed = bytesIn(r, s, r.total / 4, r.total / 4 + 1000, 500).reduce((a, b) => a + b, 0);
      expect(zoomed).toBeLessThan(s.bytes);
    }
  });
  it("draws the increase of a counter that only grows", () => {
    const track = { counter: 0, label: "", unit: "us", at: Float64Array.from([0, 1000, 2000]), value: Float64Array.from([0, 500, 500]) };
    expect(increase(track, 0, 2000, 4, 1, 1e-6)).toEqual([0.5, 0.5, 0, 0].map((v) => expect.closeTo(v)));
  });
  it("averages over a window", () => expect([...smooth(Float64Array.from([0, 0, 9, 0, 0]), 3)]).toEqual([0, 3, 3, 3, 0]));
});

describe("the answer", () => {
  it("proposes what the text proposes, in its order", () => {
    const { header } = make("small");
    expect(proposed(header.explanation, header.short).map((w) => w.id)).toEqual(["window.x4", "rtt.half"]);
    expect(proposed(header.explanation, "").map((w) => w.id)).toEqual(["window.x4", "rtt.half", "streams.x4"]);
    expect(gain(header.explanation.what_if![2], 2).note).toContain("bound");
  });
  it("gives a window's curve its cause's colour", () => {
    expect(counterColour("tcp.cwnd")![0]).toBe(causeColour("network.cwnd", false));
    expect(counterColour("tcp.srtt_us")).toBeUndefined();
  });
  it("has one colour for each of the network's causes", () => {
    const names = ["loss", "cwnd", "rwnd", "sndbuf", "latency", "bandwidth"];
    for (const dark of [false, true]) expect(new Set(names.map((n) => causeColour(`network.${n}`, dark))).size).toBe(names.length);
  });
});
