"""The study of 2004: its plans, the intervals of its figures, and what it says of conclusions; surfaces with known causes, and their score."""

import os
import string
import sys
import tomllib
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.harness import surfaces  # noqa: E402
from bench.harness.study2004 import conclusions, figures, page, shards  # noqa: E402

WORDS = {name: f"/{name}" for name in ("here", "near", "served", "address", "on_server", "thalweg", "source_bytes")}
FIELDS = {"vary", "skip", "command", "prepare", "cleanup", "server", "port", "bytes", "cold", "warm", "repeat", "timeout_s", "narrow", "sample", "explain", "profile", "ceiling", "ceiling_bytes_per_s", "seed"}


def runs(rate, cost_ns, repeats=5, noise=0.01):
    """Made-up runs of 1 GB."""
    made = []
    for repeat in range(1, repeats + 1):
        wall = 1e9 / (rate * (1 + noise * ((repeat * 7) % 5 - 2) / 2))
        made.append([repeat, wall, 0.1, cost_ns, 10**9])
    return made


def line(shard, parameters, point):
    """A line of results: `point` gives rate and server's ns a byte, or a problem."""
    combinations = [[]]
    for _, values in parameters:
        combinations = [[*one, value] for one in combinations for value in values]
    points = []
    for values in combinations:
        made = point(*values)
        points.append({"values": values, "state": "failed", "problem": made, "runs": []} if isinstance(made, str) else {"values": values, "state": "done", "runs": runs(*made)})
        if not isinstance(made, str):
            points[-1]["explanation"] = {"cause": "client.read", "where": "here", "sentence": "It is so.", "shares": [["client.read", 0.7], ["server.cpu", 0.3]]}
    known = {"shard": shard, "title": shard, "state": "done", "measured": "2026-11-25T00:00Z", "link": "fast", "sentence": "So.", "pictures": [], "machine": {"cores": 2, "kernel": "6"}, "took_s": 1.0}
    return {**known, "parameters": [{"name": name, "values": values} for name, values in parameters], "points": points}


WAYS = ("way", ["read", "write"])


