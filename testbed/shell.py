"""Short untimed commands that set something up, and reading and writing the kernel's small files."""

import subprocess

from testbed.errors import NotRun


def run(*argv, check=True, failure=NotRun):
    """Run a command; its stdout. `failure` with its last line when it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise NotRun(f"there is no {argv[0]} on this machine") from None
    if check and done.returncode != 0:
        raise failure(f"{' '.join(argv)}: exit code {done.returncode}: {last_line(done.stdout + done.stderr)}")
    return done.stdout


def last_line(text):
    """The last line that says something, for an error message."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")


def read(path):
    """A small file's text, or None."""
    try:
        with open(path, errors="replace") as source:
            return source.read().strip()
    except OSError:
        return None


def write(path, text):
    """Write one of the kernel's files; `NotRun` when it may not be written."""
    try:
        with open(path, "w") as out:
            out.write(str(text))
    except OSError as reason:
        raise NotRun(f"{path}: cannot be set to {text}: {reason.strerror}") from None


def mount_points():
    """What is mounted in this namespace, from the kernel's list: no file system is asked that may not answer."""
    return {line.split(" ")[4].replace("\\040", " ") for line in (read("/proc/self/mountinfo") or "").splitlines()}


def mount_of(path):
    """Mount point, type and device of the file system that a path is on."""
    best = ("", "?", "?")
    for line in (read("/proc/self/mounts") or "").splitlines():
        device, point, kind = (word.replace("\\040", " ") for word in line.split(" ")[:3])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind, device)
    return best

