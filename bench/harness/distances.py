"""Places at several distances from one server: a network namespace for the servers, and one for each round trip, joined to it by a
link that delays every packet by half of that.

The link is the kernel's own emulator (netem) over a pair of virtual Ethernet devices where the kernel has it, otherwise the
laboratory's relay on TUN devices. All links are up at the same time, so what is compared can be measured in turn. The servers' address is on
no link: every place reaches it over its own. What is made has our process number in its name, and is removed when it is left.
"""

import glob
import os
import re
import subprocess

from laboratory import shell
from laboratory.errors import NotRun
from laboratory.hosts import Host
from servers.process import Server, Unavailable

PREFIX = "thalweg-ls"
SERVERS_ADDRESS = "10.88.{}.1"
LINK_NETWORK = "10.89.{}"
# Packets that may wait in a link: nothing is to be lost that nobody asked to be lost.
QUEUE = 20000


class Distances:
    """Entered, `places` are there: for each of `round_trips_ms` (0: where the servers are) a name, a host and the link's processes."""

    def __init__(self, round_trips_ms, relay_program, directory, kind="auto"):
        self.relay_program = relay_program
        self.directory = directory
        self.prefix = f"{PREFIX}-{os.getpid()}"
        self.kind = kind
        self.round_trips_ms = sorted(set(round_trips_ms))
        address = SERVERS_ADDRESS.format(os.getpid() % 250 + 1)
        self.servers = Host("servers", address, f"{self.prefix}-servers")
        self.hosts = [self.servers]
        self.links = []
        self.places = []

    def __enter__(self):
        remove_leftovers()
        try:
            self._set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _set_up(self):
        self._make(self.servers)
        shell.run(*self.servers.raw(["ip", "address", "add", f"{self.servers.address}/32", "dev", "lo"]))
        if self.kind == "auto":
            self.kind = "netem" if self._has_netem() else "relay"
        if self.kind == "relay" and not os.access(self.relay_program, os.X_OK):
            raise NotRun(f"the relay is not built: {os.path.basename(self.relay_program)}")
        for number, round_trip_ms in enumerate(self.round_trips_ms):
            name = f"{round_trip_ms:g} ms" if round_trip_ms else "no link"
            if not round_trip_ms:
                self.places.append((name, round_trip_ms, self.servers, []))
                continue
            host = Host(name, f"{LINK_NETWORK.format(number)}.1", f"{self.prefix}-{number}")
            self._make(host)
            pids = self._relay(host, number, round_trip_ms) if self.kind == "relay" else self._netem(host, number, round_trip_ms)
            shell.run(*host.raw(["ip", "route", "add", f"{self.servers.address}/32", "dev", f"link{number}"]))
            self.places.append((name, round_trip_ms, host, pids))

    def _make(self, host):
        self.hosts.append(host)
        shell.run("ip", "netns", "add", host.namespace)
        shell.run(*host.raw(["ip", "link", "set", "lo", "up"]))
        # What one run learned of a path must not make the next one's start different.
        host.sysctl("net.ipv4.tcp_no_metrics_save", 1)

    def _has_netem(self):
        words = ["tc", "qdisc", "replace", "dev", "lo", "root", "netem", "delay", "0ms"]
        tried = subprocess.run(self.servers.raw(words), capture_output=True, check=False)
        subprocess.run(self.servers.raw(["tc", "qdisc", "del", "dev", "lo", "root"]), capture_output=True, check=False)
        return tried.returncode == 0

    def _relay(self, host, number, round_trip_ms):
        device, network = f"link{number}", LINK_NETWORK.format(number)
        ends = [f"{host.namespace}:{network}.1/24", f"{self.servers.namespace}:{network}.2/24"]
        log = os.path.join(self.directory, f"relay-{number}.log")
        argv = [self.relay_program, "--a", ends[0], "--b", ends[1], "--device", device, "--delay", f"{round_trip_ms * 500:g}us"]
        relay = Server([*argv, "--queue", str(QUEUE)], log)
        self.links.append(relay)
        try:
            relay.wait_until("the relay", lambda: "ready" in (shell.read(log) or ""))
        except Unavailable as reason:
            raise NotRun(f"the relay: {reason}") from None
        for end in (host, self.servers):
            # What the relay cannot take at once waits.
            shell.run(*end.raw(["ip", "link", "set", device, "txqueuelen", str(QUEUE)]))
        return [relay.pid]

    def _netem(self, host, number, round_trip_ms):
        device, network = f"link{number}", LINK_NETWORK.format(number)
        peer = ["peer", "name", device, "netns", self.servers.namespace]
        shell.run("ip", "link", "add", device, "netns", host.namespace, "type", "veth", *peer)
        for end, address in ((host, f"{network}.1"), (self.servers, f"{network}.2")):
            shell.run(*end.raw(["ip", "address", "add", f"{address}/24", "dev", device]))
            shell.run(*end.raw(["ip", "link", "set", device, "up"]))
            delay = ["netem", "delay", f"{round_trip_ms * 500:g}us", "limit", str(QUEUE)]
            shell.run(*end.raw(["tc", "qdisc", "replace", "dev", device, "root", *delay]))
        # A veth does not answer for an address that is on another device unless it is told whom to ask.
        shell.run(*host.raw(["ip", "route", "replace", f"{self.servers.address}/32", "via", f"{network}.2", "dev", device]))
        return []

    def link_words(self):
        """What the links are, for a page."""
        kinds = {"netem": "the kernel's emulator (netem)", "relay": "the laboratory's packet relay"}
        return kinds[self.kind]

    def __exit__(self, *_):
        while self.links:
            self.links.pop().stop()
        for host in self.hosts:
            subprocess.run(["ip", "netns", "delete", host.namespace], capture_output=True, check=False)


def enter(host):
    """The words that start a command on a host."""
    return " ".join(host.raw([]))


def remove_leftovers():
    """Remove the namespaces of those whose process is gone."""
    for path in glob.glob(f"/run/netns/{PREFIX}-*"):
        found = re.fullmatch(rf"{PREFIX}-(\d+)-.*", os.path.basename(path))
        if not found or os.path.exists(f"/proc/{found.group(1)}"):
            continue
        namespace = os.path.basename(path)
        for pid in shell.run("ip", "netns", "pids", namespace, check=False).split():
            subprocess.run(["kill", "-KILL", pid], capture_output=True, check=False)
        shell.run("ip", "netns", "delete", namespace, check=False)
