"""What is kept: a line for each run, what an explanation said, and the pictures of the page."""

import json
import os
import re
import subprocess
from statistics import median

from testbed.errors import Broken
from testbed.paths import REPOSITORY
from testbed.results import Results, write_text

SCHEMA = "thalweg.studies/1"
HERE = os.path.join(REPOSITORY, "bench", "classics")
PICTURES = os.path.join(REPOSITORY, "docs", "results", "studies")
# No picture in the documentation is larger; one of two recordings is two pictures.
MOST_BYTES = 100 << 10
MOST_OF_TWO = 125 << 10
# What is shown when something is pointed at: a page shows pictures as images, in which nothing can be pointed at.
HINT = re.compile(r'<rect [^>]*pointer-events="all"><title>.*?</title></rect>\n?', re.DOTALL)
# The directory of the measured program, which is this machine's own affair.
DIRECTORY = re.compile(r"/[^\s<>]*/(?=thalweg\s)")
# Charges of an explanation that a line has.
CHARGES = 8


def table(study, directory=None):
    """A study's results; elsewhere than in git where a directory is given."""
    return Results(os.path.join(directory or HERE, f"{study}.jsonl"), "run", SCHEMA)


def runs(lines, shard, setting):
    """The lines of a setting, in order."""
    found = [line for line in lines.values() if line["shard"] == shard and line["setting"] == setting]
    return sorted(found, key=lambda line: line["number"])


def middle(values):
    """The median of what is known; None of nothing."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def explained(program, recording):
    """What the recording's explanation says: figures for the line, and the text as it stands."""
    document = json.loads(output([program, "explain", "--json", recording]))
    text = output([program, "explain", recording])
    aggregate = next((one for one in document.get("channels", []) if one.get("aggregate")), None)
    return {
        "wall_s": document["wall_s"],
        "recorder": document["recorder"],
        "cause": document["verdict"].get("cause"),
        "status": document["verdict"]["status"],
        "text": text,
        "charges": [[one["cause"], one["where"], one["share"], one["seconds"]] for one in document["critical_path"][:CHARGES]],
        "channel": _channel(aggregate) if aggregate else None,
        "what_if": [
            {key: one.get(key) for key in ("id", "change", "predicted_wall_s", "interval_s", "speedup", "how")} for one in document["what_if"]
        ],
    }


def _channel(one):
    gaps = one["gaps"]
    kept = {key: one.get(key) for key in ("basis", "bursts", "burst_bytes_per_s", "busy_share")}
    kept["gaps"] = {key: gaps.get(key) for key in ("count", "total_s", "median_s", "p99_s", "period_bytes")}
    kept["gaps"]["parts"] = [[part["cause"], part["gaps"], part["median_s"], part["total_s"]] for part in gaps.get("parts", [])]
    return kept


def output(argv):
    """What a command prints; `Broken` when it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"{' '.join(argv[:3])}: {done.stderr.strip()[-300:]}")
    return done.stdout


def of_rpcstat(document):
    """The figures of packets that a line has: all but what is over time."""
    return {key: value for key, value in document.items() if key not in ("series", "close_ups", "shading", "connections")}


def report(program, recording, name, *flags):
    """Draw a recording for the page."""
    _drawn(name, lambda to: output([program, "report", recording, "-o", to, *flags]))


def rpcstat(program, recordings, name):
    """Draw the RPCs of one recording, or of two on equal axes, for the page."""
    most = MOST_OF_TWO if len(recordings) > 1 else MOST_BYTES
    _drawn(name, lambda to: output([program, "rpcstat", *recordings, "-o", to]), most)


def _drawn(name, draw, most=MOST_BYTES):
    """Draw a picture of the page. `Broken` where it is larger than a page may have."""
    os.makedirs(PICTURES, exist_ok=True)
    path = os.path.join(PICTURES, f"{name}.svg")
    draw(path)
    with open(path, encoding="utf-8") as svg:
        text = DIRECTORY.sub("", HINT.sub("", svg.read()))
    write_text(path, text)
    size = os.path.getsize(path)
    if size > most:
        raise Broken(f"{name}: a picture of {size >> 10} KiB, where {most >> 10} are allowed")
