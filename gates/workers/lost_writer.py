"""lost_writer WHAT HERE THERE SEED: writes while its disk fills and its servers go and come, until standard input ends.

WHAT is `files` (written by a program that forks now and then), `sqlite` or `git`; HERE is a directory of a mount, THERE the same one on
another. An error is no fault; a success is taken at its word: what was synced or committed must be there, and what was not must not be
read as if it were. When standard input has ended everything works again. Exit code 3: something was wrong.
"""

import os
import random
import select
import sqlite3
import subprocess
import sys
import time

SETTLED_S = 10.0
GIT = ["timeout", "-k", "1", "10", "git", "-c", "core.fsync=all", "-c", "user.name=gate", "-c", "user.email=gate@localhost", "-c", "gc.auto=0"]
BROKEN = ("malformed", "not a database")


class Wrong(Exception):
    """A success that was none."""


def goes_on():
    """Whether standard input has not ended."""
    return not select.select([sys.stdin], [], [], 0)[0]


def settled(work, failures):
    """What `work` returns when it does not fail any more."""
    deadline = time.monotonic() + SETTLED_S
    while True:
        try:
            return work()
        except failures as why:
            if time.monotonic() > deadline:
                raise Wrong(f"{SETTLED_S:.0f} s after everything works again: {why}") from None
            time.sleep(0.1)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def differs(found, content):
    """The first byte in which they differ."""
    at = next((at for at, (one, other) in enumerate(zip(found, content)) if one != other), min(len(found), len(content)))
    return f"byte {at} of {len(content)}"


def child_ends():
    """A child ends with a copy of every descriptor."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def quietly(what, *arguments):
    """Whether it succeeds."""
    try:
        what(*arguments)
    except OSError:
        return False
    return True


def one_file(path, content, chance):
    """Whether all of it was acknowledged, and whether it was synced."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.set_inheritable(fd, True)
    interludes = [lambda: None, child_ends, lambda: os.system("true"), lambda: quietly(os.close, os.dup(fd)), lambda: time.sleep(1.1)]
    try:
        for at in range(0, len(content), 50_000):
            if not quietly(os.pwrite, fd, content[at : at + 50_000], at):
                return False, False
            if chance.random() < 0.3:
                chance.choice(interludes)()
        chance.choice(interludes[1:4])()
        return True, quietly(os.fsync, fd)
    finally:
        quietly(os.close, fd)


def files(here, there, chance):
    synced, checks = {}, 0
    for number in range(1 << 30):
        if not goes_on():
            break
        name = f"f{number % 6}"
        synced.pop(name, None)
        content = chance.randbytes(chance.randrange(1000, 400_000))
        try:
            is_written, is_synced = one_file(os.path.join(here, name), content, chance)
        except OSError:
            time.sleep(0.05)
            continue
        if is_synced:
            synced[name] = content
        for view in (there, here) if is_written else ():
            try:
                found = read(os.path.join(view, name))
            except OSError:
                continue
            if found != content:
                raise Wrong(f"fsync {'succeeded' if is_synced else 'failed'}, and {differs(found, content)} is not what was written")
            checks += 1
    for name, content in synced.items():
        found = settled(lambda name=name: read(os.path.join(there, name)), OSError)
        if found != content:
            raise Wrong(f"fsync succeeded, and {differs(found, content)} is not what was written")
        checks += 1
    return checks


def database(path):
    connection = sqlite3.connect(path, timeout=5.0, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS done (step INTEGER PRIMARY KEY, what BLOB)")
    return connection


def sqlite(here, there, chance):
    path, connection, committed, step = os.path.join(here, "db"), None, [], 0
    while goes_on():
        step += 1
        try:
            connection = connection or database(path)
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO done VALUES (?, ?)", (step, chance.randbytes(chance.randrange(100, 30_000))))
            if chance.random() < 0.2:
                child_ends()
            if len(committed) > 30:
                connection.execute("DELETE FROM done WHERE step = ?", (committed[0],))
            connection.execute("COMMIT")
            committed = committed[-30:] + [step]
        except sqlite3.DatabaseError as why:
            if any(word in str(why) for word in BROKEN):
                raise Wrong(f"step {step}: {why}") from None
            if connection:
                connection.close()
            connection = None
            time.sleep(0.05)
    if connection:
        connection.close()

    def check():
        with sqlite3.connect(os.path.join(there, "db"), timeout=5.0) as last:
            told = last.execute("PRAGMA integrity_check").fetchall()
            return told, {row[0] for row in last.execute("SELECT step FROM done")}

    told, there_are = settled(check, sqlite3.OperationalError)
    if told != [("ok",)]:
        raise Wrong(f"integrity_check: {told[:3]}")
    if missing := set(committed) - there_are:
        raise Wrong(f"transactions that were committed are not there: {sorted(missing)}")
    return step


def git(here, there, chance):
    repository, made, steps = os.path.join(here, "repository"), None, 0

    def run(*arguments, where=repository, **how):
        return subprocess.run([*GIT, "-C", where, *arguments], capture_output=True, check=False, **how)

    while goes_on():
        steps += 1
        try:
            if made is None:
                os.makedirs(repository, exist_ok=True)
                run("init", "-q")
            with open(os.path.join(repository, f"file-{steps % 5}"), "wb") as file:
                file.write(chance.randbytes(chance.randrange(100, 20_000)))
            done = run("add", "-A").returncode or run("commit", "-q", "-m", str(steps)).returncode
            if done == 0:
                made = run("rev-parse", "HEAD").stdout.strip() or made
                continue
        except OSError:
            pass
        for directory, _, names in os.walk(os.path.join(repository, ".git")):
            for name in names:
                if name.endswith(".lock") or name == "index":
                    quietly(os.unlink, os.path.join(directory, name))
        run("reset", "-q", "--hard")
    if made:

        def pack():
            packed = run("pack-objects", "--revs", "--stdout", "-q", where=os.path.join(there, "repository"), input=made + b"\n")
            if packed.returncode != 0:
                raise OSError(packed.stderr.decode(errors="replace").strip()[-300:])

        settled(pack, OSError)
    return steps


if __name__ == "__main__":
    try:
        work = {"files": files, "sqlite": sqlite, "git": git}[sys.argv[1]]
        print(f"done {work(sys.argv[2], sys.argv[3], random.Random(int(sys.argv[4])))}", flush=True)
    except Wrong as why:
        print(f"wrong: {why}", flush=True)
        sys.exit(3)
