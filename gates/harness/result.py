"""A gate's result on disk: one JSON file with every case."""

from gates.harness.case import checks, counts
from testbed import results

SCHEMA = "thalweg.gate/1"


def document(gate, told, cases, seconds):
    """What is kept of one run."""
    made, retried = checks(cases)
    return {
        "schema": SCHEMA,
        "gate": gate.name,
        "title": gate.title,
        **told,
        "seconds": round(seconds, 1),
        "counts": counts(cases),
        "checks": made,
        **({"retries": retried} if retried else {}),
        "cases": [case.document() for case in cases],
    }


def read_all(directory, gates):
    """The results there are of these gates, in their order."""
    found = (results.read(directory, gate.name, SCHEMA) for gate in gates)
    return [told for told in found if told]
