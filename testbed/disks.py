"""Disks of our own: loop devices with their own ext4, as fast as the machine until a fault slows them, and alike in every run.

Each lies over `slowdisk`, an image in memory whose requests take exactly as long as we say: a disk of known rate and latency,
busy while it serves and idle while it does not. A control group's throttle is offered besides (`throttle`), as the fault that
people meet in containers; after every pause it gives the first tenth of a second away, so it is no measure of a disk.
"""

import mmap
import os
import struct
import time

from harness import files
from laboratory import shell
from laboratory.errors import NotRun
from servers.process import Server, Unavailable

IMAGE_BYTES = 1 << 30
BLKIO_ROOT = "/sys/fs/cgroup/blkio"
COLD_TIMEOUT_S = 3.0
# A few pages that somebody holds do not matter to a transfer; how many is in the result.
COLD_SHARE = 0.005
CONTROL = struct.Struct("4Q")


class Disk:
    """One mounted loop device. Made by the first scenario that asks, kept until the laboratory is left."""

    def __init__(self, name, directory, groups, program, image_bytes=IMAGE_BYTES):
        self.name = name
        self.image_bytes = image_bytes
        self.image = os.path.join(directory, f"{name}.image")
        self.control = os.path.join(directory, f"{name}.control")
        self.path = os.path.join(directory, name)
        self.groups = groups
        self.program = program
        self.slowdisk = None
        self.device = None
        self.speed = {"read": 0, "write": 0, "latency": 0}

    def make(self):
        """Make the image, the device, the file system and the mount."""
        if not os.access(self.program, os.X_OK):
            raise NotRun("the disk is not built: make -C lab")
        os.makedirs(self.path, exist_ok=True)
        with open(self.image, "wb"), open(self.control, "wb") as control:
            control.write(bytes(CONTROL.size))
        log = self.image + ".log"
        self.slowdisk = Server([self.program, self.image, str(self.image_bytes), self.control], log)
        try:
            self.slowdisk.wait_until("the disk", lambda: "ready" in (shell.read(log) or ""))
        except Unavailable as reason:
            raise NotRun(str(reason)) from None
        self.device = shell.run("losetup", "--find", "--show", "--direct-io=on", self.image).strip()
        shell.run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.device)
        shell.run("mount", "-o", "noatime", self.device, self.path)
        os.chmod(self.path, 0o777)

    def remove(self):
        """Unmount, detach and delete what was made, whatever of it is there."""
        for path, then in ((self.path, self._detach), (self.image, None)):
            if os.path.ismount(path):
                shell.run("umount", path, check=False)
            if os.path.ismount(path):
                shell.run("umount", "--lazy", path, check=False)
            if then:
                then()
        if self.slowdisk:
            self.slowdisk.stop()
            self.slowdisk = None

    def _detach(self):
        if self.device:
            shell.run("losetup", "--detach", self.device, check=False)
            self.device = None

    @property
    def number(self):
        """MAJOR:MINOR."""
        number = os.stat(self.device).st_rdev
        return f"{os.major(number)}:{os.minor(number)}"

    @property
    def kernel_name(self):
        """As in /sys/block."""
        return os.path.basename(self.device)

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
        if os.path.exists(os.path.join(BLKIO_ROOT, old)):
            shell.write(os.path.join(BLKIO_ROOT, old), f"{self.number} {rate}")
            return
        if not self.groups:
            raise NotRun("with control groups of version 2 the client or the server must be in one of ours")
        for group in self.groups:
            group.set_io(f"{self.number} {new}={rate or 'max'}")

    def remove_files(self):
        """Remove what a scenario left on it."""
        for name in os.listdir(self.path):
            if name != "lost+found":
                shell.run("rm", "-rf", os.path.join(self.path, name), check=False)

    def sync(self):
        """Have nothing left to write."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        shell.run("sync", "--file-system", self.path)

    def file(self, name, size):
        """A file of incompressible bytes, made once and on the device."""
        return files.make_source(os.path.join(self.path, name), size)


def make_cold(path):
    """Put a file's pages out of memory, and show that they are; returns the share that stayed (None: the kernel cannot say).

    A page that a server has just sent can be held by the network for a moment: it is tried again until it is free.
    """
    deadline = time.monotonic() + COLD_TIMEOUT_S
    while True:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
        share = files.cached_share([path])
        if share is None or share <= COLD_SHARE:
            return share
        if time.monotonic() > deadline:
            raise NotRun(f"{share:.1%} of {path} stays in memory: it cannot be read cold")
        time.sleep(0.01)
