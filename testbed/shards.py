"""A campaign in shards: parts of about equal length, none of which takes longer than a person can sit in front of it.

How long an item takes is known from its last result. The longest are dealt first, each to the shard with the least so far. An
item stays in the shard that it was measured in, which its result says: dealt anew after each shard, by the times just measured,
some items would be measured twice and others not at all. Only where a shard has outgrown the limit are all dealt again.

Where results do not name a shard, items are dealt in turn, which no measurement changes.
"""

import math

LIMIT_S = 25 * 60
# Shards are planned shorter than they may get: another day is slower, and an item whose results differ may run more often.
PLANNED_S = 20 * 60
# What an item takes that was never measured.
USUALLY_S = 30


class Shard:
    """One part: `name` is K/N, as `--shard` takes it."""

    def __init__(self, number, count):
        self.name = f"{number}/{count}"
        self.names = []
        self.seconds = 0.0

    def add(self, name, seconds):
        """Have an item in it."""
        self.names.append(name)
        self.seconds += seconds

    def oldest(self, lines):
        """When its oldest result was measured; '' where one is missing."""
        return min((lines.get(name, {}).get("measured", "") for name in self.names), default="9")

    def words(self, lines, noun):
        """A line about the shard, whose items are each called by the noun."""
        some = f"{len(self.names)} {noun}{'s' if len(self.names) != 1 else ''}"
        minutes = f", about {self.seconds / 60:.0f} minutes" if self.seconds else ""
        return f"shard {self.name}: {some}{minutes}, last measured {self.oldest(lines) or 'never, in part'}"


def in_turn(names, count):
    """`count` shards, each of every count-th item."""
    made = [Shard(number, count) for number in range(1, count + 1)]
    for at, name in enumerate(names):
        made[at % count].add(name, 0.0)
    return made


def deal(names, lines, count=None):
    """The shards of all items, by the times in their lines: `count`, or as many as it takes."""
    took = {name: lines.get(name, {}).get("took_s", USUALLY_S) for name in names}
    kept = {name: lines.get(name, {}).get("shard") for name in names}
    if count is None:
        # As many as last time, while none has outgrown the limit: another number deals everything anew.
        counts = {int(shard.split("/")[1]) for shard in kept.values() if shard}
        for known in sorted(counts):
            made = _dealt(took, kept, known)
            if max(shard.seconds for shard in made) <= LIMIT_S:
                return made
        count = max(1, math.ceil(sum(took.values()) / PLANNED_S))
    made = _dealt(took, kept, count)
    return made if max(shard.seconds for shard in made) <= LIMIT_S else _dealt(took, {}, count)


def count_of(text):
    """The N of K/N, None of `next`; `ValueError` where it is neither."""
    if text == "next":
        return None
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ValueError(f"--shard: {text}: expected K/N with K from 1 to N, or `next`")
    return int(count)


def next_of(shards, lines):
    """The shard whose results are oldest; of several, the first."""
    return min(shards, key=lambda shard: shard.oldest(lines))


def _dealt(took, kept, count):
    made = [Shard(number, count) for number in range(1, count + 1)]
    by_name = {shard.name: shard for shard in made}
    for name in sorted(took, key=lambda name: (kept.get(name) not in by_name, -took[name], name)):
        shard = by_name.get(kept.get(name)) or min(made, key=lambda shard: shard.seconds)
        shard.add(name, took[name])
    for shard in made:
        shard.names.sort()
    return made
