"""docs/results/GATES.md, and the lines on the terminal."""

import os

from gates.harness.case import checks, counts
from testbed import results
from testbed.paths import REPOSITORY

PAGE = os.path.join(REPOSITORY, "docs", "results", "GATES.md")

HEADER = """# The gates: other people's programs on a mounted store

**Asked.** Do the test suites and programs of other projects find on a mounted store what POSIX promises? Thirteen gates run them: call by call, random operations with
every read verified, databases, version control, compilers, and system-call stressors.

**Found.** The last row of the table has the sum of cases and checks; a case that fails stands under *What fails*, and without that heading none did.

**Missed, and why.** One case fails by design: SQLite's write-ahead log on two machines, for which SQLite itself asks for one machine. The skipped cases ask for
things this machine cannot do, and each has its reason below.

**When.** {when}.

`make gates` writes this page from [gates/results.jsonl](../../gates/results.jsonl), one line for each gate. Each gate has a store of its own (two I/O
servers with two targets each, and a metadata service) and mounts it twice. Suites for one client run on the first mount.

- *Case*: one test of a suite, or one run of a program with one configuration.
- *Checks*: the operations or comparisons that a case is made of, where they can be counted.
- After each gate all its files are removed and both mounts are ended. One more case asserts that no datafile is left.

`gates/run --directory DIR` runs the same cases on any file system. A case that also fails on ext4 is itself wrong.
"""


def line(gate, cases, seconds):
    """One line on the terminal for a gate that is over."""
    made = counts(cases)
    state = "FAILED " if made["failed"] else "NOT RUN" if not made["passed"] + made["expected"] else "passed "
    tail = "".join(f", {made[state]} {state}" for state in ("failed", "expected", "skipped") if made[state])
    if state == "NOT RUN":
        return f"{state} {gate.name:12} {'; '.join(case.reason for case in cases)}"
    return f"{state} {gate.name:12} {made['passed']} passed{tail}{_checked(cases)}, {seconds:.0f} s"


def summary(cases):
    """The last line."""
    made = counts(cases)
    retried = checks(cases)[1]
    tail = f", {retried} checks tried again" if retried else ""
    return f"{made['passed']} passed, {made['failed']} failed, {made['expected']} failed as expected, {made['skipped']} skipped{tail}"


def _checked(cases):
    made, retried = checks(cases)
    tail = f", {retried} tried again" if retried else ""
    return f" ({made} checks{tail})" if made else ""


def failure(gate, case):
    """A case that failed, when it does."""
    return f"  FAILED {gate.name}: {case.name}: {case.reason}"


def write(path, there):
    """The page from the results there are."""
    parts = [HEADER.replace("{when}", _when(there)), _table(there), _reasons(there, "failed", "What fails"), _reasons(there, "expected", "What is deliberately not there")]
    parts.append(_reasons(there, "skipped", "What could not be tested on this machine"))
    results.write_text(path, "\n".join(part for part in parts if part).rstrip() + "\n")


def _when(there):
    days = sorted(told["measured"][:10] for told in there if "measured" in told)
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "Not run yet"


def _table(there):
    if not there:
        return "Not run yet.\n"
    rows = ["| gate | | cases passed | failed | expected to fail | skipped | checks | s |", "|---|---|---:|---:|---:|---:|---:|---:|"]
    total = dict.fromkeys(("passed", "failed", "expected", "skipped", "checks", "seconds"), 0)
    for told in there:
        figures = {**told["counts"], "checks": told["checks"], "seconds": told["seconds"]}
        for key, value in figures.items():
            total[key] += value
        form = " (short form)" if told["form"] == "short" else ""
        form += f" ({told['retries']} checks tried again)" if told.get("retries") else ""
        rows.append(f"| [{told['gate']}](../../gates/suites/{told['gate'].replace('-', '_')}.py) | {told['title']}{form} |{_figures(figures)}")
    rows.append(f"| **all** | |{_figures(total)}")
    return "\n".join(rows) + "\n"


def _figures(figures):
    words = [f"{figures[key]:,}" if figures[key] else "–" for key in ("passed", "failed", "expected", "skipped", "checks")]
    return " " + " | ".join([*words, f"{figures['seconds']:.0f}"]) + " |"


def _reasons(there, state, title):
    groups = {}
    for told in there:
        for case in told["cases"]:
            if case["state"] == state:
                groups.setdefault((told["gate"], case["reason"]), []).append(case["name"])
    lines = []
    for (gate, reason), names in groups.items():
        shown = ", ".join(f"`{name}`" for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        lines.append(f"- **{gate}** {shown}: {reason}")
    return "\n".join([f"## {title}\n", *lines]) + "\n" if lines else ""
