"""Two clients of one store: what one closes the other sees, and what must happen once happens once.

Random operations on files and names, alternating between the clients and compared with a model; appends of many processes on both;
counters that are read and written under every kind of lock; files that only one may create; names that move under the other's feet.

Clients promise close-to-open: a file is closed before the other looks. A name that the other has seen may be what it was for a
second: there the case waits until it is seen. Strict clients (`--strict`) promise that whatever returned is seen: nothing is waited for.
"""

import os
import random
import stat
import struct
import time

from gates.harness import workers
from gates.harness.case import attempt
from testbed.errors import Broken

TITLE = "two clients, one truth"
SHORT_S = 12
ORDER = 50

NAMES_S = 5.0


def cases(fixture):
    """One case for each promise."""
    times = 1 if fixture.short else 8
    strict = _strict(fixture)
    for number in range(1 if fixture.short else 5):
        seed = fixture.seed + number
        yield attempt(f"random operations, seed {seed}", _model, fixture.inside(f"model-{seed}"), seed, 40 * times, False)
        views = [os.path.join(view, f"strict-{seed}") for view in strict]
        os.mkdir(views[0])
        yield attempt(f"random operations of strict clients, seed {seed}", _model, views, seed, 200 * times, True)
    for length in (17, 4096, 100_003):
        yield attempt(f"appends of {length} bytes", _appends, fixture, length, 25 * times)
    # Reading and writing under a lock file would need the file to be opened again: only the locks promise more than close-to-open.
    for how in ("flock", "fcntl", "range"):
        yield attempt(f"a counter under {how}", _counter, fixture, how, 40 * times)
    for how in ("excl", "link"):
        yield attempt(f"one creator by {how}", _creators, fixture, how, 20 * times)
    yield attempt("a file removed under an open descriptor", _removed_while_open, fixture)
    yield attempt("names that move", _moves, fixture.inside("moves"), 2 * times, False)
    os.mkdir(os.path.join(strict[0], "moves-strict"))
    yield attempt("names that move under strict clients", _moves, [os.path.join(view, "moves-strict") for view in strict], 40 * times, True)
    yield attempt("a size that grows is seen at every open", _grows, fixture, 40 * times)
    yield attempt("a file made shorter by the other", _shorter, fixture, 20 * times)
    yield attempt("modes, owners and times", _attributes, fixture)


def _strict(fixture):
    """The gate's directory as two strict clients see it."""
    if not fixture.filesystem.is_store:
        return [fixture.path, fixture.second]
    return [os.path.join(fixture.filesystem.another("--strict").path, os.path.basename(fixture.path)) for _ in range(2)]


def _seen(what, strict, look):
    """Returns when `look()` is true: at once, or within a time."""
    deadline = time.monotonic() + (0 if strict else NAMES_S)
    while not look():
        if time.monotonic() > deadline:
            raise Broken(f"{what}" + ("" if strict else f", {NAMES_S:.0f} s later"))
        time.sleep(0.02)


def _model(views, seed, steps, strict):
    """Files and their contents as a dictionary; either client does the next step."""
    chance = random.Random(seed)
    model = {}
    for step in range(steps):
        here, there = chance.sample(list(views), 2)
        name = f"f{chance.randrange(6)}"
        _step(chance, here, name, model)
        _seen(f"step {step}: one sees other names than the other", strict, lambda: _numbers(here, model) == _numbers(there, model))
        if step % 20 == 19:
            for view in views:
                _compare(view, model, f"step {step}")
    return steps


def _numbers(view, names):
    """What each name stands for."""
    found = {}
    for name in names:
        try:
            found[name] = os.stat(os.path.join(view, name)).st_ino
        except FileNotFoundError:
            found[name] = None
    return found, sorted(os.listdir(view))


def _step(chance, view, name, model):
    path = os.path.join(view, name)
    what = chance.randrange(7)
    if name not in model or what == 0:
        data = chance.randbytes(chance.randrange(200_000))
        with open(path, "wb") as out:
            out.write(data)
        model[name] = bytearray(data)
    elif what in (1, 2):
        offset, data = chance.randrange(300_000), chance.randbytes(chance.randrange(1, 80_000))
        with open(path, "r+b", buffering=0) as out:
            os.pwrite(out.fileno(), data, offset)
        held = model[name]
        held.extend(bytes(max(0, offset + len(data) - len(held))))
        held[offset : offset + len(data)] = data
    elif what == 3:
        length = chance.randrange(300_000)
        os.truncate(path, length)
        held = model[name]
        del held[length:]
        held.extend(bytes(length - len(held)))
    elif what == 4:
        with open(path, "ab", buffering=0) as out:
            data = chance.randbytes(chance.randrange(1, 5000))
            out.write(data)
        model[name].extend(data)
    elif what == 5:
        target = f"f{chance.randrange(6)}"
        os.rename(path, os.path.join(view, target))
        model[target] = model.pop(name)
    else:
        os.unlink(path)
        del model[name]


