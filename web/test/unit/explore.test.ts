import { describe, expect, it } from "vitest";
import { figure, part, scaleOf, ticks } from "../../src/chart/scale";
import { bestOf, chosen, firstChoice, nameOf, others, positions, varied, type Choice } from "../../src/explore/data";
import { ofCommands, type Commands } from "../../src/explore/commands";
import { ofLayouts, type LayoutStudy } from "../../src/explore/layout";
import { ofListings, ofNames, type ListingStudy } from "../../src/explore/listing";
import { heatOf, stacksOf, xyOf } from "../../src/explore/pictures";
import { ofSweep, type Sweep } from "../../src/explore/sweep";
import { columnsOf, csvOf, sorted } from "../../src/explore/Table";
import { csvText, stem } from "../../src/export/files";
import { make } from "../fixtures/make.mjs";

const documentOf = <T>(name: string): T => make(name).header.document as T;

describe("axes", () => {
  it("begin at 0, or are logarithmic where values are far apart", () => {
    expect(scaleOf([5, 10])).toMatchObject({ log: false, min: 0 });
    expect(scaleOf([1, 1000])).toMatchObject({ log: true });
    expect(part({ log: true, min: 1, max: 100 }, 10)).toBeCloseTo(0.5);
    expect(part({ log: false, min: 0, max: 10 }, 99)).toBe(1);
    expect(part(scaleOf([]), 0)).toBe(0);
  });
  it("have few, round names", () => {
    expect(ticks({ log: false, min: 0, max: 1.05 * 2 ** 30 }, "bytes/s", 6).map((t) => t.text)).toEqual(["0", "200 MiB/s", "400 MiB/s", "600 MiB/s", "800 MiB/s", "1000 MiB/s"]);
    expect(ticks({ log: true, min: 0.0009, max: 1.1 }, "s", 4).map((t) => t.text)).toEqual(["1 ms", "10 ms", "100 ms", "1 s"]);
    expect(ticks({ log: false, min: 0, max: 4 }, "count", 4).map((t) => t.text)).toEqual(["0", "1", "2", "3", "4"]);
    for (const unit of ["bytes", "s", "count", "share"] as const) for (const max of [1e-9, 1, 1e12]) expect(ticks(scaleOf([max]), unit, 6).length).toBeLessThan(13);
  });
  it("print units", () => expect([figure(8e8, "bits/s"), figure(0.5, "share"), figure(1.234, "ns/byte"), figure(1500, "us")]).toEqual(["800 Mb/s", "50 %", "1.23 ns/B", "1.50 ms"]));
});

