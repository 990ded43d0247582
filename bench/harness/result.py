"""What a case leaves behind: one line with its figures and the bars it was held to, and a document with every raw time.

The page is made from the lines alone; nothing is measured while it is written.
"""

import os
from dataclasses import dataclass

from bench.harness.pairs import summary
from testbed.paths import REPOSITORY
from testbed.results import RAW, Results

SCHEMA = "thalweg.bench/2"
PATH = os.path.join(REPOSITORY, "bench", "results.jsonl")
SUBJECT = ("name", "label", "wall_s", "rate_per_s", "cpu_s", "peak_rss_bytes")


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


def results(path=None):
    """The bench's results, or those of a run that are kept elsewhere."""
    return Results(path or PATH, "case", SCHEMA, None if path else os.path.join(RAW, "bench"))


def line(document):
    """A case's document without its raw times: how many rounds there were, and what came of each subject and bar."""
    made = {**document, "bars": [_without(bar, "ratios") for bar in document["bars"]]}
    if "rounds" in document:
        made["rounds"] = len(document["rounds"])
    if "subjects" in document:
        made["subjects"] = [{key: one[key] for key in SUBJECT if key in one} for one in document["subjects"]]
    return made


def _without(told, key):
    return {name: value for name, value in told.items() if name != key}
