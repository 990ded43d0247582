"""dbench: the file operations of an office's file server, from several clients at once, with its own checks of every outcome."""

import os
import re

from gates.harness.case import attempt
from testbed.errors import Broken

TITLE = "an office's file server, replayed"
SHORT_S = 0
ORDER = 80

OPERATION = re.compile(r"^ (\w+)\s+(\d+)\s+[\d.]+\s+[\d.]+", re.MULTILINE)


def cases(fixture):
    """One case for each number of clients."""
    fixture.debian(dbench="dbench")
    for clients, options in ((1, []), (8, []), (4, ["-s"]), (4, ["-F"])):
        words = {"-s": ", O_SYNC", "-F": ", fsync at close"}.get("".join(options), "")
        yield attempt(f"{clients} clients{words}", _run, fixture, clients, options)


def _run(fixture, clients, options):
    directory, _ = fixture.inside(f"d{clients}{''.join(options)}")
    load = "/usr/share/dbench/client.txt"
    argv = ["dbench", "-D", directory, "-t", "15", *(["-c", load] if os.path.exists(load) else []), *options, str(clients)]
    done = fixture.run(argv, 300)
    wrong = [line.strip() for line in done.output.splitlines() if re.search(r"\] .*(failed|ERROR)|not found|^Child failed", line)]
    if done.code != 0 or wrong:
        raise Broken(f"exit code {done.code}: {' | '.join(wrong[:3]) or done.last_lines()}")
    return sum(int(count) for _, count in OPERATION.findall(done.output))