class Study(unittest.TestCase):
    def test_every_shard_has_a_plan_that_a_sweep_reads_and_every_plan_a_shard(self):
        names = {name.removesuffix(".toml") for name in os.listdir(os.path.join(shards.HERE, "plans"))}
        self.assertEqual(names, {shard.name for shard in shards.SHARDS})
        for shard in shards.SHARDS:
            with open(shard.plan) as source:
                plan = tomllib.loads(string.Template(source.read()).substitute(WORDS))
            self.assertLessEqual(set(plan), FIELDS, shard.name)
            for vary in plan["vary"]:
                name = vary.split("=")[0]
                used = [*plan["command"], plan.get("server", ""), plan.get("prepare", ""), plan["bytes"]]
                self.assertTrue(any(f"{{{name}}}" in text for text in used), f"{shard.name}: {name}")

    def test_a_ratio_is_of_the_same_repetition_and_its_interval_has_the_truth(self):
        drifting = [[repeat, wall, 0.1, 1.0, 10**9] for repeat, wall in enumerate([1.0, 2.0, 4.0, 8.0, 16.0], 1)]
        twice = [[repeat, wall / 2, 0.1, 1.0, 10**9] for repeat, wall, *_ in drifting]
        ratio = figures.times_as_fast(twice, drifting)
        self.assertEqual((ratio.middle, ratio.low, ratio.high), (2.0, 2.0, 2.0))
        self.assertIsNone(figures.times_as_fast([], drifting))
        # Hundredths of a second in single runs: the sum is right.
        coarse = [[repeat, 1.0, 0.1, cpu, 10**8] for repeat, cpu in enumerate([0.05, 0.06, 0.05, 0.06, 0.05, 0.06], 1)]
        cost = figures.server_cost(coarse)
        self.assertAlmostEqual(cost.middle, 0.55)
        self.assertTrue(cost.low < 0.55 < cost.high)

    def test_a_conclusion_holds_does_not_or_cannot_be_told_by_its_interval(self):
        def judged(cost_of_reading):
            ends = line("ends", [("of", ["nothing", "memory", "disk"]), WAYS], lambda of, way: (1e9, cost_of_reading if way == "read" else 1.0))
            return {one.claim: one.verdict for one in conclusions.verdicts({"ends": ends})}

        network = conclusions.CLAIMS[0][0]
        self.assertEqual(judged(1.5)[network], conclusions.HOLDS)
        self.assertEqual(judged(0.5)[network], conclusions.DOES_NOT)
        self.assertEqual(judged(1.0)[network], conclusions.CANNOT)
        self.assertEqual(judged(1.0)[conclusions.CLAIMS[4][0]], conclusions.NOT_MEASURED)

    def test_thrashing_is_a_rate_that_falls_and_failures_are_named(self):
        def judged(point):
            lines = {"thrashing": line("thrashing", [("transfers", ["1", "16", "256"]), WAYS], point)}
            return next(one for one in conclusions.verdicts(lines) if one.shards == ["thrashing"])

        falling = judged(lambda transfers, way: ({"1": 1e9, "16": 2e9, "256": 5e8}[transfers], 1.0))
        self.assertEqual(falling.verdict, conclusions.HOLDS)
        steady = judged(lambda transfers, way: (1e9, 1.0) if transfers == "1" else (2e9, 1.0))
        self.assertEqual(steady.verdict, conclusions.DOES_NOT)
        crashed = judged(lambda transfers, way: "3 of 256 copies failed" if transfers == "256" else (1e9, 1.0))
        self.assertIn("3 of 256 copies failed", " ".join(crashed.figures))

    def test_what_lots_cost_stands_beside_what_they_cost_in_2004(self):
        def judged(rate_in_a_lot):
            lines = {"store-lots": line("store-lots", [("lots", ["off", "on"])], lambda lots: (1e9 if lots == "off" else rate_in_a_lot, 1.0))}
            return next(one for one in conclusions.verdicts(lines) if one.shards == ["store-lots"]).verdict, page.text(lines)

        verdict, text = judged(0.99e9)
        self.assertEqual(verdict, conclusions.DOES_NOT)
        self.assertIn("| write rate, lots on / lots off | 0.70 | 0.99 (0.99 to 0.99) |", text)
        self.assertEqual(judged(0.5e9)[0], conclusions.HOLDS)
        self.assertEqual(judged(0.7e9)[0], conclusions.CANNOT)
        self.assertNotIn("Lots on, lots off", page.text({}))

    def test_the_page_has_a_row_for_each_conclusion_and_says_what_is_missing(self):
        overlap = line("overlap", [("source", ["memory", "disk"]), ("block", ["64Ki", "16Mi"])], lambda source, block: (9e7 if block == "64Ki" or source == "memory" else 6e7, 1.0))
        text = page.text({"overlap": overlap})
        for claim, _, _ in conclusions.CLAIMS:
            self.assertIn(f"| {claim} |", text)
        self.assertIn("reads are slower by 16 % | **holds** |", text)
        self.assertIn("not measured yet | block: no result |", text)
        self.assertIn("TLB", text)
        self.assertIn("Nothing has been measured yet", page.text({}))


def named(name):
    return next(surface for surface in surfaces.SURFACES if surface.name == name)


class Surfaces(unittest.TestCase):
    def test_the_built_in_cause_is_what_takes_longest_and_near_the_border_either_is_right(self):
        link = named("link")
        self.assertEqual(link.right({"link": "100", "disk": "50"}), ["network.bandwidth"])
        self.assertEqual(link.right({"link": "1600", "disk": "50"}), ["server.read"])
        self.assertEqual(sorted(link.right({"link": "400", "disk": "50"})), ["network.bandwidth", "server.read"])
        self.assertIn("network.sndbuf", named("stream-cap").right({"streams": "1", "buffer": "64"}))

    def test_a_change_of_hands_may_be_a_cell_off_and_no_more(self):
        surface = named("quota")
        values = ["15", "25", "40", "60", "75", "90"]

        def scored(causes):
            points = [{"values": [value, "5"], "state": "done", "explanation": {"cause": cause}} for value, cause in zip(values, causes, strict=True)]
            parameters = [{"name": "percent", "values": [{"label": value} for value in values]}, {"name": "spin", "values": [{"label": "5"}]}]
            return surfaces.score(surface, {"parameters": parameters, "points": points})

        queue, cpu = "client.runqueue", "client.cpu"
        exact = scored([queue] * 3 + [cpu] * 3)
        self.assertEqual((exact["right"], exact["steps_right"]), (6, 1))
        one_off = scored([queue] * 4 + [cpu] * 2)
        self.assertEqual((one_off["right"], one_off["steps_right"]), (5, 1))
        never = scored([queue] * 6)
        self.assertEqual((never["right"], never["steps_right"]), (3, 0))


if __name__ == "__main__":
    unittest.main()
