"""A client that writes 2,000 MB to an NFS server over a link of 1 Gbit/s, and what `thalweg rpcstat` says of its packets.

Client and server are network namespaces; the server is NFS-Ganesha, the client the lab's (a queue depth, an RPC window that timeouts halve, a
retransmission timer, blocks of 32 KiB). The server's volume is one of the testbed's disks with the rate of so many disks; of what is written
and not on the disk yet it holds at most 64 MiB, as a server of 2001 with little memory would.
"""

import json
import os
import signal
import subprocess
import threading
import time
from contextlib import contextmanager, nullcontext

from bench.harness.classics import kept
from bench.harness.classics.linked import Linked
from bench.harness.classics.shard import Shard
from testbed import files
from testbed.disks import Disk
from testbed.errors import Broken, NotRun
from testbed.links import DEVICE
from testbed.paths import PROGRAMS
from testbed.processes import Process
from testbed.servers.nfs_ganesha import NfsGanesha

PREFIX = "thalweg-rpcstat"
MIB = 1 << 20
LINK_BITS = 1e9
IMAGE_BYTES = 3 << 30
# What one disk writes, and what the server lets itself have unwritten.
DISK_RATE = 21 * MIB
DIRTY_BYTES = 64 * MIB
SIZE = "2000Mi"
CLIENT = ["--block", "32Ki", "--depth", "16", "--window", "16", "--timeout", "0.7s", "--retransmit", "--sample", "0"]
COMMITS = ["--commit-every", "250Mi"]
STABLE = ["--stable", "filesync", "--no-commit"]


class Setting:
    """`words` are the client's; `disks` how many the volume has (0: as fast as memory); `events` change the disk while it is written to, by
    seconds from the start; `how`: packets alone, or a recording of both ends besides."""

    def __init__(self, words, disks=0, events=(), how="packets", size=SIZE, dirty=DIRTY_BYTES, close_up=False):
        self.words = words
        self.rate = disks * DISK_RATE
        self.events = events
        self.how = how
        self.size = size
        self.dirty = dirty
        self.close_up = close_up


VOLUMES = {
    "two-disks": Setting(COMMITS, disks=2),
    "six-disks": Setting(COMMITS, disks=6),
    "six-disks-second": Setting(COMMITS, disks=6),
    "two-disks-both-ends": Setting(COMMITS, disks=2, how="both", size="500Mi"),
    "six-disks-both-ends": Setting(COMMITS, disks=6, how="both", size="500Mi"),
}
# The server that answers from memory, and the one whose disk has to have it: 8 MiB in 24 and in 30 ms there; the disk of today is set so that one takes some 30 ms.
CYCLE = ["--commit-every", "8Mi"]
CYCLES = {
    "memory": Setting(CYCLE, disks=0, dirty=None, size="1000Mi"),
    "disk": Setting(CYCLE, disks=14, dirty=None, size="1000Mi"),
    "disk-both-ends": Setting(CYCLE, disks=14, dirty=None, how="both", size="500Mi"),
}
# A client that stops in the middle while a slow disk is behind its queue; a disk that is slow at first.
STALLS = {
    "two-stalls": Setting([*STABLE, "--block", "1Mi", "--depth", "8", "--window", "8", "--pause", "200Mi+900ms"], disks=1, size="300Mi"),
    "slow-beginning": Setting([*STABLE, "--block", "256Ki"], disks=1, events=((2.0, 8),), size="500Mi"),
    "slow-beginning-both-ends": Setting([*STABLE, "--block", "256Ki"], disks=1, events=((2.0, 8),), how="both", size="500Mi"),
}
# A client that needs most of its processor, as that of 2001 did, and its recorder on the same one.
BUSY = ["--stable", "unstable", "--no-commit", "--spin", "250us"]
RECORDERS = {
    "ours": Setting(BUSY, how="recorded", size="500Mi", dirty=None),
    "spinning": Setting(BUSY, how="spinning", size="500Mi", dirty=None),
    "none": Setting(BUSY, how="none", size="500Mi", dirty=None),
}
LAYERS = {"classes": Setting(["--stable", "unstable"], disks=0, how="profile", size="2000Mi", dirty=None)}
# Those of which the page has a picture by themselves, with close-ups.
DRAWN = ("two-disks", "disk", "two-stalls", "slow-beginning")
SETTINGS = VOLUMES | CYCLES | STALLS | RECORDERS | LAYERS


