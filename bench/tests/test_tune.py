"""Tuners over measured grids: plans and what was measured of them, rivals that keep to the grid and the budget, and how regret is counted."""

import json
import os
import stat
import string
import sys
import tempfile
import tomllib
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.tune import measured, page, rivals, score, simulated, thrash  # noqa: E402
from bench.tune.surface import Runs, Surface, leader, load, write  # noqa: E402
from testbed.errors import Broken, NotRun  # noqa: E402

NAMES = ("here", "near", "served", "address", "on_server", "thalweg", "source_bytes", "many_bytes", "tune", "serve", "group")
WORDS = {name: f"/{name}" for name in NAMES}
FIELDS = {"vary", "skip", "command", "prepare", "cleanup", "server", "port", "bytes", "cold", "warm", "repeat", "timeout_s", "narrow", "explain", "seed"}
MOST_POINTS, LEAST_POINTS = 64, 16
MOST_BYTES = 150_000
METHODS = {"random": rivals.random_search, "hill": rivals.hill_climbing, "coordinates": rivals.coordinate_descent}
# A tuner that runs the start and one more point, and prints what a tuner prints.
TUNER = """#!/usr/bin/env python3
import json, sys
if "--help" in sys.argv:
    sys.exit(0)
named = dict(word.split("=") for word in sys.argv[sys.argv.index("--from") + 1].split(","))
other = {**named, "streams": "8"}
runs = [{"values": named, "rate": 1.0, "state": "done"}, {"values": other, "rate": 2.0, "state": "done"}]
print(json.dumps({"schema": "thalweg.tune/1", "runs": runs * RUNS, "winner": {"values": other}}))
"""


def plan(path):
    """A path's plan, read as a sweep reads it."""
    with open(path.plan) as source:
        return tomllib.loads(string.Template(source.read()).substitute(WORDS))


def values_of(vary):
    """The values of a `NAME=...` of a plan: a list, or a range of sizes."""
    name, values = vary.split("=")
    if ".." not in values:
        return name, values.split(",")
    (low, high), factor = values.split(":")[0].split(".."), int(values.split(":x")[1])
    found, at = [], simulated.number(low)
    while at <= simulated.number(high):
        found.append(f"{at // simulated.MIB}Mi" if at >= simulated.MIB else f"{at // simulated.KIB}Ki")
        at *= factor
    return name, found


def document(rate, streams=("1", "2", "4", "8"), blocks=("64Ki", "256Ki", "1Mi", "4Mi"), spread=0.02):
    """A made-up surface: `rate` of the two places."""
    points = []
    for at, one in enumerate(streams):
        for beside, other in enumerate(blocks):
            walls = [1e6 / rate(at, beside) * (1 + spread * part) for part in (-1, 0, 1)]
            points.append({"values": [one, other], "state": "done", "runs": [{"repeat": n, "wall_s": wall, "bytes": 10**6} for n, wall in enumerate(walls, 1)]})
    parameters = [{"name": name, "values": [{"label": value} for value in values]} for name, values in (("streams", streams), ("block", blocks))]
    return {"parameters": parameters, "points": points}


def hill(at, beside):
    """One top, at 4 streams and 256 KiB."""
    return 100 / (1 + (at - 2) ** 2 + (beside - 1) ** 2)


class Plans(unittest.TestCase):
    def test_every_path_has_a_plan_that_a_sweep_reads_and_every_plan_a_path(self):
        names = {name.removesuffix(".toml") for name in os.listdir(os.path.join(measured.HERE, "plans"))}
        self.assertEqual(names, {path.name for path in measured.PATHS})
        for path in measured.PATHS:
            found = plan(path)
            self.assertLessEqual(set(found), FIELDS, path.name)
            used = [*found["command"], found.get("server", ""), found.get("prepare", "")]
            for vary in found["vary"]:
                name, _ = values_of(vary)
                self.assertTrue(any(f"{{{name}}}" in text for text in used), f"{path.name}: {name}")

    def test_the_default_is_a_point_of_a_grid_of_16_to_64(self):
        for path in measured.PATHS:
            grid = dict(values_of(vary) for vary in plan(path)["vary"])
            self.assertEqual(set(grid), set(path.default), path.name)
            points = 1
            for name, values in grid.items():
                self.assertIn(path.default[name], values, path.name)
                points *= len(values)
            self.assertTrue(LEAST_POINTS <= points <= MOST_POINTS, f"{path.name}: {points}")

    def test_what_was_measured_has_every_point_of_its_plan_and_is_small(self):
        for path in measured.PATHS:
            if not os.path.exists(path.surface):
                continue
            surface = load(path.surface)
            grid = [values_of(vary) for vary in plan(path)["vary"]]
            self.assertEqual([(name, values) for name, values in grid], list(zip(surface.names, surface.values, strict=True)), path.name)
            points = 1
            for _, values in grid:
                points *= len(values)
            self.assertEqual(len(surface.points), points, path.name)
            self.assertIn(surface.point(path.default), surface.points)
            self.assertLess(os.path.getsize(path.surface), MOST_BYTES, path.name)
            with open(path.surface) as source:
                self.assertNotIn(measured.HERE, source.read())


