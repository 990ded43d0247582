"""Somebody else on the same processor: a program that computes, pinned beside the client (or the server)."""

import os
from contextlib import contextmanager

from lab.faults.base import Fault
from testbed.errors import NotRun
from testbed.paths import PROGRAMS
from testbed.processes import Process


class Hog(Fault):
    """`count` programs that burn processor `cpu` for as long as the run takes."""

    def __init__(self, cpu, count=1):
        self.cpu = cpu
        self.count = count

    @contextmanager
    def applied(self, fixture):
        program = os.path.join(PROGRAMS, "hog")
        if not os.access(program, os.X_OK):
            raise NotRun("the hog is not built: make -C lab")
        hogs = []
        try:
            for number in range(self.count):
                log = os.path.join(fixture.directory, f"hog-{number}.log")
                hogs.append(Process([program, "--cpu", str(self.cpu)], log))
            yield
        finally:
            for hog in hogs:
                hog.stop()
