"""XRootD: one data server over one directory, anonymous, for `xrdcp`.

It refuses to run as root, so as root it is told to become `nobody`, who then owns the directory it serves. It binds to all
addresses and has no option for less: it runs only in a network namespace of its own.
"""

import os
import shutil

from servers.process import LOOPBACK, FileServer, Unavailable, free_port, install

PACKAGES = {"xrootd-server": "xrootd", "xrootd-client": "xrdcp"}
USER = "nobody"

CONFIGURATION = """xrd.port {port}
xrd.network nodnr
all.export {root}
all.adminpath {directory}/xrootd-admin
all.pidpath {directory}/xrootd-admin
oss.localroot /
"""


class Xrootd(FileServer):
    """A server of the files in `root` (or `directory`/files); `directory` keeps its configuration and log."""

    name = "xrootd"

    def __enter__(self):
        if self.host is LOOPBACK:
            raise Unavailable("it cannot be told to listen on loopback alone, and has no network namespace of its own here")
        install(PACKAGES)
        self.port = free_port()
        os.makedirs(self.root, exist_ok=True)
        os.makedirs(os.path.join(self.directory, "xrootd-admin"), exist_ok=True)
        configuration = os.path.join(self.directory, "xrootd.conf")
        log = os.path.join(self.directory, "xrootd.log")
        output = os.path.join(self.directory, "xrootd-output.log")
        with open(configuration, "w") as out:
            out.write(CONFIGURATION.format(port=self.port, root=self.root, directory=self.directory))
        argv = ["xrootd", "-n", "thalweg", "-c", configuration, "-l", log]
        if os.geteuid() == 0:
            for path in (self.directory, self.root, os.path.join(self.directory, "xrootd-admin")):
                shutil.chown(path, USER)
            argv += ["-R", USER]
        return self._run(argv, output)

    def address(self, name):
        """The URL of a file of the root."""
        return f"root://{self.host.address}:{self.port}/{os.path.join(self.root, name)}"
