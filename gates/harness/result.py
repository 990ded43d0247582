"""A gate's result on disk: one JSON file with every case."""

import json
import os

from gatehouse.case import counts

SCHEMA = "thalweg.gate/1"


def document(gate, told, cases, seconds):
    """What is kept of one run."""
    return {
        "schema": SCHEMA,
        "gate": gate.name,
        "title": gate.title,
        **told,
        "seconds": round(seconds, 1),
        "counts": counts(cases),
        "checks": sum(case.checks for case in cases),
        "cases": [case.document() for case in cases],
    }


def write(directory, name, told):
    """Write a gate's file, whole or not at all."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"{name}.json")
    with open(path + ".partial", "w") as out:
        json.dump(told, out, indent=1, ensure_ascii=False)
        out.write("\n")
    os.replace(path + ".partial", path)


def read_all(directory):
    """Every gate's file there is, by name."""
    found = {}
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        if name.endswith(".json"):
            with open(os.path.join(directory, name)) as source:
                told = json.load(source)
            if told.get("schema") == SCHEMA:
                found[told["gate"]] = told
    return found
