"""What all scenarios share: the disks and control groups of one call of the lab, in a scratch directory of its own."""

import os
from contextlib import ExitStack

from testbed.cgroups import Group
from testbed.disks import Disk
from testbed.errors import NotRun
from testbed.scratch import Scratch

PREFIX = "thalweg-lab"
DISKS = ("source", "sink", "server", "server-1", "server-2", "server-3")


class Resources:
    """Entered once. Disks and groups are made when first asked for."""

    def __init__(self, thalweg, relay, method=None):
        self.thalweg = thalweg
        self.method = method
        self.relay = relay
        self.scratch = Scratch(PREFIX)
        self.name = self.scratch.name
        self.directory = self.scratch.directory
        self.recordings = os.path.join(self.directory, "recordings")
        self.disks = {}
        self.groups = {}
        self.undo = ExitStack()

    def __enter__(self):
        if os.geteuid() != 0:
            raise NotRun("only root may make network namespaces, disks and control groups")
        self.undo.enter_context(self.scratch)
        os.mkdir(self.recordings)
        # Recorders without privilege write there, too.
        os.chmod(self.recordings, 0o1777)
        return self

    def __exit__(self, *_):
        self.undo.close()

    def disk(self, name):
        """A disk by its name."""
        if name not in self.disks:
            if name not in DISKS:
                raise ValueError(f"{name}: the disks are {', '.join(DISKS)}")
            disk = Disk(name, self.directory, self.groups.values())
            # One that could not be made is none: what is done to all disks would fail on it, and hide why.
            with ExitStack() as undo:
                undo.callback(disk.remove)
                disk.make()
                self.undo.push(undo.pop_all())
            self.disks[name] = disk
        return self.disks[name]

    def empty_disks(self):
        """Have the disks empty for the next scenario."""
        for disk in self.disks.values():
            disk.empty()

    def group(self, who):
        """The control group of the client or the server."""
        if who not in self.groups:
            group = Group(f"{self.name}-{who}")
            self.undo.callback(group.remove)
            group.make()
            self.groups[who] = group
        return self.groups[who]
