"""A scenario's result on disk: one JSON file, with every raw figure."""

import json
import os

SCHEMA = "thalweg.lab/1"
REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def write(directory, name, document):
    """Write a scenario's file, whole or not at all."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"{name}.json")
    # Paths as they are in any checkout, wherever this one lies.
    text = json.dumps(document, indent=1, ensure_ascii=False).replace(REPOSITORY + os.sep, "")
    with open(path + ".partial", "w") as out:
        out.write(text + "\n")
    os.replace(path + ".partial", path)


def read(directory, name):
    """A scenario's file, or None."""
    try:
        with open(os.path.join(directory, f"{name}.json")) as source:
            document = json.load(source)
    except FileNotFoundError:
        return None
    return document if document.get("schema") == SCHEMA else None


def counts(documents):
    """How many passed, failed and were not run."""
    made = {"passed": 0, "failed": 0, "not run": 0}
    for document in documents:
        made[document["state"]] += 1
    return made
