"""Each package in a bare Debian system: installed as the README says, used as a new user would, and removed without a trace.

They need what `make dist` makes (THALWEG_DIST, or target/dist) and debootstrap; `make dist-check` sees to both.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from dist.tests import roots
from testbed.errors import NotRun
from testbed.paths import REPOSITORY, TARGET

DIST = os.environ.get("THALWEG_DIST", os.path.join(TARGET, "dist"))
FIXTURE = os.path.join(REPOSITORY, "crates", "explain", "tests", "fixtures", "programs", "gridftp-put-1-sndbuf")
# The oldest that the mirror has, and the one before the newest.
SUITES = os.environ.get("THALWEG_ROOTS", "bullseye bookworm").split()
PYTHON = ("python3", "python3-pip", "python3-venv")
# Bound: of the program. Instead: a feature that costs much more is left out of releases, or of the program.
MOST_BYTES = 26 << 20
# What a new user does: each line must work.
FIRST_DAY = """
cd /tmp
thalweg explain -o first.thw -- sh -c 'sleep 0.2; head -c 30000000 /dev/zero > zeros'
thalweg explain -v first.thw > /dev/null
thalweg record -o second.thw -- cp zeros copy
thalweg diff --anyway first.thw second.thw > /dev/null
thalweg report second.thw -o second.html
thalweg report second.thw -o second.png
thalweg doctor > /dev/null
mkdir store mounted
thalweg up --servers 2 --print-address store > address 2> up.log &
up=$!
for _ in $(seq 100); do [ -s address ] && break; sleep 0.1; done
export THALWEG_STORE=$(cat address)
thalweg cp copy thal:/copy
thalweg ls -l thal:/
thalweg cp thal:/copy back
cmp zeros back
if [ -c /dev/fuse ]; then
    thalweg mount thal:/ mounted
    cmp zeros mounted/copy
    thalweg umount mounted
fi
kill $up
wait $up || true
"""


def made(pattern):
    """The one file of the release with this name."""
    found = glob.glob(os.path.join(DIST, pattern))
    if len(found) != 1:
        raise unittest.SkipTest(f"no {pattern} in {os.path.relpath(DIST, REPOSITORY)}: `make dist` makes it")
    return found[0]


class Installed:
    """What holds for every package, on every system: subclasses say which file, and how it is installed and removed."""

    pattern = install = remove = suite = None
    include = ()
    # Left behind by the package manager itself.
    kept = r"^(var/(log|cache|lib/dpkg|lib/apt)|etc/ld\.so\.cache|root|run)(/|$)"

    def setUp(self):
        package = made(self.pattern)
        try:
            self.root = self.enterContext(roots.fresh(self.suite, self.include))
        except NotRun as reason:
            self.skipTest(str(reason))
        self.prepare()
        shutil.copy(package, self.root.path("/tmp"))
        self.package = f"/tmp/{os.path.basename(package)}"

    def prepare(self):
        """What is there before the package comes."""

    def put(self):
        self.root.run(self.install.format(package=self.package))

    def take_away(self):
        self.root.run(self.remove)

    def test_from_the_file_to_the_first_answer(self):
        begun = time.monotonic()
        self.put()
        answer = self.root.run("thalweg explain -o /tmp/true.thw -- true")
        print(f"{type(self).__name__}: {time.monotonic() - begun:.2f} s from the file to the first answer")
        self.assertRegex(answer, r"(?m)^true: ")
        # What the kernel allows outside is recorded inside: root has the kernel recorder.
        said = self.root.run("thalweg explain -v /tmp/true.thw")
        self.assertIn("recorder: bpf" if os.path.exists("/sys/kernel/btf/vmlinux") else "recorder: ", said)

    def test_the_first_day_of_a_new_user(self):
        self.put()
        self.root.run(FIRST_DAY)

    def test_the_first_day_of_a_user_without_privilege(self):
        self.put()
        self.root.run(FIRST_DAY.replace("[ -c /dev/fuse ]", "command -v fusermount3"), user=65534)

    def test_removing_leaves_nothing(self):
        before = self.root.files()
        self.put()
        self.root.run("thalweg explain -o /tmp/true.thw -- true")
        self.take_away()
        after = self.root.files()
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name) and not re.search(self.kept, name)}
        self.assertEqual(changed, set())


class Tarball(Installed):
    """tar x, into /usr/local."""

    pattern = "thalweg-*-x86_64-linux.tar.gz"
    install = "tar xzf {package} --strip-components=1 -C /usr/local"
    remove = (
        "cd /usr/local && rm bin/thalweg share/man/man1/thalweg*.1.gz share/bash-completion/completions/thalweg share/zsh/site-functions/_thalweg"
        " share/fish/vendor_completions.d/thalweg.fish lib/systemd/system/thalweg-server@.service && rm -r share/doc/thalweg"
        " && rmdir -p --ignore-fail-on-non-empty share/bash-completion/completions share/zsh/site-functions share/fish/vendor_completions.d"
        " lib/systemd/system share/doc share/man/man1"
    )
    # The directories of /usr/local that Debian's base has empty, or has not, are the administrator's.
    kept = Installed.kept + r"|^usr/local/(share|lib|share/man)$"


class Debian(Installed):
    """dpkg -i."""

    pattern = "thalweg_*_amd64.deb"
    install = "dpkg -i {package}"
    remove = "dpkg -P thalweg"


class Rpm(Installed):
    """rpm -i, by this machine's rpm: Debian's systems have none."""

    pattern = "thalweg-*.x86_64.rpm"
    kept = Installed.kept + r"|^var/lib/rpm|^usr/lib/sysimage"

    def rpm(self, *arguments):
        if shutil.which("rpm") is None:
            self.skipTest("rpm is missing (apt-get install rpm)")
        subprocess.run(["rpm", "--root", self.root.directory, "--dbpath", "/var/lib/rpm", *arguments], check=True, capture_output=True)

    def put(self):
        # A system of Debian's has no list of RPM packages, in which glibc would be.
        self.rpm("-i", "--nodeps", "--ignoreos", self.root.path(self.package))

    def take_away(self):
        self.rpm("-e", "thalweg")


class Wheel(Installed):
    """pip install, into a virtual environment as Debian's Python asks."""

    pattern = "thalweg-*x86_64.whl"
    include = PYTHON
    install = "/opt/venv/bin/pip install -q --no-index {package} && ln -s /opt/venv/bin/thalweg /usr/local/bin/thalweg"
    remove = "/opt/venv/bin/pip uninstall -q -y thalweg && rm /usr/local/bin/thalweg"
    # (Python compiles its own modules as they are first used.)
    kept = Installed.kept + r"|^(usr|opt/venv)/lib/python3.*__pycache__(?!.*thalweg)"

    def prepare(self):
        self.root.run("python3 -m venv /opt/venv")


