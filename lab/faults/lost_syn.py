"""The first packets of attempts to connect are lost: an nftables rule in the namespace of the one who is connected to."""

from contextlib import contextmanager

from lab.faults.base import Fault

TABLE = "thalweg_lab_syn"


class LostSyn(Fault):
    """Of the SYN segments that come to `at` (client, server), the first of every `one_in` is dropped; only of those to the address `to`."""

    def __init__(self, at, one_in=2, to=None):
        self.at = at
        self.one_in = one_in
        self.to = to

    @contextmanager
    def applied(self, fixture):
        host = fixture.host(self.at)
        address = f"ip daddr {self.to} " if self.to else ""
        try:
            host.run("nft", "add", "table", "inet", TABLE)
            host.run("nft", "add", "chain", "inet", TABLE, "input", "{ type filter hook input priority 0; }")
            host.run("nft", *f"add rule inet {TABLE} input {address}tcp flags & (syn|ack) == syn numgen inc mod {self.one_in} == 0 drop".split())
            yield
        finally:
            host.run("nft", "delete", "table", "inet", TABLE, check=False)
