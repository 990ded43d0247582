"""What all scenarios share: where things are, the disks, the control groups; and that nothing of it is left behind.

Everything has the laboratory's process number in its name. What it made is removed when it is left, also after Ctrl-C; what one
that was killed has left is removed when the next one begins: found by its name, and by a marker that nobody holds any more.
"""

import glob
import os
import re
import shutil
import subprocess

from laboratory import claim, shell
from laboratory.disks import Disk
from laboratory.errors import NotRun
from laboratory.groups import CPU_V1, V2, Group

BASE = "/dev/shm"
PREFIX = "thalweg-lab"
KIND = "the laboratory"
DISKS = ("source", "sink", "server", "server-1", "server-2", "server-3")


class World:
    """Entered once. `DISKS` are made when first asked for."""

    def __init__(self, repository, thalweg, relay, lab_programs):
        self.repository = repository
        self.thalweg = thalweg
        self.relay = relay
        self.lab_programs = lab_programs
        self.prefix = f"{PREFIX}-{os.getpid()}"
        self.directory = os.path.join(BASE, self.prefix)
        self.recordings = os.path.join(self.directory, "recordings")
        self.scripts = os.path.join(repository, "lab", "scripts")
        self.disks = {}
        self.groups = {}

    def __enter__(self):
        if os.geteuid() != 0:
            raise NotRun("only root may make network namespaces, disks and control groups")
        remove_leftovers()
        self.claim = claim.Claim(self.directory, KIND)
        os.mkdir(self.recordings)
        # Servers that become `nobody` must reach their disk.
        os.chmod(self.directory, 0o755)
        return self

    def __exit__(self, *_):
        for disk in self.disks.values():
            disk.remove()
        for group in self.groups.values():
            group.remove()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.claim.release()

    def disk(self, name):
        """A disk by its name, made when first asked for."""
        if name not in self.disks:
            if name not in DISKS:
                raise ValueError(f"{name}: the disks are {', '.join(DISKS)}")
            disk = Disk(name, self.directory, self.groups.values(), os.path.join(self.lab_programs, "slowdisk"))
            self.disks[name] = disk
            disk.make()
        return self.disks[name]

    def empty_disks(self):
        """Have the disks empty for the next scenario."""
        for disk in self.disks.values():
            disk.remove_files()

    def group(self, who):
        """The control group of the client or the server."""
        if who not in self.groups:
            group = Group(f"{self.prefix}-{who}")
            group.make()
            self.groups[who] = group
        return self.groups[who]


def remove_leftovers():
    """Remove what laboratories that no longer run have left."""

    abandoned = [directory for directory in glob.glob(f"{BASE}/{PREFIX}-*") if claim.abandoned(directory, KIND)]
    names = {os.path.basename(directory) for directory in abandoned}

    def is_dead(name):
        found = re.search(rf"{PREFIX}-\d+", name)
        return found is not None and found.group(0) in names

    for path in filter(is_dead, glob.glob(f"/run/netns/{PREFIX}-*")):
        for pid in shell.run("ip", "netns", "pids", os.path.basename(path), check=False).split():
            subprocess.run(["kill", "-KILL", pid], capture_output=True, check=False)
        shell.run("ip", "netns", "delete", os.path.basename(path), check=False)
    for root in (CPU_V1, *V2):
        for path in filter(is_dead, glob.glob(f"{root}/{PREFIX}-*")):
            group = Group(os.path.basename(path))
            group.path = path
            group.remove()
    # The marker goes last: until then what is left is known for what it is.
    for directory in abandoned:
        for name in DISKS:
            disk = Disk(name, directory, [], "")
            disk.device = _mounted_device(disk.path)
            disk.remove()
        shutil.rmtree(directory, ignore_errors=True)


def _mounted_device(path):
    """The device that is mounted there, or None."""
    for line in (shell.read("/proc/self/mounts") or "").splitlines():
        device, mount_point = line.split()[:2]
        if mount_point == path:
            return device
    return None