class Rivals(unittest.TestCase):
    def test_they_stay_in_the_grid_keep_to_the_budget_and_begin_at_the_default(self):
        surface = Surface(document(hill))
        for name, method in METHODS.items():
            for seed in range(20):
                runs = Runs(surface, seed)
                point = rivals.search(method, runs, ("1", "64Ki"), seed)
                self.assertEqual(runs.seen[0][0], ("1", "64Ki"), name)
                self.assertLessEqual(len(runs.seen), surface.budget, name)
                self.assertTrue(all(seen in surface.points for seen, _ in runs.seen), name)
                self.assertIn(point, surface.points)

    def test_equal_seeds_search_alike_and_others_do_not(self):
        surface = Surface(document(hill))

        def seen(method, seed):
            runs = Runs(surface, seed)
            rivals.search(method, runs, ("1", "64Ki"), seed)
            return runs.seen

        for name, method in METHODS.items():
            self.assertEqual(seen(method, 3), seen(method, 3), name)
            self.assertGreater(len({str(seen(method, seed)) for seed in range(5)}), 1, name)

    def test_a_single_top_is_found_by_steps(self):
        surface = Surface(document(hill))
        runs = Runs(surface, 1)
        self.assertEqual(rivals.search(rivals.coordinate_descent, runs, ("1", "64Ki"), 1), ("4", "256Ki"))

    def test_a_grid_smaller_than_the_budget_is_run_once(self):
        surface = Surface(document(hill, streams=("1", "2"), blocks=("64Ki", "256Ki")))
        for method in METHODS.values():
            runs = Runs(surface, 1)
            rivals.search(method, runs, ("1", "64Ki"), 1)
            self.assertEqual(len(runs.seen), 4)

    def test_a_budget_is_a_limit(self):
        runs = Runs(Surface(document(hill)), 1, budget=1)
        runs.run((0, 0))
        with self.assertRaises(ValueError):
            runs.run((0, 0))

    def test_tpe_asks_optuna_for_places_and_says_what_they_reached(self):
        if not os.path.exists(rivals.PYTHON):
            self.skipTest("Optuna is not installed: bench/tune/run --score installs it")
        surface = Surface(document(hill))
        seen = []
        with rivals.Tpe() as tpe:
            for _ in range(2):
                runs = Runs(surface, 5)
                rivals.search(tpe, runs, ("1", "64Ki"), 5)
                seen.append(runs.seen)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual((len(seen[0]), seen[0][0][0]), (surface.budget, ("1", "64Ki")))


