"""The shards of the study as a campaign: each is a sweep of its plan between network namespaces."""

from bench.harness.study2004 import kept, page, shards
from bench.harness.sweeping import Sweeps
from bench.harness.world import World


class Study2004(Sweeps):
    """Each item is a shard of the study."""

    name = "study-2004"
    noun = "shard"
    parts = shards.SHARDS
    page = page
    results = staticmethod(kept.table)

    def lines(self):
        # A shard whose result is not done is as one without a result.
        return {name: line for name, line in self.table.all().items() if line["state"] == "done"}

    def is_done(self, line):
        return bool(line)

    def head(self, shard):
        return {**super().head(shard), "link": shard.link_words(), "disk_bytes_per_s": shard.disk_bytes_per_s}

    def measure(self, shard):
        with World(shard, self.program, self.relay) as world:
            return kept.keep(shard, self.sweep(world.client, world.plan(), world.inside("sweep")), self.out)
