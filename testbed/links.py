"""What lies between hosts: links of a known rate, delay and loss.

`Pair` joins two hosts: not at all (both are this machine, on loopback), by a pair of virtual Ethernet devices, or by our relay on TUN
devices, which delays, loses and shapes packet by packet. `Bridge` joins several hosts by links of one rate.
"""

import os
import subprocess

from testbed import shell
from testbed.errors import NotRun
from testbed.hosts import Host, write_hosts_file
from testbed.processes import Process

DEVICE = "eth0"
PAIR_NETWORK = "10.86.{}.{}"
BRIDGE_NETWORK = "10.87.{}.{}"
# A namespace may have only what the machine allows everybody; this one is always allowed, and behaves as the books say.
CONGESTION_CONTROL = "reno"
RELAY_DEVICE = "relay0"
# Packets that may wait in a link: none is to be lost that nobody asked to be lost.
QUEUE_PACKETS = 20000
# As much as a switch buffers: enough that streams which share a link fill it.
QUEUE_S = 0.1


def own_number():
    """A number for addresses, so that runs side by side have networks of their own."""
    return os.getpid() % 250 + 1


def token_bucket(bits, queue_s):
    """The words of `tc` for a link of so many bits per second that holds what waits for so long at the most."""
    # A bucket of 2 ms: small beside what is measured, and never below one large packet.
    burst = max(int(bits / 8 * 0.002), 70_000)
    limit = burst + int(bits / 8 * queue_s)
    return ["tbf", "rate", f"{int(bits)}bit", "burst", str(burst), "limit", str(limit)]


def netem(delay):
    """The words of `tc` for the kernel's own emulator of a delay."""
    return ["netem", "delay", delay, "limit", str(QUEUE_PACKETS)]


def shape(host, words, device=DEVICE):
    """Give what a host sends through a device this queueing discipline."""
    host.run("tc", "qdisc", "replace", "dev", device, "root", *words)


def unshape(host, device=DEVICE):
    """Take it back."""
    host.run("tc", "qdisc", "del", "dev", device, "root", check=False)


def start_relay(program, ends, log, options=(), device=RELAY_DEVICE):
    """Join two hosts (each with its addresses, `ADDRESS/PREFIX`) by the relay; returns its process when the link is up."""
    if not os.access(program, os.X_OK):
        raise NotRun(f"the relay is not built: {os.path.basename(program)}")
    if os.path.exists(log):
        os.unlink(log)
    (a, at_a), (b, at_b) = ends
    words = ["--a", f"{a.namespace}:{at_a}", "--b", f"{b.namespace}:{at_b}", "--device", device]
    relay = Process([program, "--json", *words, *options], log)
    try:
        relay.wait_for_word("the relay")
        # What the relay cannot take at once waits: a packet lost here would be a fault that nobody injected.
        for host, _ in ends:
            host.run("ip", "link", "set", device, "txqueuelen", str(QUEUE_PACKETS))
    except BaseException:
        relay.stop()
        raise
    return relay


