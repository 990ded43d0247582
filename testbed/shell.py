"""Short untimed commands that set the stage, and reading and writing the kernel's small files."""

import subprocess

from laboratory.errors import NotRun


def run(*argv, check=True):
    """Run a command; its stdout. `NotRun` with its last words when it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise NotRun(f"there is no {argv[0]} on this machine") from None
    if check and done.returncode != 0:
        last = ([line for line in (done.stderr + done.stdout).splitlines() if line.strip()] or ["no message"])[-1]
        raise NotRun(f"{' '.join(argv)}: {last}")
    return done.stdout


def read(path):
    """A small file's text, or None."""
    try:
        with open(path) as source:
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