def _compare(view, model, where):
    names = sorted(os.listdir(view))
    if names != sorted(model):
        raise Broken(f"{where}: the directory has {names}, not {sorted(model)}")
    for name, held in model.items():
        with open(os.path.join(view, name), "rb") as source:
            size = os.fstat(source.fileno()).st_size
            data = source.read()
        if size != len(held):
            raise Broken(f"{where}: {name} is {size} bytes long, not {len(held)}")
        if data != held:
            at = next((i for i, pair in enumerate(zip(data, held)) if pair[0] != pair[1]), min(len(data), len(held)))
            raise Broken(f"{where}: {name} ({len(held)} bytes, {len(data)} read) differs at byte {at}")


def _appends(fixture, length, count):
    views = fixture.inside(f"append-{length}")
    writers = 6
    workers.run(fixture, [[fixture.worker("appender.py"), os.path.join(views[n % 2], "log"), str(n), str(count), str(length)] for n in range(writers)])
    for view in views:
        with open(os.path.join(view, "log"), "rb") as source:
            lines = source.read().split(b"\n")
        if lines.pop() != b"":
            raise Broken("the last record is not whole")
        seen = {}
        for place, line in enumerate(lines):
            number, step, rest = (line.split(b":", 2) + [b"", b""])[:3]
            if len(line) != length - 1 or not number.isdigit() or set(rest) != {97 + int(number)}:
                raise Broken(f"record {place} of {len(lines)} is torn: {line[:40]!r}, {len(line) + 1} bytes")
            if int(step) != seen.get(number, -1) + 1:
                raise Broken(f"writer {number.decode()}: step {step.decode()} comes after {seen.get(number, -1)}")
            seen[number] = int(step)
        if len(lines) != writers * count:
            raise Broken(f"{len(lines)} records, not {writers * count}")
    return writers * count


def _counter(fixture, how, count):
    views = fixture.inside(f"counter-{how}")
    with open(os.path.join(views[0], "n"), "wb") as out:
        out.write(struct.pack("<Q", 0))
    workers.run(fixture, [[fixture.worker("counter.py"), how, os.path.join(views[n % 2], "n"), str(count)] for n in range(4)])
    for view in views:
        with open(os.path.join(view, "n"), "rb") as source:
            told = struct.unpack("<Q", source.read())[0]
        if told != 4 * count:
            raise Broken(f"the counter is {told}, not {4 * count}: {4 * count - told} additions were lost")
    return 4 * count


def _creators(fixture, how, count):
    """Four processes add one to numbers in files that are opened under a lock file: the next holder opens what the last has closed."""
    views = fixture.inside(f"creators-{how}")
    program = os.path.join(fixture.scratch, "under_lock_file.py")
    with open(program, "w") as out:
        out.write(
            "import os, struct, sys\n"
            f"sys.path.insert(0, {os.path.dirname(fixture.worker('x'))!r})\nsys.dont_write_bytecode = True\nimport counter\n"
            "how, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])\n"
            "for _ in range(count):\n"
            "    counter.take(how, path, None)\n"
            "    with open(path, 'r+b', buffering=0) as file:\n"
            "        number = struct.unpack('<Q', file.read(8))[0]\n"
            "        os.pwrite(file.fileno(), struct.pack('<Q', number + 1), 0)\n"
            "    counter.give(how, path, None)\n"
        )
    with open(os.path.join(views[0], "n"), "wb") as out:
        out.write(struct.pack("<Q", 0))
    workers.run(fixture, [[program, how, os.path.join(views[n % 2], "n"), str(count)] for n in range(4)])
    with open(os.path.join(views[1], "n"), "rb") as source:
        told = struct.unpack("<Q", source.read())[0]
    if told != 4 * count:
        raise Broken(f"the number is {told}, not {4 * count}: two were sure to be the only one")
    return 4 * count


