"""The server of a scenario, under one interface: start it over the server's disk, name its files, take their space back.

Servers that other people wrote are those of testbed/servers. Three more are of interest here: a Thalweg store, the same as the
client's file system (mounted anew for every run, so that nothing of the last one is in its caches), and a program of
the scenario's own (a workload), which is started anew for every run so that its options can differ.
"""

import os
import time

from testbed import files
from testbed.errors import Broken
from testbed.processes import Process, free_port
from testbed.servers import SERVERS
from testbed.store import Mount, Store as StoreUp


class Files:
    """A server of testbed/servers over `root`, a directory of the server's disk."""

    def __init__(self, kind, directory, root, host, options):
        self.root = root
        self.server = SERVERS[kind](directory, host, root, **options)

    def start(self):
        """Start; `NotRun` where this machine cannot."""
        self.server.__enter__()

    def stop(self):
        """End what was started."""
        self.server.__exit__()

    @property
    def port(self):
        """Where it listens."""
        return self.server.port

    def pids(self):
        """The server's processes."""
        return self.server.process.group()

    def url(self, name):
        """What a client calls the file `name`."""
        return self.server.address(name)

    def path(self, name):
        """Where the file is on the server's disk."""
        return os.path.join(self.root, name)

    def words(self):
        """Further words for commands."""
        return {"base": self.url("")}

    def remove(self, name):
        """Give the space back, also of a file that the server still has open."""
        files.give_back(self.path(name))


class Store:
    """`thalweg up` over the server's disk."""

    def __init__(self, program, directory, disks, host, options):
        """`disks`: the directory of each of its servers' disk; of one disk, `servers` directories are made in it. `emulate`: devices of the store."""
        self.directory = directory
        self.roots = [os.path.join(disk, "store") for disk in disks]
        flags = ["--servers", options.get("servers", 2)] if len(disks) == 1 else []
        flags += ["--emulate", options["emulate"]] if "emulate" in options else []
        self.store = StoreUp(program, self.roots, os.path.join(directory, "store.log"), host, flags)

    def start(self):
        """Start the store and learn its address."""
        self.store.__enter__()

    def stop(self):
        """End the store and remove what it stored."""
        self.store.__exit__()
        for root in self.roots:
            files.remove(root)

    def pids(self):
        """The store's processes."""
        return self.store.process.group()

    def url(self, name):
        """The file's name for `thalweg cp`."""
        return self.store.url(name)

    def path(self, _name):
        """A file of the store is several, under names of the store's own."""
        return

    def words(self):
        """None besides."""
        return {}

    def put(self, source, name):
        """Have a file in the store, on its disk and no longer in memory."""
        self.store.run("cp", "--quiet", "--force", "--sync", source, self.url(name))

    def put_tree(self, source, name):
        """Have a directory and all in it in the store, and nobody at work on it any more."""
        self.store.run("cp", "--quiet", "--recursive", source, self.url(name))
        # Of a file that was written within a second, walks ask for the size twice.
        time.sleep(1.3)

    def cold(self):
        """Put all datafiles out of memory."""
        for root in self.roots:
            for parent, _, names in os.walk(root):
                for name in names:
                    if "target" in parent or "data" in parent:
                        files.make_cold(os.path.join(parent, name))

    def remove(self, name):
        """Remove a file, if it is there."""
        self.store.run("rm", self.url(name), check=False)


class Mounted(Store):
    """A store that the client has mounted, once or (for a second program that is in the first one's way) twice."""

    def __init__(self, program, directory, disks, host, options):
        super().__init__(program, directory, disks, host, options)
        self.flags = options.get("flags", [])
        self.points = [os.path.join(directory, name) for name in ("mount", "other-mount")[: options.get("mounts", 1)]]
        self.mounts = []

    def mount(self, client):
        """Mount it on the client's host, for one run; `NotRun` where this machine has no FUSE."""
        for number, point in enumerate(self.points):
            log = os.path.join(self.directory, f"mount-{number}.log")
            files.remove(log)
            self.mounts.append(Mount(self.store.program, self.store.address, point, log, self.flags, client))

    def unmount(self):
        """Unmount what is mounted, whatever state it is in."""
        while self.mounts:
            mount = self.mounts.pop()
            try:
                mount.unmount()
            except Broken:
                mount.end()

    def stop(self):
        """Unmount it, and end the store."""
        self.unmount()
        super().stop()

    def words(self):
        """Where it is mounted, and where for a second time."""
        return dict(zip(("mount", "other_mount"), self.points, strict=False))


class Program:
    """A server that is a command of the scenario; it says `ready` on its output when it accepts connections."""

    def __init__(self, directory, root, host):
        self.directory, self.root, self.host = directory, root, host
        self.port = free_port()
        self.process = None

    def start(self):
        """Nothing yet: `begin` starts it for one run."""

    def begin(self, argv, environment=None):
        """Start it for one run."""
        log = os.path.join(self.directory, "program.log")
        files.remove(log)
        self.process = Process(argv, log, self.host, env=environment)
        self.process.wait_for_word(argv[0], failure=Broken)

    def stop(self):
        """End it, if it still runs."""
        process, self.process = self.process, None
        if process:
            process.stop()

    def pids(self):
        """The program's processes."""
        return self.process.group()

    def url(self, name):
        """It knows no names."""
        return name

    def path(self, name):
        """Where it keeps a file, if it does."""
        return os.path.join(self.root, name)

    def words(self):
        """Further words for commands."""
        return {"port": str(self.port), "address": self.host.address}

    def remove(self, name):
        """Remove what it kept."""
        files.remove(self.path(name))