class Pair:
    """A client, a server, and the link between them (`none`, `veth`, `relay`); `name` begins the names of their namespaces."""

    def __init__(self, link, name, groups, relay_program, directory):
        self.link = link
        self.relay_program = relay_program
        self.directory = directory
        self.relay = None
        ends = ("client", "server")
        if link == "none":
            self.hosts = [Host(end, "127.0.0.1", None, groups[end]) for end in ends]
        else:
            hosts_file = os.path.join(directory, "hosts")
            addresses = {end: PAIR_NETWORK.format(own_number(), 1 + at) for at, end in enumerate(ends)}
            self.hosts = [Host(end, address, f"{name}-{end}", groups[end], hosts_file) for end, address in addresses.items()]
            write_hosts_file(hosts_file, self.hosts)
        self.client, self.server = self.hosts

    def make(self):
        """Make the namespaces and, for `veth`, the link."""
        if self.link == "none":
            return
        for host in self.hosts:
            host.make()
            # A server binds its address before the relay has brought it up.
            host.sysctl("net.ipv4.ip_nonlocal_bind", 1)
            host.sysctl("net.ipv4.tcp_congestion_control", CONGESTION_CONTROL)
        if self.link == "veth":
            devices = [f"v{os.getpid()}{end}" for end in "cs"]
            shell.run("ip", "link", "add", devices[0], "type", "veth", "peer", "name", devices[1])
            for device, host in zip(devices, self.hosts, strict=True):
                shell.run("ip", "link", "set", device, "netns", host.namespace)
                host.run("ip", "link", "set", device, "name", DEVICE)
                host.run("ip", "address", "add", f"{host.address}/24", "dev", DEVICE)
                host.run("ip", "link", "set", DEVICE, "up")

    def shape(self, bits_per_s, queue_s):
        """Have both hosts send at this rate at the most."""
        for host in self.hosts:
            shape(host, token_bucket(bits_per_s, queue_s))

    def use_todays_congestion_control(self):
        """What the machine allows everybody is a namespace's too, but for congestion control, which `make` sets to the textbook's. This is what machines
        of today have."""
        for host in self.hosts:
            host.run("sysctl", "-q", "net.ipv4.tcp_congestion_control=cubic", check=False)

    def start_relay(self, parameters):
        """For `relay`: join the hosts with these parameters (`delay`, `rate`, `loss`, ...), which may differ from run to run."""
        if self.link != "relay":
            return
        options = []
        for key, value in {"delay": "0ms", **parameters}.items():
            options += [f"--{key}"] if value is True else [f"--{key}", str(value)]
        ends = [(host, f"{host.address}/24") for host in self.hosts]
        self.relay = start_relay(self.relay_program, ends, os.path.join(self.directory, "relay.log"), options)

    def stop_relay(self):
        """End the relay, if it runs; what it says it carried, delayed and lost."""
        if not self.relay:
            return None
        self.relay.stop()
        lines = self.relay.output().splitlines()
        self.relay = None
        return lines[-1] if len(lines) > 1 else None

    def remove(self):
        """Remove the namespaces, and with them all that is in them."""
        self.stop_relay()
        for host in self.hosts:
            host.remove()


class Bridge:
    """`names` become hosts on one bridge; what a host sends to itself costs no link. Both directions of a link carry the same rate:
    the host's end shapes what it sends, the bridge's end what it receives. Each end holds `queue_s` of it; what does not fit is lost."""

    def __init__(self, prefix, names, bits_per_s=None, queue_s=QUEUE_S):
        self.device = f"b{os.getpid()}"
        self.bits_per_s = bits_per_s
        self.queue_s = queue_s
        self.hosts = [Host(name, BRIDGE_NETWORK.format(own_number(), 1 + at), f"{prefix}-{name}") for at, name in enumerate(names)]

    def __enter__(self):
        try:
            shell.run("ip", "link", "add", self.device, "type", "bridge")
            shell.run("ip", "link", "set", self.device, "up")
            for at, host in enumerate(self.hosts):
                self._join(host, f"p{os.getpid()}x{at}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _join(self, host, port):
        """Make the host, and give it a port of the bridge."""
        host.make()
        shell.run("ip", "link", "add", port, "type", "veth", "peer", "name", DEVICE, "netns", host.namespace)
        shell.run("ip", "link", "set", port, "master", self.device, "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", DEVICE)
        host.run("ip", "link", "set", DEVICE, "up")
        if self.bits_per_s:
            words = token_bucket(self.bits_per_s, self.queue_s)
            shape(host, words)
            shell.run("tc", "qdisc", "replace", "dev", port, "root", *words)

    def __exit__(self, *_):
        for host in self.hosts:
            host.remove()
        subprocess.run(["ip", "link", "delete", self.device], capture_output=True, check=False)
