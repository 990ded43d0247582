"""SQLite: several processes on several clients share a database under fcntl locks, and are killed in the middle of it.

Each worker moves money between accounts and numbers its transactions. Workers are killed at random moments and started again; the
next to come finds a hot journal and must roll it back. In the end the database passes SQLite's own check, no money was made or lost,
and every transaction whose commit was reported is there. One case kills a whole client (its mount) together with its workers.
"""

import os
import select
import sqlite3
import subprocess
import time

from gates.harness import workers
from gates.harness.case import Done, attempt
from testbed.errors import Broken, NotRun

TITLE = "databases under fcntl locks, writers killed"
SHORT_S = 12
ORDER = 40

ACCOUNTS, AMOUNT = 64, 1000
STALL_S = 60.0


class Worker:
    """One process of workers/sqlite_worker.py, and what it has said."""

    def __init__(self, fixture, path, journal, number):
        self.fixture, self.path, self.journal, self.number = fixture, path, journal, number
        self.committed = self.transactions = self.busy = 0
        self.process = None
        self.rest = b""
        self.start()

    def start(self):
        """Start it, for the first time or again."""
        log = os.path.join(self.fixture.scratch, f"worker-{self.number}.log")
        argv = [self.fixture.worker("sqlite_worker.py"), self.path, self.journal, str(self.number)]
        argv.append(str(self.fixture.random.randrange(1 << 30)))
        self.process = workers.start(argv, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.rest = b""

    @property
    def stdin(self):
        """It ends when this is closed."""
        return self.process.process.stdin

    @property
    def stdout(self):
        """What it says."""
        return self.process.process.stdout

    def listen(self):
        """Take what it printed; `Broken` if it says that something is."""
        told = os.read(self.stdout.fileno(), 65536)
        self.rest += told
        *lines, self.rest = self.rest.split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").split(" ", 1)
            if words[0] == "done":
                self.committed = int(words[1])
                self.transactions += 1
            elif words[0] == "busy":
                self.busy += 1
            elif words[0] == "wrong:":
                raise Broken(f"worker {self.number}: {words[1]}")
        if not told and (code := self.process.process.wait(30)) != 0:
            raise Broken(f"worker {self.number}: exit code {code}: {self.process.last_line()}")
        return bool(told)

    def kill(self):
        """From one moment to the next; what it had printed counts."""
        self.end()
        try:
            while self.listen():
                pass
        except Broken as why:
            if "exit code -9" not in str(why):
                raise
        self.stdin.close()
        self.stdout.close()

    def end(self):
        """Whatever it does, it is gone."""
        self.process.kill(self.fixture.filesystem.give_up)


def finish(started):
    """Let all end after their transactions, and hear them out."""
    for worker in started:
        worker.stdin.close()
    for worker in started:
        while worker.listen():
            pass
        worker.stdout.close()


def done(started):
    """How many transactions they made, and how many times one had to try again since the database was locked."""
    return Done(sum(worker.transactions for worker in started), sum(worker.busy for worker in started))


def cases(fixture):
    """One case for each journal mode and place of the workers."""
    modes = ["DELETE", "TRUNCATE", "PERSIST"]
    if fixture.short:
        yield attempt("DELETE journal, two clients, workers killed", _shared, fixture, "DELETE", True, 7.0, 0.4)
        yield attempt("TRUNCATE journal, two clients, workers killed", _shared, fixture, "TRUNCATE", True, 4.0, 0.4)
        return
    for mode in modes:
        yield attempt(f"{mode} journal, one client", _shared, fixture, mode, False, 15.0, 0)
        yield attempt(f"{mode} journal, two clients", _shared, fixture, mode, True, 20.0, 0)
        yield attempt(f"{mode} journal, two clients, workers killed", _shared, fixture, mode, True, 40.0, 0.5)
    yield attempt("DELETE journal, a client killed with its workers", _client_killed, fixture)
    yield attempt("WAL, one client, workers killed", _shared, fixture, "WAL", False, 20.0, 0.5)
    yield attempt("WAL, alone (locking_mode=EXCLUSIVE)", _alone, fixture)
    yield attempt("WAL, two clients", _shared, fixture, "WAL", True, 15.0, 0)


def _new(fixture, journal):
    here, there = fixture.inside(f"db-{len(os.listdir(fixture.path))}")
    connection = sqlite3.connect(os.path.join(here, "bank.db"), isolation_level=None)
    connection.execute(f"PRAGMA journal_mode={journal}")
    connection.executescript(
        f"""BEGIN; CREATE TABLE accounts (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL);
        CREATE TABLE done (worker INTEGER, step INTEGER, what BLOB, PRIMARY KEY (worker, step));
        WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {ACCOUNTS - 1})
        INSERT INTO accounts SELECT i, {AMOUNT} FROM n; COMMIT;"""
    )
    connection.close()
    return os.path.join(here, "bank.db"), os.path.join(there, "bank.db")


def _shared(fixture, journal, across, seconds, kill_every_s):
    here, there = _new(fixture, journal)
    started = [Worker(fixture, there if across and number % 2 else here, journal, number) for number in range(4)]
    try:
        _watch(fixture, started, seconds, kill_every_s)
        finish(started)
    finally:
        for worker in started:
            worker.end()
    _check(here, started)
    if across:
        _check(there, started)
    return done(started)


def _watch(fixture, started, seconds, kill_every_s):
    """Hear the workers for so long, and kill one now and then."""
    begun = last = time.monotonic()
    next_kill = begun + kill_every_s
    while time.monotonic() - begun < seconds:
        ready, _, _ = select.select([worker.stdout for worker in started], [], [], 0.05)
        for worker in started:
            if worker.stdout in ready:
                worker.listen()
                last = time.monotonic()
        if time.monotonic() - last > STALL_S:
            raise Broken(f"no transaction for {STALL_S:.0f} s")
        if kill_every_s and time.monotonic() > next_kill:
            victim = fixture.random.choice(started)
            victim.kill()
            victim.start()
            next_kill = time.monotonic() + kill_every_s * fixture.random.uniform(0.3, 1.7)


def _check(path, started=()):
    connection = sqlite3.connect(path, timeout=60.0)
    try:
        told = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        if told != ["ok"]:
            raise Broken(f"integrity_check: {'; '.join(told)[:300]}")
        total = connection.execute("SELECT sum(amount) FROM accounts").fetchone()[0]
        if total != ACCOUNTS * AMOUNT:
            raise Broken(f"the accounts sum up to {total}, not {ACCOUNTS * AMOUNT}")
        for worker in started:
            last = connection.execute("SELECT coalesce(max(step), 0) FROM done WHERE worker = ?", (worker.number,)).fetchone()[0]
            # A worker that was killed may have committed one more than it could say.
            if not worker.committed <= last <= worker.committed + 1:
                raise Broken(f"worker {worker.number} reported {worker.committed} commits, and the database has {last}")
    except sqlite3.DatabaseError as why:
        raise Broken(f"{type(why).__name__}: {why}") from None
    finally:
        connection.close()


def _client_killed(fixture):
    """A client dies with two workers in the middle of transactions; its locks go, the journal is rolled back, the others go on."""
    here, _ = _new(fixture, "DELETE")
    every = []
    for _ in range(3):
        mount = fixture.filesystem.another()
        there = os.path.join(mount.path, os.path.relpath(here, os.path.dirname(fixture.path)))
        started = [Worker(fixture, there if number % 2 else here, "DELETE", number) for number in range(4)]
        every += started
        try:
            for worker in started:
                _first_commits(worker)
            mount.kill()
            for worker in started[1::2]:
                worker.end()
                try:
                    while worker.listen():
                        pass
                except Broken:
                    pass  # An error is what the dead client's workers must get.
            _watch(fixture, started[0::2], 5.0, 0)
            finish(started[0::2])
        finally:
            for worker in started:
                worker.end()
        _check(here, started[0::2])
    return done(every)


def _first_commits(worker):
    while worker.transactions < 3:
        ready, _, _ = select.select([worker.stdout], [], [], STALL_S)
        if not ready:
            raise Broken(f"worker {worker.number}: no transaction for {STALL_S:.0f} s")
        worker.listen()


def _alone(fixture):
    here, there = _new(fixture, "DELETE")
    connection = sqlite3.connect(here, isolation_level=None)
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    if connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
        raise NotRun("this SQLite does not do WAL without shared memory")
    for step in range(1, 201):
        connection.execute("INSERT INTO done VALUES (0, ?, ?)", (step, bytes(3000)))
    connection.close()
    _check(there)
    return 200