class Regret(unittest.TestCase):
    def test_it_is_what_the_returned_point_lacks_of_the_best_by_medians(self):
        surface = Surface(document(hill))
        self.assertEqual(surface.best, ("4", "256Ki"))
        self.assertEqual(surface.regret(("4", "256Ki")), 0)
        self.assertAlmostEqual(surface.regret(("8", "256Ki")), 0.5)
        self.assertEqual(surface.budget, 12)

    def test_a_run_answers_with_a_rate_that_was_measured_and_a_failed_point_with_none(self):
        made = document(hill)
        made["points"][3] |= {"state": "failed", "runs": []}
        surface = Surface(made)
        runs = Runs(surface, 1)
        self.assertIn(runs.run((0, 0)), surface.rates[("1", "64Ki")])
        self.assertEqual(runs.run((0, 3)), 0.0)
        self.assertEqual(surface.regret(("1", "4Mi")), 1)

    def test_the_leader_has_the_best_mean_and_not_the_luckiest_run(self):
        self.assertEqual(leader([("a", 5.0), ("a", 1.0), ("b", 4.0)]), "b")

    def test_percentiles_lie_between_the_nearest_values(self):
        self.assertEqual(score.percentile([3, 1, 2], 0.5), 2)
        self.assertAlmostEqual(score.percentile([0, 10], 0.95), 9.5)

    def test_pairs_are_of_the_same_search_and_small_differences_are_ties(self):
        line = {"methods": {"ours": {"regret": [0.0, 0.01, 0.3]}, "x": {"regret": [0.2, 0.0, 0.1]}, "y": {"regret": [1.0, 1.0, 1.0]}}}
        self.assertEqual(score.best_rival([line]), "x")
        found = score.against([line], "x")
        self.assertEqual((found["won"], found["tied"], found["lost"]), (1, 1, 1))
        self.assertAlmostEqual(found["mean"], 0.01 / 3)
        self.assertTrue(found["interval"][0] <= found["mean"] <= found["interval"][1])


class Ours(unittest.TestCase):
    def tuner(self, directory, runs=1):
        path = os.path.join(directory, "tuner")
        with open(path, "w") as out:
            out.write(TUNER.replace("RUNS", str(runs)))
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path

    def test_its_winner_and_its_runs_are_read_from_what_it_prints(self):
        with tempfile.TemporaryDirectory() as directory:
            program = self.tuner(directory)
            score.check(program)
            point, seen = score.ours(Surface(document(hill)), "x.json", {"streams": "1", "block": "64Ki"}, program, 1)
        self.assertEqual(point, ("8", "64Ki"))
        self.assertEqual(seen, [(("1", "64Ki"), 1.0), (("8", "64Ki"), 2.0)])

    def test_more_runs_than_the_budget_are_an_error_and_a_program_without_a_tuner_is_not_scored(self):
        with tempfile.TemporaryDirectory() as directory:
            with self.assertRaisesRegex(Broken, "14 runs of 12"):
                score.ours(Surface(document(hill)), "x.json", {"streams": "1", "block": "64Ki"}, self.tuner(directory, 7), 1)
        with self.assertRaisesRegex(NotRun, "no `tune`"):
            score.check("/bin/false")

    def test_the_page_has_a_row_for_each_method_and_each_path(self):
        with tempfile.TemporaryDirectory() as directory, mock.patch.object(score, "SEEDS", range(1, 3)):
            path = os.path.join(directory, "simulated.json")
            default = simulated.write("lan-disk", 1, path)
            line = score.one(load(path), path, default, self.tuner(directory), rivals.random_search, range(1, 3))
        text = page.tables({"a": {"name": "a", "kind": "measured", "title": "A path", "program": "prog", **line}})
        self.assertIn("| A path | prog | 64, 12 |", text)
        for method in line["methods"]:
            self.assertIn(f"| {method} |", text)
        self.assertIn("nothing is scored yet", page.tables({}))


class Simulated(unittest.TestCase):
    def test_equal_seeds_make_equal_surfaces_and_medians_are_the_law(self):
        for name in simulated.FAMILIES:
            made, default = simulated.make(name, 7)
            self.assertEqual((made, default), simulated.make(name, 7))
            self.assertNotEqual(made, simulated.make(name, 8)[0])
            surface = Surface(made)
            self.assertEqual(len(surface.points), 64)
            self.assertGreater(surface.regret(surface.point(default)), 0.3, name)
            for point in made["points"]:
                self.assertAlmostEqual(sum(share for _, share in point["explanation"]["shares"]), 1.0)

    def test_a_document_is_written_point_by_point_and_read_back(self):
        made, _ = simulated.make("connections", 1)
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "surface.json")
            write(made, path)
            with open(path) as source:
                text = source.read()
        self.assertEqual(json.loads(text), made)
        self.assertEqual(text.count("\n"), 66)

    def test_a_server_that_thrashes_gives_most_at_its_most(self):
        totals = {sending: sending * thrash.rate_of_each(sending, 8) for sending in (1, 4, 8, 16, 64)}
        self.assertEqual(max(totals, key=totals.get), 8)
        self.assertEqual(totals[16], totals[8] / 2)


if __name__ == "__main__":
    unittest.main()
