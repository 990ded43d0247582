"""GridFTP: `globus-gridftp-server`, anonymous, control and data on 127.0.0.1, blocks of 1 MiB.

The server's block size is its own option (its default of 256 KiB is slower); the client's `-bs` is not sent to it. Its transfer
log (`-Z`) tells buffer, block, streams and bytes of every transfer: an oracle beside our own clock.
"""

import os

from testbed.servers.base import Server

BLOCK_BYTES = 1 << 20


class GridFtp(Server):
    """A server that sees the whole file system with our rights."""

    name = "gridftp"
    packages = {"globus-gridftp-server-progs": "globus-gridftp-server", "globus-gass-copy-progs": "globus-url-copy"}

    def argv(self):
        argv = ["globus-gridftp-server", "-aa", "-p", str(self.port), "-control-interface", self.host.address]
        argv += ["-data-interface", self.host.address, "-c", "/dev/null", "-blocksize", str(BLOCK_BYTES)]
        argv += ["-Z", self.transfer_log]
        if self.is_roots:
            argv += ["-anonymous-user", "root", "-allow-root"]
        return argv

    @property
    def transfer_log(self):
        """One line per transfer: start, end, bytes, streams, buffer, block."""
        return self.inside("gridftp-transfers.log")

    def address(self, name):
        """The URL of a file of the root, or of any file by its absolute path."""
        return f"ftp://{self.host.address}:{self.port}{os.path.join(self.root, name)}"
