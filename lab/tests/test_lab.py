"""The lab's own promises: what a scenario may say, how an explanation is scored, what the page shows."""

import os
import sys
import tempfile
import unittest
from unittest import mock

LAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(LAB))

from lab.harness import kept, ordinary, page, resources, scenario, score  # noqa: E402
from testbed import disks  # noqa: E402
from testbed.errors import NotRun  # noqa: E402

SCENARIOS = os.path.join(LAB, "scenarios")
REPOSITORY = os.path.dirname(LAB)


class Scenarios(unittest.TestCase):
    def test_every_scenario_can_be_read_and_has_a_baseline_and_something_to_hold_a_prediction_against(self):
        for one in scenario.load_all(SCENARIOS):
            with self.subTest(one.name):
                names = [variant.name for variant in one.variants()]
                self.assertEqual(names[0], "fault")
                # Where nothing is injected, there is nothing to leave out.
                self.assertEqual("baseline" in names, bool(one.faults))
                self.assertEqual("change" in names, "id" in one.predict)

    def test_there_are_at_least_forty_and_each_cause_of_the_closed_set_that_can_be_injected_has_one(self):
        every = scenario.load_all(SCENARIOS)
        self.assertGreaterEqual(len(every), 40)
        injected = {cause for one in every for causes in one.causes for cause in causes}
        wanted = "client.read client.write client.sync client.memory client.cpu client.runqueue client.lock client.think server.read server.sync"
        wanted += " server.cpu server.runqueue server.think server.unknown network.bandwidth network.latency network.loss network.rwnd"
        wanted += " network.sndbuf network.cwnd recorder"
        self.assertEqual(set(wanted.split()) - injected, set())

    def test_what_a_scenario_needs_is_what_setup_installs(self):
        with open(os.path.join(os.path.dirname(LAB), "tools", "packages")) as source:
            lines = [[word.strip() for word in line.split("|")] for line in source if not line.startswith("#")]
        installed = {words[1] for words in lines if words[0] == "lab"} | {"/usr/lib/postgresql/*/bin/initdb"}
        # Essential on Debian, or what PostgreSQL (psql) and paramiko (Debian's python3) bring.
        installed |= {"gzip", "unshare", "flock", "psql", "/usr/bin/python3", "sed"}
        # Of the kernel's, which nobody installs.
        installed |= {"/sys/fs/cgroup/memory/memory.limit_in_bytes"}
        for one in scenario.load_all(SCENARIOS):
            self.assertEqual(set(one.needs) - installed, set(), one.name)

    def test_most_scenarios_blame_a_place_and_some_have_no_fault_at_all(self):
        every = scenario.load_all(SCENARIOS)
        self.assertGreaterEqual(sum(1 for one in every if one.expect.get("where")), 40)
        self.assertGreaterEqual(sum(1 for one in every if not one.faults), 2)

    def test_a_misspelt_key_is_an_error_that_names_the_file(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "wrong.toml")
            with open(path, "w") as out:
                out.write('title = "t"\nstory = "s"\n[copy]\nsise = "1Mi"\n')
            with self.assertRaisesRegex(ValueError, "wrong.toml.*sise"):
                scenario.load(path)


class Disks(unittest.TestCase):
    def test_why_a_disk_cannot_be_made_is_not_hidden_by_what_is_done_to_all_disks(self):
        class Unmade(disks.Disk):
            removed = 0

            def make(self):
                raise NotRun("the disk is not built")

            def remove(self):
                Unmade.removed += 1

        shared = resources.Resources("thalweg", "relay")
        with mock.patch.object(resources, "Disk", Unmade):
            for _ in range(2):
                with self.assertRaisesRegex(NotRun, "not built"):
                    shared.disk("sink")
        shared.empty_disks()
        self.assertEqual((shared.disks, Unmade.removed), ({}, 2))


