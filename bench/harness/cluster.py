"""A small cluster on one machine: nodes with a disk and a link of known rates, and a store over all of them.

A node is a network namespace on a bridge, an ext4 over a loop device that serves each request for exactly as long as its rate
says, one I/O server over it, and whatever client is started there. The disks and links are the laboratory's. What is made has our
process number in its name, and is removed when the cluster is left, also after Ctrl-C; what one that was killed has left is
removed when the next one begins, where its marker is locked by nobody.
"""

import glob
import os
import re
import shutil
import signal
import subprocess
from contextlib import ExitStack

from laboratory import claim, shell
from laboratory.bridge import Bridge
from laboratory.disks import Disk
from servers.process import Server

BASE = "/dev/shm"
PREFIX = "thalweg-layout"
KIND = "the layout bench"
# So that times taken before a kill belong to the store that is set up after it: its disks and links are alike.
STORE = "1a7e000000000001"
METADATA_PORT = 7400
SERVER_PORT = 7401

STORE_TOML = """store = "{store}"

[metadata]
address = "{address}:{port}"
directory = "{directory}/metadata"
node = "{node}"
"""

SERVER_TOML = """
[[servers]]
name = "io{number}"
node = "{node}"
address = "{address}:{port}"
targets = ["{disk}/target"]
"""


class Cluster:
    """Entered, a store runs on `nodes` nodes; `disk` and `link` are in bytes per second (`link` None: as fast as the machine)."""

    def __init__(self, program, slowdisk, nodes, disk, link, image_bytes):
        self.program = program
        self.prefix = f"{PREFIX}-{os.getpid()}"
        self.directory = os.path.join(BASE, self.prefix)
        self.store = os.path.join(self.directory, "store.toml")
        self.disk_rate = disk
        names = [f"n{number}" for number in range(nodes)]
        self.bridge = Bridge(self.prefix, names, link * 8 if link else None)
        self.disks = [Disk(name, self.directory, [], slowdisk, image_bytes) for name in names]
        self.undo = ExitStack()

    def __enter__(self):
        remove_leftovers()
        try:
            self._set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _set_up(self):
        self.undo.callback(claim.Claim(self.directory, KIND).release)
        os.chmod(self.directory, 0o755)
        self.undo.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.undo.enter_context(self.bridge)
        for disk in self.disks:
            self.undo.callback(disk.remove)
            disk.make()
        self._write_store()
        for name, host in [("metadata", self.hosts[0]), *((f"io{n}", host) for n, host in enumerate(self.hosts))]:
            self._serve(name, host)
        for disk in self.disks:
            disk.sync()
            disk.slow(read=int(self.disk_rate), write=int(self.disk_rate))

    @property
    def hosts(self):
        """The nodes' hosts, in order."""
        return self.bridge.hosts

    @property
    def run_on(self):
        """What starts a command on the node `{node}`."""
        return f"nsenter --net=/run/netns/{self.prefix}-{{node}}"

    def _write_store(self):
        first = self.hosts[0]
        text = STORE_TOML.format(store=STORE, address=first.address, port=METADATA_PORT, directory=self.directory, node=first.name)
        for number, (host, disk) in enumerate(zip(self.hosts, self.disks, strict=True)):
            text += SERVER_TOML.format(number=number, node=host.name, address=host.address, port=SERVER_PORT, disk=disk.path)
        with open(self.store, "w") as out:
            out.write(text)

    def _serve(self, name, host):
        log = os.path.join(self.directory, f"{name}.log")
        argv = [self.program, "serve", "--initialise", "--store", self.store, "--name", name, "--beyond-loopback"]
        server = Server(host.raw(argv), log)
        self.undo.callback(server.stop)
        server.wait_until(f"server {name}", lambda: name in (shell.read(log) or ""))

    def __exit__(self, *_):
        # A second Ctrl-C must not keep us from taking down what is up.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for disk in self.disks:
                if disk.slowdisk:
                    disk.slow(read=0, write=0)
            self.undo.close()
        finally:
            signal.signal(signal.SIGINT, before)


class InNetwork:
    """A host whose commands are started in its network, and nothing else about them."""

    def __init__(self, host):
        self.address = host.address
        self.argv = host.raw
        self.listens = host.listens


def remove_leftovers():
    """Remove what clusters whose process is gone have left."""

    abandoned = [directory for directory in glob.glob(f"{BASE}/{PREFIX}-*") if claim.abandoned(directory, KIND)]
    names = {os.path.basename(directory) for directory in abandoned}

    def is_dead(name):
        found = re.search(rf"{PREFIX}-\d+", name)
        return found is not None and found.group(0) in names

    def number(name):
        return re.search(rf"{PREFIX}-(\d+)", name).group(1)

    for path in filter(is_dead, glob.glob(f"/run/netns/{PREFIX}-*")):
        namespace = os.path.basename(path)
        for pid in shell.run("ip", "netns", "pids", namespace, check=False).split():
            subprocess.run(["kill", "-KILL", pid], capture_output=True, check=False)
        shell.run("ip", "netns", "delete", namespace, check=False)
        shell.run("ip", "link", "delete", f"b{number(namespace)}", check=False)
    for directory in abandoned:
        for line in reversed((shell.read("/proc/self/mounts") or "").splitlines()):
            device, mount_point = line.split()[:2]
            if mount_point.startswith(f"{directory}/"):
                shell.run("umount", "--lazy", mount_point, check=False)
                if device.startswith("/dev/loop"):
                    shell.run("losetup", "--detach", device, check=False)
        shutil.rmtree(directory, ignore_errors=True)
