"""Lets a program be loaded where the C library is too old, so that the program itself says so.

The loader refuses a program that asks for a version of glibc which is not there, in words that help nobody. Here each such request, and each
function asked for with it, is marked as one that may be missing (ELF gABI: VER_FLG_WEAK, STB_WEAK). Where glibc is new enough, nothing changes;
where it is not, the loader notes each missing version and goes on, these functions are null, and the first initialiser
(crates/cli/src/terminal/c_library.rs) prints a sentence and ends.
"""

from __future__ import annotations

import struct

from dist.elf import GLIBC, Program

VER_FLG_WEAK = 2
STB_GLOBAL, STB_WEAK = 1, 2
# Older versions are in every glibc of x86-64; on aarch64 there is nothing older than 2.17.
OLDEST = "GLIBC_2.2.5"


def weaken(file: str) -> set[str]:
    """Mark what an executable asks of a glibc newer than the oldest; returns the names of these versions."""
    with open(file, "rb") as source:
        content = bytearray(source.read())
    program = Program(bytes(content))
    newer = {wanted.number: wanted for wanted in program.wanted() if wanted.version.startswith(GLIBC) and wanted.version != OLDEST}
    for wanted in newer.values():
        flags = struct.unpack_from("<H", content, wanted.entry + 4)[0]
        struct.pack_into("<H", content, wanted.entry + 4, flags | VER_FLG_WEAK)
    for symbol, number in program.undefined():
        if number in newer and content[symbol + 4] >> 4 == STB_GLOBAL:
            content[symbol + 4] = STB_WEAK << 4 | content[symbol + 4] & 15
    with open(file, "r+b") as changed:
        changed.write(content)
    return {wanted.version for wanted in newer.values()}
