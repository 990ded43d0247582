"""The wheel: the same bytes each time, what it says of itself, and the command after every way of installing it."""

import base64
import csv
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from email import message_from_bytes
from pathlib import Path

import thalweg
from packaging.metadata import Metadata
from packaging.utils import parse_wheel_filename

from .recordings import FIXTURES, REPOSITORY

WHEEL = REPOSITORY / "dist" / "wheel"
FIXTURE = FIXTURES / "curl-get-loss"
THALWEG = os.environ["THALWEG"]
VERSION = thalweg.__version__
EPOCH = "1700000000"
X86_64, AARCH64 = 62, 183
# What a small program of ours ends with.
ENDS_WITH = 42
OLDEST, NEWEST = 9, 15
# No index, and nothing of the person's own.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "UV_OFFLINE": "1", "UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never"}
USES = """\
import sys, thalweg
recording = thalweg.open(sys.argv[1])
print(recording.explain().verdict.cause)
try:
    recording.spans
except thalweg.NotInstalled as reason:
    print(reason)
try:
    thalweg.fleet(sys.argv[1])
except ImportError as reason:
    print(reason)
from thalweg import *
import pydoc
assert "Open a recording" in pydoc.render_doc(thalweg) and "Recording" in dir(thalweg)
assert "pyarrow" not in sys.modules
from thalweg.command import find
print(find())
"""
SAYS = ["network.loss", 'pyarrow is not installed: pip install "thalweg[tables]"', 'pyarrow is not installed: pip install "thalweg[tables]"']


def program(machine=X86_64):
    """A static program of 132 bytes that ends with a number of its own, in machine code of x86-64, whatever the machine is called."""
    code = bytes([0xB8, 60, 0, 0, 0, 0xBF, ENDS_WITH, 0, 0, 0, 0x0F, 0x05])
    begins, size = 0x400000, 64 + 56 + len(code)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, begins + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 0, begins, begins, size, size, 4096) + code


def run(*words, said=None, **environment):
    """Run a command that has to succeed; returns what it printed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "THALWEG", "VIRTUAL_ENV"))}
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, env={**own, **OFFLINE, **environment}, check=False, cwd="/")
    if said is None and done.returncode:
        raise AssertionError(f"{words}: {done.stderr}{done.stdout}")
    return done.stdout if said is None else done.stderr


def make(into, binary, *more, machine="x86_64", said=None, **environment):
    """Make a wheel; returns its path, or what was said where none is made."""
    words = [WHEEL, "--binary", binary, "--machine", machine, "--version", VERSION, "--epoch", EPOCH, "-o", into, *more]
    printed = run(sys.executable, *words, said=said, **environment)
    return printed if said else Path(printed.rpartition(": ")[0])


def tree(folder):
    """All that is below a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*"))


class Scratch(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="thalweg-wheel-")
        self.addCleanup(kept.cleanup)
        self.scratch = Path(kept.name)
        self.program = self.scratch / "program"
        self.program.write_bytes(program())


