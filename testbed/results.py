"""Results on disk: written whole or not at all, read if they are of the schema that is asked for, counted for `make test`."""

import json
import os

from testbed.paths import REPOSITORY


def write_text(path, text):
    """Write a file under a temporary name and rename it; its directory exists afterwards."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".partial", "w") as out:
        out.write(text)
    os.replace(path + ".partial", path)


def write(directory, name, document):
    """Write NAME.json. Paths are relative to the checkout, so that results of two checkouts can be compared."""
    text = json.dumps(document, indent=1, ensure_ascii=False).replace(REPOSITORY + os.sep, "")
    write_text(os.path.join(directory, f"{name}.json"), text + "\n")


def read(directory, name, schema):
    """NAME.json, or None if it is not there or of another schema."""
    try:
        with open(os.path.join(directory, f"{name}.json")) as source:
            document = json.load(source)
    except FileNotFoundError:
        return None
    return document if document.get("schema") == schema else None


def add_counts(path, suite, passed, failed, skipped, seconds):
    """A line for tools/test, if it wants one (`path` is not None)."""
    if path:
        with open(path, "a") as out:
            out.write(f"{suite} {passed} {failed} {skipped} {round(seconds)}\n")