class World(Linked):
    """Entered, the link, the disk and the NFS server are there."""

    def __init__(self, context):
        super().__init__(context, PREFIX, LINK_BITS)
        self.disk = Disk("volume", self.directory, image_bytes=IMAGE_BYTES)
        self.nfs = None
        self.writes = 0

    def set_up(self, undo):
        """The disk and the NFS server."""
        undo.callback(self.disk.remove)
        self.disk.make()
        root = os.path.join(self.disk.path, "export")
        self.nfs = undo.enter_context(NfsGanesha(os.path.join(self.directory, "nfs"), self.server, root))

    def __exit__(self, *_):
        self.disk.slow(write=0)
        super().__exit__()

    def run(self, name, number):
        """One transfer."""
        setting = SETTINGS[name]
        self.writes += 1
        target = f"file-{self.writes}"
        ways = {"packets": self._packets, "both": self._both, "profile": self._profile}
        with self._volume(setting):
            try:
                figures = ways.get(setting.how, self._beside_a_recorder)(name, number, setting, self._client(setting, target))
            finally:
                self.disk.slow(write=0)
                self.nfs.remove(target)
                self.disk.sync()
        return figures

    @contextmanager
    def _volume(self, setting):
        """The volume as the setting wants it, and what happens to it while it is written to."""
        if not self.disk.has_own_limit:
            raise NotRun("this kernel has no limit of unwritten bytes for one device")
        over = threading.Event()
        changes = threading.Thread(target=self._change, args=(setting.events, over))
        with self.disk.unwritten_at_most(setting.dirty) if setting.dirty else nullcontext():
            self.disk.slow(write=setting.rate)
            changes.start()
            try:
                yield
            finally:
                over.set()
                changes.join()

    def _change(self, events, over):
        begun = time.monotonic()
        for at_s, disks in events:
            if over.wait(max(0.0, at_s - (time.monotonic() - begun))):
                return
            self.disk.slow(write=disks * DISK_RATE)

    def _client(self, setting, target):
        return [os.path.join(PROGRAMS, "nfs-client"), "write", self.nfs.address(target), "--size", setting.size, *CLIENT, *setting.words]

    def _write(self, argv):
        done = subprocess.run(self.client.argv(argv), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Broken(f"{' '.join(argv[:2])}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def _packets(self, name, number, setting, argv):
        """Captured at the client, as a site would that has no more."""
        recording, log = os.path.join(self.directory, "packets.thw"), os.path.join(self.directory, "capture.log")
        files.remove(recording)
        files.remove(log)
        capture = Process([self.program, "rpcstat", "-i", DEVICE, "--port", str(self.nfs.port), "--snaplen", "262144", "-o", recording, "--json"], log, self.client)
        try:
            # It says so on a terminal only; the socket is there a moment after the recording is.
            capture.wait_until("the capture", lambda: os.path.isdir(recording), Broken)
            time.sleep(0.3)
            client = self._write(argv)
            time.sleep(0.3)
        finally:
            capture.process.send_signal(signal.SIGINT)
            capture.process.wait(60)
        document = json.loads(kept.output([self.program, "rpcstat", "--json", recording]))
        text = kept.output([self.program, "rpcstat", recording])
        if number == 0:
            if name in DRAWN:
                kept.rpcstat(self.program, [recording], f"rpcstat-{name}")
            self.keep(recording, name)
        return {"client": json.loads(client), "rpcstat": kept.of_rpcstat(document), "text": text}

    def keep(self, recording, name):
        """So that two of them can be drawn on equal axes."""
        os.rename(recording, os.path.join(self.directory, f"{name}.thw"))
        pairs = {"six-disks": ("two-disks", "volumes"), "two-disks": ("six-disks", "volumes"), "disk": ("memory", "cycles"), "memory": ("disk", "cycles")}
        if name in pairs:
            other, title = pairs[name]
            both = [os.path.join(self.directory, f"{one}.thw") for one in sorted((name, other), key=list(SETTINGS).index)]
            if all(map(os.path.isdir, both)):
                kept.rpcstat(self.program, both, f"rpcstat-{title}")

    def _both(self, _name, _number, _setting, argv):
        """Recorded at both ends by the kernel's recorder."""
        recording = os.path.join(self.directory, "both.thw")
        files.remove(recording)
        client = self._write([self.program, "record", "-o", recording, "--also", "ganesha.nfsd", "--", *argv])
        return {"client": json.loads(client.splitlines()[-1]), "explained": kept.explained(self.program, recording)}

    def _beside_a_recorder(self, _name, _number, setting, argv):
        """With our recorder, one that spins, or none: how fast, and of which processor time."""
        recording = os.path.join(self.directory, "recorder.thw")
        files.remove(recording)
        flags = {"recorded": [], "spinning": ["--drain", "0"]}.get(setting.how)
        pinned = ["taskset", "-c", "1", *argv]
        made = pinned if flags is None else ["taskset", "-c", "1", self.program, "record", "-o", recording, *flags, "--", *argv]
        figures = {"client": json.loads(self._write(made).splitlines()[-1])}
        if flags is not None:
            figures["explained"] = kept.explained(self.program, recording)
        return figures

    def _profile(self, _name, _number, _setting, argv):
        """Which classes of code both ends spend their processor time in."""
        said = self._write([self.program, "profile", "--json", "--also", "ganesha.nfsd", "--", *argv])
        return {"profile": json.loads(said[said.index("{\n") if "{\n" in said else said.index("{"):])}


def shard(name, title, settings, repeat):
    """A shard of this study."""
    return Shard("rpcstat", name, title, tuple(settings), World, repeat=repeat)


SHARDS = [
    shard("volumes", "2,000 MB to a volume of two disks, of six, and again", VOLUMES, 1),
    shard("cycles", "Drain cycles of a server that answers from memory, and from its disk", CYCLES, 1),
    shard("stalls", "A gap of two stalls, and a slow beginning", STALLS, 1),
    shard("recorders", "A recorder that spins, ours, and none", RECORDERS, 3),
    shard("layers", "Where processors' time goes: is the RPC layer the bottleneck?", LAYERS, 1),
]
