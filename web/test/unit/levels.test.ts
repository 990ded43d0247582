import { describe, expect, it } from "vitest";
import { flatten, FULL, makeLevels, Segments, upper } from "../../src/data/levels";
import { Columns, makeColours } from "../../src/lanes/columns";
import { CLASSES, classColour } from "../../src/palette";
import { random } from "../fixtures/make.mjs";

const C = (name: string) => CLASSES.indexOf(name as never);

function flat(spans: [start: number, duration: number, cls: string][]): [number, number, string][] {
  const out = new Segments(4);
  const classOf = Uint8Array.from(CLASSES.map((_, i) => i));
  flatten({ start: spans.map((s) => s[0]), duration: spans.map((s) => s[1]), kind: spans.map((s) => C(s[2])), classOf }, 0, spans.length, out);
  return Array.from({ length: out.length }, (_, i) => [out.start[i], out.end[i], CLASSES[out.kind[i]]]);
}

describe("flattening a lane", () => {
  it("shows the innermost span, and the outer one again behind it", () => {
    expect(flat([[0, 10, "read"], [2, 5, "wait.disk"]])).toEqual([[0, 2, "read"], [2, 7, "wait.disk"], [7, 10, "read"]]);
  });
  it("shows computing only where nothing says more", () => {
    expect(flat([[0, 10, "read"], [0, 20, "compute"]])).toEqual([[0, 10, "read"], [10, 20, "compute"]]);
  });
  it("leaves gaps, and gives a span without length one tick", () => {
    expect(flat([[0, 2, "read"], [5, 0, "write"]])).toEqual([[0, 2, "read"], [5, 6, "write"]]);
  });
  it("never overlaps, whatever the spans", () => {
    const rand = random(3);
    const spans = Array.from({ length: 500 }, () => [Math.floor(rand() * 1000), Math.floor(rand() * 60), CLASSES[Math.floor(rand() * CLASSES.length)]] as [number, number, string]);
    const segments = flat(spans.sort((a, b) => a[0] - b[0]));
    for (let i = 1; i < segments.length; i++) expect(segments[i][0]).toBeGreaterThanOrEqual(segments[i - 1][1]);
    for (const [start, end] of segments) expect(end).toBeGreaterThan(start);
  });
});

describe("levels", () => {
  const rand = random(11);
  const total = 1_000_000;
  const s = new Segments(16);
  for (let i = 0, t = 0; i < 5000; i++, t += 200) s.push(t, t + Math.floor(rand() * 200), i, Math.floor(rand() * 6));
  const exact = new Float64Array(6);
  for (let i = 0; i < s.length; i++) exact[s.kind[i]] += s.end[i] - s.start[i];

  it("keeps the area of each class at every level", () => {
    const levels = makeLevels(s, 0, s.length, total)!;
    levels.areas.forEach((areas, level) => {
      levels.classes.forEach((c, k) => {
        let sum = 0;
        for (let b = 0; b < levels.buckets[level]; b++) sum += areas[b * levels.classes.length + k];
        expect((sum / FULL) * (total / levels.buckets[level])).toBeCloseTo(exact[c], -3);
      });
    });
  });

  it("gives few segments no levels", () => {
    expect(makeLevels(s, 0, 100, total)).toBeNull();
  });

  it("paints the same area from levels as from segments", () => {
    const colours = makeColours(CLASSES.map((_, c) => classColour(c, false)), false, new Set());
    const levels = makeLevels(s, 0, s.length, total)!;
    const area = (l: typeof levels | null) => {
      const columns = new Columns(800);
      columns.add({ segments: s as never, from: 0, to: s.length, levels: l }, { a: 0, b: total }, colours);
      return columns.work.reduce((sum, v, i) => (i % 4 === 3 ? sum + v : sum), 0);
    };
    expect(Math.abs(area(levels) / area(null) - 1)).toBeLessThan(0.005);
  });

  it("does not paint hidden classes", () => {
    const columns = new Columns(10);
    columns.add({ segments: s as never, from: 0, to: s.length, levels: null }, { a: 0, b: total }, makeColours(CLASSES.map(() => "#ffffff"), false, new Set([0, 1, 2, 3, 4, 5])));
    expect(columns.hasWork).toBe(false);
  });
});

describe("upper", () => {
  it("finds the first value above", () => {
    expect([0, 1, 2, 3, 9].map((x) => upper([1, 2, 2, 8], 0, 4, x))).toEqual([0, 1, 3, 3, 4]);
  });
});
