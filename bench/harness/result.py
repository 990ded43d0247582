"""What a case leaves behind: one JSON file with every raw time, and the bars it was held to.

The page is made from these files alone; nothing is measured while it is written.
"""

from dataclasses import dataclass

from bench.harness.pairs import summary
from testbed import results

SCHEMA = "thalweg.bench/1"


@dataclass
class Bar:
    """A figure to reach: the rate of the case's reference over that of subject `to`.

    Without `median` and `low` the ratio is for information; with `aim` it is hoped for and not promised.
    """

    to: str
    median: float = None
    low: float = None
    aim: bool = False


@dataclass
class Amount:
    """What one run of a case moves: for rates."""

    count: float
    unit: str


def of_pairs(outcome, subjects, reference, bars):
    """The results of a case whose subjects ran in rounds."""
    document = {
        "reference": reference,
        "amount": outcome.document["amount"],
        "subjects": [_subject(subject, outcome.of(subject.name)) for subject in subjects],
        "bars": [],
        "cpu": outcome.cpu,
        "rounds": outcome.rounds,
    }
    labels = {subject.name: subject.label for subject in subjects}
    for bar in bars:
        if bar.to in labels:
            document["bars"].append(_judge(bar, labels, reference, outcome))
    return document


def _subject(subject, found):
    return {
        "name": subject.name,
        "label": subject.label,
        "command": found["command"],
        "wall_s": summary(found["wall_s"]),
        "rate_per_s": summary(found["rate_per_s"]),
        "cpu_s": found["cpu_s"],
        "peak_rss_bytes": found["max_rss_bytes"],
    }


def _judge(bar, labels, reference, outcome):
    told, ratios = outcome.ratio(reference, bar.to)
    wanted, met = [], None
    if bar.median is not None:
        wanted.append(f"≥ {bar.median:.2f}")
        met = told["median"] >= bar.median
    if bar.low is not None:
        wanted.append(f"low end ≥ {bar.low:.2f}")
        met = met is not False and told["low"] >= bar.low
    return {
        "to": bar.to,
        "what": f"{labels[reference]} / {labels[bar.to]}",
        "wanted": ", ".join(wanted),
        "aim": bar.aim,
        "met": met,
        "pairs": len(ratios),
        **told,
        "ratios": ratios,
    }


def absolute_bar(what, wanted, summary, met):
    """A bar on a figure that is not a ratio."""
    return {"to": None, "what": what, "wanted": wanted, "aim": False, "met": met, **summary}


def read(directory, case_name):
    """A case's file, or None."""
    return results.read(directory, case_name, SCHEMA)


def write(directory, case_name, document):
    """Write a case's file."""
    results.write(directory, case_name, {"schema": SCHEMA, "case": case_name, **document})
