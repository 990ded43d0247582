"""Every launcher takes the flags of a campaign, and a campaign measures what they name: items, shards, what is left."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, REPOSITORY)

from testbed import campaign, shards  # noqa: E402
from testbed.campaign import CANNOT, Campaign, CampaignOfRuns, Item  # noqa: E402
from testbed.errors import Broken, NotRun  # noqa: E402
from testbed.results import Results  # noqa: E402

LIMIT_S = 60
# Each launcher, and one of its names.
LAUNCHERS = {
    "bench/run": "copy-in-256Mi",
    "bench/ls": "grid",
    "bench/layout": "twod",
    "bench/studies": "gridftp/overlap",
    "bench/demo/run": "01-beside-2",
    "bench/online/run": "capped",
    "bench/profile/run": "truth",
    "bench/scale/run": "model",
    "bench/study-2004/run": "overlap",
    "bench/surfaces/run": "think",
    "bench/tune/run": "thrash",
    "lab/gallery/run": "tar-gzip",
    "lab/run": "cp-source-disk",
    "gates/run": "fsx",
}
# What has no page prints what is known.
WITHOUT_PAGE = ("bench/demo/run", "bench/online/run", "bench/surfaces/run")
# Not in docs/results/.
PAGES = {"lab/gallery/run": "docs/gallery/README.md"}
FLAGS = ("--list", "--only", "--resume", "--page", "--out")
# Measured in one piece; without a short form.
WITHOUT = {"--shard": ("bench/ls", "bench/layout", "lab/gallery/run"), "--quick": ("bench/online/run", "bench/scale/run", "lab/gallery/run")}


def run(launcher, *words, **named):
    return subprocess.run([os.path.join(REPOSITORY, launcher), *words], capture_output=True, text=True, check=False, timeout=LIMIT_S, **named)


def page(launcher, name):
    """The page of this name in docs/results/, or wherever the launcher's is."""
    if launcher in PAGES:
        return os.path.join(REPOSITORY, PAGES[launcher])
    (there,) = [os.path.join(parent, name) for parent, _, names in os.walk(os.path.join(REPOSITORY, "docs", "results")) if name in names]
    return there


def text(path):
    with open(path, encoding="utf-8") as source:
        return source.read()


class Letters(Campaign):
    """Items a to e. What is measured of them, `outcomes` says: figures, or what is raised."""

    name = "letters"
    noun = "letter"
    flags = ("program",)
    parts = [Item(name, f"the letter {name}") for name in "abcde"]

    def __init__(self, directory, **outcomes):
        self.directory = directory
        self.outcomes = outcomes
        self.measured = []

    def results(self, path=None):
        return Results(path or os.path.join(self.directory, "results.jsonl"), "letter", "letters/1")

    def head(self, item):
        return {"letter": item.name, "title": item.title, "build": self.build, "measured": f"2026-01-{len(self.measured) + 1:02}"}

    def measure(self, item):
        self.measured.append(item.name)
        outcome = self.outcomes.get(item.name, {"figure": 1})
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def called(self, *words):
        """The exit code of a call, what was measured, and what was said."""
        self.measured = []
        self.__dict__.pop("build", None)
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            try:
                code = self.main("Letters.", list(words))
            except SystemExit as ended:
                code = ended.code
        return code, "".join(self.measured), out.getvalue()


