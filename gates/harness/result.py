"""A gate's result: a document with every case, and a line with what the page shows of it."""

import os

from gates.harness.case import checks, counts
from testbed.paths import REPOSITORY
from testbed.results import RAW, Results, now

SCHEMA = "thalweg.gate/2"
PATH = os.path.join(REPOSITORY, "gates", "results.jsonl")


def results(path=None):
    """The gates' results, or those of a run that are kept elsewhere."""
    return Results(path or PATH, "gate", SCHEMA, None if path else os.path.join(RAW, "gates"))


def document(gate, told, cases, seconds):
    """What is kept of one run."""
    made, retried = checks(cases)
    return {
        "gate": gate.name,
        "measured": now(),
        "title": gate.title,
        **told,
        "seconds": round(seconds, 1),
        "counts": counts(cases),
        "checks": made,
        **({"retries": retried} if retried else {}),
        "cases": [case.document() for case in cases],
    }


def line(document):
    """A document without the cases that passed."""
    shown = [{key: case.get(key, "") for key in ("name", "state", "reason")} for case in document["cases"] if case["state"] != "passed"]
    return {**document, "cases": shown}


def read_all(table, gates):
    """The results there are of these gates, in their order."""
    lines = table.all()
    return [lines[gate.name] for gate in gates if gate.name in lines]
