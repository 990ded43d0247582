"""docs/GATES.md, and the lines on the terminal."""

import os

from gatehouse.case import counts

HEADER = """# The gates: other people's programs on a mounted store

Made by `make gates` from [gates/results](../gates/results), which has every case. Each gate has a store of its own (two I/O servers
with two targets each, a metadata service) and two mounts of it; what only one client uses runs on the first. A *case* is one test of a
suite, or one run of a program with one configuration; *checks* are the operations or comparisons it was made of, where that is a
number. After each gate everything is removed, both mounts are ended, and no datafile may be left: that is a case too.

`gates/run --directory DIR` runs the same on any file system: a case that fails on ext4 too is wrong itself.
"""


def line(gate, cases, seconds):
    """One line on the terminal for a gate that is over."""
    made = counts(cases)
    state = "FAILED " if made["failed"] else "NOT RUN" if not made["passed"] + made["expected"] else "passed "
    tail = "".join(f", {made[state]} {state}" for state in ("failed", "expected", "skipped") if made[state])
    checks = sum(case.checks for case in cases)
    if state == "NOT RUN":
        return f"{state} {gate.name:12} {'; '.join(case.reason for case in cases)}"
    return f"{state} {gate.name:12} {made['passed']} passed{tail}" + (f" ({checks} checks)" if checks else "") + f", {seconds:.0f} s"


def failure(gate, case):
    """A case that failed, when it does."""
    return f"  FAILED {gate.name}: {case.name}: {case.reason}"


def write(path, results, gates):
    """The page from the results there are."""
    there = [results[gate.name] for gate in gates if gate.name in results]
    parts = [HEADER, _table(there), _reasons(there, "failed", "What fails"), _reasons(there, "expected", "What is deliberately not there")]
    parts.append(_reasons(there, "skipped", "What could not be looked at on this machine"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write("\n".join(part for part in parts if part).rstrip() + "\n")


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
        rows.append(f"| [{told['gate']}](../gates/suites/{told['gate'].replace('-', '_')}.py) | {told['title']}{form} |{_figures(figures)}")
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
