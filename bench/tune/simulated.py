#!/usr/bin/env python3
"""simulated.py SEED DIRECTORY: surfaces that nobody measured, one of each family, as documents that a tuner can replay.

A family is a law with random numbers: what a point's time is spent on, cause by cause; where two overlap, the longer one alone. The shares of
these causes are the point's explanation. Runs differ by NOISE, and their median is the law. The default is a small setting about 73 % below the best.
Prints a line for each: the family, the file, the default.
"""

import json
import math
import os
import random
import statistics
import sys
from dataclasses import dataclass

NOISE = 0.05
RUNS = 21
DEFAULT_PART = 0.27
BYTES = 1 << 30
KIB, MIB = 1 << 10, 1 << 20

POWERS = ["1", "2", "4", "8", "16", "32", "64", "128"]
BLOCKS = ["64Ki", "256Ki", "1Mi", "4Mi"]
FINE_BLOCKS = ["16Ki", "32Ki", "64Ki", "128Ki", "256Ki", "512Ki", "1Mi", "2Mi"]
THREE = {"requests": POWERS[:4], "block": BLOCKS, "streams": POWERS[:4]}


@dataclass(frozen=True)
class Family:
    """`make(draw)` gives the law of one surface: from a point's numbers to seconds by cause."""

    title: str
    parameters: dict
    make: callable


def longest(seconds):
    """What overlaps: only the longest is waited for."""
    cause = max(seconds, key=seconds.get)
    return {cause: seconds[cause]}


def lan_disk(draw):
    """Reading and sending take turns with one request in flight, and overlap with more."""
    disk, link, seek, each = draw.uniform(2e8, 6e8), draw.uniform(3e8, 9e8), draw.uniform(2e-4, 2e-3), draw.uniform(0.01, 0.06)

    def law(requests, block, streams):
        parts = {"server.read": BYTES / disk + BYTES / block * seek / min(requests, 4), "network.bandwidth": BYTES / link}
        return {**(parts if requests == 1 else longest(parts)), "client.cpu": BYTES / link * each * (streams - 1 + requests / 4)}

    return law


def wan_window(draw):
    """A window for each round trip and stream, until the link is full and its queue overflows."""
    link, trip, holds, lost = draw.uniform(5e7, 4e8), draw.uniform(0.01, 0.08), draw.uniform(1.5, 4), draw.uniform(0.1, 0.4)

    def law(streams, window):
        path = link * trip
        over = math.log2(max(1.0, streams * window / (path * holds)))
        parts = longest({"network.rwnd": BYTES / (streams * window / trip), "network.bandwidth": BYTES / link})
        return {**parts, "network.loss": BYTES / link * lost * over, "client.cpu": BYTES / link * 0.01 * math.log2(streams)}

    return law


def cpu_cache(draw):
    """Work for each byte and each block, and more of it where what is in flight does not fit in a cache."""
    byte, call, cache, miss = draw.uniform(1e-9, 3e-9), draw.uniform(1e-5, 2e-4), draw.uniform(5e5, 4e6), draw.uniform(0.1, 0.4)

    def law(requests, block, streams):
        over = math.log2(max(1.0, requests * block * streams / cache))
        cpu = BYTES * byte * (1 + miss * over + 0.03 * (streams - 1)) + BYTES / block * call
        return {"client.cpu": cpu, "network.latency": BYTES / block * call * 2 / (requests * streams)}

    return law


def disk_thrash(draw):
    """A disk that hides its latency behind a few requests, and seeks between more."""
    disk, seek, most = draw.uniform(5e7, 2e8), draw.uniform(2e-3, 8e-3), draw.choice([2, 4, 8])

    def law(requests, block):
        seeks = BYTES / block * seek * ((requests / most) ** 0.7 if requests > most else 1 / requests)
        return {"server.read": BYTES / disk + seeks, "network.latency": 0.05 * BYTES / disk}

    return law


def small_files(draw):
    """A round trip for each of many files, and a metadata service that is slower with more at once."""
    trip, files, work, most = draw.uniform(0.002, 0.02), 2000, draw.uniform(5e-5, 4e-4), draw.choice([8, 16, 32])

    def law(requests, checkers):
        meta = max(trip / checkers, work * max(1.0, (checkers + requests) / most) ** 1.2)
        return {"network.latency": files * trip * 2 / requests, "server.think": files * meta, "client.cpu": files * work * 0.2}

    return law


def large_blocks(draw):
    """Small blocks wait for round trips, large ones keep reading and sending from overlapping."""
    disk, link, trip = draw.uniform(2e8, 6e8), draw.uniform(2e8, 6e8), draw.uniform(0.5e-3, 4e-3)

    def law(block, depth):
        turn = min(1.0, block * depth / (16 * MIB))
        parts = {"server.read": BYTES / disk, "network.bandwidth": BYTES / link}
        shorter = min(parts, key=parts.get)
        return {**longest(parts), shorter: parts[shorter] * turn, "network.latency": BYTES / (block * depth) * trip}

    return law


