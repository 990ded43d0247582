"""`thalweg_layout=local`: each rank's bytes are on its node as far as `thalweg layout plan` finds that they can be, or a warning says how
many are not. Run by mpi/tests/run.

A job writes one file in each of many ways (kinds.c). What is true of a file is counted in its datafiles, where every byte says which
rank wrote it; what could be is what `layout plan` computes from the recording; what was said is on the job's standard error.
"""

import glob
import json
import os
import re
import subprocess
import unittest

import mounted

KINDS = ["vector", "vector-block-by-block", "vector-halves", "vector-alone", "vector-without-waiting", "vector-split", "vector-next-tiles",
         "vector-last-idle", "doubles", "struct", "struct-alone", "columns", "columns-block-by-block", "columns-last-idle", "darray", "region",
         "region-alone", "nothing-seen", "last-idle", "last-idle-in-turn", "first-alone", "header", "nothing-first", "segments", "in-turn",
         "back-and-forth", "own-parts", "same-view", "in-turn,striping_unit=65536", "segments,striping_unit=65536", "ordered", "sequential"]
SOME = ["vector", "vector-alone", "vector-last-idle", "struct", "region", "last-idle-in-turn", "header", "own-parts"]
# What nobody can know before the first byte is written: these are warned about.
UNKNOWABLE = {"header", "back-and-forth", "own-parts", "segments,striping_unit=65536"}
WARNING = re.compile(r"^thalweg: (\S+): thalweg_layout=local( came to nothing)?: ([0-9.]+) % of (\d+) bytes are on the node of the rank that wrote them"
                     r"(?:, (\d+) are not)?(?:, of (\d+) it is not known \([^)]*\))?: (.+)$", re.M)


def setUpModule():
    global m
    m = mounted.for_module()


def written_where(name, nodes):
    """Bytes of a file that are on the node of the rank whose letter they are, and bytes that are any rank's."""
    number = os.stat(os.path.join(m.at["a"], name)).st_ino
    local = all_bytes = 0
    for node, targets in mounted.NODES.items():
        for target in targets:
            for path in glob.glob(os.path.join(m.directory, target, "datafiles", "*", f"{number:016x}.*[!c]")):
                with open(path, "rb") as file:
                    bytes_here = file.read()
                for rank, own in enumerate(nodes):
                    count = bytes_here.count(ord("A") + rank)
                    all_bytes += count
                    local += count * (own == node)
    return local, all_bytes


