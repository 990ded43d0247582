import { beforeAll, describe, expect, it } from "vitest";
import { load } from "../../src/data/prepare";
import { offsetOf, type Recording } from "../../src/data/recording";
import { burstsOf, channelsOf } from "../../src/views/gaps/channels";
import { byCause, gapsOf, leastGap, periodOf } from "../../src/views/gaps/gaps";
import { binOf, binPercentile, binStart, latencies, selectNth, type Grouping } from "../../src/views/latency/distribution";
import { bandsOf, touched } from "../../src/views/layout/bands";
import { groupOf, movedIn } from "../../src/views/layout/objects";
import { binsOf } from "../../src/views/profile/OverTime";
import { functionsOf, matched, treeOf, type Node } from "../../src/views/profile/tree";
import { finish, inSlices, SLICE, type Work } from "../../src/views/shared/work";
import { placesOf, programOf } from "../../src/view/names";
import { make, random } from "../fixtures/make.mjs";

async function recording(name: string): Promise<Recording> {
  const { header, data } = make(name);
  return { ...(await load(header, data)), header };
}

const all = { a: 0, b: Infinity, mask: null };
let striped: Recording;
beforeAll(async () => {
  striped = await recording("striped");
});

describe("work in slices", () => {
  it("gives what it gives at once, and can be given up", async () => {
    function* sum(): Work<number> {
      let n = 0;
      for (let i = 0; i < 1000; i++) {
        n += i;
        yield;
      }
      return n;
    }
    expect(finish(sum())).toBe(499_500);
    expect(await new Promise((done) => inSlices(sum(), done))).toBe(499_500);
    let done = false;
    function* endless(): Work<void> {
      for (;;) yield;
    }
    inSlices(endless(), () => (done = true))();
    expect(done).toBe(false);
  });
});

describe("latencies", () => {
  it("select what sorting would give", () => {
    const rand = random(3);
    for (const n of [1, 2, 10, 1000]) {
      const values = Uint32Array.from({ length: n }, () => Math.floor(rand() * 50));
      const sorted = values.slice().sort();
      for (const share of [0, 0.5, 0.9, 0.99]) {
        const at = Math.min(n - 1, Math.floor(share * n));
        expect(selectNth(values, 0, n, at)).toBe(sorted[at]);
      }
    }
  });
  it("are counted by kind, with exact percentiles and the longest span of each bin", async () => {
    const r = await recording("small");
    const { groups, exact } = finish(latencies(r, { ...all, grouping: "kind" }, true));
    expect(exact).toBe(true);
    expect(groups.reduce((n, g) => n + g.count, 0)).toBe(r.span.start.length);
    for (const g of groups) {
      const own = [...r.span.kind.keys()].filter((i) => r.span.kind[i] === g.kind).map((i) => r.span.duration[i] * r.header.tick_ns).sort((x, y) => x - y);
      expect(g.count).toBe(own.length);
      expect(g.p50_ns).toBe(own[Math.ceil(0.5 * own.length) - 1]);
      expect(g.p99_ns).toBe(own[Math.ceil(0.99 * own.length) - 1]);
      expect(g.max_ns).toBe(own[own.length - 1]);
      g.longest.forEach((span, bin) => {
        expect(span >= 0).toBe(g.bins[bin] > 0);
        if (span >= 0) expect(binOf(r.span.duration[span] * r.header.tick_ns)).toBe(bin);
      });
    }
  });
  it("are limited to spans that end in an interval and match", async () => {
    const r = await recording("small");
    const mask = new Uint8Array(r.span.start.length);
    mask[3] = mask[40] = 1;
    const count = (w: object) => finish(latencies(r, { ...all, grouping: "kind" as Grouping, ...w }, false)).groups.reduce((n, g) => n + g.count, 0);
    expect(count({ mask })).toBe(2);
    expect(count({ a: 0, b: 30_000 })).toBeLessThan(10);
  });
  it("come from the counts of all spans where short ones are left out", async () => {
    const r = await recording("counted");
    const whole = finish(latencies(r, { ...all, grouping: "place" }, true));
    expect(whole.exact).toBe(false);
    expect(whole.groups).toHaveLength(1);
    expect(whole.groups[0].count).toBe(160_100);
    expect(whole.groups[0].max_ns).toBe(599_000);
    expect(whole.groups[0].p50_ns).toBeGreaterThan(binStart(59));
    expect(whole.groups[0].p50_ns).toBeLessThan(binStart(61));
    const part = finish(latencies(r, { a: 0, b: 50_000, mask: null, grouping: "place" }, false));
    expect(part.exact).toBe(true);
    expect(part.groups[0].count).toBeLessThan(60);
  });
  it("have percentiles within a bin", () => {
    const bins = new Uint32Array(256);
    bins[40] = 100;
    expect(binPercentile(bins, 100, 0.5)).toBeCloseTo(2 ** 10.125);
    expect(binPercentile(new Uint32Array(256), 0, 0.5)).toBe(0);
  });
});

