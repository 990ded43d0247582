#!/usr/bin/env python3
"""limited.py SECONDS LOG -- COMMAND...: runs a command to its end or to its time limit, and leaves nothing of it running.

A suite that hangs must become a failure that says where it hung, and a server that a test forgot must not keep the terminal (or what
waits for its end) open. So the command gets no input, its output goes to LOG, its temporary files to a directory of its own, and this
process adopts whatever the command's children leave behind (PR_SET_CHILD_SUBREAPER). When the time is up, the log gets each process
that is left, what it waits for in the kernel, and its kernel stack; then they are killed, and file systems mounted in the temporary
directory are unmounted first, since a process that waits for one of them cannot be killed.

Exit code: the command's, 124 when the time was up, 128 + N when signal N ended it. The last line of LOG names what was still running
after a command that ended in time (LEFT RUNNING).
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None, use_errno=True)
TIME_IS_UP = 124
POLL_S = 0.05
# What a test ended, but did not wait for, is gone within this.
GRACE_S = 3.0
KILL_S = 10.0


def main(argv):
    """Parses, runs, and passes the exit code on."""
    if len(argv) < 5 or argv[3] != "--":
        print("usage: limited.py SECONDS LOG -- COMMAND...", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Of what runs in the background, a shell has Ctrl-C ignored; programs would inherit that, and shells among them could not trap it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return run(float(argv[1]), argv[2], argv[4:])


def run(limit_s, log, command):
    """Runs the command, see above; returns the exit code."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    scratch = tempfile.mkdtemp(prefix="tw-")
    # As /tmp: tests run programs as other users too.
    os.chmod(scratch, 0o1777)
    with open(log, "ab", buffering=0) as out:
        try:
            return _run(limit_s, out, command, scratch)
        finally:
            _end_all(out, scratch)
            shutil.rmtree(scratch, ignore_errors=True)


def _environment(scratch):
    """Ours, with directories of its own: what tests keep for a user (credentials, what tunings found) is not among a person's."""
    kept = {name: value for name, value in os.environ.items() if name not in ("XDG_RUNTIME_DIR", "THALWEG_CREDENTIAL")}
    return {**kept, "TMPDIR": scratch, "XDG_STATE_HOME": os.path.join(scratch, ".state")}


def _run(limit_s, out, command, scratch):
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=_environment(scratch), start_new_session=True)
    except OSError as reason:
        out.write(f"{command[0]}: {reason}\n".encode())
        return 127
    deadline = time.monotonic() + limit_s
    while (code := _reap().get(child.pid)) is None:
        if time.monotonic() > deadline:
            out.write(f"\nDID NOT END within {limit_s:.0f} s: {' '.join(command)}\n{describe(descendants())}".encode())
            return TIME_IS_UP
        time.sleep(POLL_S)
    grace = time.monotonic() + GRACE_S
    while descendants() and time.monotonic() < grace:
        time.sleep(POLL_S)
    left = descendants()
    if left:
        out.write(f"\nLEFT RUNNING by {command[0]}:\n{describe(left)}".encode())
    return code if code >= 0 else 128 - code


def _reap(ended={}):  # noqa: B006: what ended stays known, its number is not given out again while this runs
    """Waits for what has ended, the adopted among it; returns all exit codes so far (-N: by signal N) by process."""
    try:
        while (waited := os.waitpid(-1, os.WNOHANG))[0]:
            ended[waited[0]] = os.waitstatus_to_exitcode(waited[1])
    except ChildProcessError:
        pass
    return ended


def descendants():
    """The processes that come from this one and have not ended; the dead among them are waited for."""
    _reap()
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        fields = _read(f"/proc/{entry}/stat").rpartition(")")[2].split()
        if fields and fields[0] not in "ZX":
            parents[int(entry)] = int(fields[1])
    found = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return sorted(found - {os.getpid()})
        found |= more


def describe(pids):
    """Each process with its command, and what each of its threads does: state, kernel function, kernel stack where root may read it."""
    lines = []
    for pid in pids:
        command = _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
        lines.append(f"  {pid} {command[:200] or _read(f'/proc/{pid}/comm').strip()}")
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads[:32]:
            at = f"/proc/{pid}/task/{thread}"
            state = (_read(f"{at}/stat").rpartition(")")[2].split() or ["?"])[0]
            stack = " < ".join(line.partition("] ")[2].partition("+")[0] for line in _read(f"{at}/stack").splitlines()[:8])
            lines.append(f"      {thread} {_read(f'{at}/comm').strip()}: {state} {_read(f'{at}/wchan').strip()} {stack}")
    return "".join(f"{line}\n" for line in lines)


def _end_all(out, scratch):
    """Kills what is left; unmounts what was mounted below `scratch` when a process does not go otherwise, and always before it is removed."""
    deadline = time.monotonic() + KILL_S
    unmounted = False
    while left := descendants():
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(POLL_S)
        if not unmounted and time.monotonic() > deadline - KILL_S / 2:
            _unmount(scratch)
            unmounted = True
        if time.monotonic() > deadline:
            out.write(f"\nCANNOT BE KILLED:\n{describe(left)}".encode())
            break
    _unmount(scratch)


def _unmount(scratch):
    mounts = [line.split()[4].replace("\\040", " ") for line in _read("/proc/self/mountinfo").splitlines()]
    for mount in reversed(mounts):
        if mount.startswith(scratch + "/"):
            # MNT_FORCE ends what waits for a FUSE server, MNT_DETACH takes the mount away from whoever still has files open on it.
            for flags in (1, 2):
                LIBC.umount2(mount.encode(), flags)


def _read(path):
    try:
        with open(path, errors="replace") as source:
            return source.read()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv))
