"""A campaign: named items that are measured one after the other, and what every launcher does around that.

Each launcher of bench, lab and gates is a few lines that run a `Campaign`, so that one set of flags means one thing everywhere. A campaign
says which items it has (`items`), how one of them is measured (`measure`), where results are kept (`results`) and what is made of them
(`write_page`, `show`). Everything else is here: the command line, which items are meant, shards, going on after an interruption, the
directory for results, a scratch directory, signals, and exit codes.

An item that this machine cannot measure raises `NotRun` and one that fails raises `Broken`; both leave a document, as one that is done does.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import traceback
from dataclasses import dataclass
from functools import cached_property
from time import monotonic

from testbed import machine, paths, shards
from testbed.errors import Broken, NotRun
from testbed.results import now

CANNOT = 3
INTERRUPTED = 130
TERMINATED = 143
CODES = {"done": 0, "failed": 1, "not run": CANNOT}
# Flags that several campaigns have, and not all.
FLAGS = {
    "program": {"metavar": "PATH", "default": paths.THALWEG, "help": "the thalweg to measure (default: target/release/thalweg)"},
    "relay": {"metavar": "PATH", "help": "the packet relay (default: thalweg-relay beside the program)"},
    "dir": {"metavar": "DIR", "help": "the directory for files that are copied and stores that are made (default: %(default)s)"},
    "nice": {"type": int, "default": 0, "metavar": "N", "help": "run everything at this niceness, on a machine with other work"},
    "counts": {"metavar": "FILE", "help": "append lines `NAME PASSED FAILED NOT-RUN SECONDS` to this file"},
}


@dataclass(frozen=True)
class Item:
    """An item of a campaign. Any object with a name and a title will do."""

    name: str
    title: str


def attempt(function, *arguments):
    """The figures that a function returns with the state `done`, or the state and the reason where it returns none."""
    try:
        return {"state": "done", **function(*arguments)}
    except NotRun as reason:
        return {"state": "not run", "reason": str(reason)}
    except Broken as reason:
        return {"state": "failed", "reason": str(reason)}
    except Exception as reason:
        traceback.print_exc()
        return {"state": "failed", "reason": f"the harness itself: {reason!r}"}


def say(words):
    """Progress, on stderr."""
    print(words, file=sys.stderr, flush=True)


class Campaign:
    """What a launcher runs; a subclass sets what differs.

    `quick` says in words what the short form is, and None means that there is none; `root` says why only root can run it. A campaign that
    is measured in one piece has no shards.
    """

    name = ""
    noun = "case"
    flags = ()
    quick = "a short form that shows whether it works; results go to target/NAME-quick"
    root = None
    # The module of the page, which knows its place in the checkout (`PAGE`) and writes it (`write(results, path)`).
    page = None
    # Every item, in order.
    parts = ()
    has_shards = True
    # Whether a result that is not done replaces one that is.
    failures_replace = False
    # Where files are unless `--dir` names another place; what is known of the machine includes its file system.
    place = tempfile.gettempdir()

    def items(self):
        """Every item, in order, where flags or files say which there are. `ValueError` where one cannot be read."""
        return self.parts

    def results(self, path=None):
        """The results in the checkout, or those in a file elsewhere."""
        raise NotImplementedError

    def measure(self, item):
        """The figures of an item."""
        raise NotImplementedError

    def write_page(self, path):
        """Write the page."""
        self.page.write(self.table, path)

    def show(self):
        """Print what is known, where people read it on the terminal; 1 if something known is not as it should be."""
        return 0

    def add_flags(self, parser):
        """Add flags that only this campaign has."""

    def check(self):
        """`ValueError` where flags contradict each other."""

    def is_in_quick(self, _item):
        """Whether an item belongs to the short form; `--only` overrules this."""
        return True

    def elsewhere(self):
        """The directory for results that do not belong in the checkout; None for those that do."""
        return os.path.join(paths.TARGET, f"{self.name}-quick") if self.options.quick else None

    def lines(self):
        """What is known of each item, by its name."""
        return self.table.all()

    def is_done(self, line):
        """Whether a line is a whole result of this very program."""
        return line.get("state") == "done" and line["build"]["thalweg_sha256"] == self.build["thalweg_sha256"]

    def is_settled(self, line):
        """Whether a shard needs no other result than a line."""
        return self.is_done(line)

    def head(self, item):
        """What a document begins with."""
        known = {"title": item.title, "measured": now(), "busy_before": machine.busy_share(), "machine": self.machine, "build": self.build}
        return {self.table.key: item.name, **known}

    def document(self, item):
        """An item's document, whatever happens to it."""
        begun = monotonic()
        head = self.head(item)
        return {**head, **attempt(self.measure, item), "took_s": round(monotonic() - begun, 1)}

    def line(self, document):
        """What git keeps of a document; where that is less, the whole document goes to the folder that git ignores."""
        return document

    def keep(self, document):
        """Put a document into the results."""
        known = self.table.get(document[self.table.key]) or {}
        if self.failures_replace or document["state"] == "done" or known.get("state") != "done":
            line = self.line(document)
            self.table.put(line, None if line is document else document)

    def run(self, items):
        """Measure the items; their documents."""
        documents = []
        for item in items:
            say(f"{item.name}: {item.title}")
            document = self.document(item)
            if document["state"] != "done":
                say(f"{'FAILED' if document['state'] == 'failed' else 'NOT RUN'}: {document['reason']}")
            self.keep(document)
            documents.append(document)
        return documents

    def code(self, documents):
        """The exit code that the documents make."""
        return max((CODES[document["state"]] for document in documents), default=0)

    def deal(self, items, count):
        """The items in `count` shards; without a count each is a shard by itself."""
        return shards.in_turn([item.name for item in items], count or len(items))

    def left(self, items, is_enough):
        """The items whose lines are not enough."""
        lines = self.lines()
        return [item for item in items if not is_enough(lines.get(item.name, {}))]

    def main(self, description, argv=None):
        """Do what the command line asks for; the exit code."""
        try:
            return self._main(description, argv)
        except NotRun as reason:
            say(f"NOT RUN: {reason}")
            return CANNOT
        except KeyboardInterrupt:
            return INTERRUPTED

    def _main(self, description, argv):
        parser = self._parser(description)
        self.options = parser.parse_args(argv)
        self.shard = None
        try:
            items = self._settle()
        except ValueError as reason:
            parser.error(str(reason))
        if self.options.list:
            return self._list(items)
        if self.options.page:
            self.publish()
            return self.show()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
        if self.root and os.geteuid() != 0:
            raise NotRun(self.root)
        os.nice(getattr(self.options, "nice", 0))
        if shutil.which("ip") is None:
            os.environ["PATH"] += ":/usr/sbin:/sbin"
        with tempfile.TemporaryDirectory(prefix=f"thalweg-{self.name}-", dir=self.options.dir, ignore_cleanup_errors=True) as self.scratch:
            documents = self._one_shard(items) if self.options.shard else self.run(self.left(items, self.is_done) if self.options.resume else items)
        if not self.out:
            self.publish()
        return max(self.code(documents), self.show())

    def _parser(self, description):
        plain = argparse.RawDescriptionHelpFormatter
        parser = argparse.ArgumentParser(prog=os.path.relpath(sys.argv[0], paths.REPOSITORY), description=description, formatter_class=plain, allow_abbrev=False)
        parser.add_argument("--list", action="store_true", help=f"list every {self.noun} and what is known of it")
        parser.add_argument("--only", nargs="+", action="extend", metavar="NAME", help="measure only these, by the names that --list shows; spaces or commas divide them")
        if self.has_shards:
            parser.add_argument("--shard", metavar="K/N", help="the Kth of N shards; `next`: the shard whose results are oldest, or what is left of it; with --list, list the shards")
        parser.add_argument("--resume", action="store_true", help="go on: leave out what has a result already (default: measure everything anew)")
        parser.add_argument("--page", action="store_true", help="write the page, or print what is known, from the results there are; measure nothing")
        if self.quick:
            parser.add_argument("--quick", action="store_true", help=self.quick.replace("NAME", self.name))
        parser.add_argument("--out", metavar="DIR", help="the directory for results and page (default: their places in the checkout)")
        for flag in self.flags:
            parser.add_argument(f"--{flag}", **FLAGS[flag])
        parser.set_defaults(quick=False, shard=None, dir=self.place)
        self.add_flags(parser)
        return parser

    def _settle(self):
        """Paths and results as the options have them; the items that are meant."""
        options = self.options
        self.program = os.path.abspath(getattr(options, "program", None) or paths.THALWEG)
        self.relay = os.path.abspath(getattr(options, "relay", None) or os.path.join(os.path.dirname(self.program), "thalweg-relay"))
        self.check()
        self.out = os.path.abspath(options.out) if options.out else self.elsewhere()
        elsewhere = os.path.join(self.out, "results.jsonl") if self.out else None
        # A page may be made elsewhere of what the checkout has.
        self.table = self.results(elsewhere if elsewhere and (os.path.exists(elsewhere) or not options.page) else None)
        if options.shard:
            shards.count_of(options.shard)
        items = self.items()
        names = [name for words in options.only or [] for name in words.split(",") if name]
        unknown = [name for name in names if not any(_is_meant(item, name) for item in items)]
        if unknown:
            raise ValueError(f"no such {self.noun}: {', '.join(unknown)}; there are {', '.join(item.name for item in items)}")
        if names:
            return [item for item in items if any(_is_meant(item, name) for name in names)]
        return [item for item in items if not options.quick or self.is_in_quick(item)]

    @cached_property
    def build(self):
        """Which sources and which program."""
        return paths.build(self.program)

    @cached_property
    def machine(self):
        """What is measured on."""
        return machine.describe(self.options.dir)

    def about(self, item, line):
        """An item and what is known of it, in a line of `--list`."""
        took = f"{line['took_s']:.0f} s" if line.get("took_s") else ""
        known = ", ".join(filter(None, [line.get("state"), line.get("measured"), took])) or "no result"
        return f"{item.title}; {known}" + ("" if not self.quick or self.is_in_quick(item) else "; not in --quick")

    def _list(self, items):
        lines = self.lines()
        if self.options.shard:
            for shard in self.deal(items, shards.count_of(self.options.shard)):
                print(f"{shard.words(lines, self.noun)}\n    {' '.join(shard.names)}")
        else:
            width = max(len(item.name) for item in items)
            print("\n".join(f"{item.name:{width}}  {self.about(item, lines.get(item.name, {}))}" for item in items))
        return 0

    def publish(self):
        """Write the page to its place."""
        if self.page:
            path = os.path.join(self.out, os.path.basename(self.page.PAGE)) if self.out else self.page.PAGE
            self.write_page(path)
            say(f"written: {path}")

    def _one_shard(self, items):
        """Measure a shard and say which are left; its documents."""
        asked, by_name = self.options.shard, {item.name: item for item in items}
        made = self.deal(items, shards.count_of(asked))
        shard = shards.next_of(made, self.lines()) if asked == "next" else next(one for one in made if one.name == asked)
        self.shard = shard.name
        print(shard.words(self.lines(), self.noun), flush=True)
        wanted = [by_name[name] for name in shard.names]
        left = self.left(wanted, self.is_settled)
        # An interrupted shard goes on with what is left of it; one that is whole is measured again.
        self.options.resume = self.options.resume or (asked == "next" and bool(left))
        documents = self.run(left if self.options.resume else wanted)
        rest = [one.words(self.lines(), self.noun) for one in made if self.left([by_name[name] for name in one.names], self.is_settled)]
        print("\n    ".join(["left:", *rest]) if rest else "every shard has its results", flush=True)
        return documents


class CampaignOfRuns(Campaign):
    """A campaign whose items are many runs with a line of results each: an item that was interrupted goes on where it stopped."""

    def kept(self, item):
        """The results that an item's lines are in, and the names of all its lines."""
        raise NotImplementedError

    def keep(self, document):
        """Every run is kept when it is over."""

    def lines(self):
        return {item.name: self._known(item) for item in self.items()}

    def _known(self, item):
        table, names = self.kept(item)
        there = table.all()
        lines = [there[name] for name in names if there.get(name, {"state": ""}).get("state", "done") == "done"]
        is_whole = len(lines) == len(names)
        oldest = min(line.get("measured") or line.get("simulated", "") for line in lines) if is_whole else ""
        return {"state": f"{len(lines)} of {len(names)} runs", "is_whole": is_whole, "measured": oldest}

    def is_done(self, line):
        return line["is_whole"]


def _is_meant(item, name):
    """Whether a name is the item's, or that of the group that its own name begins with (`GROUP/NAME`)."""
    return item.name == name or item.name.startswith(f"{name}/")