class Scores(unittest.TestCase):
    def setUp(self):
        self.scenario = scenario.load(os.path.join(SCENARIOS, "cp-source-disk.toml"))
        self.walls = {"fault": [2.0, 2.1, 1.9], "baseline": [0.2, 0.2, 0.2], "change": [1.1]}

    def document(self, cause="client.read", share=0.9, unknown=0.0, predicted=1.1, status="limited", where="/x on loop0", said=None):
        path = [{"cause": cause, "share": share / 4, "where": "elsewhere"}, {"cause": cause, "share": share * 3 / 4, "where": where}]
        path.append({"cause": "unknown", "share": unknown, "where": ""})
        change = [{"id": "device.read.x2", "predicted_wall_s": predicted}] if predicted else []
        verdict = {"status": status, "cause": cause, "where": where, "sentence": f"It was {said or where}."}
        return {"verdict": verdict, "critical_path": path, "what_if": change, "dropped_events": 0, "model": {}}

    def judged(self, **fields):
        told = score.figures(self.scenario, self.walls, [self.document(**fields)] * 3)
        return {what: met for what, met, _ in score.checks(self.scenario, told)}

    def test_the_truth_is_the_share_of_the_time_that_goes_with_the_fault(self):
        self.assertAlmostEqual(score.figures(self.scenario, self.walls, [])["truth"], 0.9)

    def test_a_right_explanation_passes_every_check(self):
        self.assertTrue(all(self.judged().values()))

    def test_another_cause_a_share_too_far_off_and_too_much_unknown_each_fail(self):
        self.assertFalse(self.judged(cause="client.write")["named"])
        self.assertFalse(self.judged(share=0.84)["share"])
        self.assertFalse(self.judged(unknown=0.021)["unknown"])
        self.assertFalse(self.judged(predicted=1.3)["prediction"])

    def outcomes(self, **fields):
        return score.figures(self.scenario, self.walls, [self.document(**fields)])["outcomes"]

    def test_an_answer_that_is_not_sure_is_neither_named_first_nor_wrong_with_confidence(self):
        for cause in ("client.read", "client.write", "unknown"):
            self.assertEqual(self.outcomes(cause=cause, status="unsure"), ["unsure"])
            judged = self.judged(cause=cause, status="unsure")
            self.assertEqual((judged["named"], judged["confidence"]), (False, True))

    def test_a_wrong_cause_of_any_other_status_is_wrong_with_confidence(self):
        for status in ("limited", "inconclusive", "healthy"):
            self.assertFalse(self.judged(cause="client.write", status=status)["confidence"], status)

    def test_what_is_said_to_be_unknown_is_no_answer_and_not_wrong(self):
        for cause in ("unknown", "server.unknown"):
            self.assertEqual(self.outcomes(cause=cause), ["unsure"])
            judged = self.judged(cause=cause)
            self.assertEqual((judged["named"], judged["confidence"]), (False, True))

    def test_the_right_cause_at_the_wrong_place_is_wrong(self):
        for places in ("loop", ["nvme", "loop"]):
            self.scenario.expect["where"] = places
            self.assertEqual(self.outcomes(where="/x on loop0"), ["right"])
            self.assertEqual(self.outcomes(where="/x on sda"), ["wrong"])
            self.assertEqual(self.outcomes(where="/x on loop0", said="a disk"), ["wrong"], "the sentence must say it, too")

    def test_healthy_is_right_only_where_nothing_is_injected(self):
        self.scenario.expect = {"status": "healthy"}
        found = [self.outcomes(status=status)[0] for status in ("healthy", "limited", "unsure")]
        self.assertEqual(found, ["right", "wrong", "unsure"])

    def test_the_bars_count_scenarios_named_and_answers_unsure_or_wrong(self):
        def bars(right, unsure, wrong):
            made = []
            for fields in [{}] * right + [{"status": "unsure"}] * unsure + [{"cause": "client.write"}] * wrong:
                told = score.figures(self.scenario, self.walls, [self.document(**fields)])
                made.append({"state": "passed", "predicts": True, "figures": told, "checks": score.checks(self.scenario, told)})
            found = {what: met for what, met, _ in score.overall(made)}
            return found["named"], found["unsure"], found["confidence"]

        self.assertEqual(bars(98, 2, 0), (True, True, True))
        self.assertEqual(bars(97, 3, 0), (False, True, True))
        self.assertEqual(bars(96, 4, 0), (False, False, True))
        self.assertEqual(bars(99, 0, 1), (True, True, False))

    def test_other_recorders_have_bars_of_their_own(self):
        def bar(*outcomes):
            return score.by_recorder([{"others": {"proc": {"outcome": one}}} for one in outcomes])[0][1]

        self.assertTrue(bar("right", "right", "right", "unsure"))
        self.assertFalse(bar("right", "right", "unsure", "unsure"))
        self.assertFalse(bar("right", "right", "right", "wrong"))
        self.assertFalse(bar(None), "no answer at all is none that is right")

    def test_a_clock_further_off_than_is_said_fails_and_has_a_bar_of_its_own(self):
        for off_ns, met in ((900, True), (1100, False)):
            merged = {**self.document(), "lab_clock": {"from": "connections", "off_ns": off_ns, "error_ns": 1000}}
            told = score.figures(self.scenario, self.walls, [merged])
            checks = score.checks(self.scenario, told)
            self.assertEqual([check[1] for check in checks if check[0] == "clock"], [met])
            document = {"state": "failed", "figures": told, "checks": checks, "predicts": True}
            self.assertEqual([row[1] for row in score.overall([document]) if row[0] == "clock"], [met])
        self.assertNotIn("clock", self.judged())

    def test_no_prediction_is_a_miss_over_all_scenarios(self):
        told = score.figures(self.scenario, self.walls, [self.document(predicted=None)])
        document = {"state": "passed", "predicts": True, "figures": told, "checks": score.checks(self.scenario, told)}
        bars = {what: met for what, met, _ in score.overall([document])}
        self.assertFalse(bars["predictions made"])

    def test_a_bound_is_wrong_where_the_run_with_the_change_was_faster_and_is_no_prediction_of_its_time(self):
        def bounded(predicted):
            document = self.document(predicted=predicted)
            document["what_if"][0]["basis"] = "bounded"
            return score.figures(self.scenario, self.walls, [document])

        for predicted, held in ((0.3, True), (1.12, True), (1.5, False)):
            told = bounded(predicted)
            checks = {what: met for what, met, _ in score.checks(self.scenario, told)}
            self.assertEqual((checks["bound"], "prediction" in checks, told["prediction"]["error"]), (held, False, None), predicted)

    def test_a_fault_too_small_to_be_scored_is_not_passed(self):
        self.walls["fault"] = [0.25]
        self.assertFalse(self.judged()["injected"])

    def test_a_fault_that_did_not_move_the_wall_time_counts_neither_for_nor_against(self):
        for fault, nothing in ((0.205, True), (0.19, True), (0.25, False)):
            self.walls["fault"] = [fault]
            self.assertEqual(score.moved_nothing(self.scenario, score.figures(self.scenario, self.walls, [])), nothing, fault)

    def test_the_page_says_how_far_an_answer_can_be_trusted_from_the_scenarios_whose_fault_had_an_effect(self):
        figures = score.figures(self.scenario, self.walls, [self.document(), self.document(status="unsure"), self.document(cause="client.write")])
        ran = [{"state": state, "figures": figures} for state in ("failed", "no effect")]
        told = score.trust(ran)
        self.assertEqual((told.scenarios, told.answers, told.right, told.unsure, told.wrong), (1, 3, 1, 1, 1))
        self.assertEqual(score.by_change(ran[:1]), [("device.read.x2", 1, 0.0, 0.0)])


