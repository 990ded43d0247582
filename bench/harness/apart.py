"""A place apart: a directory in memory, and a network of its own with one address that is not loopback's.

What listens there is beyond loopback as far as a store can know, and the path is loopback's all the same: as fast as the machine goes.
"""

import os
from contextlib import ExitStack

from testbed import files
from testbed.errors import NotRun
from testbed.hosts import Host
from testbed.scratch import Scratch

PREFIX = "thalweg-bench-apart"
ADDRESS = "10.99.0.1"
MIB = 1 << 20


class Apart:
    """Entered, `host` is there, and `path` gives places in memory."""

    def __init__(self):
        self.scratch = Scratch(PREFIX)
        self.host = Host("apart", ADDRESS, f"{self.scratch.name}-host")
        self.undo = ExitStack()

    def __enter__(self):
        if os.geteuid() != 0:
            raise NotRun("only root may make a network namespace")
        with ExitStack() as undo:
            undo.enter_context(self.scratch)
            undo.callback(self.host.remove)
            self.host.make()
            self.host.run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
            self.undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()

    def path(self, *parts):
        """A path in memory; its directory exists afterwards."""
        path = os.path.join(self.scratch.directory, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def source(self, size_bytes):
        """A file of this size."""
        return files.make_source(self.path("sources", f"{size_bytes // MIB}Mi"), size_bytes)