def lossy_wan(draw):
    """What a stream carries is bounded by loss, and more streams lose more."""
    link, trip, loss = draw.uniform(5e7, 2e8), draw.uniform(0.01, 0.04), 10 ** draw.uniform(-3.7, -2.3)
    most = draw.choice([8, 16, 32])

    def law(requests, block, streams):
        several = requests * streams
        lost = BYTES / (several * 1.22 * 1448 / (trip * math.sqrt(loss)))
        over = 1 + 0.3 * math.log2(max(1.0, several / most))
        return {**longest({"network.loss": lost * over, "network.bandwidth": BYTES / link * over}), "network.latency": BYTES / (block * several) * trip / 2}

    return law


def connections(draw):
    """A server that gives each connection a part, and everybody less when they are many."""
    each, most, fall = draw.uniform(5e6, 2e7), draw.choice([4, 8, 16, 32]), draw.uniform(0.5, 1.2)

    def law(requests, streams):
        several = requests * streams
        rate = each * several if several <= most else each * most * (most / several) ** fall
        return {"server.think": BYTES / rate, "client.cpu": BYTES / (each * most) * 0.02 * math.log2(several + 1)}

    return law


FAMILIES = {
    "lan-disk": Family("A disk before a local network, in turn with one request", THREE, lan_disk),
    "wan-window": Family("Streams and windows over a long path", {"streams": POWERS, "window": FINE_BLOCKS}, wan_window),
    "cpu-cache": Family("A processor, and a cache that overflows", THREE, cpu_cache),
    "disk-thrash": Family("A disk that thrashes", {"requests": POWERS, "block": FINE_BLOCKS}, disk_thrash),
    "small-files": Family("Small files, and metadata that thrashes", {"requests": POWERS, "checkers": POWERS}, small_files),
    "large-blocks": Family("Blocks that are too large to overlap", {"block": FINE_BLOCKS, "depth": POWERS}, large_blocks),
    "lossy-wan": Family("A long path that loses", THREE, lossy_wan),
    "connections": Family("A server that thrashes by connections", {"requests": POWERS, "streams": POWERS}, connections),
}


def number(label):
    """A value as a number."""
    for ending, factor in (("Ki", KIB), ("Mi", MIB)):
        if label.endswith(ending):
            return int(label.removesuffix(ending)) * factor
    return int(label)


def make(name, seed):
    """A surface of a family: its document and its default."""
    family, draw = FAMILIES[name], random.Random(f"{name} {seed}")
    law = family.make(draw)
    grid = [[]]
    for values in family.parameters.values():
        grid = [[*point, value] for point in grid for value in values]
    seconds = [law(**dict(zip(family.parameters, map(number, point), strict=True))) for point in grid]
    parameters = [{"name": parameter, "values": [{"label": one, "word": str(number(one)), "number": float(number(one))} for one in values]} for parameter, values in family.parameters.items()]
    points = [_point(point, parts, draw) for point, parts in zip(grid, seconds, strict=True)]
    findings = {"sentence": family.title, "differs": True, "shares": [], "equals": [], "handovers": []}
    machine = {"cpus": 0, "cpu_model": "", "memory_bytes": 0, "kernel": "", "system": "", "virtual_machine": False, "file_systems": [], "load": 0.0}
    document = {"schema": "thalweg.sweep/1", "command": [f"simulated-{name}", *(f"{{{parameter}}}" for parameter in family.parameters)], "parameters": parameters, "ended_unix_s": 0, "machine": machine, "repeat": RUNS, "points": points, "findings": findings}
    return document, _default(family, grid, [sum(parts.values()) for parts in seconds])


def _point(values, parts, draw):
    wall_s = sum(parts.values())
    spread = statistics.NormalDist(0, NOISE)
    factors = [1 + spread.inv_cdf((at + 0.5) / RUNS) for at in range(RUNS)]
    draw.shuffle(factors)
    runs = [{"repeat": at, "wall_s": wall_s / factor, "user_s": 0.0, "system_s": 0.0, "bytes": BYTES} for at, factor in enumerate(factors, 1)]
    shares = sorted(([cause, seconds / wall_s] for cause, seconds in parts.items()), key=lambda share: -share[1])
    return {"values": values, "state": "done", "explanation": {"cause": shares[0][0], "where": "", "sentence": f"{shares[0][0]} limits.", "shares": shares}, "runs": runs}


def _default(family, grid, walls):
    """A point in the lower half of every parameter whose rate is nearest to DEFAULT_PART of the best."""
    best = min(walls)
    sizes = [len(values) for values in family.parameters.values()]
    small = [(point, wall) for point, wall in zip(grid, walls, strict=True) if all(values.index(value) < size / 2 for value, values, size in zip(point, family.parameters.values(), sizes, strict=True))]
    point, _ = min(small, key=lambda one: abs(best / one[1] - DEFAULT_PART))
    return dict(zip(family.parameters, point, strict=True))


def write(name, seed, path):
    """Write a surface's document; its default."""
    document, default = make(name, seed)
    with open(path, "w", encoding="utf-8") as out:
        json.dump(document, out)
    return default


def main(seed, directory):
    os.makedirs(directory, exist_ok=True)
    for name in FAMILIES:
        path = os.path.join(directory, f"{name}.json")
        default = write(name, seed, path)
        print(name, path, ",".join(f"{parameter}={value}" for parameter, value in default.items()))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
