"""A small cluster on one machine: nodes with a disk and a link of known rates, and a store over all of them.

A node is a network namespace on a bridge, an ext4 over a loop device that serves each request for exactly as long as its rate
says, one I/O server over it, and whatever client is started there.
"""

import os
import signal
from contextlib import ExitStack

from testbed.disks import Disk
from testbed.links import QUEUE_S, Bridge
from testbed.processes import Process
from testbed.scratch import Scratch

PREFIX = "thalweg-layout"
# So that times taken before a kill belong to the store that is set up after it: its disks and links are alike.
STORE = "1a7e000000000001"
METADATA_PORT = 7400
SERVER_PORT = 7401

# In clear, as what it is compared with is.
STORE_TOML = """store = "{store}"
plain = true

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
targets = ["{directory}/target"]
"""


class Cluster:
    """Entered, a store runs on `nodes` nodes; `disk` and `link` are in bytes per second (None: as fast as the machine, the disk in memory). A port
    holds `queue_s` of its link. `clients` further nodes have no server."""

    def __init__(self, program, nodes, disk, link, image_bytes=None, queue_s=QUEUE_S, clients=0):
        self.program = program
        self.scratch = Scratch(PREFIX)
        self.directory = self.scratch.directory
        self.store = os.path.join(self.directory, "store.toml")
        self.disk_rate = disk
        names = [f"n{number}" for number in range(nodes)]
        others = [f"c{number}" for number in range(clients)]
        self.bridge = Bridge(self.scratch.name, names + others, link * 8 if link else None, queue_s)
        self.hosts, self.clients = self.bridge.hosts[:nodes], self.bridge.hosts[nodes:]
        self.disks = [Disk(name, self.directory, image_bytes=image_bytes) for name in names] if disk else []
        self.undo = ExitStack()

    def __enter__(self):
        try:
            self._set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _set_up(self):
        self.undo.enter_context(self.scratch)
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
    def run_on(self):
        """What starts a command on the node `{node}`."""
        return f"nsenter --net=/run/netns/{self.scratch.name}-{{node}}"

    def _write_store(self):
        first = self.hosts[0]
        text = STORE_TOML.format(store=STORE, address=first.address, port=METADATA_PORT, directory=self.directory, node=first.name)
        for number, host in enumerate(self.hosts):
            directory = os.path.join(self.directory, host.name)
            text += SERVER_TOML.format(number=number, node=host.name, address=host.address, port=SERVER_PORT, directory=directory)
        with open(self.store, "w") as out:
            out.write(text)

    def _serve(self, name, host):
        argv = [self.program, "serve", "--initialise", "--store", self.store, "--name", name, "--beyond-loopback"]
        server = Process(argv, os.path.join(self.directory, f"{name}.log"), host)
        self.undo.callback(server.stop)
        server.wait_for_word(f"server {name}", name)

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
