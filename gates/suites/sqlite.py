"""SQLite: several processes on several clients share a database under fcntl locks, and are killed in the middle of it.

Each worker moves money between accounts and numbers its transactions. Workers are killed at random moments and started again; the
next to come finds a hot journal and must roll it back. In the end the database passes SQLite's own check, no money was made or lost,
and every transaction whose commit was reported is there. One case kills a whole client (its mount) together with its workers.
"""

import os
import select
import sqlite3
import subprocess
import sys
import time

from gatehouse import shell
from gatehouse.case import NotRun, Wrong, attempt

TITLE = "databases under fcntl locks, writers killed"
SHORT = True
ORDER = 40

ACCOUNTS, AMOUNT = 64, 1000
STALL_S = 60.0


class Worker:
    """One process of workers/sqlite_worker.py, and what it has said."""

    def __init__(self, visit, path, journal, number):
        self.visit, self.path, self.journal, self.number = visit, path, journal, number
        self.committed = self.transactions = self.starts = 0
        self.process = None
        self.start()

    def start(self):
        """(Again.)"""
        self.starts += 1
        log = os.path.join(self.visit.scratch, f"worker-{self.number}.log")
        argv = [sys.executable, self.visit.worker("sqlite_worker.py"), self.path, self.journal, str(self.number)]
        argv.append(str(self.visit.random.randrange(1 << 30)))
        self.process = shell.start(argv, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.rest = b""

    def listen(self):
        """Take what it printed; `Wrong` if it says that something is."""
        told = os.read(self.process.stdout.fileno(), 65536)
        self.rest += told
        *lines, self.rest = self.rest.split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").split(" ", 1)
            if words[0] == "done":
                self.committed = int(words[1])
                self.transactions += 1
            elif words[0] == "wrong:":
                raise Wrong(f"worker {self.number}: {words[1]}")
        if not told and self.process.wait(30) != 0:
            raise Wrong(f"worker {self.number}: exit code {self.process.returncode}: {self.last_words()}")
        return bool(told)

    def last_words(self):
        """The end of its error output."""
        with open(os.path.join(self.visit.scratch, f"worker-{self.number}.log"), errors="replace") as source:
            return (source.read().strip().splitlines() or ["it said nothing"])[-1]

    def kill(self):
        """From one moment to the next; what it had printed counts."""
        shell.end(self.process, self.visit.place.give_up)
        try:
            while self.listen():
                pass
        except Wrong as why:
            if "exit code -9" not in str(why):
                raise
        self.process.stdin.close()
        self.process.stdout.close()


def finish(workers):
    """Let all end after their transactions, and hear them out."""
    for worker in workers:
        worker.process.stdin.close()
    for worker in workers:
        while worker.listen():
            pass
        worker.process.stdout.close()


def cases(visit):
    """One case for each journal mode and place of the workers."""
    modes = ["DELETE", "TRUNCATE", "PERSIST"]
    if visit.short:
        yield attempt("DELETE journal, two clients, workers killed", _shared, visit, "DELETE", True, 7.0, 0.4)
        yield attempt("TRUNCATE journal, two clients, workers killed", _shared, visit, "TRUNCATE", True, 4.0, 0.4)
        return
    for mode in modes:
        yield attempt(f"{mode} journal, one client", _shared, visit, mode, False, 15.0, 0)
        yield attempt(f"{mode} journal, two clients", _shared, visit, mode, True, 20.0, 0)
        yield attempt(f"{mode} journal, two clients, workers killed", _shared, visit, mode, True, 40.0, 0.5)
    yield attempt("DELETE journal, a client killed with its workers", _client_killed, visit)
    yield attempt("WAL, one client, workers killed", _shared, visit, "WAL", False, 20.0, 0.5)
    yield attempt("WAL, alone (locking_mode=EXCLUSIVE)", _alone, visit)
    yield attempt("WAL, two clients", _shared, visit, "WAL", True, 15.0, 0)


def _new(visit, journal):
    here, there = visit.inside(f"db-{len(os.listdir(visit.path))}")
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


def _shared(visit, journal, across, seconds, kill_every_s):
    here, there = _new(visit, journal)
    workers = [Worker(visit, there if across and number % 2 else here, journal, number) for number in range(4)]
    try:
        _watch(visit, workers, seconds, kill_every_s)
        finish(workers)
    finally:
        for worker in workers:
            shell.end(worker.process, visit.place.give_up)
    _check(here, workers)
    if across:
        _check(there, workers)
    return sum(worker.transactions for worker in workers)


def _watch(visit, workers, seconds, kill_every_s):
    """Hear the workers for so long, and kill one now and then."""
    begun = last = time.monotonic()
    next_kill = begun + kill_every_s
    while time.monotonic() - begun < seconds:
        ready, _, _ = select.select([worker.process.stdout for worker in workers], [], [], 0.05)
        for worker in workers:
            if worker.process.stdout in ready:
                worker.listen()
                last = time.monotonic()
        if time.monotonic() - last > STALL_S:
            raise Wrong(f"no transaction for {STALL_S:.0f} s")
        if kill_every_s and time.monotonic() > next_kill:
            victim = visit.random.choice(workers)
            victim.kill()
            victim.start()
            next_kill = time.monotonic() + kill_every_s * visit.random.uniform(0.3, 1.7)


def _check(path, workers=()):
    connection = sqlite3.connect(path, timeout=60.0)
    try:
        told = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        if told != ["ok"]:
            raise Wrong(f"integrity_check: {'; '.join(told)[:300]}")
        total = connection.execute("SELECT sum(amount) FROM accounts").fetchone()[0]
        if total != ACCOUNTS * AMOUNT:
            raise Wrong(f"the accounts sum up to {total}, not {ACCOUNTS * AMOUNT}")
        for worker in workers:
            last = connection.execute("SELECT coalesce(max(step), 0) FROM done WHERE worker = ?", (worker.number,)).fetchone()[0]
            # A worker that was killed may have committed one more than it could say.
            if not worker.committed <= last <= worker.committed + 1:
                raise Wrong(f"worker {worker.number} reported {worker.committed} commits, and the database has {last}")
    except sqlite3.DatabaseError as why:
        raise Wrong(f"{type(why).__name__}: {why}") from None
    finally:
        connection.close()


def _client_killed(visit):
    """A client dies with two workers in the middle of transactions; its locks go, the journal is rolled back, the others go on."""
    here, _ = _new(visit, "DELETE")
    transactions = 0
    for _ in range(3):
        mount = visit.place.another()
        there = os.path.join(mount.path, os.path.relpath(here, os.path.dirname(visit.path)))
        workers = [Worker(visit, there if number % 2 else here, "DELETE", number) for number in range(4)]
        try:
            for worker in workers:
                _first_commits(worker)
            mount.kill()
            for worker in workers[1::2]:
                shell.end(worker.process)
                try:
                    while worker.listen():
                        pass
                except Wrong:
                    pass  # An error is what the dead client's workers must get.
            _watch(visit, workers[0::2], 5.0, 0)
            finish(workers[0::2])
        finally:
            for worker in workers:
                shell.end(worker.process, visit.place.give_up)
        _check(here, workers[0::2])
        transactions += sum(worker.transactions for worker in workers)
    return transactions


def _first_commits(worker):
    while worker.transactions < 3:
        ready, _, _ = select.select([worker.process.stdout], [], [], STALL_S)
        if not ready:
            raise Wrong(f"worker {worker.number}: no transaction for {STALL_S:.0f} s")
        worker.listen()


def _alone(visit):
    here, there = _new(visit, "DELETE")
    connection = sqlite3.connect(here, isolation_level=None)
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    if connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
        raise NotRun("this SQLite does not do WAL without shared memory")
    for step in range(1, 201):
        connection.execute("INSERT INTO done VALUES (0, ?, ?)", (step, bytes(3000)))
    connection.close()
    _check(there)
    return 200
