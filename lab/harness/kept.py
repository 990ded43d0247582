"""What of a scenario's result is kept in git: what the page, the order of a run and the corpus's labels need, in one line."""

import os

from testbed.paths import REPOSITORY
from testbed.results import RAW, Results

SCHEMA = "thalweg.lab/4"
PATH = os.path.join(REPOSITORY, "lab", "results.jsonl")
HEAD = ("scenario", "state", "reason", "retries", "first", "measured", "shard", "took_s", "repeat", "repeated", "recorded", "busy_before", "build")
FIGURES = ("wall_s", "truths", "truth", "outcomes", "share", "unknown")
MACHINE = ("processor", "cores", "memory_bytes", "kernel")
NAMED = ("status", "cause", "where")
PREDICTION = ("id", "bound", "predicted_s", "achieved_s", "error")


def results(path=None):
    """The lab's results, or those of a run that are kept elsewhere."""
    return Results(path or PATH, "scenario", SCHEMA, None if path else os.path.join(RAW, "lab"))


def line(document):
    """The line of a document."""
    told = document.get("figures", {})
    figures = _some(told, FIGURES)
    if "named" in told:
        figures |= {"named": [_some(one, NAMED) for one in told["named"]], "prediction": {key: told["prediction"].get(key) for key in PREDICTION}}
    made = {**_some(document, HEAD), "machine": _some(document.get("machine", {}), MACHINE)}
    made |= {"causes": document["causes"], "serial": document.get("serial", False), "predicts": document.get("predicts", False)}
    made |= {"figures": figures, "checks": [[what, met] for what, met, *_ in document.get("checks", [])]}
    made["others"] = {name: {**_some(one, ("outcome",)), **_some(one.get("named", {}), NAMED)} for name, one in document.get("others", {}).items()}
    made["rules"] = {name: {key: one.get(key) for key in ("strength", "outcome")} for name, one in document.get("rules", {}).items()}
    return {key: value for key, value in made.items() if value != {}} | {"figures": figures}


def _some(told, keys):
    return {key: told[key] for key in keys if told.get(key) is not None}