class Pages(unittest.TestCase):
    def test_what_did_not_run_is_never_shown_as_passed(self):
        one = scenario.load(os.path.join(SCENARIOS, "curl-get-netem-delay.toml"))
        document = {"scenario": one.name, "state": "not run", "reason": "no netem", "causes": [], "machine": {}}
        document |= {"machine": {"memory_bytes": 1 << 30}, "build": {"revision": "r"}, "repeat": 5, "figures": {}}
        with tempfile.TemporaryDirectory() as directory:
            table = kept.results(os.path.join(directory, "results.jsonl"))
            table.put(document)
            path = os.path.join(directory, "page.md")
            page.write(path, table, [one])
            with open(path) as source:
                text = source.read()
        self.assertIn("**NOT RUN**", text)
        self.assertNotIn("passed |", text)

    def test_what_readme_says_about_being_right_is_what_the_results_say(self):
        with open(os.path.join(REPOSITORY, "README.md"), encoding="utf-8") as source:
            said = [line for line in source.read().split("\n") if line.startswith(page.README_BEGINS)]
        of_users = ordinary.kept(ordinary.WITH_SWITCHES).all().values()
        self.assertEqual(said, [page.in_readme(kept.results().all().values(), of_users)], "run lab/run --page")

    def test_a_scenario_that_ran_twice_says_so_and_why(self):
        document = {"scenario": "one", "state": "passed", "retries": 1, "first": "client.cpu named in 0 of 1"}
        self.assertIn("at the first try: client.cpu named in 0 of 1", page.line(document))
        self.assertEqual(page.counts([document, {"state": "failed"}]), {"passed": 1, "failed": 1, "no effect": 0, "not run": 0, "retried": 1})
