"""A shard: settings of one world, each run as often as asked, and one line of results for each run.

Settings take turns within a repetition, in changing order, so that what else goes on in a machine is everybody's. What has a line is not run
again: a shard that was stopped goes on where it was.
"""

import random
import time
from dataclasses import dataclass, field

from bench.harness.classics import kept
from testbed import machine, paths, results


@dataclass(frozen=True)
class Shard:
    """`make(context)` gives a world to enter; its `run(setting, number)` gives a run's figures. `repeat`: by setting, or for all."""

    study: str
    name: str
    title: str
    settings: tuple
    make: object
    repeat: int = 1
    repeats: dict = field(default_factory=dict)

    def runs(self):
        """Every run, in the order in which they are made: setting and number."""
        most = max([self.repeat, *self.repeats.values()])
        wanted = []
        for number in range(most):
            turn = [one for one in self.settings if number < self.repeats.get(one, self.repeat)]
            random.Random(f"{self.name} {number}").shuffle(turn)
            wanted += [(one, number) for one in turn]
        return wanted

    def key(self, setting, number):
        """A run's name."""
        return f"{self.study}/{self.name}/{setting}/{number}"

    def table(self, directory):
        """The results that its lines are in; elsewhere than in git where a directory is given."""
        return kept.table(self.study, directory)

    def left(self, lines):
        """The runs that have no line."""
        return [one for one in self.runs() if self.key(*one) not in lines]

    def measure(self, context, table, say):
        """Make the runs that are left, or all of them, and keep a line of each."""
        left = self.runs() if context.anew else self.left(table.all())
        if context.quick:
            left = [one for one in left if one[1] == 0]
        if not left:
            return
        common = {"study": self.study, "shard": self.name, "build": paths.build(context.program)}
        with self.make(context) as world:
            if context.anew:
                # Only now is it known that they can be made again.
                table.remove([self.key(*one) for one in left])
            common["machine"] = machine.describe(world.directory)
            for at, (setting, number) in enumerate(left):
                begun, busy = time.monotonic(), machine.busy_share(0.3)
                figures = world.run(setting, number)
                took = time.monotonic() - begun
                say(f"{at + 1}/{len(left)} {setting} {number}: {took:.1f} s")
                line = {**common, "setting": setting, "number": number, "measured": results.now(), "busy_before": busy, "took_s": took, **figures}
                table.put({"run": self.key(setting, number), **line})


@dataclass(frozen=True)
class Context:
    """What all worlds need."""

    program: str
    relay: str
    quick: bool = False
    # Whether runs that have a line are made again.
    anew: bool = False
    # Where results go that do not belong in the checkout.
    directory: str = None
