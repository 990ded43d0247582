"""rsync: the daemon over one directory, as the module `files`, without a user."""

from testbed.servers.base import Server

CONFIGURATION = """use chroot = no
pid file = {directory}/rsyncd.pid
log file = {directory}/rsyncd.log
{user}
[files]
path = {root}
read only = no
"""


class Rsync(Server):
    """A daemon over `root`."""

    name = "rsync"
    packages = {"rsync": "rsync"}

    def argv(self):
        user = "uid = root\ngid = root" if self.is_roots else ""
        configuration = self.configure("rsyncd.conf", CONFIGURATION, user=user)
        argv = ["rsync", "--daemon", "--no-detach", "--config", configuration]
        return [*argv, "--port", str(self.port), "--address", self.host.address]

    def address(self, name):
        """The URL of a file of the module."""
        return f"rsync://{self.host.address}:{self.port}/files/{name}"