class Making(Scratch):
    def test_the_same_files_make_the_same_bytes_whoever_makes_them_when_and_where(self):
        one = make(self.scratch / "one", self.program, TZ="UTC")
        os.utime(self.program, (0, 0))
        self.program.chmod(0o600)
        other = make(self.scratch / "other", self.program, TZ="Asia/Kathmandu", PYTHONHASHSEED="7", LC_ALL="C")
        self.assertEqual(hashlib.sha256(one.read_bytes()).digest(), hashlib.sha256(other.read_bytes()).digest())
        names = zipfile.ZipFile(one).namelist()
        is_described = [".dist-info/" in name for name in names]
        self.assertEqual(is_described, sorted(is_described))
        self.assertTrue(names[-1].endswith("RECORD"))

    def test_a_time_before_zip_archives_is_their_first(self):
        made = make(self.scratch, self.program, "--epoch", "0")
        self.assertEqual({entry.date_time for entry in zipfile.ZipFile(made).infolist()}, {(1980, 1, 1, 0, 0, 0)})

    def test_the_archive_is_whole_and_its_record_has_every_file(self):
        made = make(self.scratch, self.program)
        if shutil.which("unzip"):
            run("unzip", "-tq", made)
        archive = zipfile.ZipFile(made)
        self.assertIsNone(archive.testzip())
        rows = list(csv.reader(archive.read(f"thalweg-{VERSION}.dist-info/RECORD").decode().splitlines()))
        self.assertEqual([row[0] for row in rows], archive.namelist())
        for name, digest, size in rows[:-1]:
            data = archive.read(name)
            self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), name)
            self.assertEqual(int(size), len(data))
        self.assertEqual(rows[-1][1:], ["", ""])

    def test_it_has_all_of_the_package_and_says_what_setuptools_says(self):
        sources = self.scratch / "python"
        shutil.copytree(REPOSITORY / "python", sources, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", self.scratch / "theirs", sources)
        theirs = zipfile.ZipFile(next((self.scratch / "theirs").glob("*.whl")))
        ours = zipfile.ZipFile(make(self.scratch, self.program))
        of_package = [[name for name in sorted(one.namelist()) if name.startswith("thalweg/")] for one in (ours, theirs)]
        self.assertEqual(*of_package)
        about = [Metadata.from_email(one.read(f"thalweg-{VERSION}.dist-info/METADATA"), validate=True) for one in (ours, theirs)]
        for field in ("name", "version", "summary", "requires_python", "license_expression", "provides_extra", "keywords", "classifiers", "project_urls", "description"):
            self.assertEqual(getattr(about[0], field), getattr(about[1], field), field)
        self.assertEqual(*(sorted(map(str, one.requires_dist or [])) for one in about))
        points = f"thalweg-{VERSION}.dist-info/entry_points.txt"
        self.assertEqual(*(one.read(points).split() if points in one.namelist() else [] for one in (ours, theirs)))

    def test_the_name_and_the_tags_are_of_the_processor(self):
        for machine, number in (("x86_64", X86_64), ("aarch64", AARCH64)):
            self.program.write_bytes(program(number))
            made = make(self.scratch / machine, self.program, machine=machine)
            tags = {f"py3-none-manylinux_2_17_{machine}", f"py3-none-manylinux2014_{machine}"}
            self.assertEqual({str(tag) for tag in parse_wheel_filename(made.name)[3]}, tags)
            said = message_from_bytes(zipfile.ZipFile(made).read(f"thalweg-{VERSION}.dist-info/WHEEL"))
            self.assertEqual((set(said.get_all("Tag")), said["Root-Is-Purelib"]), (tags, "false"))

    def test_what_would_not_run_elsewhere_is_refused(self):
        text, newer, other = self.scratch / "text", Path(sys.executable).resolve(), self.scratch / "other"
        text.write_text("no program")
        other.write_bytes(program(AARCH64))
        cut = self.scratch / "cut"
        cut.write_bytes(program()[:80])
        cases = [(text, "no 64-bit little-endian ELF file"), (other, "for aarch64, and --machine is x86_64"), (cut, "cut short")]
        if "GLIBC_2.34" in newer.read_bytes().decode("latin-1") or "libpython" in newer.read_bytes().decode("latin-1"):
            cases.append((newer, "--local"))
        for binary, words in cases:
            self.assertIn(words, make(self.scratch / "none", binary, said=True))
        for flags, words in ((["--version", "9.9.9"], f"version {VERSION}, and --version is 9.9.9"), (["--binary", "/no/such"], "/no/such: No such file")):
            self.assertIn(words, make(self.scratch / "none", self.program, *flags, said=True))
        self.assertFalse((self.scratch / "none").exists())

    def test_a_list_of_what_the_command_is_made_of_goes_with_it(self):
        (self.scratch / "thalweg.cdx.json").write_text("{}")
        made = zipfile.ZipFile(make(self.scratch, self.program, "--sbom", self.scratch / "thalweg.cdx.json"))
        self.assertEqual(made.read(f"thalweg-{VERSION}.dist-info/sboms/thalweg.cdx.json"), b"{}")

    def test_pip_installs_it_where_only_the_old_glibc_is_promised(self):
        made = make(self.scratch, self.program)
        run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", self.scratch / "into", made)
        self.assertEqual(subprocess.run([self.scratch / "into" / "bin" / "thalweg"], check=False).returncode, ENDS_WITH)
        self.program.write_bytes(program(AARCH64))
        elsewhere = make(self.scratch, self.program, machine="aarch64")
        said = run(sys.executable, "-m", "pip", "install", "--no-deps", "--target", self.scratch / "not", elsewhere, said=True)
        self.assertIn("not a supported wheel on this platform", said)


class Installed(Scratch):
    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory(prefix="thalweg-wheel-")
        cls.addClassCleanup(kept.cleanup)
        stripped = Path(kept.name) / "thalweg"
        run("strip", "-o", stripped, THALWEG)
        cls.wheel = make(kept.name, stripped, "--local")
        cls.version = run(THALWEG, "--version")

    def check(self, python, command, **environment):
        """The command runs by its name, by the module, and from Python, which finds the one that came with it."""
        self.assertEqual(run(command, "--version", **environment), self.version)
        self.assertEqual(run(python, "-m", "thalweg", "--version", **environment), self.version)
        self.assertEqual(run(python, "-c", USES, FIXTURE, **environment).splitlines(), [*SAYS, os.fspath(command)])

    def test_an_environment_has_the_command_and_is_as_before_when_it_is_gone(self):
        environment = self.scratch / "environment"
        run(sys.executable, "-m", "venv", environment)
        python, before = environment / "bin" / "python", tree(environment)
        run(python, "-m", "pip", "install", "-q", "--no-deps", self.wheel)
        self.check(python, environment / "bin" / "thalweg")
        said = run(environment / "bin" / "thalweg", "no-such-verb", said=True)
        self.assertEqual(run(python, "-m", "thalweg", "no-such-verb", said=True), said)
        self.assertIn('pip install "thalweg[tables]"', run(python, "-m", "thalweg", "fleet", "top", "/", said=True))
        self.assertEqual(run(python, "-m", "pip", "check").strip(), "No broken requirements found.")
        run(python, "-m", "pip", "uninstall", "-q", "-y", "thalweg")
        self.assertEqual(tree(environment), before)

    def test_without_an_environment_it_goes_to_a_users_own_folder_or_any_other(self):
        base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
        pip = [sys.executable, "-m", "pip", "--python", base, "install", "-q", "--no-deps", "--no-warn-script-location"]
        own = {"PYTHONUSERBASE": os.fspath(self.scratch / "own"), "PIP_BREAK_SYSTEM_PACKAGES": "1"}
        run(*pip, "--user", "--ignore-installed", self.wheel, **own)
        self.check(base, self.scratch / "own" / "bin" / "thalweg", **own)
        run(*pip, "--target", self.scratch / "into", self.wheel)
        self.check(base, self.scratch / "into" / "bin" / "thalweg", PYTHONPATH=os.fspath(self.scratch / "into"))

    def test_uv_puts_the_command_into_the_path_as_a_tool(self):
        uv = Path(sys.executable).with_name("uv")
        if not uv.exists():
            self.skipTest("uv is not installed")
        folders = {"UV_TOOL_DIR": self.scratch / "tools", "UV_TOOL_BIN_DIR": self.scratch / "bin", "UV_CACHE_DIR": self.scratch / "cache"}
        environment = {name: os.fspath(path) for name, path in folders.items()}
        run(uv, "tool", "install", "-q", "--no-index", "--python", sys.executable, self.wheel, **environment)
        self.assertEqual(tree(self.scratch / "bin"), ["thalweg"])
        self.assertEqual(run(self.scratch / "bin" / "thalweg", "--version", **environment), self.version)
        self.check(self.scratch / "tools" / "thalweg" / "bin" / "python", self.scratch / "tools" / "thalweg" / "bin" / "thalweg")
        run(uv, "tool", "uninstall", "-q", "thalweg", **environment)
        self.assertEqual(tree(self.scratch / "bin"), [])

    def test_every_python_that_is_here_has_it(self):
        uv = Path(sys.executable).with_name("uv")
        if not uv.exists():
            self.skipTest("uv is not installed")
        found = pythons()
        missing = [f"3.{minor}" for minor in range(OLDEST, NEWEST) if minor not in found]
        if missing:
            print(f"SKIPPED: the wheel with Python {', '.join(missing)}: not installed")
        for minor, python in found.items():
            with self.subTest(python=f"3.{minor}"):
                environment, cache = self.scratch / f"environment-{minor}", {"UV_CACHE_DIR": os.fspath(self.scratch / "cache")}
                run(uv, "venv", "-q", "--python", python, environment, **cache)
                run(uv, "pip", "install", "-q", "--no-index", "--no-deps", "--python", environment / "bin" / "python", self.wheel, **cache)
                self.check(environment / "bin" / "python", environment / "bin" / "thalweg")


def pythons():
    """The CPythons that are here, by the number behind `3.`: those in PATH, and all of pyenv's."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    if pyenv := shutil.which("pyenv"):
        folders += map(str, sorted(Path(run(pyenv, "root").strip()).glob("versions/*/bin")))
    found = {}
    for minor in range(OLDEST, NEWEST):
        for folder in folders:
            python = shutil.which(f"python3.{minor}", path=folder)
            # (One of pyenv's own shims runs only while its version is chosen.)
            if python and subprocess.run([python, "-c", "import ssl, venv"], capture_output=True, check=False).returncode == 0:
                found.setdefault(minor, python)
    return found


if __name__ == "__main__":
    unittest.main()
