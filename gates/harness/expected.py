"""gates/expected.toml: cases that fail because something is deliberately not there, each with its reason.

A case that is listed and fails counts as `expected`; one that is listed and passes is a failure, since the list is then wrong.
"""

import tomllib
from dataclasses import replace


class Expected:
    """The list, by gate and case."""

    def __init__(self, path):
        with open(path, "rb") as source:
            told = tomllib.load(source)
        self.reasons = {}
        for entry in told.get("expected", []):
            for name in entry["cases"]:
                self.reasons[(entry["gate"], name)] = " ".join(entry["why"].split())

    def judge(self, gate, case):
        """The case as it counts."""
        why = self.reasons.get((gate, case.name))
        if why is None or case.state == "skipped":
            return case
        if case.state == "failed":
            return replace(case, state="expected", reason=f"{why} ({case.reason})")
        return replace(case, state="failed", reason=f"it passed, and gates/expected.toml says that it fails: {why}")
