"""GridFTP: `globus-gridftp-server`, anonymous, control and data on 127.0.0.1, blocks of 1 MiB.

The server's block size is its own option (its default of 256 KiB is slower); the client's `-bs` is not sent to it. Its transfer
log (`-Z`) tells buffer, block, streams and bytes of every transfer: an oracle beside our own clock.
"""

import os

from servers.process import OneProcess, free_port, install

PACKAGES = {
    "globus-gridftp-server-progs": "globus-gridftp-server",
    "globus-gass-copy-progs": "globus-url-copy",
}
BLOCK_BYTES = 1 << 20


class GridFtp(OneProcess):
    """A server that sees the whole file system with our rights; `directory` keeps its logs."""

    name = "gridftp"

    def __enter__(self):
        install(PACKAGES)
        self.port = free_port()
        os.makedirs(self.directory, exist_ok=True)
        address = self.host.address
        argv = ["globus-gridftp-server", "-aa", "-p", str(self.port), "-control-interface", address]
        argv += ["-data-interface", address, "-c", "/dev/null", "-blocksize", str(BLOCK_BYTES)]
        argv += ["-Z", self.transfer_log]
        if os.geteuid() == 0:
            argv += ["-anonymous-user", "root", "-allow-root"]
        return self._run(argv, os.path.join(self.directory, "gridftp.log"))

    @property
    def transfer_log(self):
        """One line per transfer: start, end, bytes, streams, buffer, block."""
        return os.path.join(self.directory, "gridftp-transfers.log")

    def address(self, path):
        """The URL of a file, by its absolute path."""
        return f"ftp://{self.host.address}:{self.port}{path}"
