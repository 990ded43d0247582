"""The bench's own promises: how commands are timed and paired, what a bar asks, what the page shows."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.harness import layout_page, ls_page, page, pairs, recorded, result, rounds, studies  # noqa: E402
from bench.harness.cases import CASES, trust  # noqa: E402
from bench.harness.cases.watching import script  # noqa: E402
from bench.harness.command import timed  # noqa: E402
from bench.harness.pairs import Plan, Subject  # noqa: E402
from bench.harness.result import Amount, Bar  # noqa: E402
from testbed.errors import Broken  # noqa: E402
from testbed.hosts import LOOPBACK  # noqa: E402
from testbed.paths import TARGET  # noqa: E402
from testbed.processes import free_port  # noqa: E402


class Commands(unittest.TestCase):
    def test_a_failed_command_is_an_error_with_its_last_words(self):
        with self.assertRaisesRegex(Broken, "exit code 7: no such star"):
            timed(["sh", "-c", "echo no such star >&2; exit 7"])

    def test_a_command_that_does_not_exist_is_named(self):
        with self.assertRaisesRegex(Broken, "there is no such command"):
            timed(["no-such-command-at-all"])

    def test_how_long_it_took_is_what_it_took(self):
        self.assertGreaterEqual(timed(["sleep", "0.05"]), 0.05)


def built():
    """The command, of whichever build there is."""
    found = [path for path in (os.path.join(TARGET, kind, "thalweg") for kind in ("release", "debug")) if os.access(path, os.X_OK)]
    if not found:
        raise unittest.SkipTest("thalweg is not built")
    return max(found, key=os.path.getmtime)


class Pairs(unittest.TestCase):
    def run_pairs(self, subjects, plan, reference, **more):
        program = built()
        with tempfile.TemporaryDirectory() as directory:
            bench = types.SimpleNamespace(work=directory, program=lambda _: program, note=lambda _: None)
            return pairs.run(bench, subjects, plan, reference, Amount(100, "bytes"), **more)

    def subject(self, name, seen, after=lambda run: None):
        return Subject(name, name, command=lambda run: ["echo", run], before=lambda run: seen.append((name, run)), after=after, own=int)

    def test_every_round_runs_every_subject_once_and_the_warm_up_is_not_counted(self):
        seen = []
        subjects = [self.subject("a", seen), self.subject("b", seen)]
        outcome = self.run_pairs(subjects, Plan(least=6, most=6), "a", before_round=lambda: seen.append(("round", 0)))
        self.assertEqual(seen[0], ("round", 0))
        turns = [tuple(name for name, _ in seen[at + 1 : at + 3]) for at in range(0, len(seen), 3)]
        self.assertEqual([sorted(turn) for turn in turns], [["a", "b"]] * 7)
        self.assertEqual(len(set(turns)), 2)
        self.assertEqual([done["samples"]["b"]["own"] for done in outcome.rounds], [1, 2, 3, 4, 5, 6])
        summary, ratios = outcome.ratio("a", "b")
        self.assertEqual(len(ratios), 6)
        self.assertGreater(summary["median"], 0)

    def test_numbers_that_a_cleanup_finds_are_figures(self):
        subjects = [self.subject("a", [], after=lambda run: {"n": 10 + run}), self.subject("b", [])]
        subjects[0].figures = ["n"]
        outcome = self.run_pairs(subjects, Plan(least=3, most=3), "a")
        self.assertEqual(pairs.summary(outcome.of("a")["figures"]["n"])["median"], 12)

    def test_a_copy_that_is_not_whole_fails_the_case(self):
        def broken(run):
            raise Broken("not whole")

        with self.assertRaisesRegex(Broken, "^not whole$"):
            self.run_pairs([self.subject("a", [], after=broken)], Plan(least=1, most=1), "a")

    def test_a_command_that_fails_is_told_before_its_cleanup_that_does_too(self):
        def broken(run):
            raise Broken("there is no copy")

        failing = Subject("a", "a", command=lambda run: ["sh", "-c", "echo no such star >&2; exit 7"], after=broken)
        with self.assertRaisesRegex(Broken, "exit status: 7; standard error: no such star"):
            self.run_pairs([failing], Plan(least=1, most=1), "a")


def made_up(seed, keeps, count, cheap_places=()):
    """Rounds of a program that keeps so much of its speed (all of it at some places) on a machine that takes bursts of time away."""
    chance, disturbed = random.Random(seed), [0]

    def lap(slower):
        if chance.random() < 0.2:
            disturbed[0] = chance.randrange(1, 8)
        disturbed[0] = max(0, disturbed[0] - 1)
        return slower * (0.1 + chance.expovariate(1 / 0.0003) + (chance.uniform(0.02, 0.1) if disturbed[0] else 0))

    def part(kind):
        slower = [1 if kind == rounds.ALONE or place in cheap_places else 1 / keeps for place in range(20)]
        laps = [lap(one) for one in slower]
        return rounds.Part({"laps_s": laps, "cpu_s": laps})

    return [{kind: [part(kind), part(kind)] for kind in (rounds.ALONE, rounds.WITH)} for _ in range(count)]


class Rounds(unittest.TestCase):
    def test_bursts_that_only_add_do_not_move_the_figure(self):
        for seed in range(5):
            told = rounds.estimate(made_up(seed, 0.97, 16), rounds.kept, 200)
            self.assertAlmostEqual(told.value, 0.97, delta=0.005)
            self.assertLess(told.half_width, 0.01)

    def test_the_interval_holds_the_truth_about_as_often_as_it_says(self):
        held = 0
        for seed in range(100):
            told = rounds.estimate(made_up(seed, 0.98, 10), rounds.kept, 100)
            held += told.low <= 0.98 <= told.high
        self.assertGreaterEqual(held, 85)

    def test_a_cost_that_comes_at_its_own_hour_counts_for_its_share(self):
        # A tenth of the time at half the speed: 20 laps take as long as 22.
        costly = made_up(3, 0.5, 16, cheap_places=range(2, 20))
        self.assertAlmostEqual(rounds.kept(costly), 20 / 22, delta=0.01)

    def test_a_cost_of_the_slow_runs_alone_shows_in_all_laps(self):
        some = made_up(4, 1.0, 16)
        for made in some:
            for part in made[rounds.WITH]:
                part.laps["laps_s"] = [lap * 2 if lap > 0.11 else lap for lap in part.laps["laps_s"]]
        self.assertGreater(rounds.kept(some), 0.99)
        self.assertLess(rounds.every_lap(some), 0.9)

    def test_rounds_end_when_the_interval_is_narrow_and_not_before_the_least(self):
        quiet = rounds.Plan(least=4, seconds=1e9, half_width=0.01, redraws=50)
        self.assertTrue(rounds.goes_on([], 0, quiet))
        self.assertTrue(rounds.goes_on(made_up(1, 0.97, 3), 1, quiet))
        self.assertFalse(rounds.goes_on(made_up(1, 0.97, 20), 1, quiet))
        self.assertTrue(rounds.goes_on(made_up(1, 0.97, 20), 1, rounds.Plan(least=4, seconds=1e9, half_width=1e-6, redraws=50)))

    def test_a_wide_interval_far_from_the_bar_is_a_verdict(self):
        uneven = [one for keeps in (0.6, 0.7, 0.8, 0.7) for one in made_up(3, keeps, 2)]
        at = {least: recorded.ratio_bars("x", least, uneven)[0] for least in (0.5, 0.7, 0.95)}
        self.assertGreater(at[0.7]["high"] - at[0.7]["low"], 0.02)
        self.assertEqual([one["undecided"] for one in at.values()], [False, True, False])
        self.assertTrue(at[0.5]["met"] and not at[0.95]["met"])

    def test_rounds_end_when_the_next_would_end_after_the_time(self):
        never = rounds.Plan(least=2, seconds=100, half_width=0, redraws=50)
        self.assertTrue(rounds.goes_on(made_up(1, 0.97, 9), 90, never))
        self.assertFalse(rounds.goes_on(made_up(1, 0.97, 9), 91, never))

    def test_rounds_take_turns_and_each_has_two_parts_of_either_kind(self):
        seen = []

        def part(kind):
            seen.append(kind)
            return rounds.Part({"laps_s": [1.0]})

        made = rounds.run(part, rounds.Plan(least=2, most=2, redraws=10))
        self.assertEqual(seen, [*rounds.order(0), *rounds.order(1)])
        self.assertNotEqual(seen[:4], seen[4:])
        self.assertTrue(all(len(parts) == 2 for one in made for parts in one.values()))

    def test_the_stop_watch_has_a_time_and_a_figure_of_each_run_and_removes_what_it_left(self):
        with tempfile.TemporaryDirectory() as directory:
            script = f"mkdir {directory}/{{lap}} && echo '{{\"n\": 7}}'"
            work = recorded.Work("a", ["sh", "-c", script], 1, own="n", remove=directory + "/{lap}")
            part = recorded.ran(work.lap(3))
            self.assertEqual((len(part.laps["laps_s"]), part.laps["own"], os.listdir(directory)), (3, [7, 7, 7], []))
        with self.assertRaisesRegex(Broken, "exit code 3"):
            recorded.ran(recorded.Work("a", ["sh", "-c", "exit 3"], 1).lap(2))

    def test_a_command_with_quotes_is_one_word_for_a_tool_that_knows_none(self):
        with tempfile.TemporaryDirectory() as directory:
            path = script(os.path.join(directory, "command"), ["sh", "-c", 'test "$1" = "a  b" && exit 7', "-", "a  b"])
            self.assertEqual(subprocess.run(["sh", *path.split()], check=False).returncode, 7)


class Trust(unittest.TestCase):
    def test_medians_of_the_handshake_example_are_read_and_a_missing_one_is_named(self):
        text = "".join(f"{begins:<36} median {at + 0.5:>9.3}  min       1.0  max       9.0\n" for at, (begins, _) in enumerate(trust.TLS_FIGURES.values()))
        self.assertEqual(list(trust.tls_figures(text).values()), [at + 0.5 for at in range(len(trust.TLS_FIGURES))])
        with self.assertRaisesRegex(Broken, "printed no `handshake from nothing, us`"):
            trust.tls_figures("nothing of the kind\n")

    def test_strangers_go_to_all_servers_of_a_store(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "store.toml"), "w") as out:
                out.write('[metadata]\naddress = "h:1"\n\n[[servers]]\naddress = "h:2"\n[[servers]]\naddress = "h:3"\n')
            self.assertEqual(trust.listening(types.SimpleNamespace(directories=[directory])), ["h:1", "h:2", "h:3"])

    def test_a_flood_is_counted_and_one_that_reaches_nobody_is_none(self):
        with tempfile.TemporaryDirectory() as directory:
            place = types.SimpleNamespace(path=lambda name: os.path.join(directory, name), host=LOOPBACK)
            flood = trust.Flood(place, ["--apart", "127.0.0.1"])
            flood.begin()
            self.assertGreater(flood.end()["strangers_per_s"], 0)
            nobody = trust.Flood(place, [f"127.0.0.1:{free_port()}"])
            nobody.begin()
            with self.assertRaisesRegex(Broken, "that is no flood"):
                nobody.end()

    def test_what_is_done_under_a_flood_is_begun_after_it_and_ends_it_first(self):
        seen = []
        flood = types.SimpleNamespace(begin=lambda: seen.append("begin"), end=lambda: seen.append("end") or {"strangers_per_s": 5})
        subject = Subject("a", "a", lambda run: ["true"], before=lambda run: seen.append("before"), after=lambda run: seen.append("after"))
        trust.among(flood, subject)
        subject.before(1)
        self.assertEqual(subject.after(1), {"strangers_per_s": 5})
        self.assertEqual(seen, ["before", "begin", "end", "after"])


class Bars(unittest.TestCase):
    def judged(self, median, low, bar):
        estimate = {"median": median, "low": low, "high": median, "values": 5}
        command = {"command": ["true"], "wall_s": estimate, "rate_per_s": estimate, "cpu_s": 0.0, "max_rss_bytes": 0, "runs": []}
        ratio = {"of": "me", "to": "other", "figure": "wall_s", "ratio": estimate, "pairs": [median] * 5}
        commands = [{"name": name, **command} for name in ("me", "other")]
        outcome = pairs.Outcome({"amount": {}, "commands": commands, "ratios": [ratio]})
        cast = [Subject(name, name, command=lambda run: ["true"]) for name in ("me", "other")]
        return result.of_pairs(outcome, cast, "me", [bar])["bars"][0]

    def test_a_median_below_its_bar_is_missed_and_one_above_is_met(self):
        self.assertFalse(self.judged(0.89, 0.88, Bar("other", median=0.9))["met"])
        self.assertTrue(self.judged(0.91, 0.88, Bar("other", median=0.9))["met"])

    def test_a_good_median_does_not_excuse_a_low_end(self):
        self.assertFalse(self.judged(1.0, 0.5, Bar("other", median=0.99, low=0.97))["met"])

    def test_a_ratio_without_a_bar_is_neither_met_nor_missed(self):
        self.assertIsNone(self.judged(1.0, 1.0, Bar("other"))["met"])


class Page(unittest.TestCase):
    def test_what_did_not_run_is_never_shown_as_met(self):
        with tempfile.TemporaryDirectory() as directory:
            table = result.results(os.path.join(directory, "results.jsonl"))
            table.put(result.line(document(state="not run", reason="there is no disk")))
            text = page.markdown(table)
        self.assertIn("**NOT RUN**: there is no disk", text)
        self.assertEqual(text.count("not measured."), len(CASES) - 1)
        self.assertNotIn("| met |", text)

    def test_a_missing_peer_is_in_the_summary_with_its_reason(self):
        with tempfile.TemporaryDirectory() as directory:
            missing = [{"name": "nfs-cp", "label": "nfs-cp", "reason": "only root may"}]
            told = document(state="done", absent=missing, rounds=[], subjects=[], reference="me", amount={"unit": "bytes"})
            table = result.results(os.path.join(directory, "results.jsonl"))
            table.put(result.line(told), told)
            self.assertIn("| nfs-cp | | | | **NOT RUN**: only root may |", page.markdown(table))

    def test_a_line_counts_its_rounds_and_the_raw_times_lie_beside_it(self):
        bar = {"to": "other", "what": "me / other", "wanted": "≥ 0.90", "aim": False, "met": True, "median": 1.0, "low": 1.0, "high": 1.0}
        told = document(state="done", rounds=[{"samples": {}}] * 12, subjects=[], reference="me", amount={"unit": "bytes"})
        told["bars"] = [{**bar, "ratios": [1.0] * 12}]
        with tempfile.TemporaryDirectory() as directory:
            table = result.results(os.path.join(directory, "results.jsonl"))
            table.put(result.line(told), told)
            self.assertIn("12 rounds.", page.markdown(table))
            self.assertNotIn("ratios", table.get(CASES[0].name)["bars"][0])
            with open(os.path.join(table.raw, f"{CASES[0].name}.json")) as source:
                self.assertEqual(len(json.load(source)["rounds"]), 12)


class Studies(unittest.TestCase):
    def test_the_studies_pages_are_what_is_kept_of_them(self):
        with tempfile.TemporaryDirectory() as directory:
            for study, module in (("layout", layout_page), ("ls", ls_page)):
                shutil.copytree(os.path.join(studies.DOCS, study), os.path.join(directory, study))
                path = module.write(studies.Studies(docs=directory))
                with open(path) as made, open(os.path.join(studies.DOCS, os.path.basename(path))) as there:
                    self.assertEqual(made.read(), there.read(), f"bench/{study} --page writes another page")

    def test_a_study_that_was_made_replaces_its_line_and_its_pictures(self):
        with tempfile.TemporaryDirectory() as directory:
            kept = studies.Studies(os.path.join(directory, "studies.jsonl"), os.path.join(directory, "docs"))
            for name in ("one", "two"):
                made = os.path.join(directory, name)
                os.makedirs(made)
                for file in ("ls.md", f"ls-{name}.svg", "raw.jsonl"):
                    with open(os.path.join(made, file), "w") as out:
                        out.write(f"# Heading\n\nMeasured {name}.\n")
                kept.keep("ls", made)
            line, pictures = kept.get("ls")
            self.assertEqual((line["text"], pictures), ("Measured two.\n", ["ls-two"]))
            with self.assertRaisesRegex(ValueError, "nothing of the study `layout`"):
                kept.get("layout")


def document(**fields):
    return {"case": CASES[0].name, "title": "", "machine": {"memory_bytes": 1 << 30}, "bars": [], **fields}
