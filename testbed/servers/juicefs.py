"""JuiceFS: names in a redis of its own, bytes in a directory of this machine, and the whole of it mounted.

The program is `juicefs` in PATH, or built once from its Go module into the build's directory: `go install` refuses a module that replaces
others, so its sources are copied out of the module cache and built there. Backends that are not used here are left out.
"""

import json
import os
import re
import shutil
import subprocess

from testbed import shell
from testbed.errors import NotRun
from testbed.paths import TARGET
from testbed.processes import Process
from testbed.servers.base import Server

MODULE = "github.com/juicedata/juicefs"
VERSION = "v1.3.1"
# Those of its Makefile's `juicefs.lite`, and two that came later: what is left is redis for names, and files or S3 for bytes.
WITHOUT = (
    "nogateway,nowebdav,nocos,nobos,nohdfs,noibmcos,noobs,nooss,noqingstor,noscs,nosftp,noswift,noupyun,noazure,nogs,noufile,nob2,"
    "nosqlite,nomysql,nopg,notikv,nobadger,noetcd,nonfs,nodragonfly"
)
BUILT = os.path.join(TARGET, "juicefs", VERSION, "juicefs")
NAME = "bench"


class JuiceFs(Server):
    """A volume whose bytes are files in `root`, and its mount `mounted`."""

    name = "juicefs"
    packages = {"redis-server": "redis-server"}

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.mounted = self.inside("mounted")
        self.mount = None

    @staticmethod
    def is_built():
        """Whether it can be started without building it first."""
        return shutil.which("juicefs") is not None or os.access(BUILT, os.X_OK)

    def __enter__(self):
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise NotRun("/dev/fuse may not be opened")
        program = shutil.which("juicefs") or built(BUILT)
        super().__enter__()
        try:
            self._mount(program)
        except BaseException:
            self.__exit__()
            raise
        return self

    def argv(self):
        """Names are on the disk within a second, as JuiceFS advises."""
        words = {"bind": self.host.address, "port": self.port, "dir": self.directory, "save": "", "appendonly": "yes", "daemonize": "no"}
        return ["redis-server", *(word for key, value in words.items() for word in (f"--{key}", str(value)))]

    def address(self, name):
        """A file of the mount: nothing else can be asked for one."""
        return os.path.join(self.mounted, name)

    def _mount(self, program):
        names = f"redis://{self.host.address}:{self.port}/1"
        os.makedirs(self.mounted, exist_ok=True)
        shell.run(program, "format", "--storage", "file", "--bucket", self.root + "/", names, NAME)
        words = ["mount", "--no-usage-report", "--cache-dir", self.inside("cache"), names, self.mounted]
        self.mount = Process([program, *words], self.inside("mount.log"), self.host)
        self.mount.wait_until(f"the mount at {self.mounted}", lambda: self.mounted in shell.mount_points())

    def __exit__(self, *_):
        if self.mounted in shell.mount_points():
            subprocess.run(["fusermount3", "-u", "-z", self.mounted], capture_output=True, check=False)
        mount, self.mount = self.mount, None
        if mount:
            mount.stop()
        super().__exit__()


def built(program):
    """The program, built if it is not there; `NotRun` where it cannot be."""
    if os.access(program, os.X_OK):
        return program
    if shutil.which("go") is None:
        raise NotRun("juicefs is neither in PATH nor built, and there is no go to build it with")
    module = f"{MODULE}@{VERSION}"
    got = subprocess.run(["go", "mod", "download", "-json", module], cwd="/", capture_output=True, text=True, check=False)
    try:
        told = json.loads(got.stdout)
    except ValueError:
        told = {"Error": got.stderr}
    if "Dir" not in told:
        # Not from where: that is the machine's own setting.
        raise NotRun(f"{module} cannot be had: {re.sub(r'reading https?://[^ ]*: ', '', shell.last_line(told.get('Error', '')))}")
    sources = os.path.join(os.path.dirname(program), "sources")
    os.makedirs(os.path.dirname(program), exist_ok=True)
    shutil.rmtree(sources, ignore_errors=True)
    # The module cache is read-only, and so would its copy be.
    shell.run("cp", "-r", "--no-preserve=mode", told["Dir"], sources)
    try:
        argv = ["go", "build", "-p", "1", "-tags", WITHOUT, "-o", program, "."]
        done = subprocess.run(argv, cwd=sources, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(sources, ignore_errors=True)
    if done.returncode != 0:
        raise NotRun(f"{module} cannot be built: {shell.last_line(done.stderr)}")
    return program
