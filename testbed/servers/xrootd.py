"""XRootD: one data server over one directory, anonymous, for `xrdcp`.

It refuses to run as root, so as root it is told to become `nobody`, who then owns the directory it serves. It binds to all
addresses and has no option for less: it runs only in a network namespace of its own.
"""

import os
import shutil

from testbed.errors import NotRun
from testbed.servers.base import Server

USER = "nobody"

CONFIGURATION = """xrd.port {port}
xrd.network nodnr
all.export {root}
all.adminpath {directory}/xrootd-admin
all.pidpath {directory}/xrootd-admin
oss.localroot /
"""


class Xrootd(Server):
    """A server of the files in `root`."""

    name = "xrootd"
    packages = {"xrootd-server": "xrootd", "xrootd-client": "xrdcp"}

    def __enter__(self):
        if not self.host.namespace:
            raise NotRun("it cannot be told to listen on loopback alone, and has no network namespace of its own here")
        return super().__enter__()

    def argv(self):
        os.makedirs(self.inside("xrootd-admin"), exist_ok=True)
        configuration = self.configure("xrootd.conf", CONFIGURATION)
        argv = ["xrootd", "-n", "thalweg", "-c", configuration, "-l", self.inside("xrootd.log")]
        if self.is_roots:
            for path in (self.directory, self.root, self.inside("xrootd-admin")):
                shutil.chown(path, USER)
            argv += ["-R", USER]
        return argv

    def address(self, name):
        """The URL of a file of the root."""
        return f"root://{self.host.address}:{self.port}/{os.path.join(self.root, name)}"
