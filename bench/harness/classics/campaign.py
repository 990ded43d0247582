"""The five studies as a campaign: an item is a shard of a study, and each of its runs has a line of results."""

from dataclasses import dataclass

from bench.harness.classics import STUDIES, kept, page
from bench.harness.classics.shard import Context
from testbed.campaign import CampaignOfRuns, say


@dataclass(frozen=True)
class Part:
    """A shard, by the name `STUDY/SHARD`."""

    shard: object

    @property
    def name(self):
        """What `--only` takes; the study's name stands for all its shards."""
        return f"{self.shard.study}/{self.shard.name}"

    @property
    def title(self):
        """What it measures."""
        return self.shard.title


class Classics(CampaignOfRuns):
    """Each item takes less than 25 minutes."""

    name = "studies"
    noun = "shard"
    flags = ("program", "relay")
    quick = "each setting once; results go to target/NAME-quick"
    page = page

    def items(self):
        return [Part(shard) for study in STUDIES for shard in study.shards]

    def results(self, _path=None):
        # Each study has a file of its own.
        return None

    def head(self, part):
        return {"shard": part.name}

    def write_page(self, path):
        page.write(STUDIES, path)

    def kept(self, part):
        return part.shard.table(self.out), [part.shard.key(*run) for run in part.shard.runs()]

    def measure(self, part):
        if self.out:
            kept.PICTURES = self.out
        context = Context(self.program, self.relay, self.options.quick, not self.options.resume, self.out)
        part.shard.measure(context, part.shard.table(self.out), lambda words: say(f"  {words}"))
        return {}
