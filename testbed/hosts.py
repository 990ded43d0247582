"""Hosts: this machine, or a network namespace with an address, in which commands and servers are started.

A namespace reaches no name service, and some programs look up the names of addresses: a host may have an /etc/hosts of its own. It
may also have a control group, which every command that is started there joins, and a processor to which they are pinned.
"""

import subprocess

from testbed import shell
from testbed.errors import NotRun

LISTEN_STATE = "0A"
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

    def pinned(self, cpu):
        """The same host, with everything on one processor."""
        return Host(self.name, self.address, self.namespace, self.group, self.hosts_file, cpu)

    def argv(self, argv):
        """The command as it is started on this host: in its control group, on its processor."""
        if self.cpu is not None:
            argv = ["taskset", "-c", str(self.cpu), *argv]
        return self.inside(self.group.joined(argv) if self.group else argv)

    def inside(self, argv):
        """The command with this host's network and names, in no control group."""
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

