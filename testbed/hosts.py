"""Hosts: this machine, or a network namespace with an address, in which commands and servers are started.

A host may have a clock of its own (a time namespace), and seem to be another machine's boot: so two hosts of one machine are as far apart as
two machines' are.

A namespace reaches no name service, and some programs look up the names of addresses: a host may have an /etc/hosts of its own. It
may also have a control group, which every command that is started there joins, a processor to which they are pinned, and a user as whom they run.
"""

import copy
import subprocess

from testbed import shell
from testbed.errors import NotRun

LISTEN_STATE = "0A"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
OTHER_BOOT = f'mount --bind "$0" {BOOT_ID} && exec "$@"'
ENTER = 'mount --bind "$0" /etc/hosts && hostname localhost && exec "$@"'


class Host:
    """One end: a name, an address, a network namespace (or None: this machine), a control group (or None)."""

    def __init__(self, name, address, namespace=None, group=None, hosts_file=None, cpu=None):
        self.name = name
        self.address = address
        self.namespace = namespace
        self.group = group
        self.hosts_file = hosts_file
        self.cpu = cpu
        # What stands before a command so that it has this host's clock.
        self.clock = []
        # Whose servers are started here: an ordinary user's, or (None) root's.
        self.user = None

    def pinned(self, cpu):
        """The same host, with everything on one processor."""
        made = copy.copy(self)
        made.cpu = cpu
        return made

    def owned(self, user):
        """The same host, with everything started as a `User` of testbed/users."""
        made = copy.copy(self)
        made.user = user
        return made

    def as_owner(self, argv):
        """The command as the user whose servers are here starts it."""
        return self.user.argv(argv) if self.user else list(argv)

    def ahead(self, seconds, boot_file=None):
        """The same host with a monotonic clock so far ahead of the machine's, as of the boot that `boot_file` names; `NotRun` where the
        kernel has no time namespaces, or does not enter one when a program is started."""
        offset = ["unshare", "--mount", "--time", "--monotonic", str(seconds), "--boottime", str(seconds)]
        made = copy.copy(self)
        made.clock = [*offset, "sh", "-c", OTHER_BOOT, boot_file] if boot_file else offset
        here = float(shell.read("/proc/uptime").split()[0])
        there = float(shell.run(*made.clock, "cat", "/proc/uptime").split()[0])
        if abs(there - here - seconds) > 60:
            raise NotRun("a program that is started does not enter the time namespace that was made for it")
        return made

    def argv(self, argv):
        """The command as it is started on this host: in its control group, on its processor, as its user."""
        argv = self.as_owner(argv)
        if self.cpu is not None:
            argv = ["taskset", "-c", str(self.cpu), *argv]
        return self.inside(self.group.joined(argv) if self.group else argv)

    def inside(self, argv):
        """The command with this host's clock, network and names, in no control group."""
        argv = [*self.clock, *argv]
        if not self.hosts_file:
            return self.raw(argv)
        return self.raw(["unshare", "--mount", "--uts", "sh", "-c", ENTER, self.hosts_file, *argv])

    def raw(self, argv):
        """The command in this host's network, and nothing else about it."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *argv] if self.namespace else list(argv)

    def run(self, *argv, check=True):
        """Set something up in this host's network."""
        return shell.run(*self.raw(argv), check=check)

    def listens(self, pid, port):
        """Whether a socket listens on the port, in the network of this process."""
        wanted = f":{port:04X}"
        for table in ("tcp", "tcp6"):
            for line in (shell.read(f"/proc/{pid}/net/{table}") or "").splitlines()[1:]:
                words = line.split()
                if words[1].endswith(wanted) and words[3] == LISTEN_STATE:
                    return True
        return False

    def sysctl(self, name, value=None):
        """Read, or set, a system control of this host's network; set only where the host is a namespace of our own."""
        if value is not None and not self.namespace:
            raise NotRun(f"{name} is not set on the machine itself, only in a namespace of our own")
        return self.run("sysctl", "-n", name if value is None else f"{name}={value}").strip()

    def make(self):
        """Make the namespace, with its loopback device up."""
        shell.run("ip", "netns", "add", self.namespace)
        self.run("ip", "link", "set", "lo", "up")
        # What one run learned of a path must not make the next one's start different.
        self.sysctl("net.ipv4.tcp_no_metrics_save", 1)

    def remove(self):
        """Remove the namespace, if it is one, and with it all devices in it."""
        if self.namespace:
            subprocess.run(["ip", "netns", "delete", self.namespace], capture_output=True, check=False)


LOOPBACK = Host("this machine", "127.0.0.1")


def end_namespace(name):
    """Kill what still runs in a namespace, and remove it."""
    for pid in shell.run("ip", "netns", "pids", name, check=False).split():
        subprocess.run(["kill", "-KILL", pid], capture_output=True, check=False)
    shell.run("ip", "netns", "delete", name, check=False)


def write_hosts_file(path, hosts):
    """An /etc/hosts that knows these hosts and nobody else."""
    with open(path, "w") as out:
        out.write("127.0.0.1 localhost\n" + "".join(f"{host.address} lab-{host.name}\n" for host in hosts))

