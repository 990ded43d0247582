"""A copy as `pvfs2-cp` made it in 2007: 256 MiB, requests of 10 MiB one after the other, flow buffers of 1 MiB, a link of 2 Gbit/s.

Client and server are network namespaces. Both disks are the testbed's, whose requests take as long as asked: the source's is set so that
10 MiB are read in 17.5 ms, the server's (mounted `sync`, so that a write is done when its disk has it) so that the last byte of a
request is answered about 11 ms after it was sent. What else there is, such as how long a system call takes, is the machine's, so the two rates are found by trying.
"""

import json
import os
import subprocess

from bench.harness.classics import kept
from bench.harness.classics.linked import Linked
from bench.harness.classics.shard import Shard
from testbed import files, shell
from testbed.disks import Disk
from testbed.errors import Broken
from testbed.store import Store

PREFIX = "thalweg-pvfs-cp"
MIB = 1 << 20
SIZE = 256 * MIB
REQUESTS = 26
LINK_BITS = 2e9
# What the profile of 2007 shows between two transfers, and from the last send to the reply.
READ_S = 0.0175
FINISH_S = 0.011
# How much slower the server's disk is where that is the question.
SLOWER = 3
SERIAL = ["--requests", "1", "--request", "10Mi", "--buffer", "1Mi", "--streams", "1"]
TRIES = 7
NEAR_ENOUGH = 0.06
TOO_FAR = 0.3

# setting: source, server, what is asked of `thalweg cp`, recorded by.
SETTINGS = {
    "as-2007": ("disk", "disk", SERIAL, None),
    "source-in-memory": ("memory", "disk", SERIAL, None),
    "server-in-memory": ("disk", "memory", SERIAL, None),
    "server-slow": ("memory", "slow", SERIAL, None),
    "nothing-slow": ("memory", "memory", SERIAL, None),
    "overlapped": ("disk", "disk", ["--requests", "2", *SERIAL[2:]], None),
    "defaults": ("disk", "disk", [], None),
}
RECORDED = ("as-2007", "source-in-memory", "server-in-memory", "server-slow", "overlapped")
for _name in RECORDED:
    SETTINGS[f"{_name}-kernel"] = (*SETTINGS[_name][:3], "kernel")
SETTINGS["as-2007-own"] = (*SETTINGS["as-2007"][:3], "own")
REPEATS = {name: 3 if how else 7 for name, (_, _, _, how) in SETTINGS.items()}


class World(Linked):
    """Entered, the link, the disks and the store are there, and the disks' rates are known."""

    def __init__(self, context):
        super().__init__(context, PREFIX, LINK_BITS)
        self.near, self.far = Disk("near", self.directory), Disk("far", self.directory)
        self.source = self.store = None
        self.near_rate = 420 * MIB
        self.far_rate = 330 * MIB
        self.copies = 0
        self.is_calibrated = False

    def set_up(self, undo):
        """The disks and the store."""
        for disk in (self.near, self.far):
            undo.callback(disk.remove)
            disk.make()
        self.source = self.near.file("source", SIZE)
        self.near.sync()
        shell.run("umount", self.far.path)
        # A journal would make two writes of each, and the study is of one.
        shell.run("tune2fs", "-O", "^has_journal", self.far.device)
        shell.run("mount", "-o", "noatime", self.far.device, self.far.path)
        log = os.path.join(self.directory, "up.log")
        self.store = undo.enter_context(Store(self.program, [os.path.join(self.far.path, "store")], log, self.server, ["--plain"]))
        self._calibrate()

    def _calibrate(self):
        """Find the two rates: so long as a median of gaps is not what the profile of 2007 shows, change the rate by as much as it is off."""
        self._find("near_rate", "server-in-memory-kernel", READ_S, 1.0)
        # Most of what the server writes goes while more arrives: a little less speed makes much more of a wait at the end.
        self._find("far_rate", "source-in-memory-kernel", FINISH_S, 0.35)
        self.is_calibrated = True

    def _find(self, rate, setting, wanted_s, weight):
        tried = []
        for _ in range(TRIES):
            gap_s = self.run(setting, 0)["explained"]["channel"]["gaps"]["median_s"] or wanted_s / 4
            now = getattr(self, rate)
            tried.append((abs(gap_s / wanted_s - 1), now, gap_s))
            if tried[-1][0] <= NEAR_ENOUGH:
                break
            setattr(self, rate, now * min(max(gap_s / wanted_s, 0.6), 1.6) ** weight)
        off, best, gap_s = min(tried)
        setattr(self, rate, best)
        if off > TOO_FAR:
            raise Broken(f"no {rate} makes gaps of {wanted_s * 1e3:g} ms: the nearest were {gap_s * 1e3:.1f} ms at {best / MIB:.0f} MiB/s")

    def run(self, setting, number):
        """One copy of it."""
        source, server, flags, how = SETTINGS[setting]
        self._set_disks(source, server)
        self.copies += 1
        name = f"copy-{self.copies}"
        try:
            return self._copy(name, flags, how, (setting, number))
        finally:
            self.near.slow(read=0)
            self.far.slow(write=0)
            self.store.remove(name)

    def _set_disks(self, source, server):
        if source == "memory":
            files.warm([self.source])
        else:
            files.make_cold(self.source)
        self.near.slow(read=int(self.near_rate))
        rates = {"disk": self.far_rate, "slow": self.far_rate / SLOWER, "memory": 0}
        shell.run("mount", "-o", f"remount,{'async' if server == 'memory' else 'sync'}", self.far.path)
        self.far.slow(write=int(rates[server]))

    def _copy(self, name, flags, how, of):
        recording = os.path.join(self.directory, f"{name}.thw")
        made = {"kernel": [self.program, "record", "-o", recording, "--"], "own": []}.get(how, [])
        own = ["--record", recording] if how == "own" else []
        argv = [*made, self.program, "cp", "--json", "--quiet", *own, *flags, self.source, self.store.url(name)]
        environment = {**os.environ, "THALWEG_CREDENTIAL": self.store.credential()}
        done = subprocess.run(self.client.argv(argv), capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            raise Broken(f"thalweg cp: {done.stderr.strip()[-300:]}")
        said = json.loads(done.stdout)
        figures = {"wall_s": said["elapsed_s"], "source_disk_bytes_per_s": self.near_rate, "server_disk_bytes_per_s": self.far_rate}
        if how:
            figures["explained"] = kept.explained(self.program, recording)
            if of[1] == 0 and how == "kernel" and self.is_calibrated:
                draw(self.program, recording, of[0], figures["explained"])
            files.remove(recording)
        return figures


def draw(program, recording, setting, explained):
    """The pictures of a recording, for the page: the whole copy; and of the one that is as in 2007, one request and its beginning."""
    name = f"pvfs-cp-{setting.removesuffix('-kernel')}"
    kept.report(program, recording, name, "--no-close-up", "--lanes", "10", "--width", "1000")
    if setting == "as-2007-kernel":
        # From the middle of the copy, where nothing is special: a request and the next one's beginning, and its first part again.
        period_s = explained["wall_s"] / REQUESTS
        begin_s = REQUESTS // 2 * period_s
        for part, length in (("request", 1.4), ("beginning", 0.55)):
            window = ["--from", f"{begin_s:.4f}s", "--to", f"{begin_s + length * period_s:.4f}s"]
            kept.report(program, recording, f"{name}-{part}", *window, "--lanes", "14", "--width", "1000")


SHARDS = [Shard("pvfs-cp", "copy", "A copy as pvfs2-cp made it, and with each cause taken away", tuple(SETTINGS), World, repeats=REPEATS)]
