"""What is kept of a shard: one line with what the page needs, all raw times among them, from the sweep's document; and its pictures."""

import json
import os
import re

from testbed.paths import REPOSITORY
from testbed.results import RAW, Results, write_text

from bench.harness import sweeping
from bench.harness.study2004.shards import HERE

SCHEMA = "thalweg.study-2004/1"
RESULTS = os.path.join(HERE, "results.jsonl")
KEPT = os.path.join(RAW, "bench", "study-2004")
PICTURES = os.path.join(REPOSITORY, "docs", "results", "study-2004")
SVG = re.compile(r"<svg .*?</svg>\n?", re.DOTALL)
TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
# Causes of a point that the line has.
SHARES = 4


def table(path=None):
    """The results in the checkout, or those in a file elsewhere."""
    return Results(path or RESULTS, "shard", SCHEMA, raw=None if path else KEPT)


def of_document(document):
    """The part of a line that comes from the sweep's document."""
    return {
        "parameters": [{"name": one["name"], "values": [value["label"] for value in one["values"]]} for one in document["parameters"]],
        "sentence": document["findings"]["sentence"],
        "best": document["findings"].get("best"),
        "equals": document["findings"]["equals"],
        "handovers": document["findings"]["handovers"],
        "failures": document["findings"].get("failures"),
        "ceiling_bytes_per_s": document.get("ceiling_bytes_per_s"),
        "points": [_point(point) for point in document["points"]],
    }


def _point(point):
    line = {"values": point["values"], "state": point["state"]}
    # Wall time, processor time of the client and of the server, bytes.
    line["runs"] = [[run["repeat"], run["wall_s"], run["user_s"] + run["system_s"], run.get("server_cpu_s"), run.get("bytes")] for run in point["runs"]]
    if point.get("problem"):
        line["problem"] = point["problem"][:300]
    if point.get("explanation"):
        said = point["explanation"]
        line["explanation"] = {"cause": said["cause"], "where": said["where"], "sentence": said["sentence"], "shares": said["shares"][:SHARES]}
    if point.get("profile"):
        profile = point["profile"]
        line["profile"] = {"samples": profile["samples"], "classes": {one["class"]: one["share"] for one in profile["shares"]}}
    return line


def keep(shard, output, directory=None):
    """Copy a sweep's files to where they stay (in the checkout unless a directory is given), and the pictures that the page shows beside it; what
    the line has of them."""
    sweeping.keep(output, directory or KEPT, shard.name, ("json", "html", "parquet", "runs.jsonl"))
    with open(f"{output}.html", encoding="utf-8") as page:
        pictures = _pictures(shard, page.read(), directory or PICTURES)
    with open(f"{output}.json", encoding="utf-8") as document:
        return {**of_document(json.load(document)), "pictures": pictures}


def _pictures(shard, html, directory):
    """Write the pictures that the shard names into a directory; the names of the files."""
    made = []
    for svg in SVG.findall(html):
        title = TITLE.search(svg).group(1)
        if any(title.startswith(begin) for begin in shard.pictures):
            words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
            name = f"{shard.name}-{words}.svg"
            write_text(os.path.join(directory, name), svg)
            made.append(name)
    return made