class Launchers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Each launcher is called three times: to list, with a name that it does not know, and for its page."""
        cls.directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        calls = {}
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for launcher, name in LAUNCHERS.items():
                page = ("--page", "--out", os.path.join(cls.directory, launcher))
                for words in (("--list",), ("--only", name, "no-such-name"), page):
                    calls[launcher, words[0]] = pool.submit(run, launcher, *words)
        cls.calls = {call: done.result() for call, done in calls.items()}

    def test_every_launcher_lists_what_it_measures(self):
        for launcher, name in LAUNCHERS.items():
            done = self.calls[launcher, "--list"]
            self.assertEqual((done.returncode, done.stderr), (0, ""), launcher)
            self.assertIn(name, [line.split()[0] for line in done.stdout.splitlines()], launcher)

    def test_an_unknown_name_is_an_error_that_names_the_known_ones(self):
        for launcher, name in LAUNCHERS.items():
            done = self.calls[launcher, "--only"]
            self.assertEqual(done.returncode, 2, launcher)
            self.assertRegex(done.stderr, rf"no such [a-z]+: no-such-name; there are .*\b{name}\b")

    def test_every_launcher_takes_the_flags_of_a_campaign(self):
        for launcher in LAUNCHERS:
            usage = self.calls[launcher, "--only"].stderr
            for flag in (*FLAGS, *WITHOUT):
                self.assertEqual(f"[{flag}" in usage, launcher not in WITHOUT.get(flag, ()), f"{launcher} {flag}")

    def test_help_says_what_is_measured_and_what_each_flag_does(self):
        done = run("lab/run", "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("Hold `thalweg explain` against faults", "Exit code: 0", "the Kth of N shards"):
            self.assertIn(words, done.stdout)

    def test_every_page_is_made_elsewhere_as_it_stands_in_the_checkout(self):
        for launcher in LAUNCHERS:
            done = self.calls[launcher, "--page"]
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            self.assertNotEqual(done.stdout == "", launcher in WITHOUT_PAGE, launcher)
            directory = os.path.join(self.directory, launcher)
            pages = [name for name in os.listdir(directory) if name.endswith(".md")] if os.path.exists(directory) else []
            self.assertEqual(len(pages), 0 if launcher in WITHOUT_PAGE else 1)
            for name in pages:
                self.assertEqual(text(os.path.join(directory, name)), text(page(launcher, name)), f"{launcher} --page writes another page")

    def test_what_this_machine_cannot_do_is_not_run_and_says_why(self):
        done = run("bench/tune/run", "--score", "--program", "/no/such/thalweg")
        self.assertEqual(done.returncode, CANNOT, done.stderr)
        self.assertRegex(done.stderr, r"^NOT RUN: /no/such/thalweg: ")

    def test_shards_are_listed_with_their_items(self):
        done = run("bench/surfaces/run", "--list", "--shard", "1/2")
        self.assertRegex(done.stdout, r"^shard 1/2: 3 surfaces, [^\n]*\n    link round-trip quota\nshard 2/2: 3 surfaces, [^\n]*\n    disk stream-cap think\n$")


class Campaigns(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(mock.patch.object(campaign.paths, "TARGET", os.path.join(self.directory, "target")))
        self.enterContext(mock.patch.object(campaign.signal, "signal"))

    def known(self, letters):
        return {name: line["state"] for name, line in letters.results().all().items()}

    def test_all_are_measured_and_kept_or_those_that_are_named(self):
        letters = Letters(self.directory)
        self.assertEqual(letters.called()[:2], (0, "abcde"))
        self.assertEqual(self.known(letters), dict.fromkeys("abcde", "done"))
        self.assertEqual(letters.called("--only", "d,b", "a")[1], "abd")
        self.assertEqual(letters.called("--only", "a", "--only", "c")[1], "ac")

    def test_a_name_stands_for_what_is_below_it(self):
        letters = Letters(self.directory)
        letters.parts = [Item("x/one", ""), Item("x/two", ""), Item("xy", "")]
        self.assertEqual(letters.called("--only", "x")[1], "x/onex/two")

    def test_going_on_leaves_out_what_this_program_has_a_result_for(self):
        letters = Letters(self.directory, c=Broken("it fell"))
        code, measured, said = letters.called("--only", "a", "c")
        self.assertEqual((code, measured), (1, "ac"))
        self.assertIn("FAILED: it fell", said)
        self.assertEqual(letters.called("--resume")[1], "bcde")
        self.assertEqual(letters.called()[1], "abcde")
        # Another program has other results.
        self.assertEqual(letters.called("--resume", "--program", __file__)[1], "abcde")

    def test_what_cannot_be_measured_replaces_no_result(self):
        self.assertEqual(Letters(self.directory).called()[0], 0)
        letters = Letters(self.directory, b=NotRun("there is no b here"))
        code, _, said = letters.called("--only", "b")
        self.assertEqual(code, CANNOT)
        self.assertIn("NOT RUN: there is no b here", said)
        self.assertEqual(self.known(letters)["b"], "done")
        letters.failures_replace = True
        letters.called("--only", "b")
        self.assertEqual(self.known(letters)["b"], "not run")

    def test_an_error_of_the_harness_fails_one_item_and_not_those_after_it(self):
        letters = Letters(self.directory, a=KeyError("x"))
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(letters.called()[:2], (1, "abcde"))
        self.assertIn("the harness itself: KeyError", letters.results().get("a")["reason"])

    def test_shards_have_every_item_once(self):
        letters = Letters(self.directory)
        self.assertEqual([letters.called("--shard", f"{k}/3")[1] for k in (1, 2, 3)], ["ad", "be", "c"])
        self.assertEqual(letters.called("--shard", "7/9")[:2], (0, ""))
        for wrong in ("3/2", "x", "0/1"):
            code, measured, said = letters.called("--shard", wrong)
            self.assertEqual((code, measured), (2, ""))
            self.assertIn("K/N", said)

    def test_the_next_shard_is_one_without_a_result_and_then_the_oldest(self):
        letters = Letters(self.directory)
        code, measured, said = letters.called("--shard", "next")
        self.assertEqual((code, measured), (0, "a"))
        self.assertIn("left:\n    shard 2/5", said)
        self.assertEqual("".join(letters.called("--shard", "next")[1] for _ in "bcde"), "bcde")
        letters.head = lambda item: {"letter": item.name, "build": letters.build, "measured": "2026-02-01"}
        self.assertIn("every shard has its results", letters.called("--shard", "next")[2])
        self.assertEqual(letters.called("--shard", "next")[1], "b")

    def test_an_interrupted_shard_goes_on_with_what_is_left(self):
        letters = Letters(self.directory, c=KeyboardInterrupt())
        letters.deal = lambda items, _count: shards.in_turn([item.name for item in items], 2)
        self.assertEqual(letters.called("--shard", "next")[:2], (campaign.INTERRUPTED, "ac"))
        letters.outcomes = {}
        self.assertEqual(letters.called("--shard", "next")[1], "ce")

    def test_the_short_form_and_results_elsewhere_leave_the_checkout_alone(self):
        letters = Letters(self.directory)
        letters.is_in_quick = lambda item: item.name < "c"
        self.assertEqual(letters.called("--quick")[1], "ab")
        self.assertEqual(letters.called("--quick", "--only", "e")[1], "e")
        out = os.path.join(self.directory, "elsewhere")
        self.assertEqual(letters.called("--out", out)[1], "abcde")
        self.assertEqual(self.known(letters), {})
        self.assertEqual(set(letters.results(os.path.join(out, "results.jsonl")).all()), set("abcde"))
        self.assertEqual(set(letters.results(os.path.join(self.directory, "target", "letters-quick", "results.jsonl")).all()), set("abe"))

    def test_only_root_measures_what_only_root_can(self):
        letters = Letters(self.directory)
        letters.root = "only root may do this"
        with mock.patch.object(campaign.os, "geteuid", return_value=1000):
            code, measured, said = letters.called()
        self.assertEqual((code, measured, said), (CANNOT, "", "NOT RUN: only root may do this\n"))

    def test_an_item_of_many_runs_is_done_when_all_of_them_are(self):
        class Runs(CampaignOfRuns):
            parts = Letters.parts
            kept = lambda _, item: (table, [f"{item.name}1", f"{item.name}2"])  # noqa: E731

        table = Letters(self.directory).results()
        table.put_all([{"letter": name, "measured": f"2026-0{name[1]}"} for name in ("a1", "a2", "b2")])
        lines = Runs().lines()
        self.assertEqual((lines["a"]["state"], lines["a"]["measured"], Runs().is_done(lines["a"])), ("2 of 2 runs", "2026-01", True))
        self.assertEqual((lines["b"]["state"], lines["b"]["measured"], Runs().is_done(lines["b"])), ("1 of 2 runs", "", False))


class Signals(unittest.TestCase):
    def test_whatever_ends_a_campaign_its_scratch_directory_is_gone(self):
        script = """
            import signal, sys, time
            sys.path.insert(0, sys.argv[1])
            from testbed.campaign import Campaign, Item
            from testbed.results import Results

            class Sleeps(Campaign):
                name = "sleeps"
                parts = [Item("one", "it sleeps")]
                place = sys.argv[2]

                def results(self, path=None):
                    return Results(sys.argv[2] + "/results.jsonl", "name", "sleeps/1")

                def head(self, item):
                    return {"name": item.name}

                def measure(self, item):
                    print("asleep", flush=True)
                    time.sleep(60)

            # What runs tests in the background ignores it, and so would we.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.exit(Sleeps().main("", []))
        """
        for number, code in ((signal.SIGTERM, campaign.TERMINATED), (signal.SIGINT, campaign.INTERRUPTED)):
            with tempfile.TemporaryDirectory() as directory:
                argv = [sys.executable, "-c", textwrap.dedent(script), REPOSITORY, directory]
                with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                    self.assertEqual(process.stdout.readline(), "asleep\n")
                    self.assertEqual([name[:15] for name in os.listdir(directory)], ["thalweg-sleeps-"])
                    process.send_signal(number)
                    self.assertEqual(process.wait(LIMIT_S), code)
                self.assertEqual(os.listdir(directory), [])


if __name__ == "__main__":
    unittest.main()
