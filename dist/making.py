"""The steps of `make dist`: what a release is, the tools, and one function for each kind of file."""

import dataclasses
import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import tarfile
import tomllib

from dist import materials, weaken

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TOOLS = os.path.join(ROOT, "target", "tools")
NFPM = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.48.0"
# The oldest C library that the binaries start with: what manylinux2014 and every distribution since 2014 have.
GLIBC = "2.17"
# What is here called a machine, and what others call it: Rust, Debian, RPM, the kernel's headers beside zig.
MACHINES = {"x86_64": ("x86_64-unknown-linux-gnu", "amd64", "x86_64", "x86"), "aarch64": ("aarch64-unknown-linux-gnu", "arm64", "aarch64", "aarch64")}


class Cannot(Exception):
    """Why there is no release, and what to do."""


def run(*command, **options):
    """Run a command to its end; its failure is an exception."""
    return subprocess.run(command, check=True, **options)


def output(*command, **options):
    """What a command prints, without the end of its last line."""
    return run(*command, stdout=subprocess.PIPE, text=True, **options).stdout.strip()


@dataclasses.dataclass
class Release:
    """What is packed: its version, its commit, and the second that stands for every time in the files."""

    version: str
    commit: str
    epoch: int

    @staticmethod
    def of_this_tree():
        with open(os.path.join(ROOT, "Cargo.toml"), "rb") as manifest:
            version = tomllib.load(manifest)["workspace"]["package"]["version"]
        try:
            commit = output("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD")
            epoch = int(output("git", "-C", ROOT, "log", "-1", "--format=%ct"))
            changed = output("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no")
        except (OSError, subprocess.CalledProcessError) as error:
            raise Cannot(f"{ROOT} is not a clone with git, which gives the release its commit and its time ({error})") from error
        return Release(version, commit + ("-changed" if changed else ""), epoch)

    def environment(self):
        return {"SOURCE_DATE_EPOCH": str(self.epoch), "THALWEG_COMMIT": self.commit}

    def stem(self, machine):
        return f"thalweg-{self.version}-{machine}-linux"


@dataclasses.dataclass
class Tools:
    """Compilers and packers, of pinned versions, in target/tools."""

    python: str
    nfpm: str

    @staticmethod
    def prepared():
        run(os.path.join(ROOT, "tools", "setup"), "dist")
        venv, wanted = os.path.join(TOOLS, "zig"), os.path.join(HERE, "requirements.txt")
        installed = os.path.join(venv, "requirements.txt")
        if not os.path.exists(installed) or open(installed).read() != open(wanted).read():
            print("dist: installing zig", file=sys.stderr)
            run(sys.executable, "-m", "venv", "--clear", venv)
            run(os.path.join(venv, "bin", "pip"), "install", "-q", "--disable-pip-version-check", "-r", wanted)
            shutil.copy(wanted, installed)
        nfpm = os.path.join(TOOLS, "bin", "nfpm")
        if not os.path.exists(nfpm):
            print("dist: compiling nfpm", file=sys.stderr)
            if shutil.which("go") is None:
                raise Cannot("Go is missing, which compiles nfpm: install Go 1.21 or newer (https://go.dev/dl)")
            run("go", "install", NFPM, env={**os.environ, "GOBIN": os.path.dirname(nfpm), "GOFLAGS": "-trimpath"})
        return Tools(os.path.join(venv, "bin"), nfpm)

    def kernel_headers(self, machine):
        """The kernel's headers for BPF programs, those of zig, which are the same wherever the release is made."""
        library = output(os.path.join(self.python, "python"), "-c", "import ziglang, os; print(os.path.dirname(ziglang.__file__))")
        return [os.path.join(library, "lib", "libc", "include", name) for name in (f"{MACHINES[machine][3]}-linux-any", "any-linux-any")]


def binary(tools, release, machine, build):
    """Compile the command for one machine; returns the file."""
    target = MACHINES[machine][0]
    if shutil.which("rustup"):
        run("rustup", "target", "add", target, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cargo_home = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    # A file's name inside the binary says nothing of the machine that made it, so that another makes the same one. The last that fits counts.
    shown = [(os.path.join(cargo_home, "registry", "src"), "registry"), (TOOLS, "tools"), (ROOT, "thalweg"), (build, "build")]
    headers = " ".join(f"-isystem {directory}" for directory in tools.kernel_headers(machine))
    prefixes = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in shown)
    environment = {
        **os.environ,
        **release.environment(),
        "PATH": f"{tools.python}:{os.environ['PATH']}",
        "CARGO_TARGET_DIR": build,
        "CARGO_INCREMENTAL": "0",
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(f"--remap-path-prefix={path}={name}" for path, name in shown),
        f"CFLAGS_{target.replace('-', '_')}": prefixes,
        "BPF_CFLAGS": f"{headers} {prefixes}",
    }
    print(f"dist: compiling for {machine} (glibc {GLIBC})", file=sys.stderr)
    run(
        "cargo-zigbuild", "zigbuild", "--locked", "--quiet", "-p", "thalweg", "--profile", "dist", "--features", "vendored",
        "--target", f"{target}.{GLIBC}", cwd=ROOT, env=environment,
    )  # fmt: skip
    made = os.path.join(build, target, "dist", "thalweg")
    loadable = f"{made}-{release.commit}"
    shutil.copy(made, loadable)
    weaken.weaken(loadable)
    return loadable


