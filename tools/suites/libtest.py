"""Reads what a Rust test program prints (`PROGRAM --show-output`): its tests with their outcome, and what the failed ones printed.

A test that prints `SKIPPED: why` and passes counts as skipped.
"""

import re
from dataclasses import dataclass, field

# What has each test's time printed, and what makes stable Rust allow that.
TIMED, ALLOWED = ["-Zunstable-options", "--report-time"], {"RUSTC_BOOTSTRAP": "1"}
TEST = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (?:.*)?\b(ok|FAILED|ignored)\b(?: <([0-9.]+)s>)?")
SECTION = re.compile(r"^---- (.*) stdout ----$")
RESULT = re.compile(r"^test result: .* finished in ([0-9.]+)s")


@dataclass
class Outcome:
    """What one test program came to."""

    states: dict = field(default_factory=dict)  # test -> passed, failed or skipped
    texts: dict = field(default_factory=dict)  # test -> what it printed
    times: dict = field(default_factory=dict)  # test -> seconds, where they were asked for
    seconds: float = 0.0
    ended: bool = False  # it printed its result: it was not killed in between

    def counted(self, name, by_module=False):
        """Lines (suite, passed, failed, skipped); with `by_module` one for each of the program's top modules."""
        lines = {}
        for test, state in self.states.items():
            suite = f"{name}::{test.partition('::')[0]}" if by_module and "::" in test else name
            counts = lines.setdefault(suite, [0, 0, 0])
            counts[("passed", "failed", "skipped").index(state)] += 1
        return [(suite, *counts) for suite, counts in lines.items()]

    def skips(self):
        """`test: why` for each test that was skipped and says why."""
        for test, text in self.texts.items():
            if self.states.get(test) == "skipped":
                yield f"{test}: {text.partition('SKIPPED:')[2].strip().splitlines()[0]}"

    def failures(self):
        """(test, what it printed) for each that failed."""
        return [(test, self.texts.get(test, "it printed nothing")) for test, state in self.states.items() if state == "failed"]


def read(text):
    """The outcome that a program's output tells of; tests that began and did not end are not in it."""
    outcome, section = Outcome(), None
    for line in text.splitlines():
        if found := TEST.match(line):
            if found[3]:
                outcome.times[found[1]] = float(found[3])
            outcome.states[found[1]] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}[found[2]]
        elif found := SECTION.match(line):
            section = found[1]
            outcome.texts[section] = ""
        elif found := RESULT.match(line):
            outcome.seconds += float(found[1])
            outcome.ended, section = True, None
        elif line in ("successes:", "failures:"):
            section = None
        elif section is not None:
            outcome.texts[section] += line + "\n"
    for test, state in outcome.states.items():
        if state == "passed" and re.search(r"SKIPPED:\s*\S", outcome.texts.get(test, "")):
            outcome.states[test] = "skipped"
    return outcome
