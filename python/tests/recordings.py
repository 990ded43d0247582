"""Recordings for tests: the fixtures of `explain`, and a fleet made of the lab's corpus, each copy with a host, a user and a day of its own.

python -m tests.recordings N DIRECTORY     makes a fleet of N recordings
"""

import json
import os
import shutil
import sys
import tarfile
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

REPOSITORY = Path(__file__).resolve().parents[2]
FIXTURES = REPOSITORY / "crates" / "explain" / "tests" / "fixtures" / "programs"
PACKS = REPOSITORY / "lab" / "corpus" / "packs"
# Every so many recordings are packed: one a tar, and some together in one.
PACKED_EACH, TOGETHER_EACH = 7, 20
MOST_HOSTS, USERS, DAYS = 8, 5, 30
RECORDINGS_OF_A_HOST = 30
# Which of the corpus comes next: no prime factor of its size, so that each comes before any comes again, and not in the order of their names.
STRIDE = 101
FIRST_DAY = datetime(2026, 10, 1, 9, 0, tzinfo=timezone.utc)
# On one host something is wrong from this day on: whatever is run there, packets are lost.
LOSSY_HOST, LOSSY_SINCE, LOSSY = "node1", 15, "curl-get-loss"


def corpus(into):
    """Unpack the lab's recordings; returns where each is, in the order of their names."""
    for pack in sorted(PACKS.glob("*.tar.xz")):
        with tarfile.open(pack) as source:
            for member in source:
                if member.isfile():
                    path = Path(into) / member.name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(source.extractfile(member).read())
    return sorted(meta.parent for meta in Path(into).glob("*/meta.json"))


def hosts(count):
    """How many hosts a fleet of so many recordings has: at least two, each with enough recordings to ask about."""
    return max(2, min(MOST_HOSTS, count // RECORDINGS_OF_A_HOST))


def make(count, into):
    """Make a fleet of `count` recordings below `into`, some packed; the same ones each time."""
    into = Path(into)
    with tempfile.TemporaryDirectory(prefix="thalweg-corpus-") as scratch:
        originals = corpus(scratch)
        together = []
        for number in range(count):
            host, day = f"node{number % hosts(count)}", number * DAYS // count
            is_lossy = host == LOSSY_HOST and day >= LOSSY_SINCE
            original = FIXTURES / LOSSY if is_lossy else originals[number * STRIDE % len(originals)]
            folder = into / host / f"{original.name}-{number:05}.thw"
            began = FIRST_DAY + timedelta(days=day, seconds=number)
            copy(original, folder, host, f"user{number % USERS}", began)
            if number % TOGETHER_EACH == TOGETHER_EACH - 1:
                together.append(folder)
            elif number % PACKED_EACH == PACKED_EACH - 1:
                pack(folder.with_suffix(".tar"), [folder])
        if together:
            pack(into / "together.tar.gz", together)
    return into


def copy(original, into, host, user, began):
    """A copy of a recording that was made by this user on this host at this time."""
    shutil.copytree(original, into)
    meta = json.loads((into / "meta.json").read_text())
    attributes = dict(meta["attributes"]) | {"user": user, "realtime_ns": str(int(began.timestamp()) * 10**9 - meta["start"])}
    meta["attributes"] = [list(pair) for pair in attributes.items()]
    (into / "meta.json").write_text(json.dumps(meta))
    # As if it had been written when it was recorded.
    os.utime(into / "meta.json", (began.timestamp(), began.timestamp()))
    part = into / "hosts" / "host=0" / "part-0.parquet"
    table = pq.read_table(part, partitioning=None)
    pq.write_table(table.set_column(table.schema.get_field_index("name"), "name", pa.array([host] * len(table))), part, compression="zstd")
    sums = into / "checksums.json"
    if sums.exists():
        # A file that was rewritten is read without.
        kept = json.loads(sums.read_text())
        del kept["files"]["hosts/host=0/part-0.parquet"]
        sums.write_text(json.dumps(kept))


def pack(path, folders):
    """Pack recordings into one tar, in place of their directories."""
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as out:
        for folder in folders:
            out.add(folder, folder.name)
    written = [(folder / "meta.json").stat().st_mtime for folder in folders]
    if written:
        os.utime(path, (max(written), max(written)))
    for folder in folders:
        shutil.rmtree(folder)


def break_some(fleet):
    """Add recordings that cannot be explained; returns their paths in the table, each with a word of its error."""
    fleet = Path(fleet)
    empty = fleet / "broken" / "empty.thw"
    empty.mkdir(parents=True)
    cut = fleet / "broken" / "cut.thw"
    copy(FIXTURES / "curl-get-loss", cut, "node0", "user0", FIRST_DAY)
    spans = cut / "spans" / "host=0" / "part-0.parquet"
    spans.write_bytes(spans.read_bytes()[: spans.stat().st_size // 2])
    no_tar = fleet / "broken" / "text.tar"
    no_tar.write_text("no tar\n" * 200)
    half = fleet / "broken" / "half.tar"
    whole = fleet / "broken" / "whole.thw"
    copy(FIXTURES / "curl-get-loss", whole, "node0", "user0", FIRST_DAY)
    pack(half, [whole])
    half.write_bytes(half.read_bytes()[:20_000])
    nothing = fleet / "broken" / "nothing.tar"
    with tarfile.open(nothing, "w"):
        pass
    return {
        "broken/empty.thw": "meta.json",
        "broken/cut.thw": "spans",
        "broken/text.tar": "",
        "broken/half.tar": "",
        "broken/nothing.tar": "no recording",
    }


if __name__ == "__main__":
    made = make(int(sys.argv[1]), sys.argv[2])
    print(f"{sys.argv[1]} recordings in {os.fspath(made)}")