class FromSource(unittest.TestCase):
    """The three lines of the README, in a bare system that has git, apt-get and Rust; a quarter of an hour, so only with THALWEG_FROM_SOURCE=1."""

    def test_three_lines(self):
        if os.environ.get("THALWEG_FROM_SOURCE") != "1":
            self.skipTest("compiles for a quarter of an hour: THALWEG_FROM_SOURCE=1 runs it")
        with open(os.path.join(REPOSITORY, "README.md"), encoding="utf-8") as page:
            lines = re.search(r"```\n(git clone REPOSITORY .*?)```", page.read(), re.DOTALL).group(1)
        self.assertEqual(lines.count("\n"), 3)
        try:
            root = self.enterContext(roots.fresh(SUITES[-1], ("git", "ca-certificates")))
        except NotRun as reason:
            self.skipTest(str(reason))
        for file in ("/etc/resolv.conf", "/etc/hosts"):
            shutil.copy(file, root.path(file))
        cargo, rustup = (os.environ.get(name, os.path.expanduser(f"~/.{name.partition('_')[0].lower()}")) for name in ("CARGO_HOME", "RUSTUP_HOME"))
        for source, inside in ((REPOSITORY, "/source"), (cargo, "/root/.cargo"), (rustup, "/root/.rustup")):
            root.bind(source, inside)
        root.run("git config --global --add safe.directory '*'")
        done = root.run(f"cd /root\n{lines.replace('REPOSITORY', '/source')}thalweg explain -o true.thw -- true\nthalweg explain -v true.thw", timeout=2400)
        self.assertRegex(done, r"(?m)^true: ")
        self.assertIn("recorder: bpf" if os.path.exists("/sys/kernel/btf/vmlinux") else "recorder: ", done)


class Container(unittest.TestCase):
    """The image that the Containerfile describes, on a bare Debian system: no registry of images is asked."""

    def setUp(self):
        if shutil.which("buildah") is None:
            self.skipTest("buildah is missing (apt-get install buildah)")
        made("thalweg-*-x86_64-linux.tar.gz")
        self.scratch = self.enterContext(tempfile.TemporaryDirectory(prefix="thalweg-images-"))
        try:
            self.base = roots.base(SUITES[-1])
        except NotRun as reason:
            self.skipTest(str(reason))

    def buildah(self, *arguments):
        storage = ["--root", f"{self.scratch}/root", "--runroot", f"{self.scratch}/run", "--storage-driver", "vfs"]
        return subprocess.run(["buildah", *storage, *arguments], check=True, capture_output=True, text=True, timeout=300).stdout.strip()

    def test_it_builds_and_answers(self):
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, self.base, "/")
        self.buildah("commit", "--quiet", container, "bare-debian")
        self.buildah("bud", "--quiet", "--isolation", "chroot", "--pull-never", "--build-arg", "BASE=localhost/bare-debian", "-t", "thalweg", DIST)
        used = self.buildah("from", "--pull-never", "localhost/thalweg")
        self.assertIn("ENTRYPOINT", self.buildah("inspect", "--format", "ENTRYPOINT {{.OCIv1.Config.Entrypoint}}", used))
        answer = self.buildah("run", "--isolation", "chroot", "-v", f"{FIXTURE}:/run.thw", used, "--", "thalweg", "explain", "/run.thw")
        self.assertIn("network.sndbuf", answer)
        self.assertEqual(self.buildah("run", "--isolation", "chroot", used, "--", "sh", "-c", "ls /opt"), "")


