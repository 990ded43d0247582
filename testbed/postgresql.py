"""A PostgreSQL server on a socket in a directory of its own, for metadata services."""

import glob
import os
import shutil

from testbed import shell
from testbed.errors import NotRun
from testbed.processes import Process

USER = "thalweg"
# Whose files they are where the testbed is root: the server does not run as root.
NOBODY = 65534


class Postgresql:
    """Entered, it serves with one empty database for each of `databases`."""

    def __init__(self, directory, databases):
        self.directory = os.path.abspath(directory)
        self.databases = databases
        self.process = None

    def __enter__(self):
        for needed in ("initdb", "postgres", "createdb", "psql"):
            program(needed)
        os.makedirs(self.directory, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(self.directory, NOBODY, NOBODY)
        shell.run(*self._as_owner("initdb", "-D", self._data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"), failure=NotRun)
        settings = ["listen_addresses=", f"unix_socket_directories={self.directory}", "max_connections=60"]
        words = [word for setting in settings for word in ("-c", setting)]
        self.process = Process(self._as_owner("postgres", "-D", self._data, *words), f"{self.directory}.log")
        try:
            self.process.wait_until("PostgreSQL", self._is_ready, NotRun)
            for database in self.databases:
                shell.run(program("createdb"), "-h", self.directory, "-U", USER, database, failure=NotRun)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        process, self.process = self.process, None
        if process:
            process.stop()

    def address(self, database):
        """What `--metadata-database` takes."""
        return f"postgresql:///{database}?host={self.directory}&user={USER}"

    @property
    def _data(self):
        return os.path.join(self.directory, "data")

    def _as_owner(self, name, *arguments):
        owner = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--"] if os.geteuid() == 0 else []
        return [*owner, program(name), *arguments]

    def _is_ready(self):
        asked = [program("psql"), "-X", "-h", self.directory, "-U", USER, "-d", "postgres", "-Atc", "SELECT 1"]
        return shell.run(*asked, check=False).strip() == "1"


def program(name):
    """A program of PostgreSQL's: in PATH, or of the newest version where Debian keeps them."""
    versions = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=lambda path: (len(path), path))
    found = shutil.which(name) or (versions[-1] if versions else None)
    if not found:
        raise NotRun(f"PostgreSQL is not installed ({name})")
    return found
