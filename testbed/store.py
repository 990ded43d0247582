"""A Thalweg store under measurement, driven through its command alone."""

import json
import os
import re
import subprocess

from harness.command import CommandFailed
from servers.process import Server, Unavailable

ADDRESS = re.compile(r"thal://[^\s\"'/]+")


class Store:
    """`thalweg up`: so many servers in one process, each with a directory of its own."""

    def __init__(self, program, directory, servers):
        self.program = program
        self.directory = directory
        self.servers = servers
        self.address = None
        self.server = None

    def __enter__(self):
        os.makedirs(self.directory, exist_ok=True)
        log = self.directory + ".log"
        self.server = Server([self.program, "up", "--servers", str(self.servers), "--port", "0", self.directory], log)
        try:
            self.server.wait_until("the store's address", lambda: self._find_address(log))
        except Unavailable as reason:
            self.server.stop()
            raise CommandFailed(f"thalweg up: {reason}") from None
        return self

    def _find_address(self, log):
        with open(log) as source:
            found = ADDRESS.search(source.read())
        self.address = found.group(0) if found else None
        return found is not None

    def __exit__(self, *_):
        self.server.stop()

    def url(self, name):
        """A file's name for the command line."""
        return f"{self.address}/{name}"

    def run(self, *arguments):
        """An untimed command; its stdout."""
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise CommandFailed(f"thalweg {' '.join(arguments)}: exit code {done.returncode}: {last}")
        return done.stdout

    def remove(self, name):
        """Remove a file or a tree, untimed."""
        self.run("rm", "-r", self.url(name))

    def size_bytes(self, name):
        """What the store says a file's size is."""
        return json.loads(self.run("stat", "--json", self.url(name)))["size_bytes"]
