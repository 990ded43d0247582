"""Where a sweep between two hosts runs: a client and a server in network namespaces, the link between them, and what the server serves.

Files are in memory (page cache of a tmpfs): what is measured is the servers, the network and the processors. What is said of a disk is of
one of the testbed's, whose rate is known; the machine's own would be a different one on each machine. The client reads from memory and
writes to /dev/null, so that its own files cost as little as they can.
"""

import os
import string
from contextlib import ExitStack

from testbed import files
from testbed.cgroups import Group
from testbed.disks import Disk
from testbed.errors import NotRun
from testbed.links import Pair
from testbed.packages import install
from testbed.paths import PROGRAMS, REPOSITORY
from testbed.scratch import Scratch
from testbed.servers.gridftp import GridFtp
from testbed.undoing import Undoing

PREFIX = "thalweg-study"
# Servers and clients that are slow in ways of their own.
SCRIPTS = os.path.join(REPOSITORY, "lab", "scripts")
# What a switch holds.
QUEUE_S = 0.05


class World(Undoing):
    """Entered, it is there: `client` and `server` are hosts, `words` what the plan's `${...}` stand for.

    `wanted` says what of it: `plan` (a file), `bits_per_s` (None: as fast as this machine goes) and `round_trip_ms` of the link,
    `disk_bytes_per_s` of the server's disk (None: it has none), `source_bytes` of each file to read, `has_quota`: whether there is a control
    group.
    """

    packages = GridFtp.packages

    def __init__(self, wanted, program, relay):
        super().__init__()
        self.wanted = wanted
        self.program = program
        self.relay = relay
        self.scratch = Scratch(PREFIX)
        self.client = self.server = self.words = self.disk = None

    def _set_up(self):
        if os.geteuid() != 0:
            raise NotRun("only root may make network namespaces and disks")
        install(self.packages)
        self.undo.enter_context(self.scratch)
        self._link()
        self._files()

    def plan(self):
        """The plan, with this world's words in it; the path of its file."""
        with open(self.wanted.plan) as source:
            text = string.Template(source.read()).substitute(self.words)
        path = self.inside("plan.toml")
        with open(path, "w") as out:
            out.write(text)
        return path

    def inside(self, name):
        """A path in the directory of this run."""
        return os.path.join(self.scratch.directory, name)

    def _link(self):
        wanted, groups = self.wanted, {"client": None, "server": None}
        kind = "relay" if wanted.round_trip_ms else "veth"
        pair = Pair(kind, self.scratch.name, groups, self.relay, self.scratch.directory)
        self.undo.callback(pair.remove)
        pair.make()
        self.client, self.server = pair.hosts
        if kind == "relay":
            pair.start_relay(self._relay_options())
        elif wanted.bits_per_s:
            pair.shape(wanted.bits_per_s, QUEUE_S)
        # Long paths are for what machines of today have.
        pair.use_todays_congestion_control()

    def _relay_options(self):
        delay = f"{self.wanted.round_trip_ms / 2:g}ms"
        return {"delay": delay, **({"rate": f"{self.wanted.bits_per_s / 1e6:g}Mbit"} if self.wanted.bits_per_s else {})}

    def _files(self):
        near, served = self.inside("near"), self.inside("served")
        for directory in ("nothing", "memory", "disk"):
            os.makedirs(os.path.join(near, directory))
        for directory in ("nothing", "memory", "store"):
            os.makedirs(os.path.join(served, directory))
        source = files.make_source(os.path.join(near, "source"), self.wanted.source_bytes)
        for directory in ("memory", "disk"):
            os.symlink(source, os.path.join(near, directory, "source"))
        files.make_source(os.path.join(served, "memory", "source"), self.wanted.source_bytes)
        for end in (near, served):
            os.symlink("/dev/zero", os.path.join(end, "nothing", "source"))
        if self.wanted.disk_bytes_per_s:
            self._disk(served)
        enter = f"nsenter --net=/run/netns/{self.server.namespace}"
        # What stands beside the plans: programs that they run.
        here = os.path.dirname(os.path.dirname(self.wanted.plan))
        self.words = {"here": here, "near": near, "served": served, "address": self.server.address, "on_server": enter, "thalweg": self.program}
        self.words["source_bytes"] = str(self.wanted.source_bytes)
        self.words |= {"server_namespace": self.server.namespace, "programs": PROGRAMS, "scripts": SCRIPTS}
        if self.disk:
            self.words["disk_control"] = self.disk.control
        if self.wanted.has_quota:
            self.words["group"] = self._group().path

    def _group(self):
        group = Group(f"{self.scratch.name}-client")
        self.undo.callback(group.remove)
        group.make()
        return group

    def _disk(self, served):
        self.disk = disk = Disk("disk", served)
        with ExitStack() as undo:
            undo.callback(disk.remove)
            disk.make()
            self.undo.push(undo.pop_all())
        disk.file("source", self.wanted.source_bytes)
        disk.sync()
        disk.slow(read=self.wanted.disk_bytes_per_s, write=self.wanted.disk_bytes_per_s)
