import { describe, expect, it } from "vitest";
import { decode, fromBase64, splitPlanes } from "../../src/data/decode";
import { readHeader } from "../../src/data/header";
import { load } from "../../src/data/prepare";
import { bytePlanes, encode, make } from "../fixtures/make.mjs";

describe("decoding", () => {
  it("gives back every type's values", async () => {
    const values = { u8: [0, 1, 255], u16: [0, 258, 65_535], u32: [1, 16_909_060, 4_294_967_295], f64: [0, -1.5, 1e300] };
    const { infos, data } = encode(Object.entries(values).map(([type, v]) => [`p.${type}`, type, v]));
    const planes = await decode({ planes: infos } as never, data);
    for (const [type, v] of Object.entries(values)) expect([...planes[`p.${type}`]]).toEqual(v);
  });

  it("stores the lowest bytes first", () => {
    expect([...bytePlanes("u16", [0x0102, 0x0304])]).toEqual([2, 4, 1, 3]);
  });

  it("refuses data that is cut short, and a type that it does not know", () => {
    expect(() => splitPlanes([{ name: "span.start", type: "u32", count: 2 }], new Uint8Array(7))).toThrow(/cut short/);
    expect(() => splitPlanes([{ name: "x", type: "u64" as never, count: 1 }], new Uint8Array(9))).toThrow(/type/);
    expect(() => splitPlanes([{ name: "x", type: "u8", count: -1 }], new Uint8Array(9))).toThrow(/count/);
  });

  it("reads base64 without the browser's own function", () => {
    expect([...fromBase64("AQID/w==")]).toEqual([1, 2, 3, 255]);
  });

  it("refuses a newer format with a sentence", () => {
    expect(() => readHeader('{"format":"thalweg.page/2"}')).toThrow(/thalweg.page\/2/);
  });
});

describe("a recording", () => {
  it("knows its lanes, what they did and the critical path", async () => {
    const { header, data } = make("small");
    const r = await load(header, data);
    expect(r.lanes.length).toBe(header.lanes.length);
    expect(r.lanes[0].spanTo).toBeGreaterThan(r.lanes[0].spanFrom);
    const onPath = r.lanes.reduce((sum, lane) => sum + lane.onPath, 0);
    expect(onPath).toBeGreaterThan(0.9 * r.total);
    expect(r.path.start.length).toBe(header.planes.find((p) => p.name === "path.start")!.count);
  });

  it("may be empty", async () => {
    const { header, data } = make("empty");
    expect((await load(header, data)).lanes).toEqual([]);
  });

  it("refuses spans that are not sorted by lane", async () => {
    const { header } = make("one-lane");
    const { infos, data } = encode([["span.lane", "u16", [1, 0]], ["span.kind", "u8", [0, 0]], ["span.start", "u32", [0, 0]], ["span.duration", "u32", [1, 1]]]);
    await expect(load({ ...header, lanes: [...header.lanes, ...header.lanes], planes: infos }, data)).rejects.toThrow(/sorted/);
  });
});
