"""The parts of a release that are made without compiling: same input, same bytes; and what they contain."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from dist import making, materials
from testbed.paths import REPOSITORY, TARGET

PROGRAM = os.environ.get("THALWEG", os.path.join(TARGET, "debug", "thalweg"))
NFPM = os.path.join(making.TOOLS, "bin", "nfpm")
RELEASE = making.Release("9.8.7", "0123456789ab", 1_700_000_000)


class Made(unittest.TestCase):
    """A script stands for the binary: it has the same texts to print, and takes no time to pack."""

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(PROGRAM):
            raise unittest.SkipTest(f"{PROGRAM} is not built")
        cls.scratch = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.binary = os.path.join(cls.scratch, "thalweg")
        with open(cls.binary, "w") as script:
            script.write(f'#!/bin/sh\nexec {PROGRAM} "$@"\n')
        os.chmod(cls.binary, 0o755)
        cls.texts = making.texts(RELEASE, {making.platform.machine(): cls.binary}, cls.scratch)

    def made_twice(self, make):
        """The digests of what `make(DIRECTORY, TREE)` makes, twice, some time apart, in directories of other names."""
        digests = []
        for name in ("first", "second-of-another-length"):
            directory = os.path.join(self.scratch, self._testMethodName, name)
            os.makedirs(directory)
            make(directory, making.tree(RELEASE, self.binary, self.texts, os.path.join(self.scratch, self._testMethodName, f"tree-{name}")))
            digests.append({name: digest for name, digest, _ in making.checksums(directory)})
            os.remove(os.path.join(directory, "SHA256SUMS"))
            self.assertTrue(digests[-1])
        return digests, directory

    def test_a_tarball_is_the_same_twice_and_has_one_directory(self):
        digests, directory = self.made_twice(lambda into, tree: making.tarball(RELEASE, "x86_64", tree, into))
        self.assertEqual(*digests)
        with tarfile.open(os.path.join(directory, "thalweg-9.8.7-x86_64-linux.tar.gz")) as archive:
            members = {member.name: member for member in archive.getmembers()}
        self.assertEqual({name.split("/")[0] for name in members}, {"thalweg-9.8.7-x86_64-linux"})
        self.assertEqual({(member.uid, member.gid, member.mtime) for member in members.values()}, {(0, 0, 1_700_000_000)})
        named = {name.partition("/")[2]: member for name, member in members.items()}
        self.assertEqual(named["bin/thalweg"].mode, 0o755)
        for file in ("share/man/man1/thalweg-explain.1.gz", "share/bash-completion/completions/thalweg", "share/zsh/site-functions/_thalweg"):
            self.assertEqual(named[file].mode, 0o644)
        # Each verb has a page.
        verbs = re.findall(r"(?m)^  ([a-z]+)  ", subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout)
        self.assertGreater(len(verbs), 20)
        self.assertLessEqual({f"share/man/man1/thalweg-{verb}.1.gz" for verb in verbs if verb != "help"}, named.keys())

    def test_packages_are_the_same_twice(self):
        if not os.path.exists(NFPM):
            self.skipTest("nfpm is not built: `make dist` builds it")
        tools = making.Tools("", NFPM)
        digests, directory = self.made_twice(lambda into, tree: making.packages(tools, RELEASE, "aarch64", tree, into))
        self.assertEqual(*digests)
        self.assertEqual(sorted(os.listdir(directory)), ["thalweg-9.8.7-1.aarch64.rpm", "thalweg_9.8.7_arm64.deb"])

    def test_what_is_inside_is_listed_with_versions_and_licences(self):
        document = materials.document(RELEASE, "x86_64-unknown-linux-gnu", "ab" * 32)
        self.assertEqual(json.dumps(document), json.dumps(materials.document(RELEASE, "x86_64-unknown-linux-gnu", "ab" * 32)))
        names = {component["name"]: component for component in document["components"]}
        for name in ("parquet", "redb", "ring", "libbpf-rs", "elfutils", "zlib", "libbpf", "zstd", "preact", "uplot", "dejavu-fonts"):
            self.assertRegex(names[name]["version"], r"^\d+\.\d+")
        for absent in ("thalweg-base", "proptest", "serde_derive", "cc", "vitest"):
            self.assertNotIn(absent, names)
        self.assertEqual([name for name, component in names.items() if not component.get("licenses")], [])

    def test_checksums_are_those_of_sha256sum(self):
        with tempfile.TemporaryDirectory() as directory:
            for name in ("b", "a"):
                with open(os.path.join(directory, name), "w") as file:
                    file.write(name)
            making.checksums(directory)
            done = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=directory, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, "a: OK\nb: OK\n"))


class Refused(unittest.TestCase):
    def test_a_directory_without_git_is_refused_with_a_sentence(self):
        with tempfile.TemporaryDirectory() as directory:
            shutil.copy(os.path.join(REPOSITORY, "Cargo.toml"), directory)
            elsewhere, making.ROOT = making.ROOT, directory
            self.addCleanup(setattr, making, "ROOT", elsewhere)
            with self.assertRaisesRegex(making.Cannot, "is not a clone with git"):
                making.Release.of_this_tree()

    def test_texts_need_a_binary_that_runs_here(self):
        with self.assertRaisesRegex(making.Cannot, "add --machine"):
            making.texts(RELEASE, {}, "/nowhere")


if __name__ == "__main__":
    unittest.main()
