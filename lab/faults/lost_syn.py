"""The first packet of every other attempt to connect is lost: an nftables rule in the namespace of the one who is connected to."""

from contextlib import contextmanager

from lab.faults.base import Fault

TABLE = "thalweg_lab_syn"


class LostSyn(Fault):
    """Of the SYN segments that come to `at` (client, server), the first of every two is dropped."""

    def __init__(self, at):
        self.at = at

    @contextmanager
    def applied(self, fixture):
        host = fixture.host(self.at)
        try:
            host.run("nft", "add", "table", "inet", TABLE)
            host.run("nft", "add", "chain", "inet", TABLE, "input", "{ type filter hook input priority 0; }")
            host.run("nft", *f"add rule inet {TABLE} input tcp flags & (syn|ack) == syn numgen inc mod 2 == 0 drop".split())
            yield
        finally:
            host.run("nft", "delete", "table", "inet", TABLE, check=False)
