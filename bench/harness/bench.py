"""The bench that cases work at: sources, servers that are started once and kept, and what was found out on the way.

All files are under one directory (`work`), which the caller creates and removes. All processes that the bench starts end with the bench.
"""

import contextlib
import itertools
import os
import shutil
import sys

from bench.harness import pairs
from bench.harness.apart import Apart
from bench.harness.pairs import Plan
from bench.harness.result import Amount
from testbed import files
from testbed.errors import Broken, NotRun
from testbed.hosts import LOOPBACK
from testbed.servers import SERVERS
from testbed.store import Store
from testbed.users import User

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FINALISTS = 3


class Bench:
    """What a case may use. Servers and stores live until the bench is closed."""

    def __init__(self, binaries, work, quick, user=None):
        """With a `user` (of testbed/users) its servers are that user's."""
        self.binaries = binaries
        self.quick = quick
        self.work = work
        self.user = user
        self.closing = contextlib.ExitStack()
        self.kept = {}
        self.numbers = itertools.count()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closing.close()

    def note(self, text):
        """Progress, on stderr."""
        print(f"  {text}", file=sys.stderr, flush=True)

    def path(self, *parts):
        """A path of ours; its directory exists afterwards."""
        path = os.path.join(self.work, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def program(self, name):
        """A built command; `NotRun` if it was not built."""
        path = os.path.join(self.binaries, name)
        if not os.access(path, os.X_OK):
            raise NotRun(f"{name} is not built (cargo build --release)")
        return path

    def source(self, size_bytes):
        """A file of this size, in the page cache."""
        free = shutil.disk_usage(self.work).free
        if free < 6 * size_bytes:
            raise NotRun(f"{self.work} has {free / GIB:.0f} GiB free, and this needs {6 * size_bytes / GIB:.0f}")
        path = files.make_source(self.path("sources", f"{size_bytes // MIB}Mi"), size_bytes)
        files.warm([path])
        return path

    def memory(self, size_bytes):
        """What is done before a round of copies of this size; see `files.use_memory`."""
        return lambda: files.use_memory(self.path("memory"), 6 * size_bytes if size_bytes < GIB else 2 * size_bytes)

    def server(self, name):
        """A started peer, or `NotRun`; asked again, it gives the same answer."""
        if name not in self.kept:
            self.note(f"starting {name}")
            try:
                self.kept[name] = self.closing.enter_context(SERVERS[name](self.path(name), LOOPBACK.owned(self.user)))
            except NotRun as reason:
                self.kept[name] = reason
        if isinstance(self.kept[name], NotRun):
            raise self.kept[name]
        return self.kept[name]

    def of_user(self):
        """A bench of the same programs in a directory of its own, where all that is run and served is an ordinary user's."""
        if "user" not in self.kept:
            work = self.path("user", "work")
            os.makedirs(work, exist_ok=True)
            for above in (self.work, os.path.dirname(work), work):
                os.chmod(above, 0o755)
            user = User(os.path.join(work, "home"))
            user.must_reach(self.program("thalweg"), work)
            user.make()
            self.kept["user"] = self.closing.enter_context(Bench(self.binaries, work, self.quick, user))
        return self.kept["user"]

    def store(self, servers=4):
        """A started store of so many servers, all in one process as `thalweg up` runs it."""
        key = f"store-{servers}"
        if key not in self.kept:
            directory = self.path(key)
            store = Store(self.program("thalweg"), [directory], directory + ".log", flags=["--servers", servers])
            self.kept[key] = self.closing.enter_context(store)
        return self.kept[key]

    def apart(self):
        """The place apart, in memory and beyond loopback; see `Apart`."""
        if "apart" not in self.kept:
            self.kept["apart"] = self.closing.enter_context(Apart())
        return self.kept["apart"]

    def store_apart(self, plain):
        """A started store of four servers there: in clear, or encrypted as it is by itself."""
        key = f"store-apart-{'plain' if plain else 'tls'}"
        if key not in self.kept:
            place = self.apart()
            flags = ["--servers", 4, *(["--plain"] if plain else [])]
            store = Store(self.program("thalweg"), [place.path(key)], place.path(key + ".log"), place.host, flags)
            self.kept[key] = self.closing.enter_context(store)
        return self.kept[key]

    def forget_the_dead(self):
        """One sentence for each store that has ended by itself; the next case that wants it gets a new one."""
        told = []
        for key, store in list(self.kept.items()):
            if isinstance(store, Store) and not store.process.is_running:
                told.append(f"{key} ended with code {store.process.process.returncode}: {store.process.last_line()}")
                self.kept = {known: value for known, value in self.kept.items() if known != key and store.address not in known}
                files.remove(store.directories[0])
        return told

    def fastest(self, family, sync, candidates):
        """The fastest of several ways to do one thing.

        One run each, the better third stays, and again, until a few are left, which are compared by the median of more runs. What
        was left the first time is all that is tried for a larger file, or with the device in the way. These times are for choosing
        and are not used again: the chosen one is measured afresh in the rounds.
        """
        known = self.kept.get((family, sync)) or self.kept.get((family, False))
        left = [one for one in candidates if one.name in known] if known else list(candidates)

        def in_order(rounds):
            plan = Plan(least=rounds, most=rounds, warm_up=False)
            outcome = pairs.run(self, left, plan, None, Amount(1, "runs"), lambda: files.use_memory(self.path("memory"), 2 * GIB))
            return sorted(left, key=lambda one: outcome.of(one.name)["wall_s"]["median"])

        while len(left) > FINALISTS:
            left = in_order(1)[: max(FINALISTS, len(left) // 3)]
        self.kept[(family, sync)] = [one.name for one in left]
        if len(left) > 1:
            left = in_order(2 if self.quick else 4)
        return left[0]


def whole(path, source, number):
    """`Broken` unless `path` has the source's size, and, in the run before the first round, its bytes."""
    if not os.path.exists(path) or os.path.getsize(path) != os.path.getsize(source):
        raise Broken(f"{path} is not a whole copy of {source}")
    if number == 0 and not files.same_bytes(path, source):
        raise Broken(f"{path} differs from {source}")
