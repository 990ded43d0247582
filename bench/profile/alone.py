"""A profile of each load and nothing beside it: the tables of servers, and what the profile itself costs."""

import time

from bench.profile import profiler

MOST_COST = 0.01
STUDY = ["gridftp-read", "gridftp-write", "store-read", "store-write"]
COST = ["nfs-read", "nfs-write", "gridftp-read", "gridftp-write"]


def measure(bench, load):
    """A load's figures; its recording stays."""
    recording = bench.kept(f"{load.name}.thw")
    with load.make(bench) as running:
        begun = time.clock_gettime(time.CLOCK_BOOTTIME)
        document = profiler.Profile(bench, recording, running.ports).finish()
        rate = running.rate(begun, begun + bench.seconds)
    wall_s = document["wall_s"] * document["cpus"]
    cost = document["cost"]
    taken = [cost[key] for key in ("bpf_s", "reader_s") if cost.get(key) is not None]
    return {
        "title": load.title,
        "seconds": document["wall_s"],
        "cpus": document["cpus"],
        "rate_bytes_per_s": rate,
        "samples": document["samples"],
        "lost": document["lost"],
        "busy_share": document["busy_s"] / wall_s,
        "bpf_share": cost["bpf_s"] / wall_s if cost.get("bpf_s") is not None else None,
        "reader_share": cost["reader_s"] / wall_s if cost.get("reader_s") is not None else None,
        "recorder_share": cost.get("share"),
        "cost_share": sum(taken) / wall_s if len(taken) == 2 else None,
        "recording_bytes": profiler.size_bytes(recording),
        "met": len(taken) == 2 and sum(taken) / wall_s <= MOST_COST and document["lost"] == 0,
        "classes": {row["class"]: row.get("share") for row in document["classes"]},
    }
