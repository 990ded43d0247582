"""Control groups of our own, in version 1 or 2, whichever the machine has."""

import glob
import os

from testbed import shell
from testbed.errors import NotRun

CPU_V1 = "/sys/fs/cgroup/cpu"
V2 = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")


class Group:
    """A group that limits processors (and, in version 2, input and output)."""

    def __init__(self, name, path=None):
        self.name = name
        self.path = path

    def make(self):
        """Make the group; `NotRun` where there are none to make."""
        if os.path.exists(os.path.join(CPU_V1, "cpu.cfs_quota_us")) or os.path.exists(os.path.join(CPU_V1, "cpu.shares")):
            self.path = os.path.join(CPU_V1, self.name)
            os.makedirs(self.path, exist_ok=True)
            # A command that is run as another user joins by itself.
            os.chmod(self.procs, 0o666)
            return
        for root in V2:
            if "cpu" in (shell.read(os.path.join(root, "cgroup.controllers")) or "").split():
                shell.write(os.path.join(root, "cgroup.subtree_control"), "+cpu +io")
                self.path = os.path.join(root, self.name)
                os.makedirs(self.path, exist_ok=True)
                return
        raise NotRun("this machine has no control group that limits processors")

    def remove(self):
        """Remove the group; whoever is still in it has been ended before."""
        if self.path and os.path.isdir(self.path):
            try:
                os.rmdir(self.path)
            except OSError:
                # A process that was killed a moment ago can still be leaving; the next run looks again.
                pass

    @property
    def procs(self):
        """Where a process writes its number to join."""
        return os.path.join(self.path, "cgroup.procs")

    def joined(self, argv):
        """The command, started inside the group."""
        return ["sh", "-c", f'echo $$ >{self.procs}; exec "$@"', "sh", *argv]

    def set_quota(self, processors, period_us):
        """Let the group have this many processors in each period; None lifts the limit."""
        if os.path.exists(os.path.join(self.path, "cpu.max")):
            quota = "max" if processors is None else int(processors * period_us)
            shell.write(os.path.join(self.path, "cpu.max"), f"{quota} {period_us}")
            return
        shell.write(os.path.join(self.path, "cpu.cfs_quota_us"), -1)
        shell.write(os.path.join(self.path, "cpu.cfs_period_us"), period_us)
        if processors is not None:
            shell.write(os.path.join(self.path, "cpu.cfs_quota_us"), int(processors * period_us))

    def set_io(self, line):
        """A line of version 2's `io.max`."""
        if not os.path.exists(os.path.join(self.path, "io.max")):
            raise NotRun("this machine has no control group that limits a disk")
        shell.write(os.path.join(self.path, "io.max"), line)


def remove_leftovers(name):
    """Remove the groups whose names begin with NAME-."""
    for root in (CPU_V1, *V2):
        for path in glob.glob(f"{root}/{name}-*"):
            Group(os.path.basename(path), path).remove()
