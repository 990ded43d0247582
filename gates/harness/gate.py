"""A gate: one file in gates/suites. What it may use is a `Fixture`.

A suite is a module with `TITLE` (one line), `ORDER` (of the report), `SHORT_S` (about how many seconds its short form takes; 0: it has
none, and is no part of `make test`) and `cases(fixture)`, which yields cases.
"""

import importlib.util
import os
import random

from gates.harness import programs
from testbed import processes
from testbed.packages import install


class Gate:
    """One suite."""

    def __init__(self, path):
        self.name = os.path.splitext(os.path.basename(path))[0].replace("_", "-")
        spec = importlib.util.spec_from_file_location(f"suites.{self.name}", path)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.title = self.module.TITLE
        self.short_s = self.module.SHORT_S


def load_all(directory, names=()):
    """The suites, in the order in which they are reported: most telling first."""
    found = [Gate(os.path.join(directory, name)) for name in sorted(os.listdir(directory)) if name.endswith(".py")]
    found.sort(key=lambda gate: (gate.module.ORDER, gate.name))
    unknown = set(names) - {gate.name for gate in found}
    if unknown:
        raise ValueError(f"no gate {', '.join(sorted(unknown))}; there are {', '.join(gate.name for gate in found)}")
    return [gate for gate in found if not names or gate.name in names]


class Fixture:
    """What a suite runs with: the file system, the form, a seed, a directory for its own files, and where programs come from."""

    def __init__(self, filesystem, *, short, seed, scratch, cache, repository):
        self.filesystem = filesystem
        self.short = short
        self.seed = seed
        self.random = random.Random(seed)
        self.scratch = scratch
        self.cache = cache
        self.repository = repository
        self.runs = 0

    @property
    def path(self):
        """The gate's directory."""
        return self.filesystem.path

    @property
    def second(self):
        """The same directory, as another client sees it."""
        return self.filesystem.second

    def inside(self, name):
        """A new directory for one case: its path here and as the other client sees it."""
        os.mkdir(os.path.join(self.path, name))
        return os.path.join(self.path, name), os.path.join(self.second, name)

    def run(self, argv, timeout_s, *, cwd=None, env=None):
        """Run a program to its end; its output is kept in the scratch directory."""
        self.runs += 1
        log = os.path.join(self.scratch, f"{self.runs:03}-{os.path.basename(argv[0])}.log")
        return processes.run(argv, log, timeout_s, self.filesystem.give_up, cwd=cwd, env=programs.environment(env))

    def crate(self, name):
        """A program of crates.io."""
        return programs.from_crates(name, self.cache)

    def debian(self, **packages):
        """Debian packages, each with what proves that it is there."""
        install(packages)

    def worker(self, name):
        """A program of gates/workers."""
        return os.path.join(self.repository, "gates", "workers", name)
