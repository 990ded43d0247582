"""A C library and a Rust crate are built on the mount, and the results are held against builds of a local copy.

The C library is libbpf as the crate `libbpf-sys` carries it (make, gcc, ar); the Rust crate is this project's `layout` (cargo locks its
directories, maps libraries and runs what it has just linked).
"""

import glob
import hashlib
import os
import shutil

from gates.harness.case import attempt
from testbed.errors import Broken, NotRun

TITLE = "a C library and a Rust crate built on the mount"
SHORT_S = 0
ORDER = 70

TIMEOUT_S = 900


def cases(fixture):
    """One case for each build, and one for running what was built."""
    fixture.debian(gcc="gcc", make="make")
    yield attempt("libbpf with make -j4", _libbpf, fixture)
    yield attempt("a crate with cargo, incrementally changed", _crate, fixture)
    yield attempt("a program run from the mount while it is replaced", _program, fixture)


def _libbpf(fixture):
    home = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    found = sorted(glob.glob(os.path.join(home, "registry/src/*/libbpf-sys-*/libbpf/src/Makefile")))
    if not found:
        raise NotRun("libbpf's sources are not in cargo's registry: build the kernel recorder first")
    source = os.path.dirname(os.path.dirname(found[-1]))
    made = []
    for where in (fixture.path, fixture.scratch):
        tree = os.path.join(where, "libbpf")
        shutil.copytree(source, tree)
        flags = f"CFLAGS=-O1 -ffile-prefix-map={tree}=."
        done = fixture.run(["make", "-C", os.path.join(tree, "src"), "-j4", "BUILD_STATIC_ONLY=y", flags], TIMEOUT_S)
        if done.code != 0:
            raise Broken(f"make: exit code {done.code}: {done.last_lines()}")
        with open(os.path.join(tree, "src", "libbpf.a"), "rb") as library:
            made.append(hashlib.sha256(library.read()).hexdigest())
    if made[0] != made[1]:
        raise Broken("libbpf.a differs from the one that was built on the local file system")
    again = fixture.run(["make", "-C", os.path.join(fixture.path, "libbpf/src"), "BUILD_STATIC_ONLY=y"], TIMEOUT_S)
    if "  CC " in again.output or again.code != 0:
        raise Broken(f"make builds again what is up to date: {again.last_lines()}")
    return len(glob.glob(os.path.join(fixture.path, "libbpf/src/staticobjs/*.o")))


def _crate(fixture):
    tree = os.path.join(fixture.path, "crate")
    shutil.copytree(os.path.join(fixture.repository, "crates", "layout"), tree)
    with open(os.path.join(fixture.repository, "Cargo.toml")) as source:
        workspace = source.read()
    # Outside its workspace the crate needs the workspace's own tables.
    tables = ["[workspace." + part.split("\n[", 1)[0] for part in workspace.split("\n[workspace.")[1:]]
    with open(os.path.join(tree, "Cargo.toml"), "a") as out:
        out.write('\n[workspace]\nresolver = "3"\n\n' + "\n".join(tables) + "\n")
    for name in ("Cargo.lock", "rust-toolchain.toml"):
        shutil.copy(os.path.join(fixture.repository, name), tree)
    shutil.rmtree(os.path.join(tree, "tests"), ignore_errors=True)
    shutil.rmtree(os.path.join(tree, "benches"), ignore_errors=True)
    environment = {"CARGO_TARGET_DIR": os.path.join(tree, "target"), "CARGO_INCREMENTAL": "1"}
    for round_ in range(2):
        done = fixture.run(["cargo", "build", "--offline"], TIMEOUT_S, cwd=tree, env=environment)
        if done.code != 0 and round_ == 0 and "--offline" in done.output:
            raise NotRun(f"cargo has not got what the crate needs: {done.last_lines()}")
        if done.code != 0:
            raise Broken(f"cargo build: exit code {done.code}: {done.last_lines()}")
        with open(os.path.join(tree, "src", "lib.rs"), "a") as out:
            out.write("\n/// Something new.\npub fn added() -> u8 {\n    7\n}\n")
    return 2


def _program(fixture):
    directory, there = fixture.inside("program")
    source = os.path.join(directory, "say.c")
    for number in range(5):
        with open(source, "w") as out:
            out.write(f'#include <stdio.h>\nint main(void) {{ puts("{number}"); return {number}; }}\n')
        done = fixture.run(["gcc", "-O1", "-o", os.path.join(directory, "say"), source], 60)
        if done.code != 0:
            raise Broken(f"gcc: {done.last_lines()}")
        for view in (directory, there):
            told = fixture.run([os.path.join(view, "say")], 60)
            if told.code != number or told.output.splitlines()[-1] != str(number):
                raise Broken(f"version {number} of the program says {told.last_lines(1)!r}, exit code {told.code}")
    return 10