def texts(release, binaries, staging):
    """Manual pages and completions, written by the command itself: as {path below the prefix: bytes}."""
    here = binaries.get(platform.machine())
    if here is None:
        raise Cannot(f"manual pages and completions are printed by the binary of this machine: add --machine {platform.machine()}")
    pages = os.path.join(staging, "man")
    run(here, "man", pages, stdout=subprocess.DEVNULL, env={**os.environ, **release.environment()})
    found = {}
    for name in sorted(os.listdir(pages)):
        with open(os.path.join(pages, name), "rb") as page:
            found[f"share/man/man1/{name}.gz"] = gzipped(page.read(), release)
    shutil.rmtree(pages)
    for shell, path in {
        "bash": "share/bash-completion/completions/thalweg",
        "zsh": "share/zsh/site-functions/_thalweg",
        "fish": "share/fish/vendor_completions.d/thalweg.fish",
    }.items():
        found[path] = run(here, "completions", shell, stdout=subprocess.PIPE).stdout
    for name in ("LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md", "docs/ADMINISTRATORS.md"):
        with open(os.path.join(ROOT, name), "rb") as page:
            found[f"share/doc/thalweg/{os.path.basename(name)}"] = page.read()
    with open(os.path.join(HERE, "thalweg-server@.service"), "rb") as unit:
        found["lib/systemd/system/thalweg-server@.service"] = unit.read()
    return found


def tree(release, binary_file, found, into):
    """Lay out what packages install below their prefix; returns the directory."""
    for path, content in found.items():
        os.makedirs(os.path.dirname(os.path.join(into, path)), exist_ok=True)
        with open(os.path.join(into, path), "wb") as file:
            file.write(content)
        os.chmod(os.path.join(into, path), 0o644)
    os.makedirs(os.path.join(into, "bin"))
    shutil.copy(binary_file, os.path.join(into, "bin", "thalweg"))
    os.chmod(os.path.join(into, "bin", "thalweg"), 0o755)
    for directory, _, names in os.walk(into):
        for path in [directory, *(os.path.join(directory, name) for name in names)]:
            os.utime(path, (release.epoch, release.epoch))
    return into


def gzipped(content, release):
    """`content` compressed, without the time of compressing."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=release.epoch) as file:
        file.write(content)
    return packed.getvalue()


def tarball(release, machine, laid_out, staging):
    """thalweg-VERSION-MACHINE-linux.tar.gz: one directory with what belongs below /usr/local or ~/.local."""
    stem, packed = release.stem(machine), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for directory, below, names in os.walk(laid_out):
            below.sort()
            for path in [directory, *(os.path.join(directory, name) for name in sorted(names))]:
                member = archive.gettarinfo(path, os.path.normpath(os.path.join(stem, os.path.relpath(path, laid_out))))
                member.uid = member.gid = 0
                member.uname = member.gname = "root"
                member.mtime = release.epoch
                member.mode = 0o755 if member.isdir() or member.mode & stat.S_IXUSR else 0o644
                with open(path, "rb") if member.isfile() else io.BytesIO() as content:
                    archive.addfile(member, content if member.isfile() else None)
    with open(os.path.join(staging, f"{stem}.tar.gz"), "wb") as file:
        file.write(gzipped(packed.getvalue(), release))


def packages(tools, release, machine, laid_out, staging):
    """The .deb and the .rpm, by nfpm from one description."""
    _, debian, rpm, _ = MACHINES[machine]
    environment = {
        **os.environ,
        **release.environment(),
        "THALWEG_VERSION": release.version,
        # nfpm takes Go's name of the machine, which is also Debian's, and turns it into that of each packer.
        "THALWEG_ARCHITECTURE": debian,
        "THALWEG_TREE": laid_out,
        "THALWEG_GLIBC": GLIBC,
    }
    for packer, name in (("deb", f"thalweg_{release.version}_{debian}.deb"), ("rpm", f"thalweg-{release.version}-1.{rpm}.rpm")):
        run(tools.nfpm, "package", "--config", os.path.join(HERE, "nfpm.yaml"), "--packager", packer, "--target", os.path.join(staging, name),
            cwd=HERE, env=environment, stdout=subprocess.DEVNULL)  # fmt: skip


def wheel(release, machine, binary_file, staging):
    """The wheel: the Python package together with the command."""
    run(
        sys.executable, os.path.join(HERE, "wheel"), "--binary", binary_file, "--machine", machine, "--version", release.version,
        "--epoch", str(release.epoch),
        "--sbom", os.path.join(staging, f"{release.stem(machine)}.cdx.json"), "-o", staging, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def bill_of_materials(release, machine, binary_file, staging):
    """What was compiled into the binary, as CycloneDX 1.6: the crates with their checksums, the C libraries inside them, and the page's scripts."""
    with open(binary_file, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    document = materials.document(release, MACHINES[machine][0], digest)
    with open(os.path.join(staging, f"{release.stem(machine)}.cdx.json"), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, sort_keys=True)
        file.write("\n")


def checksums(staging):
    """SHA256SUMS of all that is there; returns (name, digest, bytes) of each."""
    sums = []
    for name in sorted(os.listdir(staging)):
        path = os.path.join(staging, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                sums.append((name, hashlib.file_digest(file, "sha256").hexdigest(), os.path.getsize(path)))
    with open(os.path.join(staging, "SHA256SUMS"), "w", encoding="ascii") as file:
        file.writelines(f"{digest}  {name}\n" for name, digest, _ in sums)
    return sums
