"""Costs are differences of what was measured, and the page has a row for what is kept and for nothing else."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.scale import campaign, costs, page, points  # noqa: E402
from testbed import results  # noqa: E402

KEPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scale", "results.jsonl")


def storm(point, server_us, client_us):
    """A measured line whose clients each took that much processor time at either end."""
    name, clients, servers, times = point
    line = {"storm": name, "clients": clients, "servers": servers, "times": times, "failed": 0, "wall_s": 1.0, "walls_s": [1.0, 1.0, 1.0]}
    cpu = {"server_cpu_s": server_us * clients / 1e6, "client_cpu_s": client_us * clients / 1e6}
    return points.name("measured", point), {**line, **cpu, "server_kib": 30 * clients, "client_kib": 20 * clients}


class Costs(unittest.TestCase):
    def kept(self):
        """Storms of a store where a message costs 10 us at either end, a connection 90 and 60 more, an entry 2 and 1."""
        of = {"connect": (100, 70), "stat": (10_000, 10_000), "sizes": (300 * 4 * 11, 300 * 40), "open": (60 * 74, 60), "create": (100 * 50, 100)}
        by_files = {("list", 1000): (2000, 1000), ("list", 8000): (16_000, 8000), ("glimpse", 1000): (6000, 1000), ("glimpse", 8000): (48_000, 8000)}
        return dict(storm(p, *(of.get(p[0]) or by_files[p[0], p[3]])) for p in points.CALIBRATION)

    def test_a_cost_is_what_is_left_without_the_others(self):
        found = costs.fit(self.kept())
        expected = {"metadata_ns": 10_000, "accept_ns": 30_000, "greet_ns": 60_000, "entry_ns": 2000, "glimpse_ns": 1000, "io_ns": 10_000}
        self.assertEqual({name: found[name] for name in expected}, expected)
        self.assertEqual((found["open_ns"], found["create_ns"], found["client_connect_ns"]), (20_000, 30_000, 60_000))

    def test_a_line_is_found_again(self):
        slope, intercept = costs.line_through([(x, 3 * x + 7) for x in (1, 5, 20)])
        self.assertAlmostEqual(slope, 3)
        self.assertAlmostEqual(intercept, 7)

    def test_every_cost_is_a_setting_of_the_simulation(self):
        with open(os.path.join(os.path.dirname(KEPT), "..", "..", "crates", "store", "src", "scale", "setting.rs"), encoding="utf-8") as source:
            settings = source.read()
        for point in (points.MODEL[0], points.SITE[0]):
            for word in points.line("site", point, costs.fit(self.kept())).split()[1:]:
                self.assertIn(f" {word.split('=')[0]} = ", settings)


class Storms(unittest.TestCase):
    """Storms that are made up: a real one says what it took, a simulated one appends an outcome for each point that is asked for."""

    def setUp(self):
        self.out = self.enterContext(tempfile.TemporaryDirectory())
        self.stormed = []
        for name in ("storms", "simulation"):
            self.enterContext(mock.patch.object(campaign, name, return_value=name))
        self.enterContext(mock.patch.object(campaign, "storm", self.storm))
        self.enterContext(mock.patch.object(campaign.subprocess, "run", self.simulate))
        self.enterContext(mock.patch.object(campaign.Storms, "head", lambda _, item: {"part": item.name}))
        self.enterContext(mock.patch.object(points, "REPETITIONS", 1))

    def storm(self, argv):
        self.stormed.append(argv[1])
        return None if argv[1] == "each" else {"wall_s": 1.0, "failed": 0}

    def simulate(self, _command, env, **_named):
        with open(env["THALWEG_SCALE_POINTS"], encoding="utf-8") as asked, open(env["THALWEG_SCALE_RESULTS"], "a", encoding="utf-8") as out:
            for line in asked:
                self.stormed.append(line)
                out.write(json.dumps({"last_s": 1.0, "failed": 0, "simulated_in_s": 1.0}) + "\n")

    def called(self, *words):
        self.stormed.clear()
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(said), mock.patch.object(costs, "fit", return_value={}):
            return campaign.Storms().main("", ["--out", self.out, *words]), len(self.stormed), said.getvalue()

    def test_going_on_makes_the_storms_that_have_no_line(self):
        # Those of `each` fail, and are made again.
        missing = sum(point[0] == "each" for point in points.MEASURED)
        code, stormed, said = self.called("--only", "measured")
        self.assertEqual((code, stormed), (1, len(points.MEASURED)))
        self.assertIn("FAILED: storms that failed: measured each", said)
        self.assertEqual(self.called("--only", "measured", "--resume")[:2], (1, missing))
        self.assertEqual(self.called("--only", "model", "site")[:2], (0, len(points.MODEL) + len(points.SITE)))
        self.assertEqual(self.called("--only", "model", "site", "--resume")[:2], (0, 0))
        self.assertEqual(self.called("--only", "model")[:2], (0, len(points.MODEL)))


class Page(unittest.TestCase):
    def test_the_model_is_within_a_factor_of_2_of_what_was_measured(self):
        ratios = page.ratios(results.Results(KEPT, "point", "thalweg.scale/1").all())
        self.assertGreaterEqual(len(ratios), 10)
        for point, (_, _, ratio) in ratios.items():
            self.assertTrue(0.5 <= ratio <= 2, f"{point}: {ratio}")

    def test_what_is_not_kept_has_no_row(self):
        kept = results.Results(KEPT, "point", "thalweg.scale/1").all()
        self.assertEqual(page.site({}).strip().count("\n"), 1)
        self.assertGreater(page.site(kept).count("\n"), 10)


if __name__ == "__main__":
    unittest.main()
