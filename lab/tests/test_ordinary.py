"""An ordinary user's runs: who owns what, what is right where the server is root's, and that the machine's setting comes back."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from types import SimpleNamespace
from unittest import mock

LAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REPOSITORY = os.path.dirname(LAB)
sys.path.insert(0, REPOSITORY)

from lab.harness import fixture, ordinary, page, scenario  # noqa: E402
from lab.harness.campaign import Lab  # noqa: E402
from lab.harness.ordinary_campaign import OrdinaryLab, campaign  # noqa: E402
from testbed import refuse, settings, shards, users  # noqa: E402
from testbed.errors import NotRun  # noqa: E402
from testbed.hosts import Host  # noqa: E402

SCENARIOS = os.path.join(LAB, "scenarios")
IS_ROOT = os.geteuid() == 0


def loaded(name):
    return scenario.load(os.path.join(SCENARIOS, f"{name}.toml"))


def named(cause, where="somewhere", status="limited"):
    return {"status": status, "cause": cause, "where": where, "sentence": f"It was {where}."}


class Whose(unittest.TestCase):
    def test_a_server_is_the_users_unless_the_scenario_or_its_kind_says_why_it_is_not(self):
        self.assertEqual(ordinary.whose(loaded("curl-get-server-disk"))["server"], "the user's")
        self.assertEqual(ordinary.whose(loaded("cp-source-disk"))["server"], "none")
        for name in ("nfs-read-server-disk", "ssh-remote-sleeps", "names-slow-getent"):
            told = ordinary.whose(loaded(name))
            self.assertEqual(told["server"], "root's")
            self.assertTrue(told["why"])

    def test_what_needs_root_at_the_server_says_so(self):
        for one in scenario.load_all(SCENARIOS):
            text = " ".join(one.variants()[0].server_command or [])
            for word in ("sshd", "umount", "openvpn", " names ", "dnsmasq", "carry.py", "mount -t", "memory_group"):
                if word in text:
                    self.assertTrue(one.roots_server or "cannot" in one.user, f"{one.name}: {word}")

    def test_most_servers_are_the_users(self):
        every = [ordinary.whose(one)["server"] for one in scenario.load_all(SCENARIOS) if "cannot" not in one.user]
        self.assertGreater(every.count("the user's"), 3 * every.count("root's"))

    def test_a_command_that_records_itself_is_not_run(self):
        self.assertIn("cannot", loaded("store-walk-sync").user)
        self.assertIn("cannot", loaded("sha256sum-recorder").user)


class Outcomes(unittest.TestCase):
    def test_of_roots_server_its_address_is_all_that_can_be_known(self):
        one = loaded("names-dnsmasq-upstream")
        at = ["127.0.0.79"]
        self.assertEqual(ordinary.outcome(one, [0.9], named("server.unknown", "the server at 127.0.0.79:53"), at), "right")
        self.assertEqual(ordinary.outcome(one, [0.9], named("server.unknown", "the server at 10.0.0.1:80"), at), "unsure")
        self.assertEqual(ordinary.outcome(one, [0.9], named("server.think", "python3 at 127.0.0.80"), at), "right")
        self.assertEqual(ordinary.outcome(one, [0.9], named("client.cpu"), at), "wrong")

    def test_of_the_users_own_server_more_is_asked(self):
        one = loaded("polls-http-computes")
        self.assertEqual(ordinary.outcome(one, [0.9], named("server.unknown", "the server at 127.0.0.1:80"), ["127.0.0.1"]), "unsure")
        self.assertEqual(ordinary.outcome(one, [0.9], named("server.cpu", "server python3")), "right")

    def test_a_network_is_asked_for_whoever_owns_the_server(self):
        one = loaded("ssh-forward-delay")
        self.assertEqual(ordinary.outcome(one, [0.9], named("network.latency")), "right")
        self.assertEqual(ordinary.outcome(one, [0.9], named("server.unknown"), ["127.0.0.1"]), "unsure")

    def test_a_fault_that_is_too_small_is_not_scored(self):
        self.assertIsNone(ordinary.outcome(loaded("cp-source-disk"), [0.1], named("client.read")))


def line(name, state, settle=(), server="none", **more):
    made = {"scenario": name, "state": state, "server": server, "settle": list(settle), "named": named("client.cpu"), **more}
    return {key: value for key, value in made.items() if value != []}


class Bars(unittest.TestCase):
    def test_each_bar_can_be_met_and_missed(self):
        right = [line(f"r{number}", "right") for number in range(75)]
        unsure = [line(f"u{number}", "unsure", ["ask for it"]) for number in range(24)]
        wrong, failed = [line("w", "wrong")], [line("f", "could not record")]
        held = lambda lines, paranoid=2: [met for _, _, met in ordinary.asked(ordinary.counts(lines), paranoid)]  # noqa: E731
        self.assertEqual(held([*right, *unsure, *wrong]), [True, True, True])
        self.assertEqual(held([*right, *unsure, *wrong, *failed])[0], False)
        self.assertEqual(held([*right, *unsure, *wrong * 2])[1], False)
        self.assertEqual(held([*right, *unsure, line("x", "unsure")])[2], False)
        self.assertEqual(held([*right[:50], *unsure * 2], 3)[0], True)
        self.assertEqual(held([]), [False, False, True])
        # What was not run, or has no truth, is no answer.
        self.assertEqual(held([*right, *unsure, *wrong, line("n", "not run"), line("s", "not scored")]), [True, True, True])

    def test_what_falls_short_is_grouped_by_what_was_wanted_and_said(self):
        lines = [line(name, "wrong", causes=["client.read"]) for name in "ab"] + [line("c", "right"), line("d", "could not record", reason="no ring")]
        told = ordinary.groups(lines)
        self.assertEqual(told, [("wrong: wanted client.read, named client.cpu", ["a", "b"]), ("could not record: no ring", ["d"])])

    def test_the_page_has_both_settings_and_each_scenarios_cell(self):
        answers = {2: {"a": line("a", "right", server="the user's"), "b": line("b", "unsure", ["x"])}, 3: {"a": line("a", "wrong", server="the user's")}}
        text = page.users(answers)
        self.assertIn("| right | 1 | 0 |", text)
        self.assertIn("| wrong | 0 | 1 |", text)
        self.assertIn("| right where the server is the user's | 1 of 1 | 0 of 1 |", text)
        self.assertIn("| unsure, and what would settle it is said | 1 of 1 | 0 of 0 |", text)
        self.assertEqual(page._as_user("a", answers), "right / **wrong**: client.cpu")
        self.assertEqual(page._as_user("b", answers), "unsure: client.cpu / –")
        self.assertEqual(page.users({2: {}, 3: {}}), "")


class Documents(unittest.TestCase):
    def setUp(self):
        options = SimpleNamespace(paranoid=2, method=None, keep=None, keep_all=False)
        self.resources = SimpleNamespace(directory="/nowhere", thalweg="/nowhere/thalweg", recordings="/nowhere")
        self.running = ordinary.Ordinary(self.resources, options, {"cp-source-disk": {"figures": {"truths": [0.9], "wall_s": {"fault": 2.0}}}})

    def run_with(self, explanation, wall_s=2.0, failing=None, without_s=0.2):
        """The document of cp-source-disk, whose runs give this."""
        run = SimpleNamespace(recording="/nowhere/r", wall_s=wall_s, explanation=explanation)

        class Fixture:
            scenario = loaded("cp-source-disk")
            network = SimpleNamespace(server=SimpleNamespace(address="127.0.0.1"))
            recorders = []

            def __init__(self, *_):
                pass

            __enter__ = lambda self: self  # noqa: E731
            __exit__ = lambda *_: None  # noqa: E731
            explain = lambda *_: None  # noqa: E731

            def run(self, variant, recorded):
                Fixture.recorders.append(variant.recorder if recorded else None)
                if recorded and failing:
                    raise failing
                return run if recorded else SimpleNamespace(wall_s=without_s)

        self.fixture = Fixture
        with mock.patch.object(ordinary, "Fixture", Fixture):
            return self.running.of(loaded("cp-source-disk"))

    def explanation(self, settle=None, **fields):
        verdict = {**named(**{"cause": "client.read", "where": "/x on loop0", **fields}), **({"settle": settle} if settle else {})}
        return {"verdict": verdict, "critical_path": [], "notes": []}

    def test_a_run_is_judged_by_roots_truth(self):
        told = self.run_with(self.explanation())
        self.assertEqual((told["state"], told["server"], told["tried"]), ("right", "none", 1))
        self.assertEqual(self.fixture.recorders, [None, "user"])
        self.assertEqual(self.run_with(self.explanation(cause="client.cpu"))["state"], "wrong")

    def test_what_settles_an_unsure_answer_is_kept(self):
        told = self.run_with(self.explanation(settle=["ask for: setcap"], status="unsure"))
        self.assertEqual((told["state"], ordinary.line(told)["settle"]), ("unsure", ["ask for: setcap"]))
        self.assertNotIn("settle", ordinary.line(self.run_with(self.explanation(status="unsure"))))

    def test_a_fault_that_was_not_at_work_and_a_recorder_that_fails_are_tried_again_and_then_said(self):
        told = self.run_with(self.explanation(), wall_s=0.9, without_s=0.8)
        self.assertEqual((told["state"], told["tried"]), ("no effect", 2))
        # A faster machine, on which the fault takes as large a share.
        self.assertEqual(self.run_with(self.explanation(), wall_s=0.9, without_s=0.1)["state"], "right")
        self.assertEqual(self.run_with(self.explanation(), wall_s=1.1, without_s=1.0)["state"], "right")
        told = self.run_with(None, failing=ordinary.Broken("no recorder"))
        self.assertEqual((told["state"], told["reason"], told["tried"]), ("could not record", "no recorder", 2))

    def test_without_roots_truth_nothing_is_run(self):
        self.running.roots = {}
        self.assertEqual(self.run_with(self.explanation())["state"], "not run")

    def test_a_result_of_another_program_or_recorder_is_not_done(self):
        mine = {"state": "right", "method": "user", "build": self.running._common["build"]}
        self.assertTrue(self.running.is_done(mine))
        self.assertFalse(self.running.is_done({**mine, "method": "proc"}))
        self.assertFalse(self.running.is_done({**mine, "build": {"thalweg_sha256": "another"}}))
        self.assertFalse(self.running.is_done({**mine, "state": "not run"}))
        self.assertTrue(self.running.is_tried({**mine, "state": "not run"}))


class CommandLine(unittest.TestCase):
    def test_the_flag_chooses_the_campaign(self):
        self.assertIsInstance(campaign(["--recorder", "user"]), OrdinaryLab)
        self.assertIsInstance(campaign(["--recorder=user", "--list"]), OrdinaryLab)
        self.assertEqual(type(campaign(["--shard", "next"])), Lab)

    def test_shards_hold_every_scenario_and_none_is_too_long(self):
        lab = OrdinaryLab()
        with mock.patch.object(OrdinaryLab, "lines", return_value={}):
            made = lab.deal(lab.items(), None)
        self.assertEqual(sum(len(shard.names) for shard in made), len(scenario.load_all(SCENARIOS)))
        self.assertLessEqual(max(shard.seconds for shard in made), shards.LIMIT_S)


class Users(unittest.TestCase):
    def test_a_command_has_the_users_home_and_path_and_nothing_of_roots(self):
        with mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": "/run/user/0", "PATH": "/root/bin:/usr/bin"}), mock.patch.object(users, "is_everybodys", lambda path: "root" not in path):
            words = users.User("/somewhere/home").argv(["true"], ["A=b"])
        self.assertEqual(words[0], "setpriv")
        self.assertIn("HOME=/somewhere/home", words)
        self.assertEqual(words[words.index("XDG_RUNTIME_DIR") - 1], "-u")
        self.assertNotIn("/root", "".join(words))
        self.assertEqual(words[-2:], ["A=b", "true"])

    def test_a_host_that_is_owned_starts_servers_as_its_owner_and_sets_up_as_root(self):
        host = Host("server", "10.0.0.1", cpu=1).owned(users.User("/h"))
        self.assertEqual(host.argv(["serve"])[:4], ["taskset", "-c", "1", "setpriv"])
        self.assertEqual(host.inside(["serve"]), ["serve"])
        self.assertEqual(Host("server", "10.0.0.1").as_owner(["serve"]), ["serve"])

    def test_a_directory_that_is_not_everybodys_is_named(self):
        with tempfile.TemporaryDirectory() as directory:
            os.mkdir(os.path.join(directory, "inner"))
            os.chmod(directory, 0o700)
            with self.assertRaisesRegex(NotRun, "cannot reach.*inner"):
                users.User("/h").must_reach(os.path.join(directory, "inner"))

    @unittest.skipUnless(IS_ROOT, "SKIPPED: only root may become another user")
    def test_what_is_given_belongs_to_the_user_and_a_command_is_theirs(self):
        base = tempfile.mkdtemp(dir="/dev/shm")
        try:
            os.chmod(base, 0o755)
            user = users.User(os.path.join(base, "home"))
            user.make()
            os.makedirs(os.path.join(base, "a", "b"))
            user.give(os.path.join(base, "a"))
            words = ["sh", "-c", 'id -u; pwd; touch "$1/mine" && echo touched; touch "$2/roots" 2>/dev/null || echo refused', "sh", os.path.join(base, "a", "b"), base]
            told = subprocess.run(user.argv(words), capture_output=True, text=True, check=True, cwd=base).stdout.split("\n")
            self.assertEqual((told[0], told[2:4]), (str(users.NOBODY_ID), ["touched", "refused"]))
        finally:
            shutil.rmtree(base)


class Refusing(unittest.TestCase):
    PROBE = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); print(c.syscall({}, None, 0, -1, -1, 0), ctypes.get_errno(), os.getpid())"

    @unittest.skipUnless(IS_ROOT, "SKIPPED: only root may set a filter and keep set-uid programs working")
    def test_the_call_is_refused_and_others_are_not(self):
        machine = os.uname().machine
        number = refuse.MACHINES[machine][1]["perf_event_open"]
        probe = [sys.executable, "-c", self.PROBE.format(number)]
        told = [subprocess.run(words, capture_output=True, text=True, check=True).stdout.split() for words in (users.refused("perf_event_open", probe), probe)]
        self.assertEqual(told[0][:2], ["-1", str(refuse.EACCES)])
        self.assertNotEqual(told[1][1], str(refuse.EACCES), "the same call gets further without the filter")


class Settings(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.root, self.undo = os.path.join(held.name, "sys"), os.path.join(held.name, "run")
        os.makedirs(os.path.join(self.root, "kernel"))
        os.mkdir(self.undo)
        self.path = os.path.join(self.root, "kernel", "level")
        self.put("2")

    def put(self, text):
        with open(self.path, "w") as out:
            out.write(f"{text}\n")

    def now(self):
        with open(self.path) as source:
            return source.read().strip()

    def test_it_is_changed_meanwhile_and_put_back_whatever_happens(self):
        for failure in (None, RuntimeError):
            try:
                with settings.changed("kernel.level", 3, self.undo, self.root):
                    self.assertEqual(self.now(), "3")
                    if failure:
                        raise failure
            except RuntimeError:
                pass
            self.assertEqual((self.now(), os.listdir(self.undo)), ("2", []))

    def test_one_that_is_killed_has_it_put_back_by_the_guard(self):
        code = f"import sys, time; sys.path.insert(0, {REPOSITORY!r}); from testbed import settings\nwith settings.changed('kernel.level', 3, {self.undo!r}, {self.root!r}):\n  print('changed', flush=True); time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline().strip(), "changed")
        self.assertEqual(self.now(), "3")
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        deadline = time.monotonic() + 10
        while os.listdir(self.undo) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual((self.now(), os.listdir(self.undo)), ("2", []))

    def test_where_the_guard_was_killed_too_the_next_run_puts_it_back(self):
        self.put("3")
        with open(os.path.join(self.undo, f"{settings.PREFIX}kernel.level"), "w") as out:
            out.write("2\n")
        self.assertEqual(settings.put_back(self.undo, self.root), ["kernel.level"])
        self.assertEqual((self.now(), os.listdir(self.undo)), ("2", []))

    def test_a_setting_that_there_is_not_is_said(self):
        with self.assertRaisesRegex(NotRun, "kernel.other"):
            with settings.changed("kernel.other", 3, self.undo, self.root):
                pass


class FixtureOfUser(unittest.TestCase):
    def made(self, name, user=True, **resources):
        told = {"directory": "/d", "name": "n", "relay": "r", "thalweg": "/t/thalweg", "recordings": "/r", "method": None, "disks": {}, **resources}
        return fixture.Fixture(SimpleNamespace(**told), loaded(name), users.User("/d/home") if user else None)

    def test_the_recorder_is_the_users_and_sees_only_the_users_server(self):
        variant = lambda one: SimpleNamespace(recorder="user", faults=[], command=[], server_command=[], name=one)  # noqa: E731
        for name, sees in (("transfer-server-computes", True), ("nfs-read-server-disk", False)):
            made = self.made(name)
            made.server = SimpleNamespace(pids=lambda: [7])
            words = made._record_words(SimpleNamespace(name="x"), variant(name))
            self.assertEqual(words[0], "setpriv")
            self.assertEqual(words[words.index("--method") + 1], "user")
            self.assertEqual("--also" in words, sees, name)

    def test_another_method_takes_its_place(self):
        made = self.made("cp-source-disk", method="proc")
        words = made._record_words(SimpleNamespace(name="x"), SimpleNamespace(recorder="user", faults=[]))
        self.assertEqual(words[words.index("--method") + 1], "proc")

    def test_a_namespace_of_mounts_is_within_one_of_users(self):
        self.assertEqual(self.made("names-slow-getent")._in_own_namespace(["unshare", "-m", "sh"]), ["unshare", "--map-root-user", "-m", "sh"])
        self.assertEqual(self.made("names-slow-getent", user=False)._in_own_namespace(["unshare", "-m", "sh"]), ["unshare", "-m", "sh"])

    def test_roots_server_is_told_for_whom_it_makes_its_files(self):
        self.assertEqual(self.made("ssh-remote-sleeps")._for_user()[users.FOR_USER], str(users.NOBODY_ID))
        self.assertIsNone(self.made("polls-http-computes")._for_user())
        self.assertIsNone(self.made("ssh-remote-sleeps", user=False)._for_user())


if __name__ == "__main__":
    unittest.main()
