"""A world of a client and a server: network namespaces, and a link of a known rate between them."""

import os
from contextlib import ExitStack

from testbed.errors import NotRun
from testbed.links import Pair
from testbed.scratch import Scratch

# What a switch holds.
QUEUE_S = 0.05


class Linked:
    """Entered, `client` and `server` are hosts, `directory` is there, and what `set_up(undo)` of the subclass makes besides; it registers what takes it
    away with `undo`. `prefix` begins the names of all of it."""

    def __init__(self, context, prefix, bits_per_s):
        if os.geteuid() != 0:
            raise NotRun("only root may make network namespaces and disks")
        self.program = context.program
        self.scratch = Scratch(prefix)
        self.directory = self.scratch.directory
        self.relay = context.relay
        self.bits_per_s = bits_per_s
        self.client = self.server = None
        self.undo = ExitStack()

    def __enter__(self):
        with ExitStack() as undo:
            undo.enter_context(self.scratch)
            pair = Pair("veth", self.scratch.name, {"client": None, "server": None}, self.relay, self.directory)
            undo.callback(pair.remove)
            pair.make()
            pair.shape(self.bits_per_s, QUEUE_S)
            pair.use_todays_congestion_control()
            self.client, self.server = pair.hosts
            self.set_up(undo)
            self.undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()

    def set_up(self, undo):
        """Make what this world has besides."""
