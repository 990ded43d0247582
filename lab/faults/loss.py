"""Packets that are lost at random: an nftables rule in the namespace of the one who receives the data."""

from contextlib import contextmanager

from lab.faults.base import Fault

TABLE = "thalweg_lab"


class Loss(Fault):
    """One in `one_in` packets that come to `at` (client, server) is dropped. Segments that the kernel hands on as one count as one."""

    def __init__(self, at, one_in):
        self.at = at
        self.one_in = one_in

    @contextmanager
    def applied(self, fixture):
        host = fixture.host(self.at)
        chain = "{ type filter hook input priority 0; }"
        try:
            host.run("nft", "add", "table", "inet", TABLE)
            host.run("nft", "add", "chain", "inet", TABLE, "input", chain)
            rule = f"add rule inet {TABLE} input tcp flags & syn == 0 meta length > 1000 numgen random mod {self.one_in} == 0 drop"
            host.run("nft", *rule.split())
            yield
        finally:
            host.run("nft", "delete", "table", "inet", TABLE, check=False)