class Local(mounted.EachMpi):

    def job(self, kinds, nodes, name="", recorded=False, setup=None):
        """Runs kinds as one job in a directory of its own; the directory, the warnings by kind, and the recording."""
        directory = f"{self.mpi}-{self._testMethodName}{name}"
        os.mkdir(os.path.join(m.at["a"], directory))
        if setup:
            setup(os.path.join(m.at["a"], directory))
        recording = os.path.join(m.directory, f"{directory}.thw")
        record = [mounted.THALWEG, "record", f"--mpi={self.mpi}", "--no-also", "-o", recording, "--"] if recorded else []
        done = m.run(self.mpi, "kinds", "{here}/" + directory, *kinds, nodes=nodes, before=record, preload=not recorded,
                     environment={"THALWEG_MPI_LIBRARY": os.path.abspath(mounted.BUILD)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = [line.groups() for line in WARNING.finditer(done.stderr)]
        self.assertEqual(len(said), done.stderr.count("thalweg_layout=local"), f"every warning can be read: {done.stderr}")
        warnings = {os.path.basename(path): rest for path, *rest in said}
        self.assertEqual(len(warnings), len(said), f"each is said once: {done.stderr}")
        return directory, warnings, recording

    def plan(self, recording, directory, kind):
        done = subprocess.run([mounted.THALWEG, "layout", "plan", recording, "--json", "--file", f"{directory}/{kind}"], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def measured(self, kind, nodes, directory, warnings):
        """How many bytes are local, and of how many; a warning says the same, and without one all of them are."""
        local, written = written_where(f"{directory}/{kind}", nodes)
        self.assertGreater(written, 0)
        if kind not in warnings:
            self.assertEqual(local, written, "without a warning")
            return local, written
        _nothing, percent, of, not_local, unknown, why = warnings[kind]
        self.assertEqual(int(of), written, why)
        self.assertEqual(written - int(not_local or 0), local + int(unknown or 0), why)
        self.assertEqual(float(percent), (local if not unknown else written - int(unknown)) * 1000 // written / 10, why)
        return local, written

    def test_local_is_what_layout_plan_finds_or_a_warning_says_how_much_is_not(self):
        nodes = ("b", "a", "b")
        directory, warnings, recording = self.job(KINDS, nodes, recorded=True)
        for kind in KINDS:
            with self.subTest(kind=kind):
                local, written = self.measured(kind, nodes, directory, warnings)
                plan = self.plan(recording, directory, kind)
                if plan is None:
                    self.assertIn(kind, ("ordered", "sequential"), "only where ordered writes went is not recorded")
                    continue
                self.assertAlmostEqual(plan["local_now"], local / written, places=9)
                self.assertEqual(plan["local_then"], 1)
                self.assertEqual(plan["said"] is not None, kind in warnings, plan)
                if kind in warnings:
                    self.assertIn(f"{warnings[kind][1]} % of {written} bytes", plan["said"])
                    self.assertIn(kind, UNKNOWABLE, "it could have been known")

    def test_it_is_so_whatever_nodes_the_ranks_are_on(self):
        # More ranks than processors take long to wait for each other: fewer kinds.
        for nodes, kinds in ((("a", "b"), KINDS), (("a", "b", "b", "a", "b"), SOME), (("b", "b", "b"), SOME)):
            directory, warnings, _ = self.job(kinds, nodes, name="-" + "".join(nodes))
            for kind in kinds:
                with self.subTest(kind=kind, nodes=nodes):
                    self.measured(kind, nodes, directory, warnings)
                    if kind in warnings:
                        self.assertIn(kind, UNKNOWABLE, "it could have been known")

    def test_what_a_layout_that_stays_has_elsewhere_is_counted(self):
        nodes = ("b", "a", "a")
        for i, layout in enumerate(("basic_dist", "simple_stripe,strip_size=98304 datafiles=2", "varstrip_dist,strips=0:100000;1:30000;0:5000 datafiles=2",
                                    "twod_stripe,num_groups=2,strip_size=20000,group_strip_factor=3 datafiles=3")):
            with self.subTest(layout):
                default = lambda path, layout=layout: os.setxattr(path, "user.thalweg.layout", layout.encode())
                directory, warnings, _ = self.job(["own-parts"], nodes, name=str(i), setup=default)
                self.assertTrue(m.layout(f"{directory}/own-parts").startswith(layout.split()[0]))
                self.assertTrue(warnings["own-parts"][0], "it came to nothing")
                self.assertIn("no view was set", warnings["own-parts"][5])
                self.measured("own-parts", nodes, directory, warnings)

    def test_a_file_that_was_there_is_counted_too(self):
        def make(path):
            with open(os.path.join(path, "in-turn"), "wb"):
                pass
            os.setxattr(os.path.join(path, "in-turn"), "user.thalweg.layout", b"simple_stripe,strip_size=100000 datafiles=2 place=targets:0,1")

        directory, warnings, _ = self.job(["in-turn"], ("a", "b", "b"), setup=make)
        self.assertIn("was there before", warnings["in-turn"][5])
        self.measured("in-turn", ("a", "b", "b"), directory, warnings)

    def test_what_goes_through_the_shared_pointer_is_said_to_be_unknown(self):
        directory, warnings, _ = self.job(["shared"], ("a", "b"))
        self.assertEqual(warnings["shared"][1:5], ["0.0", "131072", None, "131072"])


class Mpich(Local, unittest.TestCase):
    mpi = "mpich"


class OpenMpi(Local, unittest.TestCase):
    mpi = "openmpi"


if __name__ == "__main__":
    unittest.main()
