"""`thalweg profile`, driven through the built command, and the place in which all this is measured."""

import itertools
import json
import os
import subprocess

from testbed import files, shell
from testbed.errors import Broken, NotRun
from testbed.processes import Process
from testbed.results import RAW

KEPT = os.path.join(RAW, "bench", "profile")
# Symbols are looked up after the profile.
AFTER_S = 120.0


class Bench:
    """Entered, this machine can do it. `directory` is empty and for it alone; `program`: the store that is measured; `profiler`: the command that measures."""

    def __init__(self, program, profiler, directory, seconds):
        self.program = program
        self.profiler = profiler
        self.seconds = seconds
        self.numbers = itertools.count()
        self.directory = directory

    def __enter__(self):
        if os.geteuid() != 0:
            raise NotRun("only root may profile a machine")
        for path in (self.program, self.profiler):
            if not os.access(path, os.X_OK):
                raise NotRun(f"{path} is not built: tools/build --release")
        os.makedirs(KEPT, exist_ok=True)
        return self

    def __exit__(self, *_):
        """What is in the directory is removed with it."""

    def work(self):
        """A new directory."""
        path = os.path.join(self.directory, str(next(self.numbers)))
        os.mkdir(path)
        return path

    def source(self, size_bytes):
        """A file of this size, in the page cache."""
        path = files.make_source(os.path.join(self.directory, f"source-{size_bytes}"), size_bytes)
        files.warm([path])
        return path

    def kept(self, name):
        """A path in the directory that stays, and that git ignores; what was there is removed."""
        path = os.path.join(KEPT, name)
        files.remove(path)
        return path


class Profile:
    """A profile of so many seconds that has begun; `finish` waits for its document."""

    def __init__(self, bench, path, ports=(), words=(), command=()):
        self.log = os.path.join(bench.work(), "profile")
        self.out = open(self.log + ".json", "wb")
        flags = [word for port in ports for word in ("--port", str(port))]
        lasts = ["--", *command] if command else ["--for", f"{bench.seconds}s"]
        self.timeout_s = bench.seconds + AFTER_S
        argv = [bench.profiler, "profile", "--json", "-o", path, *flags, *words, *lasts]
        self.process = Process(argv, self.log + ".log", stdout=self.out)
        if not command:
            self.process.wait_for_word("the profile", "recording", Broken)

    def finish(self):
        """The document."""
        try:
            code = self.process.process.wait(self.timeout_s)
            if code != 0:
                raise Broken(f"thalweg profile: exit code {code}: {self.process.last_line()}")
        except subprocess.TimeoutExpired:
            raise Broken(f"thalweg profile had not ended after {self.timeout_s:.0f} s") from None
        finally:
            self.process.stop()
            self.out.close()
        with open(self.log + ".json") as source:
            return json.load(source)["hosts"][0]


def attributes(path):
    """What a recording says of itself."""
    found = json.loads(shell.read(os.path.join(path, "meta.json")) or "{}").get("attributes", [])
    return dict(found) if isinstance(found, list) else found


def size_bytes(path):
    """What a recording takes on disk."""
    return sum(os.path.getsize(file) for file in files.files_under(path))


def show(bench, *paths):
    """The table of recordings side by side, as a person gets it."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    argv = [bench.profiler, "profile", *paths]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=AFTER_S, check=False)
    if done.returncode != 0:
        raise Broken(f"{' '.join(argv)}: {shell.last_line(done.stderr)}")
    return done.stdout
