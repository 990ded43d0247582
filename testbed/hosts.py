"""The two hosts of a scenario, and what lies between them.

`none`: both are this machine, on loopback. `veth`: two network namespaces joined by a pair of virtual Ethernet devices. `relay`:
two namespaces joined by our relay on TUN devices, which delays, loses and shapes packet by packet; it is started anew for every
run, so that its parameters can differ between a run with the fault and one without.

A host is what the server modules take as theirs (`address`, `argv`, `listens`); `argv` also joins the host's control group.
"""

import os
import subprocess

from laboratory import shell
from laboratory.errors import NotRun
from servers.process import Server, Unavailable

NETWORK = "10.86.{}.{}"
LISTEN_STATE = "0A"
# A namespace may have only what the machine allows everybody; this one is always allowed, and behaves as the books say.
CONGESTION_CONTROL = "reno"
ENTER = 'mount --bind "$0" /etc/hosts && hostname localhost && exec "$@"'
RELAY_DEVICE = "relay0"
RELAY_NOTHING = {"delay": "0ms"}


class Host:
    """One end: a name, an address, a network namespace (or None: this machine), a control group (or None)."""

    def __init__(self, name, address, namespace=None, group=None, hosts_file=None):
        self.name = name
        self.address = address
        self.namespace = namespace
        self.group = group
        self.hosts_file = hosts_file

    def argv(self, argv):
        """The command as it is started on this host, in its control group."""
        return self.inside(self.group.joined(argv) if self.group else argv)

    def inside(self, argv):
        """The command as it is started on this host, in no control group.

        A namespace reaches no name service, and some programs look up the names of addresses: there /etc/hosts is one of our own,
        which knows both hosts.
        """
        if not self.namespace:
            return list(argv)
        return self.raw(["unshare", "--mount", "--uts", "sh", "-c", ENTER, self.hosts_file, *argv])

    def raw(self, argv):
        """The command in this host's network, and nothing else about it."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *argv] if self.namespace else list(argv)

    def listens(self, server, port):
        """Whether a socket listens on the port where the server runs."""
        wanted = f":{port:04X}"
        for table in ("tcp", "tcp6"):
            for line in (shell.read(f"/proc/{server.pid}/net/{table}") or "").splitlines()[1:]:
                words = line.split()
                if words[1].endswith(wanted) and words[3] == LISTEN_STATE:
                    return True
        return False

    def sysctl(self, name, value=None):
        """Read, or set, a system control of this host's network; only where the host is a namespace of our own."""
        if value is not None and not self.namespace:
            raise NotRun(f"{name} is not set on the machine itself, only in a namespace of our own")
        words = [f"{name}={value}"] if value is not None else [name]
        return shell.run(*self.raw(["sysctl", "-n", *words])).strip()


class Network:
    """Both hosts, and the link between them."""

    def __init__(self, link, prefix, groups, relay_program, directory):
        self.link = link
        self.prefix = prefix
        self.relay_program = relay_program
        self.directory = directory
        self.relay = None
        number = os.getpid() % 250 + 1
        names = ("client", "server")
        if link == "none":
            self.hosts = [Host(name, "127.0.0.1", None, groups[name]) for name in names]
        else:
            hosts_file = os.path.join(directory, "hosts")
            addresses = {name: NETWORK.format(number, 1 + at) for at, name in enumerate(names)}
            self.hosts = [Host(name, address, f"{prefix}-{name}", groups[name], hosts_file) for name, address in addresses.items()]
            with open(hosts_file, "w") as out:
                out.write("127.0.0.1 localhost\n" + "".join(f"{address} lab-{name}\n" for name, address in addresses.items()))
        self.client, self.server = self.hosts

    def make(self):
        """Make the namespaces and, for `veth`, the link."""
        if self.link == "none":
            return
        if self.link == "relay" and not os.access(self.relay_program, os.X_OK):
            raise NotRun(f"the relay is not built: {os.path.basename(self.relay_program)}")
        for host in self.hosts:
            shell.run("ip", "netns", "add", host.namespace)
            shell.run(*host.raw(["ip", "link", "set", "lo", "up"]))
            # A server binds its address before the relay has brought it up.
            host.sysctl("net.ipv4.ip_nonlocal_bind", 1)
            host.sysctl("net.ipv4.tcp_congestion_control", CONGESTION_CONTROL)
            # What one run learned of the path must not make the next one's start different.
            host.sysctl("net.ipv4.tcp_no_metrics_save", 1)
        if self.link == "veth":
            devices = [f"v{os.getpid()}{end}" for end in "cs"]
            shell.run("ip", "link", "add", devices[0], "type", "veth", "peer", "name", devices[1])
            for device, host in zip(devices, self.hosts, strict=True):
                shell.run("ip", "link", "set", device, "netns", host.namespace)
                shell.run(*host.raw(["ip", "link", "set", device, "name", "eth0"]))
                shell.run(*host.raw(["ip", "address", "add", f"{host.address}/24", "dev", "eth0"]))
                shell.run(*host.raw(["ip", "link", "set", "eth0", "up"]))

    def start_relay(self, parameters):
        """For `relay`: join the hosts with these parameters (`delay`, `rate`, `loss`, ...)."""
        if self.link != "relay":
            return
        options = []
        for key, value in {**RELAY_NOTHING, **parameters}.items():
            options += [f"--{key}"] if value is True else [f"--{key}", str(value)]
        ends = [f"{host.namespace}:{host.address}/24" for host in self.hosts]
        log = os.path.join(self.directory, "relay.log")
        if os.path.exists(log):
            os.unlink(log)
        self.relay = Server([self.relay_program, "--json", "--a", ends[0], "--b", ends[1], *options], log)
        try:
            self.relay.wait_until("the relay", lambda: "ready" in (shell.read(log) or ""))
        except Unavailable as reason:
            self.stop_relay()
            raise NotRun(f"the relay: {reason}") from None
        # What the relay cannot take at once waits: a packet lost here would be a fault that nobody injected.
        for host in self.hosts:
            shell.run(*host.raw(["ip", "link", "set", RELAY_DEVICE, "txqueuelen", "20000"]))

    def stop_relay(self):
        """End the relay, if it runs; what it says it carried, delayed and lost."""
        if not self.relay:
            return None
        self.relay.stop()
        lines = (shell.read(self.relay.log_path) or "").splitlines()
        self.relay = None
        return lines[-1] if len(lines) > 1 else None

    def remove(self):
        """Remove the namespaces, and with them all that is in them."""
        self.stop_relay()
        for host in self.hosts:
            if host.namespace:
                subprocess.run(["ip", "netns", "delete", host.namespace], capture_output=True, check=False)
