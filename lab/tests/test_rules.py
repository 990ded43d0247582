"""The trivial rules, the other recorders and the order of a run: what each says of readings and results made for it."""

import contextlib
import io
import os
import sys
import tempfile
import unittest
import unittest.mock
from types import SimpleNamespace

LAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(LAB))

from lab.harness import campaign, page, rules, scenario  # noqa: E402
from lab.harness.experiment import Experiment  # noqa: E402
from testbed.errors import Broken  # noqa: E402

SCENARIOS = os.path.join(LAB, "scenarios")


def readings(**fields):
    made = {"devices": [], "retransmitted": 0, "connections": [], "processes": []}
    return made | fields


class Rules(unittest.TestCase):
    def answers(self, wanted, **fields):
        return rules.answers(readings(**fields), 2.0, lambda named: "right" if named["cause"] == wanted else "wrong")

    def test_each_rule_names_what_it_looks_at(self):
        disks = [{"name": "a", "role": "client", "read": 0.1, "write": 0.0, "busy": 0.1}, {"name": "b", "role": "server", "read": 0.2, "write": 0.5, "busy": 1.0}]
        told = self.answers("server.write", devices=disks)["busiest_device"]
        self.assertEqual((told["outcome"], told["where"], told["strength"]), ("right", "b", 0.5))
        self.assertEqual(self.answers("network.loss", retransmitted=1)["retransmissions"]["outcome"], "right")
        for held, cause in (("rwnd_limited", "network.rwnd"), ("sndbuf_limited", "network.sndbuf"), (None, "network.bandwidth")):
            times = {"busy": 1.0, "rwnd_limited": 0.0, "sndbuf_limited": 0.0}
            times |= {held: 0.9} if held else {}
            self.assertEqual(self.answers(cause, connections=[times])["limited_times"]["outcome"], "right", held)
        programs = [{"name": "cp", "role": "client", "cpu": 0.1}, {"name": "nginx", "role": "server", "cpu": 0.4}]
        self.assertEqual(self.answers("server.cpu", processes=programs)["most_cpu"]["where"], "nginx")

    def test_a_rule_that_sees_nothing_says_that_nothing_is_wrong(self):
        self.assertTrue(all(told["outcome"] == "right" for told in self.answers(None).values()))

    def test_what_a_process_computed_before_the_run_is_not_counted_whatever_it_is_called_now(self):
        before = rules._cpu()
        self.assertIn(os.getpid(), before)
        self.assertGreaterEqual(rules._cpu()[os.getpid()][1], before[os.getpid()][1])
        waits = iter([False, True])
        host = SimpleNamespace(namespace=None, run=lambda *_, check: "")
        fixture = SimpleNamespace(network=SimpleNamespace(client=host, server=host), server=None, resources=SimpleNamespace(disks={}))
        watch = rules.Watch()
        with unittest.mock.patch.object(rules, "_cpu", side_effect=[{1: ("kworker/a", 50.0), 2: ("cp", 0.0)}, {1: ("kworker/b", 50.1), 2: ("cp", 1.0)}]):
            watch.during(fixture, SimpleNamespace(over=SimpleNamespace(wait=lambda _: next(waits)), process=SimpleNamespace(pid=0)))
        self.assertEqual(rules.most_cpu(watch.readings), ("client.cpu", "cp", 1.0))

    def test_the_best_combination_is_at_least_each_rule_and_at_most_all_of_them(self):
        def document(ours, **right):
            told = {name: {"strength": 0.4, "outcome": right.get(name, "wrong")} for name in rules.RULES}
            told["none"] = {"strength": 0.0, "outcome": "wrong"}
            return {"rules": told, "figures": {"outcomes": ours}}

        one = document(["right", "right"], busiest_device="right")
        two = document(["right", "unsure"], most_cpu="right")
        # The second's device is idle: a rule that keeps silent lets the next one speak.
        two["rules"]["busiest_device"]["strength"] = 0.02
        found = {name: right for name, right, _ in rules.scores([one, two, {"figures": {}}])}
        self.assertEqual((found["busiest_device"], found["most_cpu"], found["retransmissions"]), (1, 1, 0))
        self.assertEqual((found["best"], found["ours"]), (2, 1.5))


