"""tar and rsync: a tree with everything a tree can have goes into the store and comes back, and is the same in every respect.

Compared are names, kinds, contents, modes, owners, times to the nanosecond (rsync) or what the archive keeps (tar), which names are one
file, targets of symbolic links, extended attributes, and that holes stay holes.
"""

import hashlib
import os
import random
import stat

from gates.harness.case import attempt
from testbed.errors import Broken

TITLE = "trees that go in and come out again"
SHORT_S = 0
ORDER = 65


def cases(fixture):
    """One case for each way in and out."""
    fixture.debian(tar="tar", rsync="rsync")
    source = os.path.join(fixture.scratch, "tree")
    make_tree(source, random.Random(fixture.seed), 300)
    wanted = describe(source)
    yield attempt("rsync -aHAX in, back from the other client", _rsync, fixture, source, wanted)
    yield attempt("rsync again moves nothing", _again, fixture, source)
    yield attempt("rsync --inplace over changed files", _inplace, fixture, source)
    yield attempt("tar in, tar out on the other client", _tar, fixture, source, wanted)
    yield attempt("cp -a there and back", _copy, fixture, source, wanted)


def make_tree(root, chance, count):
    """Files of many sizes, holes, links of both kinds, odd names, odd modes, empty directories, a FIFO, extended attributes."""
    os.makedirs(root)
    directories = [root]
    for number in range(count // 10):
        made = os.path.join(chance.choice(directories), f"d{number}")
        os.mkdir(made, 0o755)
        directories.append(made)
    files = []
    names = ["with space", "new\nline", "ümläut", "-dash", "quote'\"", ".hidden", "x" * 255, "back\\slash", "tab\t"]
    for number in range(count):
        name = names[number] if number < len(names) else f"f{number}"
        path = os.path.join(chance.choice(directories), name)
        with open(path, "wb") as out:
            out.write(chance.randbytes(chance.choice((0, 1, 100, 4096, 65536, 65537, 300_000))))
        files.append(path)
        if number % 7 == 0:
            os.chmod(path, chance.choice((0o600, 0o444, 0o755, 0o4755, 0o2750)))
        if number % 11 == 0 and os.geteuid() == 0:
            os.chown(path, 1000 + number, 2000 + number)
        if number % 5 == 0:
            os.link(path, os.path.join(chance.choice(directories), f"l{number}"))
        if number % 6 == 0:
            os.symlink(chance.choice(("nowhere", "../f1", "/etc/passwd", "x" * 1000)), os.path.join(chance.choice(directories), f"s{number}"))
        if number % 9 == 0:
            os.setxattr(path, "user.gate", chance.randbytes(chance.randrange(0, 500)))
        os.utime(path, ns=(chance.randrange(10**18), chance.randrange(1, 2 * 10**18)))
    with open(os.path.join(root, "sparse"), "wb") as out:
        out.truncate(64 << 20)
        out.seek(20 << 20)
        out.write(b"island" * 1000)
    os.mkfifo(os.path.join(root, "fifo"))
    for directory in directories:
        os.utime(directory, ns=(10**18, 10**18 + 123_456_789))


def describe(root, sub_second=True, attributes=True):
    """What a tree is, by path."""
    told, numbers = {}, {}
    for directory, names, files in os.walk(root):
        for name in [*names, *files, "."]:
            path = os.path.join(directory, name)
            if name == "." and directory == root:
                continue
            known = os.lstat(path)
            relative = os.path.relpath(path, root)
            parts = [stat.filemode(known.st_mode), known.st_uid, known.st_gid]
            # rsync leaves the times of special files alone.
            if stat.S_ISREG(known.st_mode) or stat.S_ISDIR(known.st_mode):
                parts.append(known.st_mtime_ns if sub_second else known.st_mtime_ns // 10**9)
            if stat.S_ISLNK(known.st_mode):
                parts.append(os.readlink(path))
            elif stat.S_ISREG(known.st_mode):
                with open(path, "rb") as source:
                    parts += [known.st_size, known.st_nlink, hashlib.sha256(source.read()).hexdigest()[:16]]
                numbers.setdefault(known.st_ino, []).append(relative)
                if attributes:
                    parts.append(sorted((key, os.getxattr(path, key)) for key in os.listxattr(path) if key.startswith("user.")))
            told[relative] = parts
    told["same file"] = sorted(sorted(names) for names in numbers.values() if len(names) > 1)
    return told


def _hold(found, wanted):
    if found.keys() != wanted.keys():
        raise Broken(f"names differ: {sorted(found.keys() ^ wanted.keys())[:5]}")
    for name, parts in wanted.items():
        if found[name] != parts:
            raise Broken(f"{name[:60]!r} is {str(found[name])[:200]}, not {str(parts)[:200]}")
    return len(wanted)


def _ok(done):
    if done.code != 0:
        raise Broken(f"{done.argv[0]}: exit code {done.code}: {done.last_lines()}")
    return done


def _rsync(fixture, source, wanted):
    _ok(fixture.run(["rsync", "-aHAXS", source + "/", os.path.join(fixture.path, "synced")], 300))
    checks = _hold(describe(os.path.join(fixture.second, "synced")), wanted)
    used = os.stat(os.path.join(fixture.second, "synced/sparse")).st_blocks * 512
    if used > 4 << 20:
        raise Broken(f"a file of 64 MiB with 6 kB in it takes {used} bytes")
    back = os.path.join(fixture.scratch, "synced-back")
    _ok(fixture.run(["rsync", "-aHAXS", os.path.join(fixture.second, "synced") + "/", back], 300))
    return checks + _hold(describe(back), wanted)


def _again(fixture, source):
    done = _ok(fixture.run(["rsync", "-aHAXc", "-i", source + "/", os.path.join(fixture.path, "synced")], 300))
    moved = [line for line in done.output.splitlines()[1:] if line.strip()]
    if moved:
        raise Broken(f"{len(moved)} things differ: {moved[0]}")
    return 1


def _inplace(fixture, source):
    changed = os.path.join(fixture.scratch, "changed")
    _ok(fixture.run(["cp", "-a", source, changed], 300))
    for directory, _, names in os.walk(changed):
        for number, name in enumerate(names):
            path = os.path.join(directory, name)
            if number % 3 == 0 and stat.S_ISREG(os.lstat(path).st_mode):
                with open(path, "r+b") as out:
                    out.truncate(os.path.getsize(path) // 2)
                    out.seek(os.path.getsize(path) // 4)
                    out.write(b"changed")
    target = os.path.join(fixture.second, "synced")
    _ok(fixture.run(["rsync", "-aHAX", "--inplace", "--no-whole-file", changed + "/", target], 300))
    return _hold(describe(os.path.join(fixture.path, "synced")), describe(changed))


def _tar(fixture, source, wanted):
    archive = os.path.join(fixture.path, "tree.tar")
    _ok(fixture.run(["tar", "--xattrs", "--format=posix", "-S", "-C", source, "-cf", archive, "."], 300))
    os.mkdir(os.path.join(fixture.path, "out"))
    there = os.path.join(fixture.second, "out")
    _ok(fixture.run(["tar", "--xattrs", "-C", there, "-xpf", os.path.join(fixture.second, "tree.tar")], 300))
    _ok(fixture.run(["tar", "--xattrs", "-C", os.path.join(fixture.path, "out"), "--compare", "-f", archive], 300))
    return _hold(describe(os.path.join(fixture.path, "out")), wanted)


def _copy(fixture, source, wanted):
    _ok(fixture.run(["cp", "-a", source, os.path.join(fixture.path, "copied")], 300))
    _ok(fixture.run(["cp", "-a", os.path.join(fixture.second, "copied"), os.path.join(fixture.second, "copied again")], 300))
    return _hold(describe(os.path.join(fixture.path, "copied again")), wanted)
