import { describe, expect, it } from "vitest";
import { breakdown } from "../../src/data/breakdown";
import { decode, type Planes } from "../../src/data/decode";
import { load, prepare } from "../../src/data/prepare";
import type { Recording } from "../../src/data/recording";
import { Columns, makeColours } from "../../src/lanes/columns";
import { CLASSES, classColour } from "../../src/palette";
import { make } from "../fixtures/make.mjs";

const open = async (): Promise<Recording> => {
  const { header, data } = make("left-out");
  return { ...(await load(header, data)), header };
};
const share = (r: Recording, a: number, b: number, lanes?: number[]) => Object.fromEntries(breakdown(r, a, b, lanes).classes.map((c) => [c.name, c.ticks / (b - a)]));

describe("a page that leaves spans out", () => {
  it("draws the lanes from the areas, and those that are complete from their spans", async () => {
    const r = await open();
    expect(r.lanes.map((lane) => lane.partial)).toEqual([true, true, true, true, false]);
    for (const lane of r.lanes.slice(0, 4)) {
      expect(lane.busy / r.total).toBeCloseTo(0.8, 2);
      expect(lane.waiting / r.total).toBeCloseTo(0.1, 2);
      expect(lane.levels!.buckets[0]).toBe(2048);
    }
    expect(r.lanes[4].busy / r.total).toBeCloseTo(0.5, 2);
  });

  it("keeps the shares of a selection true", async () => {
    const r = await open();
    for (const [a, b] of [[0, r.total], [101_234, 345_678], [700_001, 905_005]]) {
      const found = share(r, a, b, [0, 1]);
      expect(found.read / 2).toBeCloseTo(0.4, 1);
      expect(found.send / 2).toBeCloseTo(0.3, 1);
      expect(found["wait.lock"] / 2).toBeCloseTo(0.1, 1);
    }
    expect(breakdown(r, 0, r.total, [4]).partial).toBe(false);
    expect(breakdown(r, 0, r.total).partial).toBe(true);
  });

  it("paints as much at every zoom, with the spans that are there and what is left out between them", async () => {
    const r = await open();
    const colours = makeColours(CLASSES.map((_, c) => classColour(c, false)), false, new Set());
    const lane = r.lanes[1];
    for (const [a, b] of [[0, r.total], [100_000, 200_000], [200_000, 225_000], [800_000, 825_000], [300_000, 304_000]]) {
      const columns = new Columns(1000);
      columns.add({ segments: r.segments, from: lane.from, to: lane.to, levels: lane.levels, partial: true }, { a, b }, colours);
      const area = (of: Float32Array) => of.reduce((sum, v, i) => (i % 4 === 3 ? sum + v : sum), 0) / 1000;
      const classes = breakdown(r, a, b, [1]).classes;
      const waits = classes.filter((c) => c.name.startsWith("wait")).reduce((sum, c) => sum + c.ticks, 0) / (b - a);
      const work = classes.reduce((sum, c) => sum + c.ticks, 0) / (b - a) - waits;
      expect(Math.abs(area(columns.work) - work)).toBeLessThan(0.03);
      expect(Math.abs(area(columns.wait) - waits)).toBeLessThan(0.03);
    }
  });

  it("makes a group's levels of its lanes' areas", async () => {
    const { header, data } = make("left-out");
    const all = header.lanes.map((lane) => ({ ...lane, process: "1 copy" }));
    const many = { ...header, lanes: [...all, ...all.slice(0, 5)] };
    const r = await load(many, data);
    const [levels] = Object.values(r.groups);
    const read = levels.classes.indexOf(CLASSES.indexOf("read"));
    let sum = 0;
    for (let b = 0; b < levels.buckets[0]; b++) sum += levels.areas[0][b * levels.classes.length + read];
    expect(sum / 65_535 / levels.buckets[0]).toBeCloseTo((4 * 0.4) / 10, 2);
  });

  it("has a first picture before the spans are there", async () => {
    const { header, data } = make("left-out");
    let first: Planes = {};
    await decode(header, data, (planes) => (first = planes));
    expect(Object.keys(first).every((name) => /^(path|level|first)\./.test(name))).toBe(true);
    expect(first["level.area"]).toBeUndefined();
    const early = prepare(header, first, true);
    expect(early.span.start.length).toBe(0);
    expect(early.lanes[0].levels!.buckets[0]).toBe(1024);
    expect(early.path.start.length).toBe(1);
    expect(early.lanes[0].busy / early.total).toBeCloseTo(0.8, 2);
  });

  it("refuses areas that do not fit the header", async () => {
    const { header, data } = make("left-out");
    await expect(load({ ...header, pyramid: { ...header.pyramid!, buckets: 2047 } }, data)).rejects.toThrow(/pyramid/);
  });
});
