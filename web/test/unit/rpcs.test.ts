import { describe, expect, it } from "vitest";
import { folded, panelsOf, WAITING, within } from "../../src/rpcs/curves";
import { documentsOf, type RpcStat } from "../../src/rpcs/document";
import { madeUpRpcs } from "../fixtures/rpcs.mjs";

const d = madeUpRpcs() as unknown as RpcStat;

describe("RPCs", () => {
  it("are found alone, in a pair and in a list", () => {
    expect(documentsOf(d)).toHaveLength(1);
    expect(documentsOf({ schema: "thalweg.rpcstat-pair/1", a: d, b: d })).toHaveLength(2);
    expect(documentsOf([d, d, d])).toHaveLength(3);
    expect(documentsOf(undefined)).toEqual([]);
    expect(documentsOf({ schema: "thalweg.explain/1" })).toEqual([]);
  });
  it("have five panels, and those without data say why", () => {
    expect(panelsOf(d).map((p) => p.title)).toEqual(["Throughput", "Calls a second", "Pending calls", "TCP", "Response time"]);
    expect(panelsOf(d).find((p) => p.title === "TCP")!.lines).toHaveLength(4);
    const none = d.series.calls.map(() => null);
    const bare = { ...d, series: { ...d.series, cwnd_bytes: none, in_flight_bytes: none, receive_window_bytes: none, unsent_bytes: none, response_max_s: none, response_median_s: none } };
    expect(panelsOf(bare).filter((p) => p.empty).map((p) => p.title)).toEqual(["TCP", "Response time"]);
  });
  it("give the smaller direction an axis of its own", () => {
    const [more, less] = panelsOf(d)[0].lines;
    expect([more.filled, !!less.own]).toEqual([true, true]);
  });
  it("fold bins into columns without losing peaks or inventing values", () => {
    const values = [1, null, 9, null, null, 2];
    expect(folded(values, 1, "most", 0, 6, 3, 6)).toEqual([{ from: 0, to: 2, value: 1 }, { from: 2, to: 4, value: 9 }, { from: 4, to: 6, value: 2 }]);
    expect(folded(values, 1, "mean", 0, 6, 100, 6)).toHaveLength(6);
    expect(folded(values, 1, "most", 3, 5, 100, 6).every((c) => c.value === null)).toBe(true);
    expect(folded([], 1, "most", 0, 6, 3, 6)).toEqual([]);
  });
  it("add up over an interval", () => {
    const whole = within(d, 0, d.wall_s);
    expect(whole.calls).toBeCloseTo(d.series.calls.reduce((a, b) => a + b, 0), 0);
    const [left, right] = [within(d, 0, 7.77), within(d, 7.77, d.wall_s)];
    expect(left.calls + right.calls).toBeCloseTo(whole.calls, 3);
    expect(left.sent + right.sent).toBeCloseTo(whole.sent, -3);
    expect(whole.drains).toBe(7);
    expect(whole.stalls).toBe(8);
    for (const [kind, seconds] of whole.waited) expect(seconds).toBeCloseTo(WAITING.find((w) => w.kind === kind)!.seconds(d), 6);
    expect(within(d, 5, 5).seconds).toBe(0);
    expect(within(d, -9, -1).calls).toBe(0);
  });
});