class Binary(unittest.TestCase):
    """What the binary in the packages is made of."""

    LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

    def unpacked(self, machine):
        archive = made(f"thalweg-*-{machine}-linux.tar.gz")
        directory = os.path.join(TARGET, "dist-checked", machine)
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        subprocess.run(["tar", "xzf", archive, "--strip-components=1", "-C", directory], check=True)
        return os.path.join(directory, "bin", "thalweg")

    def test_it_needs_glibc_2_17_and_nothing_else(self):
        for machine in ("x86_64", "aarch64"):
            with self.subTest(machine=machine):
                binary = self.unpacked(machine)
                dynamic = subprocess.run(["readelf", "--dynamic", "--version-info", "--wide", binary], check=True, capture_output=True, text=True).stdout
                needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
                self.assertLessEqual(needed, self.LIBRARIES)
                newest = max((tuple(map(int, version.split("."))) for version in re.findall(r"Name: GLIBC_([0-9.]+)", dynamic)), default=(0,))
                self.assertLessEqual(newest, (2, 17))
                self.assertLessEqual(os.path.getsize(binary), MOST_BYTES)

    def test_it_says_nothing_of_the_machine_that_made_it(self):
        for machine in ("x86_64", "aarch64"):
            with self.subTest(machine=machine):
                with open(self.unpacked(machine), "rb") as file:
                    content = file.read()
                for path in (REPOSITORY, os.path.expanduser("~/.cargo")):
                    self.assertNotIn(path.encode() + b"/", content)

    def emulated(self):
        """The command line that runs the aarch64 program here."""
        qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
        if qemu is None:
            self.skipTest("qemu-aarch64 is missing (apt-get install qemu-user)")
        library = "/usr/aarch64-linux-gnu"
        if not os.path.exists(os.path.join(library, "lib", "ld-linux-aarch64.so.1")):
            self.skipTest(f"no aarch64 C library in {library} (apt-get install libc6-arm64-cross)")
        return [qemu, "-L", library, self.unpacked("aarch64")]

    def test_the_aarch64_binary_answers_as_the_other(self):
        other, ours = self.emulated(), [self.unpacked("x86_64")]
        for words in (["--help"], ["explain", "--help"], ["explain", FIXTURE], ["explain", "--json", FIXTURE], ["recipes", "rsync"]):
            with self.subTest(words=words):
                printed = [subprocess.run([*command, *words], capture_output=True, text=True, timeout=300, check=True).stdout for command in (ours, other)]
                self.assertTrue(printed[0])
                self.assertEqual(*printed)

    def test_the_aarch64_binary_copies_into_a_store_of_the_other(self):
        other, ours = self.emulated(), self.unpacked("x86_64")
        scratch = self.enterContext(tempfile.TemporaryDirectory(prefix="thalweg-emulated-"))
        source, back = (os.path.join(scratch, name) for name in ("source", "back"))
        with open(source, "wb") as file:
            file.write(os.urandom(3 << 20))
        os.mkdir(os.path.join(scratch, "store"))
        up = [ours, "up", "--servers", "2", "--print-address", os.path.join(scratch, "store")]
        with subprocess.Popen(up, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as store:
            try:
                environment = {**os.environ, "THALWEG_STORE": store.stdout.readline().strip()}
                for command in ([*other, "cp", source, "thal:/f"], [ours, "cp", "thal:/f", back]):
                    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
            finally:
                store.terminate()
        with open(source, "rb") as one, open(back, "rb") as two:
            self.assertEqual(one.read(), two.read())


def load_tests(loader, _tests, _pattern):
    """Each kind of package on each system, and the binary; one test that is skipped where no release was made."""
    suite = unittest.TestSuite()
    if not os.path.isdir(DIST):
        suite.addTest(unittest.FunctionTestCase(lambda: made("*.tar.gz"), description="packages in bare systems"))
        return suite
    for kind in (Tarball, Debian, Rpm, Wheel):
        for system in SUITES:
            case = type(f"{kind.__name__}On{system.capitalize()}", (kind, unittest.TestCase), {"suite": system, "__module__": __name__})
            suite.addTests(loader.loadTestsFromTestCase(case))
    for case in (FromSource, Container, Binary):
        suite.addTests(loader.loadTestsFromTestCase(case))
    return suite


if __name__ == "__main__":
    unittest.main()