describe("gaps", () => {
  it("are split from usual pauses as explain does", () => {
    expect(leastGap([1, 1, 1, 1, 100, 100])).toBe(100);
    expect(leastGap([10, 11, 12, 13])).toBe(10);
    expect(leastGap([])).toBe(0);
  });
  it("have a period if most are equally far apart; one that is missing does not matter", () => {
    expect(periodOf([10, 20, 30, 50, 60])).toBe(10);
    expect(periodOf([1, 100, 110, 500, 505, 2000, 2001, 9000])).toBe(0);
    expect(periodOf([1, 2, 3])).toBe(0);
  });
  it("are found on the wire, with their cause and the bytes between", () => {
    const channels = finish(channelsOf(striped));
    expect(channels[0].id).toBe("connections");
    const gaps = finish(gapsOf(striped, finish(burstsOf(striped, channels[0]))));
    // The first read is before the first burst.
    expect(gaps).toHaveLength(15);
    const [sum] = byCause(gaps);
    expect(striped.header.causes[sum.cause].name).toBe("client.cpu");
    expect(sum.period_bytes).toBe(4 << 20);
    expect(sum.period).toBe(24_800);
    expect(sum.median).toBeGreaterThan(19_000);
  });
  it("are of what else moved bytes, too", () => {
    const names = finish(channelsOf(striped)).map((c) => c.name);
    expect(names).toContain("client: read");
    expect(names).toContain("server: written");
  });
});

describe("layout", () => {
  it("says how often each byte was moved, and in which order", () => {
    const moved = finish(movedIn(striped, all));
    const source = moved.find((m) => m.name === "file /data/source")!;
    expect(source.read).toBe(96 << 20);
    expect(source.end).toBe(64 << 20);
    expect(source.timesRead).toBeCloseTo(1.5);
    const part = moved.find((m) => m.name.endsWith("beef.1"))!;
    expect(part.written).toBe(32 << 20);
    expect(part.timesWritten).toBeCloseTo(1);
    expect(part.inOrder).toBe(part.written);
    expect(part.group).toBe("000000000000beef");
    expect(groupOf("file /data/x")).toBe("");
  });
  it("has a band for each program or server, and the parts that it touched", () => {
    const chosen = finish(movedIn(striped, all)).filter((m) => m.group);
    const bands = finish(bandsOf(striped, chosen, all));
    expect(bands.map((b) => b.place)).toEqual(["io0 (server) on server-0", "io1 (server) on server-1"]);
    const [reads, writes] = touched(striped, bands[0], 32);
    expect([...writes]).toEqual(new Array(32).fill(1));
    expect([...reads].every((v) => v === 0)).toBe(true);
  });
  it("reads offsets beyond 32 bits, and knows that there are none", () => {
    const r = { span: { offsetLow: Uint32Array.of(5, 0xffffffff), offsetHigh: Uint16Array.of(2, 0xffff) } } as unknown as Recording;
    expect(offsetOf(r, 0)).toBe(2 * 2 ** 32 + 5);
    expect(offsetOf(r, 1)).toBe(-1);
    expect(offsetOf(r, 2)).toBe(-1);
  });
});