describe("a sweep", () => {
  const sweep = documentOf<Sweep>("sweep");
  const data = ofSweep(sweep);
  it("has every point, also those without a figure", () => {
    expect(data.rows.length).toBe(sweep.points.length);
    expect(data.rows.filter((row) => row.state !== "done").map((row) => row.state).sort()).toEqual(["failed", "timed out"]);
    expect(data.metrics[0].values.filter((v) => v === null).length).toBe(2);
    expect(nameOf(data, data.best!)).toBe("block=64Ki, flag=append");
  });
  it("draws curves along the parameter with numbers", () => {
    const xy = xyOf(data, firstChoice(data), false);
    expect(xy.x.name).toBe("block");
    expect(xy.curves.map((c) => c.name)).toEqual(["sync", "append", "direct"]);
    expect(xy.curves.flatMap((c) => c.dots).length + xy.missing.length).toBe(18);
    for (const c of xy.curves) c.dots.forEach((d, i) => expect(i === 0 || d.x > c.dots[i - 1].x).toBe(true));
  });
  it("draws a cell for each pair of values", () => {
    const choice: Choice = { ...firstChoice(data), x: "d0", y: "d1" };
    const { cells, several } = heatOf(data, choice, true);
    expect([cells.length, cells[0].length, several]).toEqual([3, 6, false]);
    expect(cells.flat().filter((c) => c.level === null).map((c) => c.text).sort()).toEqual(["failed", "timed out"]);
    expect(Math.max(...cells.flat().map((c) => c.level ?? 0))).toBeCloseTo(1);
  });
  it("draws a cloud of two figures, coloured by cause", () => {
    const xy = xyOf(data, { ...firstChoice(data), x: "m1", y: "m0", by: -2 }, false);
    expect(xy.curves[0].dots.every((d) => d.colour)).toBe(true);
    expect(xy.curves[0].joined).toBe(false);
  });
  it("stacks causes for each curve", () => {
    const pictures = stacksOf(data, firstChoice(data), false, "shares");
    expect(pictures.map((p) => p.title)).toEqual(["flag=sync", "flag=append", "flag=direct"]);
    expect(pictures[0].stacks.at(-1)!.note).toBe("timed out");
    for (const s of pictures.flatMap((p) => p.stacks).filter((s) => s.parts.length)) expect(s.parts.reduce((sum, p) => sum + p.share, 0)).toBeCloseTo(1, 1);
  });
  it("sorts by figures, those without last", () => {
    const column = columnsOf(data).find((c) => c.name === "Time")!;
    for (const down of [false, true]) {
      const rows = sorted(data.rows.map((_, i) => i), column.key, down);
      expect(rows.slice(-2).every((i) => data.rows[i].state !== "done")).toBe(true);
      const times = rows.slice(0, -2).map((i) => column.key(i) as number);
      expect([...times].sort((a, b) => (down ? b - a : a - b))).toEqual(times);
    }
  });
  it("saves every figure with its interval", () => {
    const csv = csvOf(columnsOf(data), [0, 1]);
    expect(csv.columns).toContain("Time (s)");
    expect(csv.columns).toContain("Time, low");
    expect(csvText(csv).split("\r\n")).toHaveLength(4);
    expect(stem("Rate against block, at <x>!")).toBe("rate-against-block-at-x");
  });
  it("shows a made-up one", () => {
    const made = ofSweep(documentOf<Sweep>("sweep-made-up"));
    expect(xyOf(made, firstChoice(made), false).curves.length).toBeGreaterThan(0);
  });
});

describe("studies", () => {
  it("has one point at each place at first", () => {
    const sets = [ofLayouts(documentOf<LayoutStudy>("layout")), ofListings(documentOf<ListingStudy>("ls")), ofNames(documentOf<ListingStudy>("ls")), ofCommands(documentOf<Commands>("commands"))];
    for (const data of sets) {
      const choice = firstChoice(data);
      const curves = xyOf(data, choice, false).curves.filter((c) => !c.reference);
      expect(curves.length, data.name).toBeGreaterThan(0);
      for (const c of curves) expect(new Set(c.dots.map((d) => d.x)).size, `${data.name} ${c.name}`).toBe(c.dots.length);
    }
  });
  it("keeps the local disk beside the layouts", () => {
    const data = ofLayouts(documentOf<LayoutStudy>("layout"));
    expect(xyOf(data, firstChoice(data), false).curves.map((c) => c.name)).toContain("local file system");
  });
  it("puts files that were never written on a logarithmic axis", () => {
    const data = ofListings(documentOf<ListingStudy>("ls"));
    expect(positions(data.dimensions[0])[0]).toBe(0.5);
    expect(data.dimensions[0].values[0].label).toBe("never written");
  });
  it("leaves only the fixed values", () => {
    const data = ofLayouts(documentOf<LayoutStudy>("layout"));
    const choice = firstChoice(data);
    expect(others(data, choice).every((d) => varied(data).includes(d))).toBe(true);
    for (const i of chosen(data, choice)) for (const d of others(data, choice)) if (choice.fixed[d] >= 0) expect(data.rows[i].at[d]).toBe(choice.fixed[d]);
  });
  it("finds the best of a cell", () => {
    const estimate = (median: number) => ({ median, low: median, high: median });
    const metric = { name: "", unit: "s" as const, better: "less" as const, values: [estimate(3), null, estimate(2)] };
    expect(bestOf(metric, [0, 1, 2])).toBe(2);
    expect(bestOf({ ...metric, better: "more" }, [0, 1, 2])).toBe(0);
    expect(bestOf(metric, [1])).toBe(-1);
  });
});
