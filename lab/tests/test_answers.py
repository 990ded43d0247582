"""The score of the ordinary commands' answers: that it can fail, and that the commands are whole."""

import os
import subprocess
import unittest

from lab.answers import command, judge, keeping, trial

SENTENCE = "For 99 % of the time gzip computed."


def told(**more):
    return command.Command({"name": "gzip", "typed": "gzip -k a", "truth": "gzip computes", "must": ["gzip.*comput"], "change": "pigz", "exact": ["pigz"], **more})


def line(**more):
    return {"sentence": SENTENCE, "changes": [{"command": ["pigz", "-k", "a"], "kind": "advice", "id": "client.cpu"}], **more}


def change(predicted_s, before, after):
    asked = {"command": ["x"], "id": "no_sync", "kind": "what_if", "bounded": False, "predicted_s": predicted_s}
    return trial.outcome(asked, 1.0, before, after)


class Answers(unittest.TestCase):
    def test_every_command_has_what_is_true_of_it_and_a_pattern_for_that(self):
        every = command.load()
        self.assertGreaterEqual(len(every), judge.WANTED_COMMANDS)
        with self.assertRaisesRegex(ValueError, "no such command: gzipp"):
            command.load(["gzipp"])
        with self.assertRaisesRegex(ValueError, "truth"):
            command.Command({"name": "a", "typed": "b", "must": ["c"], "change": "d"})

    def test_a_sentence_is_right_only_when_somebody_judged_that_very_sentence_figures_apart(self):
        holds = {"sentence": "For 12 % of the time gzip computed.", "holds": True}
        self.assertEqual(judge.faults(told(judged=holds), line()), [])
        self.assertEqual(judge.faults(told(), line()), ["nobody has judged this sentence"])
        self.assertEqual(judge.faults(told(judged={**holds, "holds": False, "why": "tar did"}), line()), ["judged false: tar did"])
        self.assertIn("it says nothing of", judge.faults(told(judged=holds), line(sentence="For 99 % of the time tar slept."))[0])
        self.assertIn("it says gzip", judge.faults(told(judged=holds, must_not=["gzip"]), line()))

    def test_a_change_is_exact_only_as_the_right_command(self):
        self.assertTrue(judge.is_exact(told(), line()))
        self.assertFalse(judge.is_exact(told(exact=["xz"]), line()))
        self.assertFalse(judge.is_exact(told(exact=[]), line()))
        self.assertFalse(judge.is_exact(told(), line(changes=[])))

    def test_what_a_change_brought_is_held_against_what_was_predicted_as_ratios(self):
        right = change(0.5, [2.0, 4.0, 2.0], [1.0, 2.0, 1.0])
        self.assertAlmostEqual(right["error"], 0)
        self.assertFalse(judge.slower(right))
        worse = change(0.5, [1.0, 1.0, 1.0], [1.1, 1.1, 1.1])
        self.assertTrue(judge.slower(worse))
        self.assertLess(worse["error"], -judge.WORST_ERROR)
        met = {what: is_met for what, _, is_met in judge.held([told()], {"gzip": line(changes=[worse])})}
        for what in ("worst error of a prediction", "median error of the predictions", "changes that made it slower", "first sentence true and in the reader's terms"):
            self.assertFalse(met[what], what)
        met = {what: is_met for what, _, is_met in judge.held([told()], {"gzip": line(changes=[right])})}
        self.assertTrue(met["worst error of a prediction"] and met["changes that made it slower"])

    def test_an_ordinary_users_answer_is_held_against_roots_cause(self):
        roots = {name: {"sentence": "s", "cause": "client.cpu"} for name in "abcde"}
        mine = {name: {"sentence": "t", "cause": "client.cpu"} for name in "abcd"} | {"e": {"sentence": "t", "cause": "client.read"}}
        self.assertEqual(judge.held_of_user(roots, mine)[0][2], True)
        self.assertEqual(judge.held_of_user(roots, mine)[1], ["e"])
        # What one of the two has no answer to is not counted.
        (_, figure, met), others = judge.held_of_user(roots, {**mine, "d": {"not_run": "why"}, "x": {"sentence": "t", "cause": "unknown"}})
        self.assertEqual((figure, met, others), ("3 of 4", False, ["e"]))
        self.assertFalse(judge.held_of_user(roots, {})[0][2])

    def test_a_command_is_a_shells_only_where_a_shell_reads_it(self):
        self.assertEqual(told(typed="gzip -k 'a b'").words(), ["gzip", "-k", "a b"])
        self.assertEqual(told(typed="for i in 1 2; do gzip $i; done").words()[:2], ["sh", "-c"])

    def test_what_is_kept_is_of_commands_that_there_are(self):
        names = {one.name for one in command.load()}
        self.assertLessEqual(set(keeping.results().all()), names)
        run = os.path.join(keeping.DIRECTORY, "run")
        listed = subprocess.run([run, "--list"], capture_output=True, text=True, check=True).stdout
        self.assertEqual({one.split()[0] for one in listed.splitlines()}, names)
