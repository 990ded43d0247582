"""A store on loopback, for tests."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

from thalweg.command import find


class Store:
    """A store of two servers in a directory of its own, ended by its process's number."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="thalweg-store-")
        words = [find(), "up", "--print-address", "--servers", "2", self.directory.name]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise RuntimeError(f"no store: {self.process.stderr.read()}")

    @property
    def description(self):
        return Path(self.directory.name) / "store.toml"

    @property
    def credential(self):
        return Path(self.directory.name) / "store.credential"

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        """Like a machine that loses power."""
        self.process.kill()
        self.process.wait()

    def end(self):
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process.stdout.close()
        self.process.stderr.close()
        self.directory.cleanup()
