"""The shards: each is one plan in one world, a few minutes long, and leaves one line of results."""

import os
from dataclasses import dataclass

from testbed.paths import REPOSITORY

HERE = os.path.join(REPOSITORY, "bench", "study-2004")
MIB = 1 << 20


@dataclass(frozen=True)
class Shard:
    """A plan, and its world: the link's rate (None: as fast as this machine goes) and round trip, the rate of the server's disk."""

    name: str
    title: str
    bits_per_s: float = None
    round_trip_ms: float = 0.0
    disk_bytes_per_s: int = None
    source_bytes: int = 512 * MIB
    # The pictures of the sweep's page that docs/ shows, by how their titles begin.
    pictures: tuple = ()
    has_quota: bool = False

    @property
    def plan(self):
        """The plan's file."""
        return os.path.join(HERE, "plans", f"{self.name}.toml")

    def link_words(self):
        """The link in words."""
        rate = f"{self.bits_per_s / 1e6:g} Mbit/s" if self.bits_per_s else "as fast as this machine goes"
        return rate + (f", {self.round_trip_ms:g} ms round trip" if self.round_trip_ms else "")


GBIT = 1e9
SHARDS = [
    Shard("ends", "What each end of a transfer costs the server", disk_bytes_per_s=400 * MIB, source_bytes=256 * MIB, pictures=("What processors did along of",)),
    Shard("block", "Block size", pictures=("Rate against block", "Where the time goes along block")),
    Shard("buffer", "TCP buffer, short path", pictures=("Rate against buffer",)),
    Shard("streams", "Parallel streams, a link of 1 Gbit/s", bits_per_s=GBIT, pictures=("Processor time of the server against streams",)),
    Shard("streams-fast", "Parallel streams, no link to wait for", pictures=("Rate against streams",)),
    Shard("transfers", "Concurrent transfers", pictures=("Rate against transfers", "Processor time of the server against transfers")),
    Shard("overlap", "Disk and network at once", bits_per_s=GBIT, disk_bytes_per_s=100 * MIB, pictures=("Rate against block", "Where the time goes along block, at source=disk")),
    Shard("streams-by-transfers", "Streams × concurrent transfers", pictures=("Rate at each point",)),
    Shard("block-by-streams", "Block × streams", pictures=("Rate at each point",)),
    Shard("size", "Size of the file, short path", pictures=("Rate against size", "Where the time goes along size")),
    Shard("far", "Streams × TCP buffer at 10 ms", bits_per_s=4e8, round_trip_ms=10.0, pictures=("Rate at each point", "Rate against streams")),
    Shard("thrashing", "Concurrent transfers until the rate falls", pictures=("Rate against transfers", "Where the time goes along transfers")),
    Shard("store-block", "Our store: the flow buffer", pictures=("Rate against buffer",)),
    Shard("store-streams", "Our store: connections, a link of 1 Gbit/s", bits_per_s=GBIT, source_bytes=64 * MIB, pictures=("Processor time of the server against streams",)),
    Shard("store-transfers", "Our store: concurrent transfers", pictures=("Rate against transfers",)),
    Shard("store-lots", "Our store: lots on, lots off"),
]
