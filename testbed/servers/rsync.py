"""rsync: the daemon over one directory, as the module `files`, without a user."""

import os

from servers.process import FileServer, free_port, install

PACKAGES = {"rsync": "rsync"}

CONFIGURATION = """use chroot = no
pid file = {directory}/rsyncd.pid
log file = {directory}/rsyncd.log
{user}
[files]
path = {root}
read only = no
"""


class Rsync(FileServer):
    """A daemon over `root` (or `directory`/files); `directory` keeps its configuration and log."""

    name = "rsync"

    def __enter__(self):
        install(PACKAGES)
        self.port = free_port()
        os.makedirs(self.root, exist_ok=True)
        os.makedirs(self.directory, exist_ok=True)
        configuration = os.path.join(self.directory, "rsyncd.conf")
        user = "uid = root\ngid = root" if os.geteuid() == 0 else ""
        with open(configuration, "w") as out:
            out.write(CONFIGURATION.format(directory=self.directory, root=self.root, user=user))
        argv = ["rsync", "--daemon", "--no-detach", "--config", configuration, "--port", str(self.port)]
        log = os.path.join(self.directory, "rsyncd-output.log")
        return self._run([*argv, "--address", self.host.address], log)

    def address(self, name):
        """The URL of a file of the module."""
        return f"rsync://{self.host.address}:{self.port}/files/{name}"
