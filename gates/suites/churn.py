"""Directories under load from two clients: the patterns of mdtest, in one shared directory and in one for each process.

Everybody creates, then everybody looks at what a neighbour on the other client made, renames, and removes what the neighbour renamed. A
directory that is read while others change it shows what was there all along exactly once.
"""

import os
import threading
import time

from gates.harness import workers
from gates.harness.case import attempt
from testbed.errors import Broken

TITLE = "many names, made and removed by two clients"
SHORT_S = 6
ORDER = 55

WORKERS = 4


def cases(fixture):
    """One case for each pattern."""
    count = 150 if fixture.short else 2000
    yield attempt("a shared directory", _patterns, fixture, count, True)
    yield attempt("a directory for each process", _patterns, fixture, count, False)
    yield attempt("listed while others change it", _listed, fixture, count)


def _patterns(fixture, count, shared):
    views = fixture.inside("shared" if shared else "own")
    if not shared:
        for number in range(WORKERS):
            os.mkdir(os.path.join(views[number % 2], str(number)))

    def everybody(what, shift):
        """Worker n does it to the files of worker n + shift: with an odd shift these were made on the other client."""
        argvs = []
        for worker in range(WORKERS):
            number = (worker + shift) % WORKERS
            directory = views[worker % 2] if shared else os.path.join(views[worker % 2], str(number))
            argvs.append([directory, str(number), str(count), what])
        workers.run(fixture, [[fixture.worker("maker.py"), *argv] for argv in argvs])

    def expect(prefix, how_many):
        for view in views:
            directories = [view] if shared else [os.path.join(view, str(number)) for number in range(WORKERS)]
            found = [name for directory in directories for name in os.listdir(directory) if name.startswith(prefix)]
            if len(found) != how_many or len(set(found)) != how_many:
                raise Broken(f"{len(found)} names with {prefix} are listed ({len(set(found))} different ones), not {how_many}")

    everybody("create", 0)
    expect("f.", WORKERS * count)
    everybody("stat", 1)
    everybody("rename", 2)
    expect("g.", WORKERS * count)
    everybody("remove", 3)
    everybody("trees", 0)
    for view in views:
        left = [name for _, _, names in os.walk(view) for name in names]
        if left:
            raise Broken(f"{len(left)} names are left, such as {left[0]}")
    return WORKERS * count * 4


def _listed(fixture, count):
    here, there = fixture.inside("listed")
    stay = {f"stay-{number:05}" for number in range(count)}
    for name in stay:
        os.close(os.open(os.path.join(here, name), os.O_CREAT | os.O_WRONLY))
    over = threading.Event()

    def change():
        number = 0
        while not over.is_set():
            number += 1
            name = os.path.join(there, f"come-{number}")
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
            if number > 20:
                os.unlink(os.path.join(there, f"come-{number - 20}"))

    changer = threading.Thread(target=change)
    changer.start()
    seen = 0
    try:
        deadline = time.monotonic() + (2 if fixture.short else 15)
        while time.monotonic() < deadline:
            for view in (here, there):
                found = os.listdir(view)
                seen += len(found)
                if len(found) != len(set(found)):
                    raise Broken("a name is listed twice")
                if not stay.issubset(found):
                    raise Broken(f"{len(stay - set(found))} names that were there all along are not listed")
    finally:
        over.set()
        changer.join()
    return seen
