"""The server of a scenario, under one face: start it over the server's disk, name its files, take their space back.

Servers that other people wrote are those of bench/servers. Three more are only of interest here: a Thalweg store, the same as the
client's file system (mounted anew for every run, so that nothing of the last one is in its caches), and a program of
the scenario's own (a patient), which is started anew for every run so that its options can differ.
"""

import os
import re
import time

from laboratory import shell
from laboratory.errors import Broken, NotRun
from servers import SERVERS
from servers.process import Server, Unavailable, free_port


class Files:
    """A server of bench/servers over `root`, a directory of the server's disk."""

    def __init__(self, kind, directory, root, host, options):
        self.root = root
        over = {"nfs": {"export": root}, "gridftp": {}}.get(kind, {"root": root})
        self.kind = kind
        self.server = SERVERS[kind](directory, host, **over, **options)

    def start(self):
        """Start; `NotRun` where this machine cannot."""
        try:
            self.server.__enter__()
        except Unavailable as reason:
            raise NotRun(str(reason)) from None

    def stop(self):
        """End what was started."""
        self.server.__exit__(None, None, None)

    def leader(self):
        """The process whose group is the server."""
        return self.server.servers[-1].pid if self.kind == "nfs" else self.server.server.pid

    def url(self, name):
        """What a client calls the file `name`."""
        return self.server.address(os.path.join(self.root, name) if self.kind == "gridftp" else name)

    def path(self, name):
        """Where the file is on the server's disk."""
        return os.path.join(self.root, name)

    def words(self):
        """Further words for commands."""
        return {"base": self.server.address("") if self.kind in ("nginx", "rsync") else ""}

    def remove(self, name):
        """Give the space back, also of a file that the server still has open."""
        path = self.path(name)
        if os.path.exists(path):
            os.truncate(path, 0)
            os.unlink(path)


class Store:
    """`thalweg up` over the server's disk."""

    ADDRESS = re.compile(r"thal://[^\s\"'/]+")

    def __init__(self, program, directory, disks, host, options):
        """`disks`: the directory of each of its servers' disk; of one disk, `servers` directories are made in it."""
        self.program, self.directory, self.host = program, directory, host
        self.roots = [os.path.join(disk, "store") for disk in disks]
        self.servers = options.get("servers", 2)
        self.address = None
        self.server = None

    def start(self):
        """Start the store and learn its address."""
        for root in self.roots:
            os.makedirs(root, exist_ok=True)
        log = os.path.join(self.directory, "store.log")
        beyond = ["--host", self.host.address, "--beyond-loopback"] if self.host.namespace else []
        servers = ["--servers", str(self.servers)] if len(self.roots) == 1 else []
        self.server = Server([self.program, "up", *servers, "--port", "0", *beyond, *self.roots], log, self.host)

        def told():
            found = self.ADDRESS.search(shell.read(log) or "")
            self.address = found.group(0) if found else None
            return found is not None

        try:
            self.server.wait_until("the store's address", told)
        except Unavailable as reason:
            self.server.stop()
            raise Broken(f"thalweg up: {reason}") from None

    def stop(self):
        """End the store and remove what it stored."""
        self.server.stop()
        shell.run("rm", "-rf", *self.roots)

    def leader(self):
        """The store is one process."""
        return self.server.pid

    def url(self, name):
        """The file's name for `thalweg cp`."""
        return f"{self.address}/{name}"

    def path(self, _name):
        """A file of the store is several, under names of the store's own."""
        return

    def words(self):
        """None besides."""
        return {}

    def put(self, source, name):
        """Have a file in the store, on its disk and no longer in memory."""
        self._thalweg("cp", "--quiet", "--force", "--sync", source, self.url(name))

    def put_tree(self, source, name):
        """Have a directory and all in it in the store, and nobody at work on it any more."""
        self._thalweg("cp", "--quiet", "--recursive", source, self.url(name))
        # Of a file that was written within a second, walks ask for the size twice.
        time.sleep(1.3)

    def cold(self):
        """Put all datafiles out of memory."""
        from laboratory.disks import make_cold

        for root in self.roots:
            for parent, _, names in os.walk(root):
                for name in names:
                    if "target" in parent or "data" in parent:
                        make_cold(os.path.join(parent, name))

    def remove(self, name):
        """Remove a file, if it is there."""
        self._thalweg("rm", self.url(name), check=False)

    def _thalweg(self, *words, check=True):
        shell.run(*self.host.inside([self.program, *words]), check=check)


