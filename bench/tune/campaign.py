"""The paths as a campaign: whole grids are measured once, and tuners are let loose on what was measured."""

import json
import os

from bench.harness import sweeping
from bench.tune import measured, page, score, surface
from testbed.results import RAW


class Paths(sweeping.Sweeps):
    """Each item is a path; what is found of it is a file, and the lines of results are scores of tuners."""

    name = "tune"
    noun = "path"
    parts = measured.PATHS
    page = page
    results = staticmethod(score.table)
    shorter = ((r"(?m)^repeat = \d+", "repeat = 1"), ('explain = "once"', 'explain = "never"'))

    def add_flags(self, parser):
        parser.add_argument("--score", action="store_true", help="let every tuner loose on every surface, and measure nothing")
        parser.add_argument("--simulated", type=int, metavar="SEED", help="let every tuner loose on surfaces that are made up with this seed")

    def lines(self):
        return {path.name: {"state": "done"} for path in measured.PATHS if os.path.exists(path.surface)}

    def is_done(self, line):
        return bool(line)

    def about(self, path, _line):
        return page.in_short(path)

    def run(self, paths):
        if self.options.simulated is not None:
            score.simulated(self.options.simulated, self.table, self.program)
        elif self.options.score:
            score.measured(self.table, self.program)
        else:
            return super().run(paths)
        return []

    def measure(self, path):
        with measured.PathWorld(path, self.program, self.relay) as world:
            output = self.sweep(world.client, world.plan(), world.inside("sweep"))
            sweeping.keep(output, self.out or os.path.join(RAW, "bench", "tune"), path.name)
            with open(f"{output}.json", encoding="utf-8") as source:
                document = json.load(source)
        if not self.out:
            surface.write(surface.short(document), path.surface)
        print(page.points(path, surface.Surface(document)))
        return {}

    def keep(self, document):
        """What was found is in the surface's file already."""

    def show(self):
        if self.options.score or self.options.simulated is not None:
            print(page.tables(self.table.all()))
        return 0
