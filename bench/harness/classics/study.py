"""A study: its shards, and its section of the page."""

from dataclasses import dataclass

from bench.harness.classics import kept


@dataclass(frozen=True)
class Study:
    """`section` is a module: `text(lines)` makes the section, `questions(lines)` the rows of the last table: question, answer, evidence."""

    name: str
    title: str
    shards: list
    section: object

    def lines(self):
        """What is known."""
        return kept.table(self.name).all()
