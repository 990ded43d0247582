import { describe, expect, it } from "vitest";
import { load } from "../../src/data/prepare";
import type { Header } from "../../src/data/header";
import { verdict, type Diff } from "../../src/pair/document";
import { commonSeries } from "../../src/pair/link";
import { byByte, byPhase, byTime, commonPhases, Mapping, mappingOf, progressOf } from "../../src/pair/mapping";
import { bytesIn, movesByRole } from "../../src/curves/rates";
import { make } from "../fixtures/make.mjs";
import { random } from "../fixtures/make.mjs";

const phase = (name: string, start_s: number, end_s: number) => ({ name, start_s, end_s });

/** There and back, and never backwards. */
function holds(mapping: Mapping, wall: number): void {
  let last = -Infinity;
  for (let i = -20; i <= 1020; i++) {
    const t = (i / 1000) * wall;
    const there = mapping.to(t);
    expect(there).toBeGreaterThan(last);
    expect(mapping.back(there)).toBeCloseTo(t, 6);
    last = there;
  }
}

describe("the mapping between two runs", () => {
  it("by time is second for second", () => {
    for (const t of [-1, 0, 0.5, 7]) expect(byTime().to(t)).toBeCloseTo(t);
  });
  it("refuses knots that do not grow", () => {
    expect(() => new Mapping([0, 1, 1], [0, 1, 2])).toThrow(/grow/);
    expect(() => new Mapping([0], [0])).toThrow();
    expect(mappingOf([[1, 1], [1, 2], [0.5, 3], [2, 2]], 4, 5).a).toEqual([0, 0.5, 4]);
    expect(mappingOf([[1, 3], [2, 2], [3, 4]], 4, 5).a).toEqual([0, 1, 3, 4]);
  });
  it("by phase puts each phase over the phase with its name", () => {
    const a = [phase("set-up", 0, 1), phase("steady", 1, 9), phase("tear-down", 9, 10)];
    const b = [phase("set-up", 0, 0.5), phase("ramp", 0.5, 1), phase("steady", 1, 3), phase("tear-down", 3, 4)];
    const m = byPhase(a, b, 10, 4)!;
    expect([0, 0.5, 1, 5, 9, 9.5, 10].map((t) => m.to(t))).toEqual([0, 0.25, 0.5, expect.any(Number), 3, 3.5, 4].map((v) => (typeof v === "number" ? expect.closeTo(v, 6) : v)));
    holds(m, 10);
    expect(byPhase(a, [phase("other", 0, 4)], 10, 4)).toBeNull();
    expect(byPhase([], [], 1, 1)).toBeNull();
  });
  it("finds phases that both have in one order", () => {
    const names = (list: string) => [...list].map((n, i) => phase(n, i, i + 1));
    expect(commonPhases(names("abcab"), names("bab"))).toEqual([[1, 0], [3, 1], [4, 2]]);
    expect(commonPhases(names("abc"), names("cba"))).toHaveLength(1);
  });
  it("by byte puts equal parts of the bytes over each other", () => {
    // A moves evenly; B moves nothing in its first half.
    const a = progressOf([0, 25, 50, 75, 100], 4);
    const b = progressOf([0, 0, 0, 50, 100], 8);
    const m = byByte(a, b);
    holds(m, 4);
    expect(m.to(0)).toBeCloseTo(0);
    expect(m.to(4)).toBeCloseTo(8);
    expect(m.to(2)).toBeGreaterThan(5.8);
    expect(m.to(2)).toBeLessThan(6.1);
    expect(m.back(4)).toBeLessThan(0.1);
  });
  it("by byte only grows for any two runs", () => {
    for (let seed = 1; seed < 30; seed++) {
      const rand = random(seed);
      const run = (n: number) => {
        const sums = [0];
        for (let i = 0; i < n; i++) sums.push(sums[i] + (rand() < 0.4 ? 0 : rand() ** 4 * 1e9));
        return progressOf(sums, 0.001 + rand() * 100);
      };
      const [a, b] = [run(3 + Math.floor(rand() * 300)), run(3 + Math.floor(rand() * 300))];
      holds(byByte(a, b), a.t[a.t.length - 1]);
    }
    holds(byByte(progressOf([0, 0, 0], 1), progressOf([0, 5], 2)), 1);
  });
  it("takes the bytes of the recording's own curves", async () => {
    const { header, data } = make("small");
    const r = { ...(await load(header as Header, data)), header: header as Header };
    const series = movesByRole(r)[0].series[0];
    const moved = bytesIn(r, series, 0, r.total, 256);
    const sums = [0];
    moved.forEach((v, i) => sums.push(sums[i] + v));
    holds(byByte(progressOf(sums, 2.372), progressOf(sums, 1.2)), 2.372);
  });
  it("takes the series that both have", () => {
    const s = (name: string, bytes: number) => ({ name, bytes });
    expect(commonSeries([s("read", 9), s("sent", 8)], [s("sent", 7), s("written", 50)])!.map((x) => x.name)).toEqual(["sent", "sent"]);
    expect(commonSeries([s("read", 9)], [s("written", 5)])!.map((x) => x.name)).toEqual(["read", "written"]);
    expect(commonSeries([], [s("written", 5)])).toBeNull();
  });
});

describe("a comparison in words", () => {
  it("says how much faster or slower", () => {
    expect([1.27, 0.5, 1.001].map((speedup) => verdict({ speedup } as Diff))).toEqual(["1.27 times as fast", "2.00 times as long", "as fast as before"]);
  });
});
