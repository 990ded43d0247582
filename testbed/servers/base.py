"""A server that is one process on one port."""

import os

from testbed.hosts import LOOPBACK
from testbed.packages import install
from testbed.processes import Process, free_port


class Server:
    """Serves the files in `root` (or `directory`/files) on `host`; `directory` keeps its configuration and log.

    A kind of server says which packages it needs, its command, and what a file's URL is.
    """

    packages = {}
    log = "server.log"

    def __init__(self, directory, host=LOOPBACK, root=None):
        self.directory = os.path.abspath(directory)
        self.host = host
        self.root = os.path.abspath(root) if root else os.path.join(self.directory, "files")
        self.port = 0
        self.process = None

    @property
    def is_roots(self):
        """Whether it runs as root."""
        return os.geteuid() == 0 and not self.host.user

    @staticmethod
    def is_built():
        """Whether there is nothing to be built before it can be started."""
        return True

    def argv(self):
        """The command that serves on `self.port`."""
        raise NotImplementedError

    def address(self, name):
        """The URL of a file of the root."""
        raise NotImplementedError

    def __enter__(self):
        install(self.packages)
        self.port = free_port()
        os.makedirs(self.root, exist_ok=True)
        os.makedirs(self.directory, exist_ok=True)
        argv = self.argv()
        if self.host.user:
            self.host.user.give(self.directory, self.root)
        self.process = Process(argv, self.inside(self.log), self.host)
        try:
            self.process.wait_for_port(self.port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        process, self.process = self.process, None
        if process:
            process.stop()

    def inside(self, name):
        """A path in the server's own directory."""
        return os.path.join(self.directory, name)

    def configure(self, name, template, **words):
        """Write a configuration from a template; returns its path."""
        known = {"directory": self.directory, "root": self.root, "address": self.host.address, "port": self.port}
        with open(self.inside(name), "w") as out:
            out.write(template.format(**known, **words))
        return self.inside(name)
