"""The package's types, for those who write programs with it, and the oldest Python that it runs on."""

import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

from .recordings import REPOSITORY

PACKAGE = REPOSITORY / "python"
# What a program does with the package, with the type of each thing.
PROGRAM = """\
import thalweg

run = thalweg.open("run.thw")
reveal_type(run.spans)  # pyarrow.__lib_pxi.table.Table
reveal_type(run.meta.user)  # str | None
reveal_type(thalweg.explain(run).what_if[0].interval_s)  # tuple[float, float] | None
reveal_type(thalweg.fleet("/data"))  # thalweg.fleets.Fleet
with thalweg.record() as live:
    reveal_type(live)  # thalweg.recording.Recording
"""
WRONG = """\
import thalweg

thalweg.explain("run.thw").verdict.sentense
thalweg.open(7)
"""


def mypy(*words, cwd=PACKAGE):
    """What mypy says, and whether it found nothing."""
    done = subprocess.run([sys.executable, "-m", "mypy", *words], cwd=cwd, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr, done.returncode == 0


class Types(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="thalweg-types-")
        self.addCleanup(kept.cleanup)
        self.scratch = Path(kept.name)

    def test_the_package_is_typed_throughout(self):
        said, fine = mypy("--cache-dir", self.scratch)
        self.assertTrue(fine, said)
        self.assertRegex(said, r"no issues found in \d\d source files")

    def test_a_program_sees_the_types_of_the_installed_package(self):
        (self.scratch / "right.py").write_text(PROGRAM)
        (self.scratch / "wrong.py").write_text(WRONG)
        said, _ = mypy("--strict", "--cache-dir=cache", "right.py", "wrong.py", cwd=self.scratch)
        lines = said.splitlines()
        revealed = [line.partition('Revealed type is "')[2].rstrip('"') for line in lines if line.startswith("right.py")]
        self.assertEqual(revealed, [line.partition("  # ")[2] for line in PROGRAM.splitlines() if "reveal_type" in line])
        errors = [line for line in lines if line.startswith("wrong.py")]
        self.assertEqual(len(errors), 2, said)
        self.assertIn('"Verdict" has no attribute "sentense"', errors[0])
        self.assertIn('Argument 1 to "open" has incompatible type "int"', errors[1])

    def test_it_runs_on_the_oldest_python_that_it_names(self):
        project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
        oldest = project["requires-python"].removeprefix(">=")
        command = [Path(sys.executable).with_name("vermin"), "--no-tips", "--violations", f"-t={oldest}-", PACKAGE / "thalweg"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
