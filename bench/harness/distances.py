"""Endpoints at several round trips from one server: a network namespace for the servers, and one for each round trip, joined to it by a
link that delays every packet by half of that.

The link is the kernel's own emulator (netem) over a pair of virtual Ethernet devices where the kernel has it, otherwise the
relay on TUN devices. All links are up at the same time, so what is compared can be measured in turn. The servers' address is on
no link: every client reaches it over its own.
"""

import os
from contextlib import ExitStack

from testbed import shell
from testbed.errors import NotRun
from testbed.hosts import Host
from testbed.links import QUEUE_PACKETS, netem, own_number, shape, start_relay, unshape
from testbed.scratch import Scratch

PREFIX = "thalweg-ls"
SERVERS_ADDRESS = "10.88.{}.1"
LINK_NETWORK = "10.89.{}"
KINDS = {"netem": "the kernel's emulator (netem)", "relay": "the relay of the testbed"}


class Distances:
    """Entered, `locations` are there: for each of `round_trips_ms` (0: where the servers are) a name, a host and the link's processes."""

    def __init__(self, round_trips_ms, relay_program, kind="auto"):
        self.relay_program = relay_program
        self.scratch = Scratch(PREFIX)
        self.kind = kind
        self.round_trips_ms = sorted(set(round_trips_ms))
        self.servers = Host("servers", SERVERS_ADDRESS.format(own_number()), f"{self.scratch.name}-servers")
        self.locations = []
        self.undo = ExitStack()

    def __enter__(self):
        try:
            self._set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _set_up(self):
        self.undo.enter_context(self.scratch)
        self._make(self.servers)
        self.servers.run("ip", "address", "add", f"{self.servers.address}/32", "dev", "lo")
        if self.kind == "auto":
            self.kind = "netem" if self._has_netem() else "relay"
        for number, round_trip_ms in enumerate(self.round_trips_ms):
            name = f"{round_trip_ms:g} ms" if round_trip_ms else "no link"
            if not round_trip_ms:
                self.locations.append((name, round_trip_ms, self.servers, []))
                continue
            host = Host(name, f"{LINK_NETWORK.format(number)}.1", f"{self.scratch.name}-{number}")
            self._make(host)
            delay = f"{round_trip_ms * 500:g}us"
            pids = self._relay(host, number, delay) if self.kind == "relay" else self._netem(host, number, delay)
            self.locations.append((name, round_trip_ms, host, pids))

    def _make(self, host):
        self.undo.callback(host.remove)
        host.make()

    def _has_netem(self):
        try:
            shape(self.servers, netem("0ms"), "lo")
        except NotRun:
            return False
        unshape(self.servers, "lo")
        return True

    def _relay(self, host, number, delay):
        device, network = f"link{number}", LINK_NETWORK.format(number)
        ends = [(host, f"{network}.1/24"), (self.servers, f"{network}.2/24")]
        log = os.path.join(self.scratch.directory, f"relay-{number}.log")
        relay = start_relay(self.relay_program, ends, log, ["--delay", delay, "--queue", str(QUEUE_PACKETS)], device)
        self.undo.callback(relay.stop)
        host.run("ip", "route", "add", f"{self.servers.address}/32", "dev", device)
        return [relay.pid]

    def _netem(self, host, number, delay):
        device, network = f"link{number}", LINK_NETWORK.format(number)
        peer = ["peer", "name", device, "netns", self.servers.namespace]
        shell.run("ip", "link", "add", device, "netns", host.namespace, "type", "veth", *peer)
        for end, address in ((host, f"{network}.1"), (self.servers, f"{network}.2")):
            end.run("ip", "address", "add", f"{address}/24", "dev", device)
            end.run("ip", "link", "set", device, "up")
            shape(end, netem(delay), device)
        # A veth does not answer for an address that is on another device unless it is told whom to ask.
        host.run("ip", "route", "add", f"{self.servers.address}/32", "via", f"{network}.2", "dev", device)
        return []

    def link_words(self):
        """What the links are, for a page."""
        return KINDS[self.kind]

    def __exit__(self, *_):
        self.undo.close()


def enter(host):
    """The words that start a command on a host."""
    return " ".join(host.raw([]))
