"""What a program needs of a machine, from its ELF file (64 bits, little-endian): the processor, the shared libraries, and the versions of glibc of
which it wants symbols."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

MACHINES = {62: "x86_64", 183: "aarch64"}
PT_LOAD, PT_DYNAMIC = 1, 2
SHT_DYNSYM = 11
DT_NEEDED, DT_STRTAB, DT_VERSYM, DT_VERNEED, DT_VERNEEDNUM = 1, 5, 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFF
SYMBOL = 24
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
    program = Program(data)
    try:
        libraries = tuple(program.text(offset) for tag, offset in program.dynamic if tag == DT_NEEDED)
        versions = [wanted.version for wanted in program.wanted() if wanted.version.startswith(GLIBC)]
    except struct.error:
        raise NotElf("the ELF file is cut short") from None
    # (GLIBC_PRIVATE has no number.)
    numbers = (tuple(map(int, name.removeprefix(GLIBC).split("."))) for name in versions if name[len(GLIBC) :].replace(".", "").isdigit())
    return Needs(program.machine, libraries, max(numbers, default=()))


@dataclass(frozen=True)
class Wanted:
    """A version of a library's symbols, such as `GLIBC_2.17`, that a program wants."""

    entry: int  # where in the file its entry begins (ELF gABI: Elf64_Vernaux)
    number: int  # by which symbols name it
    name_at: int  # where in the file its name begins
    version: str


class Program:
    """Its segments, and what the dynamic one says."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise NotElf("no 64-bit little-endian ELF file")
        self.data = data
        try:
            number = struct.unpack_from("<H", data, 18)[0]
            start, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
            self.segments = [struct.unpack_from("<IIQQQQ", data, start + at * size) for at in range(count)]
            self.dynamic = [pair for kind, _, offset, _, _, length in self.segments if kind == PT_DYNAMIC for pair in self._pairs(offset, length)]
        except struct.error:
            raise NotElf("the ELF file is cut short") from None
        self.machine = MACHINES.get(number, f"machine {number}")
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

    def wanted(self) -> Iterator[Wanted]:
        """The versions of symbols that it wants."""
        if DT_VERNEED not in self.tags:
            return
        entry = self.offset(self.tags[DT_VERNEED])
        for _ in range(self.tags[DT_VERNEEDNUM]):
            _, count, _, first, following = struct.unpack_from("<HHIII", self.data, entry)
            version = entry + first
            for _ in range(count):
                _, _, number, name, next_version = struct.unpack_from("<IHHII", self.data, version)
                yield Wanted(version, number, self.offset(self.tags[DT_STRTAB]) + name, self.text(name))
                version += next_version
            entry += following

    def undefined(self) -> Iterator[tuple[int, int]]:
        """Of each symbol that others define: where in the file it is (Elf64_Sym), and the number of the version that is wanted of it."""
        start, size, count = struct.unpack_from("<Q", self.data, 40)[0], *struct.unpack_from("<HH", self.data, 58)
        versions = self.offset(self.tags[DT_VERSYM])
        for at in range(count):
            _, kind, _, _, table, length = struct.unpack_from("<IIQQQQ", self.data, start + at * size)
            for index in range(length // SYMBOL if kind == SHT_DYNSYM else 0):
                if struct.unpack_from("<H", self.data, table + SYMBOL * index + 6)[0] == 0:
                    yield table + SYMBOL * index, struct.unpack_from("<H", self.data, versions + 2 * index)[0] & 0x7FFF
