"""Results: one line of JSON for each name, in git, with what the pages need; the whole documents, raw figures and all, in a folder that git ignores.

A line is replaced by reading the whole file, and writing it anew under another name that is then renamed: readers see the old file or the
new one. Writers take turns by a lock on the file's directory, so that none of them loses another's line; who does not get it in time says
so and fails, and waits no longer.
"""

import fcntl
import json
import os
import tempfile
import time
from contextlib import contextmanager

from testbed.errors import Broken
from testbed.paths import REPOSITORY

# The whole documents of what is measured in the checkout, by room.
RAW = os.path.join(REPOSITORY, ".raw")
LOCK_S = 10.0
LOCK_POLL_S = 0.01
# Digits of a figure in a line: more than any page prints.
DIGITS = 9


class Results:
    """A file of lines. `key` is the field with a line's name; lines of another schema are not seen, and stay."""

    def __init__(self, path, key, schema, raw=None):
        self.path = os.path.abspath(path)
        self.key = key
        self.schema = schema
        self.raw = raw or os.path.join(os.path.dirname(self.path), "raw")

    def all(self):
        """Every line of the schema, by name."""
        return {line[self.key]: line for line in self._lines() if line.get("schema") == self.schema}

    def get(self, name):
        """A line, or None."""
        return self.all().get(name)

    def put(self, line, whole=None):
        """Write or replace a line; `whole` is the document that it is drawn from. `Broken` where another process is writing for too long."""
        if whole is not None:
            write_text(os.path.join(self.raw, f"{line[self.key]}.json"), json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
        self.put_all([line])

    def put_all(self, lines):
        """Write or replace several lines at once."""
        made = {line[self.key]: _short({"schema": self.schema, **line}) for line in lines}
        self._change(lambda kept: [*(one for one in kept if one[self.key] not in made), *made.values()])

    def remove(self, names):
        """Take lines out."""
        self._change(lambda kept: [one for one in kept if one[self.key] not in names])

    def _change(self, change):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with locked(os.path.dirname(self.path)):
            lines = sorted(change(self._lines()), key=lambda line: line[self.key])
            texts = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines)
            # Paths are relative to the checkout, so that results of two checkouts can be compared.
            write_text(self.path, "".join(text.replace(REPOSITORY + os.sep, "") + "\n" for text in texts))

    def _lines(self):
        lines = []
        try:
            with open(self.path, encoding="utf-8") as source:
                for number, text in enumerate(source, 1):
                    lines.append(json.loads(text))
                    if self.key not in lines[-1]:
                        raise ValueError(f"there is no `{self.key}`")
        except FileNotFoundError:
            pass
        except ValueError as reason:
            raise ValueError(f"{self.path}:{number}: {reason}") from None
        return lines


@contextmanager
def locked(directory, timeout_s=LOCK_S):
    """Hold the lock on a directory; `Broken` when it cannot be had in time. The lock ends with its holder's process, so it is never left behind."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise Broken(f"{directory}: another process has been writing results there for {timeout_s:g} s") from None
                time.sleep(LOCK_POLL_S)
        try:
            yield
        finally:
            # A child that was forked meanwhile has the handle, too: closing ours alone would not release it.
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def write_text(path, text):
    """Write a file under a temporary name and rename it; its directory exists afterwards."""
    directory = os.path.dirname(os.path.abspath(path))
    os.makedirs(directory, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=directory, prefix=f".{os.path.basename(path)}.", delete=False, encoding="utf-8") as out:
        try:
            out.write(text)
            out.flush()
            os.chmod(out.name, 0o644)
            os.replace(out.name, path)
        except BaseException:
            os.unlink(out.name)
            raise


def now():
    """When, as results say it."""
    return time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime())


def add_counts(path, suite, passed, failed, skipped, seconds):
    """A line for tools/test, if it wants one (`path` is not None)."""
    if path:
        with open(path, "a") as out:
            out.write(f"{suite} {passed} {failed} {skipped} {round(seconds)}\n")


def _short(value):
    """Figures with as many digits as they are read with."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}" if abs(value) < 10**DIGITS else round(value))
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    return [_short(one) for one in value] if isinstance(value, (list, tuple)) else value
