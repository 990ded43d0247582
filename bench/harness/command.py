"""One timed command: from before it is started until it has been waited for.

Start-up is in the time, for everybody alike. The child is made by posix_spawn (no copy of this process) and waited for with
wait4, which blocks: nothing polls, and the kernel's own account of the child's CPU time and memory comes with it.
"""

import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass, field

from testbed import shell
from testbed.errors import Broken

TIMEOUT_S = 300


@dataclass
class Sample:
    """One run. `cpu_s` is what the command's own processes used, not the servers'."""

    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    stdout: str = field(repr=False, default="")


def timed(argv):
    """Run a command to its end and measure it; `Broken` with its last words if it does not exit with 0."""
    program = shutil.which(argv[0])
    if program is None:
        raise Broken(f"{argv[0]}: there is no such command")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull) as nothing:
        actions = [
            (os.POSIX_SPAWN_DUP2, nothing.fileno(), 0),
            (os.POSIX_SPAWN_DUP2, out.fileno(), 1),
            (os.POSIX_SPAWN_DUP2, err.fileno(), 2),
        ]
        start = time.perf_counter()
        pid = os.posix_spawn(program, argv, os.environ, file_actions=actions)
        status, usage = _wait(pid, argv)
        wall_s = time.perf_counter() - start
        code = os.waitstatus_to_exitcode(status)
        if code != 0:
            raise Broken(f"{' '.join(argv)}: exit code {code}: {_last_line(out, err)}")
        out.seek(0)
        text = out.read().decode(errors="replace")
    return Sample(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, text)


def _wait(pid, argv):
    def too_long(*_):
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(TIMEOUT_S)
    try:
        _, status, usage = os.wait4(pid, 0)
        return status, usage
    except BaseException as reason:
        os.kill(pid, signal.SIGKILL)
        os.wait4(pid, 0)
        if isinstance(reason, TimeoutError):
            raise Broken(f"{' '.join(argv)}: still running after {TIMEOUT_S} s") from None
        raise
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def _last_line(*streams):
    for stream in streams:
        stream.seek(0)
    return shell.last_line("\n".join(stream.read().decode(errors="replace") for stream in streams))
