"""A C library that is too old is answered with one sentence by the program itself."""

import os
import shutil
import struct
import subprocess
import tempfile
import unittest

from dist import elf, weaken
from testbed.paths import TARGET

PROGRAM = os.environ.get("THALWEG", os.path.join(TARGET, "debug", "thalweg"))


def as_on_an_older_library(file):
    """Make each version of glibc that the file asks for, but the oldest, one that no machine has: what the loader then finds is what it finds
    where these are too new."""
    with open(file, "rb") as source:
        content = bytearray(source.read())
    for wanted in elf.Program(bytes(content)).wanted():
        if wanted.version.startswith(elf.GLIBC) and wanted.version != weaken.OLDEST:
            other = wanted.version.replace("GLIBC", "GLIBX").encode()
            content[wanted.name_at : wanted.name_at + len(other)] = other
            struct.pack_into("<I", content, wanted.entry, elf_hash(other))
    with open(file, "wb") as changed:
        changed.write(content)


def elf_hash(name):
    """The hash of a version's name (ELF gABI, "Hash Table")."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


class OldLibrary(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(PROGRAM):
            self.skipTest(f"{PROGRAM} is not built")
        self.scratch = self.enterContext(tempfile.TemporaryDirectory())
        self.program = os.path.join(self.scratch, "thalweg")
        shutil.copy(PROGRAM, self.program)

    def ran(self):
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, timeout=60, check=False)

    def test_nothing_changes_where_it_is_new_enough(self):
        self.assertTrue(weaken.weaken(self.program))
        done = self.ran()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("thalweg "))

    def test_one_that_is_too_old_is_answered_with_a_sentence(self):
        weaken.weaken(self.program)
        as_on_an_older_library(self.program)
        done = self.ran()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        # The loader notes each version that it misses, and goes on.
        *noted, said = done.stderr.splitlines()
        self.assertRegex(said, r"^thalweg: this program needs glibc 2\.17")
        self.assertEqual([line for line in noted if "weak version" not in line], [])

    def test_without_it_the_loader_refuses(self):
        as_on_an_older_library(self.program)
        self.assertIn("GLIBX_", self.ran().stderr)

    def test_another_file_is_refused(self):
        with self.assertRaisesRegex(elf.NotElf, "no 64-bit little-endian ELF file"):
            weaken.weaken(__file__)


if __name__ == "__main__":
    unittest.main()
