"""What a program needs of a machine, from its ELF file: the processor, the shared libraries, and the newest glibc of which it wants a symbol."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

MACHINES = {62: "x86_64", 183: "aarch64"}
PT_LOAD, PT_DYNAMIC = 1, 2
DT_NEEDED, DT_STRTAB, DT_VERNEED, DT_VERNEEDNUM = 1, 5, 0x6FFFFFFE, 0x6FFFFFFF
GLIBC = "GLIBC_"


class NotElf(ValueError):
    """The file is no 64-bit little-endian ELF file, or is cut short."""


@dataclass(frozen=True)
class Needs:
    """What has to be there where the program runs; a static one needs no library and no glibc."""

    machine: str
    libraries: tuple[str, ...]
    glibc: tuple[int, ...]


def needs(data: bytes) -> Needs:
    """Read a program."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotElf("no 64-bit little-endian ELF file")
    try:
        machine = struct.unpack_from("<H", data, 18)[0]
        program = _Program(data)
        libraries = tuple(program.text(offset) for tag, offset in program.dynamic if tag == DT_NEEDED)
        versions = [version for version in program.versions() if version.startswith(GLIBC)]
    except struct.error:
        raise NotElf("the ELF file is cut short") from None
    # (GLIBC_PRIVATE has no number.)
    numbers = (tuple(map(int, name.removeprefix(GLIBC).split("."))) for name in versions if name[len(GLIBC) :].replace(".", "").isdigit())
    return Needs(MACHINES.get(machine, f"machine {machine}"), libraries, max(numbers, default=()))


class _Program:
    """Its segments, and what the dynamic one says."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        start, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
        self.segments = [struct.unpack_from("<IIQQQQ", data, start + at * size) for at in range(count)]
        self.dynamic = [pair for kind, _, offset, _, _, length in self.segments if kind == PT_DYNAMIC for pair in self._pairs(offset, length)]
        self.tags = dict(self.dynamic)

    def _pairs(self, offset: int, length: int) -> Iterator[tuple[int, int]]:
        for at in range(offset, offset + length, 16):
            tag, value = struct.unpack_from("<QQ", self.data, at)
            if tag == 0:
                return
            yield tag, value

    def offset(self, address: int) -> int:
        """Where in the file an address of memory is."""
        for kind, _, offset, begins, _, length in self.segments:
            if kind == PT_LOAD and begins <= address < begins + length:
                return int(offset + address - begins)
        raise NotElf(f"the address {address:#x} is in no segment of the ELF file")

    def text(self, at: int) -> str:
        """A word of the table of strings."""
        begins = self.offset(self.tags[DT_STRTAB]) + at
        return self.data[begins : self.data.index(b"\0", begins)].decode()

    def versions(self) -> Iterator[str]:
        """The versions of symbols that it wants, such as `GLIBC_2.17`."""
        if DT_VERNEED not in self.tags:
            return
        entry = self.offset(self.tags[DT_VERNEED])
        for _ in range(self.tags[DT_VERNEEDNUM]):
            _, count, _, first, following = struct.unpack_from("<HHIII", self.data, entry)
            version = entry + first
            for _ in range(count):
                _, _, _, name, next_version = struct.unpack_from("<IHHII", self.data, version)
                yield self.text(name)
                version += next_version
            entry += following
