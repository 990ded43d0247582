"""One more server: what is judged slower, and when an explanation excuses it, with figures that are made up."""

import os
import subprocess
import sys
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.harness import one_more, page  # noqa: E402
from bench.harness.cases import one_more as case  # noqa: E402
from bench.harness.one_more import Cause  # noqa: E402
from testbed.errors import NotRun  # noqa: E402

SLOW_DISK = Cause(("server.write",), ("server io2:", "emulated disk 2"))


def explanation(cause="server.write", where="server io2: file.write /store/io2/7.0 on emulated disk 2", shares=(("server.write", 0.7), ("client.cpu", 0.3)), status="limited"):
    return {
        "verdict": {"status": status, "cause": cause, "where": where},
        "critical_path": [{"cause": name, "share": share} for name, share in shares],
    }


def judged(low, median, high, *explanations):
    return one_more.verdict({"low": low, "median": median, "high": high}, SLOW_DISK, explanations)


class Verdict(unittest.TestCase):
    def test_faster_and_as_fast_need_no_explanation(self):
        self.assertEqual(judged(1.2, 1.5, 1.9)["word"], "faster")
        self.assertEqual(judged(0.97, 0.99, 1.0)["word"], "as fast")
        self.assertTrue(judged(1.2, 1.5, 1.9)["met"] and judged(0.97, 0.99, 1.0)["met"])

    def test_slower_by_the_least_is_slower(self):
        told = judged(0.990, 0.995, 0.999)
        self.assertEqual((told["word"], told["met"]), ("slower, and not explained", False))

    def test_a_wide_interval_excuses_nothing(self):
        told = judged(0.6, 0.9, 1.4, explanation(cause="client.cpu"))
        self.assertEqual((told["word"], told["met"]), ("too wide to say", False))
        self.assertTrue(judged(0.6, 0.9, 1.4, explanation())["met"])

    def test_slower_is_met_where_every_run_names_the_cause_that_was_built_in(self):
        told = judged(0.3, 0.4, 0.5, explanation(), explanation())
        self.assertEqual((told["word"], told["met"], told["named"]), ("slower, and explained", True, 2))
        told = judged(0.3, 0.4, 0.5, explanation(), explanation(where="server io1: file.write /store/io1/7.0 on emulated disk 1"))
        self.assertEqual((told["word"], told["met"], told["named"], told["explanations"]), ("slower, and not explained", False, 1, 2))

    def test_a_cause_is_named_only_as_the_verdict_and_by_the_most_time(self):
        self.assertTrue(SLOW_DISK.is_named(explanation()))
        self.assertFalse(SLOW_DISK.is_named(explanation(cause="server.read")))
        self.assertFalse(SLOW_DISK.is_named(explanation(status="unsure")))
        split = (("server.write", 0.4), ("network.bandwidth", 0.3), ("network.bandwidth", 0.3))
        self.assertFalse(SLOW_DISK.is_named(explanation(shares=split)))
        self.assertFalse(SLOW_DISK.is_named({}))

    def test_causes_that_were_built_in_together_count_together(self):
        port = Cause(("network.bandwidth", "network.loss"), ("> client",))
        shares = (("network.loss", 0.3), ("network.bandwidth", 0.3), ("client.cpu", 0.4))
        self.assertTrue(port.is_named(explanation("network.loss", "server io1 > client", shares)))

    def test_another_server_with_the_same_beginning_is_not_the_one(self):
        self.assertFalse(SLOW_DISK.is_named(explanation(where="server io21: file.write /store/7.0 on emulated disk 21")))

    def test_a_bar_says_what_was_named_without_the_paths_of_a_run(self):
        told = one_more.bar("a / b", {"low": 0.3, "median": 0.4, "high": 0.5}, SLOW_DISK, [explanation(), explanation()])
        self.assertEqual((told["met"], told["said"]), (True, ["server.write, server io2 on emulated disk 2"]))


class Case(unittest.TestCase):
    def test_what_cannot_run_here_is_absent_and_never_met(self):
        def nothing(world):
            raise NotRun("only root may")
            yield

        kinds = case.KINDS
        case.KINDS = [("a kind", 1 << 20, nothing)]
        try:
            told = case.one_more_server(types.SimpleNamespace(quick=True))
        finally:
            case.KINDS = kinds
        self.assertEqual(told["absent"], [{"name": "nothing", "label": "a kind", "reason": "only root may"}])
        self.assertEqual([(bar["wanted"], bar["median"], bar["met"]) for bar in told["bars"]], [("5", 0, False)])

    def test_half_of_the_bytes_are_on_the_first_of_any_number_of_servers(self):
        for n in range(2, 7):
            strips = [part.split(":") for part in case.half_on_the_first(n).split(";")]
            sizes = [int(size.removesuffix("M")) for _, size in strips]
            self.assertEqual([int(server) for server, _ in strips], list(range(n)))
            self.assertEqual(sizes[0], sum(sizes[1:]))

    def test_several_commands_at_once_fail_where_one_does(self):
        self.assertEqual(subprocess.run(case.at_once([["true"], ["true"]]), check=False).returncode, 0)
        for commands in ([["true"], ["false"]], [["false"], ["true"]]):
            self.assertNotEqual(subprocess.run(case.at_once(commands), check=False).returncode, 0)


class Page(unittest.TestCase):
    def test_a_slower_situation_that_is_explained_is_shown_with_its_reason(self):
        told = one_more.bar("a slow target: 3 servers / 2 servers", {"low": 0.3, "median": 0.4, "high": 0.5}, SLOW_DISK, [explanation()])
        line = page._bar_line("One more", told)
        self.assertTrue(line.endswith("| 0.40 | 0.30 – 0.50 | met: slower, and explained: server.write, server io2 on emulated disk 2 |"), line)
        told = one_more.bar("a slow target: 3 servers / 2 servers", {"low": 0.3, "median": 0.4, "high": 0.5}, SLOW_DISK, [])
        self.assertTrue(page._bar_line("One more", told).endswith("| **missed**: slower, and not explained: nothing said |"))
        told = one_more.bar("an imbalance: 3 servers / 2 servers", {"low": 1.3, "median": 1.4, "high": 1.5}, SLOW_DISK, [explanation()])
        self.assertTrue(page._bar_line("One more", told).endswith("| met: faster |"))


if __name__ == "__main__":
    unittest.main()