class Mounted(Store):
    """A store that the client has mounted, once or (for a second program that is in the first one's way) twice."""

    def __init__(self, program, directory, disks, host, options):
        super().__init__(program, directory, disks, host, options)
        self.flags = options.get("flags", [])
        self.points = [os.path.join(directory, name) for name in ("mount", "other-mount")[: options.get("mounts", 1)]]
        self.mounts = []

    def mount(self, client):
        """Mount it on the client's host, for one run; `NotRun` where this machine has no FUSE."""
        if not os.path.exists("/dev/fuse"):
            raise NotRun("this machine has no /dev/fuse")
        for number, point in enumerate(self.points):
            os.makedirs(point, exist_ok=True)
            log = os.path.join(self.directory, f"mount-{number}.log")
            if os.path.exists(log):
                os.unlink(log)
            # In the network of the client's host but among everybody's mounts, where whoever is started there later finds it.
            argv = client.raw([self.program, "mount", self.address, point, "--foreground", *self.flags])
            self.mounts.append(Server(argv, log))
            try:
                self.mounts[-1].wait_until("the mount", lambda point=point: os.path.ismount(point))
            except Unavailable as reason:
                self.unmount()
                raise Broken(f"thalweg mount: {reason}") from None

    def unmount(self):
        """Unmount what is mounted, whatever state it is in."""
        for point in self.points:
            if _is_mounted(point):
                shell.run(self.program, "umount", point, check=False)
            if _is_mounted(point):
                shell.run("umount", "--lazy", point, check=False)
        for mount in self.mounts:
            mount.stop()
        self.mounts = []

    def stop(self):
        """Unmount it, and end the store."""
        self.unmount()
        super().stop()

    def words(self):
        """Where it is mounted, and where for a second time."""
        return dict(zip(("mount", "other_mount"), self.points, strict=False))


def _is_mounted(point):
    """Whether something is mounted there; asks nobody who may be dead."""
    return any(line.split()[4] == point for line in (shell.read("/proc/self/mountinfo") or "").splitlines())


class Program:
    """A server that is a command of the scenario; it says `ready` on its output when it accepts connections."""

    def __init__(self, directory, root, host):
        self.directory, self.root, self.host = directory, root, host
        self.port = free_port()
        self.server = None

    def start(self):
        """Nothing yet: `begin` starts it for one run."""

    def begin(self, argv):
        """Start it for one run."""
        log = os.path.join(self.directory, "program.log")
        if os.path.exists(log):
            os.unlink(log)
        self.server = Server(argv, log, self.host)
        try:
            self.server.wait_until(argv[0], lambda: "ready" in (shell.read(log) or ""))
        except Unavailable as reason:
            self.stop()
            raise Broken(str(reason)) from None

    def stop(self):
        """End it, if it still runs."""
        if self.server:
            self.server.stop()
            self.server = None

    def leader(self):
        """The program's process."""
        return self.server.pid

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
        if os.path.exists(self.path(name)):
            os.unlink(self.path(name))


def process_group(leader):
    """All processes of a server: those of its process group."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            status = (shell.read(f"/proc/{entry}/stat") or "").rsplit(")", 1)
            if len(status) == 2 and status[1].split()[2] == str(leader):
                found.append(int(entry))
    return found
