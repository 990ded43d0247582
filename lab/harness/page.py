"""docs/LAB.md, and the line on the terminal: the table of what was injected and what was named."""

import os

from harness.statistics import median
from laboratory import result, score

HEADER = """# The laboratory: faults with known causes, and what `thalweg explain` named

Made by `make lab` from [lab/results](../lab/results); every raw figure is there. Each scenario ([lab/scenarios](../lab/scenarios))
is a real client and, where there is one, a real server, with a fault of known size. *Truth* is the share of the time with the
fault that is gone without it, (T_fault − T_twin) / T_fault, of medians of interleaved runs; *share* is what the explanation charged
to that cause (within 5 points where the fault is serial with everything else, marked =). *Unknown* is the most that any repetition left
unexplained. *Predicted* is what the explanation said the change would give, *achieved* what the re-run with that change took.
"""


def line(document):
    """One line on the terminal."""
    told = document.get("figures", {})
    walls = told.get("wall_s", {})
    times = "  ".join(f"{name} {wall:.3f} s" for name, wall in walls.items())
    truths = ", ".join(f"{truth:.0%}" for truth in told.get("truths", []))
    words = {"passed": "passed ", "failed": "FAILED ", "not run": "NOT RUN"}[document["state"]]
    reason = f"\n          {document['reason']}" if document.get("reason") else ""
    tail = f" | {_named(told)}" if "named" in told else ""
    return f"{words} {document['scenario']:34} {times} (truth {truths or '-'}){tail}{reason}"


def write(path, results, scenarios):
    """The page from the results there are."""
    documents = [(one, result.read(results, one.name)) for one in scenarios]
    there = [document for _, document in documents if document]
    parts = [HEADER, _machine(there), _overall(there), _table(documents), _reasons(documents), _known()]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write("\n".join(part for part in parts if part).rstrip() + "\n")


def _known():
    """What is written by hand: why bars are missed."""
    with open(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "KNOWN.md"), encoding="utf-8") as source:
        return source.read()


def _machine(documents):
    if not documents:
        return "Not measured yet.\n"
    told, build = documents[0]["machine"], sorted({document["build"]["revision"] for document in documents})
    words = f"{told.get('processor')}, {told.get('cores')} processors, {told['memory_bytes'] / 2**30:.0f} GiB, Linux {told.get('kernel')}"
    repeats = sorted({document["repeat"] for document in documents})
    busy = [document["busy_before"] for document in documents if document.get("busy_before") is not None]
    other = f" Other work kept the processors busy for {median(busy):.0%} before a scenario (median)." if busy else ""
    if busy and median(busy) > 0.2:
        other += " What waited for them is charged to the run queue, and twins suffer from it unevenly: shares and predictions are the worse for it."
    return f"Measured on: {words}. Revision {', '.join(build)}; {'/'.join(str(n) for n in repeats)} repetitions.{other}\n"


def _overall(documents):
    rows = score.overall(documents)
    if not rows:
        return ""
    counted = result.counts(documents)
    lines = [f"**{counted['passed']} scenarios passed, {counted['failed']} failed, {counted['not run']} could not run on this machine.**\n"]
    lines += ["| bar | | |", "|---|---|---|"]
    labels = {
        "named": "the injected cause is named first, in every repetition",
        "share": "its share within 5 points of the truth, where it is serial",
        "unknown": "unknown ≤ 2 %, with both ends recorded",
        "dropped": "no events dropped",
        "predictions made": "predictions, in ≥ 90 % of the scenarios",
        "predictions, median error": "predictions, median error ≤ 5 %",
        "predictions, worst error": "predictions, worst error ≤ 15 %",
    }
    lines += [f"| {labels[what]} | {words} | {'met' if met else '**missed**'} |" for what, met, words in rows]
    return "\n".join(lines) + "\n"


def _table(documents):
    lines = ["| scenario | injected | named (of repetitions) | truth | share | unknown | twin → fault | predicted | achieved | |"]
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    for scenario, document in documents:
        if document is None:
            lines.append(f"| {scenario.name} | {scenario.title} | | | | | | | | not measured |")
        else:
            lines.append(_row(document))
    return "\n".join(lines) + "\n"


def _row(document):
    told = document.get("figures", {})
    injected = ", ".join(document["causes"])
    head = f"| [{document['scenario']}](../lab/scenarios/{document['scenario']}.toml) | {injected} |"
    if document["state"] == "not run":
        return f"{head} | | | | | | | **NOT RUN** |"
    if "named" not in told:
        return f"{head} | | | | | | | **failed** |"
    walls = told["wall_s"]
    equal = "=" if document["serial"] else ""
    truth = " + ".join(f"{value:.0%}" for value in told["truths"]) or "–"
    share = " + ".join(f"{value:.0%}" for value in told["share"])
    change = told["prediction"]
    predicted = f"{change['predicted_s']:.3f} s" if change.get("error") is not None else ("none owed" if change["id"] is None else "**none**")
    achieved = f"{change['achieved_s']:.3f} s ({change['error']:.0%})" if change.get("error") is not None else ""
    times = f"{walls.get('twin', walls['fault']):.3f} → {walls['fault']:.3f} s"
    state = "passed" if document["state"] == "passed" else "**failed**"
    return f"{head} {_named(told)} | {truth} | {share} {equal} | {told['unknown']:.1%} | {times} | {predicted} | {achieved} | {state} |"


def _named(told):
    names = {}
    for named in told["named"]:
        word = named["cause"] if named["status"] != "healthy" else "healthy"
        names[word] = names.get(word, 0) + 1
    return ", ".join(f"{name} ({count})" for name, count in sorted(names.items(), key=lambda item: -item[1]))


def _reasons(documents):
    lines = []
    for _, document in documents:
        if document and document.get("reason"):
            words = "NOT RUN" if document["state"] == "not run" else "failed"
            lines.append(f"- **{document['scenario']}** {words}: {document['reason']}")
    return "\n".join(["## What falls short, and what could not run\n", *lines]) if lines else ""