class Recorders(unittest.TestCase):
    def test_a_scenario_of_a_recorder_is_tried_with_no_other(self):
        self.assertEqual(scenario.load(os.path.join(SCENARIOS, "sha256sum-recorder.toml")).recorders, [])
        self.assertEqual(scenario.load(os.path.join(SCENARIOS, "cp-source-disk.toml")).recorders, list(scenario.USUAL))

    def test_answers_of_other_recorders_are_judged_by_the_same_truth(self):
        one = scenario.load(os.path.join(SCENARIOS, "cp-source-disk.toml"))
        named = {"status": "limited", "cause": "client.read", "where": "loop0", "sentence": "loop0"}
        raw = {"others": {"proc": {"named": named}, "preload": {"named": {**named, "cause": "unknown"}}, "proc-unprivileged": {"reason": "no"}}}
        others, trivial = Experiment._judged(one, raw, {"truths": [0.9]})
        self.assertEqual([others[name].get("outcome") for name in raw["others"]], ["right", "unsure", None])
        self.assertEqual(trivial, {})
        text = page._recorders([{"others": others}])
        self.assertIn("| preload | 0 | 1 | 0 | 0 | **missed** |", text)
        self.assertIn("| proc | 1 | 0 | 0 | 0 | met |", text)
        self.assertIn("| proc-unprivileged | 0 | 0 | 0 | 1 | **missed** |", text)


    def test_a_recorder_that_fails_is_its_own_miss_and_leaves_no_recording(self):
        one = scenario.load(os.path.join(SCENARIOS, "cp-source-disk.toml"))
        explanation = {"verdict": {"status": "limited", "cause": "client.read", "where": "w", "sentence": "s"}, "critical_path": []}
        with tempfile.TemporaryDirectory() as directory:

            def run(variant, recorded):
                if variant.recorder == "preload":
                    raise Broken("a static program")
                variant.faults[-1].readings = readings()
                made = tempfile.mkdtemp(dir=directory)
                return SimpleNamespace(wall_s=1.0, recording=made, explanation=explanation)

            fixture, raw = SimpleNamespace(run=run, explain=lambda _: None), {}
            Experiment._try_others(None, fixture, one, raw)
            self.assertEqual(os.listdir(directory), [])
        self.assertEqual(raw["others"]["preload"], {"reason": "a static program"})
        self.assertEqual(raw["others"]["proc"]["named"]["cause"], "client.read")
        self.assertEqual(raw["readings"], (readings(), 1.0))


class Orders(unittest.TestCase):
    def test_the_unmeasured_come_first_and_then_the_failed(self):
        chosen = [SimpleNamespace(name=name) for name in ("passed", "failed", "new")]
        lines = {state: {"scenario": state, "state": state, "took_s": 60} for state in ("passed", "failed")}
        with contextlib.redirect_stdout(io.StringIO()) as said:
            found = campaign.in_order(chosen, lines, 60)
        # Two of a minute, and one that was never measured.
        self.assertIn("3 scenarios, about 2 minutes", said.getvalue())
        self.assertEqual([one.name for one in found], ["new", "failed", "passed"])

    def test_only_a_result_of_the_same_program_and_as_many_repetitions_is_kept(self):
        running = Experiment.__new__(Experiment)
        running.common = {"build": {"revision": "a", "thalweg_sha256": "1"}, "recorded": True, "repeat": 5}
        done = {**running.common, "state": "passed"}
        self.assertTrue(running.is_done(done))
        self.assertTrue(running.is_done({**done, "build": {"revision": "a-dirty", "thalweg_sha256": "1"}}))
        self.assertTrue(running.is_done({**done, "repeat": 9}))
        for other in ({"build": {"revision": "a", "thalweg_sha256": "2"}}, {"repeat": 1}, {"recorded": False}, {"state": "not run"}):
            self.assertFalse(running.is_done({**done, **other}), other)


if __name__ == "__main__":
    unittest.main()
