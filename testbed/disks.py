"""Disks of our own: loop devices with their own ext4, as fast as the machine until they are slowed, and alike in every run.

Each lies over `slowdisk`, an image in memory whose requests take exactly as long as we say: a disk of known rate and latency,
busy while it serves and idle while it does not. A control group's throttle is offered besides (`throttle`), as the fault that
people meet in containers; after every pause it gives the first tenth of a second away, so it is no measure of a disk.
"""

import mmap
import os
import struct
from contextlib import contextmanager

from testbed import files, shell
from testbed.errors import NotRun
from testbed.paths import PROGRAMS
from testbed.processes import Process

IMAGE_BYTES = 1 << 30
BLKIO_ROOT = "/sys/fs/cgroup/blkio"
CONTROL = struct.Struct("4Q")


class Disk:
    """One mounted loop device; `groups` are the control groups of those who use it, which `throttle` may need."""

    def __init__(self, name, directory, groups=(), image_bytes=IMAGE_BYTES):
        self.name = name
        self.image_bytes = image_bytes
        self.image = os.path.join(directory, f"{name}.image")
        self.control = os.path.join(directory, f"{name}.control")
        self.path = os.path.join(directory, name)
        self.groups = groups
        self.slowdisk = None
        self.device = None
        self.speed = {"read": 0, "write": 0, "latency": 0}
        self.throttled = set()

    def make(self):
        """Make the image, the device, the file system and the mount."""
        program = os.path.join(PROGRAMS, "slowdisk")
        if not os.access(program, os.X_OK):
            raise NotRun("the disk is not built: make -C lab")
        os.makedirs(self.path, exist_ok=True)
        with open(self.image, "wb"), open(self.control, "wb") as control:
            control.write(bytes(CONTROL.size))
        self.slowdisk = Process([program, self.image, str(self.image_bytes), self.control], self.image + ".log")
        self.slowdisk.wait_for_word("the disk")
        self.device = shell.run("losetup", "--find", "--show", "--direct-io=on", self.image).strip()
        shell.run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.device)
        shell.run("mount", "-o", "noatime", self.device, self.path)
        os.chmod(self.path, 0o777)

    def remove(self):
        """Unmount, detach and end what was made, whatever of it is there."""
        _unmount(self.path)
        # The kernel keeps a throttle with the number of the loop device, which is somebody else's next.
        for operation in sorted(self.throttled):
            self.throttle(operation, None)
        if self.device:
            shell.run("losetup", "--detach", self.device, check=False)
            self.device = None
        _unmount(self.image)
        if self.slowdisk:
            self.slowdisk.stop()
            self.slowdisk = None

    @property
    def number(self):
        """MAJOR:MINOR."""
        number = os.stat(self.device).st_rdev
        return f"{os.major(number)}:{os.minor(number)}"

    def slow(self, **speed):
        """Give `read` and `write` bytes per second and `latency` nanoseconds per request; 0 is as fast as memory."""
        self.speed.update(speed)
        with open(self.control, "r+b") as control, mmap.mmap(control.fileno(), CONTROL.size) as shared:
            shared[:] = CONTROL.pack(self.speed["read"], self.speed["write"], self.speed["latency"], 0)

    def throttle(self, operation, bytes_per_s):
        """Have the kernel hold `read` or `write` back; None lifts it.

        With version 1 the limit is set at the root group for our device alone: it holds for whoever reads or writes it, writeback
        and journal included. With version 2 it is `io.max` of the groups that our processes are in.
        """
        per_operation = {"read": ("blkio.throttle.read_bps_device", "rbps"), "write": ("blkio.throttle.write_bps_device", "wbps")}
        old, new = per_operation[operation]
        rate = int(bytes_per_s or 0)
        (self.throttled.add if rate else self.throttled.discard)(operation)
        if os.path.exists(os.path.join(BLKIO_ROOT, old)):
            shell.write(os.path.join(BLKIO_ROOT, old), f"{self.number} {rate}")
            return
        if not self.groups:
            raise NotRun("with control groups of version 2 the client or the server must be in one of ours")
        for group in self.groups:
            group.set_io(f"{self.number} {new}={rate or 'max'}")

    @property
    def has_own_limit(self):
        """Whether what is unwritten can be limited for this disk alone (max_bytes with strict_limit of its backing device)."""
        return os.path.exists(f"/sys/class/bdi/{self.number}/strict_limit")

    @contextmanager
    def unwritten_at_most(self, limit_bytes):
        """So much may be written and not be on the disk yet; where the kernel has no limit for one disk, the whole machine's is set, and restored."""
        device = f"/sys/class/bdi/{self.number}"
        if self.has_own_limit:
            settings = [(f"{device}/strict_limit", 1), (f"{device}/max_bytes", limit_bytes)]
            restored = [(f"{device}/max_ratio", 100), (f"{device}/strict_limit", 0)]
        else:
            settings = [("/proc/sys/vm/dirty_background_bytes", limit_bytes // 2), ("/proc/sys/vm/dirty_bytes", limit_bytes)]
            names = ("dirty_background_ratio", "dirty_ratio", "dirty_background_bytes", "dirty_bytes")
            kept = [(f"/proc/sys/vm/{name}", shell.read(f"/proc/sys/vm/{name}")) for name in names]
            restored = [(path, value) for path, value in kept if value != "0"]
        try:
            for path, value in settings:
                shell.write(path, value)
            yield
        finally:
            for path, value in restored:
                shell.write(path, value)

    def empty(self):
        """Remove all files on it."""
        for name in os.listdir(self.path):
            if name != "lost+found":
                files.remove(os.path.join(self.path, name))

    def sync(self):
        """Have nothing left to write."""
        shell.run("sync", "--file-system", self.path)

    def file(self, name, size):
        """A file of incompressible bytes, made once and on the device."""
        return files.make_source(os.path.join(self.path, name), size)


def _unmount(path):
    if os.path.ismount(path):
        shell.run("umount", path, check=False)
    if os.path.ismount(path):
        shell.run("umount", "--lazy", path, check=False)