describe("profile", () => {
  const sumOf = (n: Node): number => n.self + n.children.reduce((s, c) => s + sumOf(c), 0);
  it("adds samples up by program and stack", () => {
    const root = finish(treeOf(striped, "on", { ...all, host: "" }));
    expect(root.total).toBe(striped.sample.stack.length);
    expect(sumOf(root)).toBe(root.total);
    expect(root.children.map((c) => c.name).sort()).toEqual(["copy", "io0", "io1"]);
    expect(matched(root, "checksum")).toBe(64 * 3);
    expect(matched(root, "kernel")).toBe(64 * 3 + 64 * 6);
    expect(finish(treeOf(striped, "on", { ...all, host: "client-1" })).total).toBe(64 * 6);
  });
  it("adds waits up by stack, with the kind of wait innermost, within the interval", () => {
    const root = finish(treeOf(striped, "off", { ...all, host: "" }));
    expect(root.total).toBe(16 * 19_900);
    let n = root;
    while (n.children.length) n = n.children[0];
    expect(n.class).toBe("wait.disk");
    expect(n.longest).toBeGreaterThanOrEqual(0);
    expect(finish(treeOf(striped, "off", { a: 1050, b: 2050, mask: null, host: "" })).total).toBe(1000);
  });
  it("counts a function once that calls itself", () => {
    const leaf = (name: string, self: number, children: Node[] = []): Node => ({ name, module: "m", class: "", self, total: self + children.reduce((s, c) => s + c.total, 0), parent: null, children, longest: -1 });
    const root = leaf("all", 0, [leaf("program", 0, [leaf("f", 1, [leaf("g", 2, [leaf("f", 4)])])])]);
    const link = (n: Node) => n.children.forEach((c) => {
      c.parent = n;
      link(c);
    });
    link(root);
    const f = functionsOf(root).find((x) => x.name === "f")!;
    expect([f.self, f.total]).toEqual([5, 7]);
  });
  it("gives each sample the class of its innermost function that has one", () => {
    const { classes, samples } = binsOf(striped, 0, Infinity, "");
    expect(samples).toBe(striped.sample.stack.length);
    expect(Object.fromEntries(classes.map((c) => [c.name, c.samples]))).toEqual({ fs: 64 * 6, program: 64 * 3, copy: 64 * 3 });
  });
});

describe("names of places", () => {
  it("leave numbers of processes and threads out", () => {
    expect(programOf({ name: "thalweg/io1 serve", kind: "server", host: "", process: "812 thalweg", role: "server" })).toBe("io1");
    expect(programOf({ name: "curl", kind: "thread", host: "", process: "9 curl", role: "client" })).toBe("curl");
    expect(placesOf(striped.header)[1]).toBe("io0 (server) on server-0");
  });
});

describe("many spans", () => {
  it("are aggregated in slices, of a part of the spans each", async () => {
    const r = await recording(process.env.SPANS ?? "100k");
    const slices: Record<string, number> = {};
    const run = <T>(name: string, work: Work<T>): T => {
      let [most, total, steps] = [0, 0, 0];
      for (;;) {
        const begun = process.cpuUsage();
        const step = work.next();
        const used = process.cpuUsage(begun);
        const took = (used.user + used.system) / 1000;
        [most, total, steps] = [Math.max(most, took), total + took, steps + 1];
        if (!step.done) continue;
        if (process.env.SPANS) console.log(`${name}: ${total.toFixed(0)} ms of CPU in ${steps} slices of up to ${most.toFixed(1)} ms`);
        slices[name] = steps;
        return step.value;
      }
    };
    for (const grouping of ["kind", "place", "object", "lane"] as Grouping[]) run(`latency by ${grouping}`, latencies(r, { ...all, grouping }, true));
    const channels = run("channels", channelsOf(r));
    const bursts = run("bursts", burstsOf(r, channels[0]));
    run("gaps", gapsOf(r, bursts));
    run("layout", movedIn(r, all));
    const least = r.span.start.length / (4 * SLICE);
    for (const [name, steps] of Object.entries(slices)) if (name !== "gaps") expect(steps, name).toBeGreaterThanOrEqual(Math.floor(least));
  }, 120_000);
});