def _removed_while_open(fixture):
    here, there = fixture.inside("orphan")
    with open(os.path.join(here, "file"), "w+b", buffering=0) as held:
        held.write(b"before")
        os.fsync(held.fileno())
        os.unlink(os.path.join(there, "file"))
        if os.path.exists(os.path.join(there, "file")):
            raise Broken("the name is still there for the one who removed it")
        held.write(b" and after")
        os.ftruncate(held.fileno(), 12)
        told = os.pread(held.fileno(), 100, 0)
        if told != b"before and a":
            raise Broken(f"the open file reads {told!r}")
        if os.fstat(held.fileno()).st_size != 12:
            raise Broken(f"the open file is {os.fstat(held.fileno()).st_size} bytes long")
        with open(os.path.join(there, "file"), "xb") as out:
            out.write(b"another")
        if os.pread(held.fileno(), 100, 0) != b"before and a":
            raise Broken("a new file of the same name changed the open one")
    return 5


def _moves(views, rounds, strict):
    here, there = views
    for number in range(rounds):
        made, moved = f"a{number}", f"b{number % 7}"
        with open(os.path.join(here, made), "w") as out:
            out.write(str(number))
        os.replace(os.path.join(there, made), os.path.join(there, moved))
        _seen(f"round {number}: {made} is there after it was moved away", strict, lambda: not os.path.exists(os.path.join(here, made)))
        _seen(f"round {number}: {moved} holds another file than was moved there", strict, lambda: _text(os.path.join(here, moved)) == str(number))
    os.makedirs(os.path.join(here, "d/e"))
    os.rename(os.path.join(there, "d"), os.path.join(there, "g"))
    if os.listdir(os.path.join(here, "g")) != ["e"]:
        raise Broken("a directory that the other moved does not hold what it held")
    return rounds


def _text(path):
    with open(path) as source:
        return source.read()


def _grows(fixture, rounds):
    here, there = fixture.inside("grows")
    paths = [os.path.join(view, "log") for view in (here, there)]
    held = b""
    for number in range(rounds):
        with open(paths[number % 2], "ab") as out:
            piece = bytes([number % 251]) * (number * 997 % 5000 + 1)
            out.write(piece)
        held += piece
        with open(paths[1 - number % 2], "rb") as source:
            if source.read() != held:
                raise Broken(f"round {number}: the other does not read what was closed before it opened")
        if os.stat(paths[1 - number % 2]).st_size != len(held):
            raise Broken(f"round {number}: size {os.stat(paths[1 - number % 2]).st_size}, not {len(held)}")
    return rounds


def _shorter(fixture, rounds):
    here, there = fixture.inside("shorter")
    paths = [os.path.join(view, "file") for view in (here, there)]
    for number in range(rounds):
        with open(paths[0], "wb") as out:
            out.write(b"x" * 300_000)
        with open(paths[1], "rb") as source:
            source.read()
        os.truncate(paths[0], 1000 + number)
        os.truncate(paths[0], 200_000)
        with open(paths[1], "rb") as source:
            told = source.read()
        if told != b"x" * (1000 + number) + bytes(199_000 - number):
            raise Broken(f"round {number}: bytes that were cut off are read again by the other")
    return rounds


def _attributes(fixture):
    here, there = fixture.inside("attributes")
    one, other = os.path.join(here, "file"), os.path.join(there, "file")
    with open(one, "wb") as out:
        out.write(b"12345")
    os.chmod(one, 0o640)
    os.utime(one, ns=(1_000_000_000_123_456_789, 1_500_000_000_987_654_321))
    with open(other, "rb"):
        told = os.stat(other)
    for what, found, wanted in (
        ("mode", stat.S_IMODE(told.st_mode), 0o640),
        ("mtime", told.st_mtime_ns, 1_500_000_000_987_654_321),
        ("atime", told.st_atime_ns, 1_000_000_000_123_456_789),
        ("size", told.st_size, 5),
        ("inode", told.st_ino, os.stat(one).st_ino),
    ):
        if found != wanted:
            raise Broken(f"{what} is {found} for the other, not {wanted}")
    os.link(other, other + "2")
    with open(one, "rb"):
        if os.stat(one).st_nlink != 2:
            raise Broken(f"{os.stat(one).st_nlink} links after the other made a second")
    return 6
