"""Several hosts on one bridge, each with a link of a stated rate: network namespaces, one for each, joined by virtual Ethernet.

What a host sends to itself stays in its namespace and costs no link. Both directions of a link carry the same rate: the host's end
shapes what it sends, the bridge's end what it receives.
"""

import os
import subprocess

from faults.link import token_bucket
from laboratory import shell
from laboratory.hosts import Host

NETWORK = "10.87.{}.{}"
# As much as a switch buffers: enough that streams which share a link fill it.
QUEUE_S = 0.1


class Bridge:
    """`names` become hosts; entered, the network is there, and left, it is gone."""

    def __init__(self, prefix, names, bits_per_s=None):
        number = os.getpid() % 250 + 1
        self.device = f"b{os.getpid()}"
        self.bits_per_s = bits_per_s
        self.hosts = [Host(name, NETWORK.format(number, 1 + at), f"{prefix}-{name}") for at, name in enumerate(names)]

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
        shell.run("ip", "netns", "add", host.namespace)
        shell.run(*host.raw(["ip", "link", "set", "lo", "up"]))
        shell.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
        shell.run("ip", "link", "set", port, "master", self.device, "up")
        shell.run(*host.raw(["ip", "address", "add", f"{host.address}/24", "dev", "eth0"]))
        shell.run(*host.raw(["ip", "link", "set", "eth0", "up"]))
        # What one run learned of a path must not make the next one's start different.
        host.sysctl("net.ipv4.tcp_no_metrics_save", 1)
        if self.bits_per_s:
            shape = token_bucket(self.bits_per_s, QUEUE_S)
            shell.run(*host.raw(["tc", "qdisc", "replace", "dev", "eth0", "root", *shape]))
            shell.run("tc", "qdisc", "replace", "dev", port, "root", *shape)

    def __exit__(self, *_):
        for host in self.hosts:
            subprocess.run(["ip", "netns", "delete", host.namespace], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", self.device], capture_output=True, check=False)
