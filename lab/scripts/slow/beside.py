"""beside.py PORT --directory DIRECTORY [--neighbour]: files over HTTP, and perhaps a program at the client's host that fetches over the same link.

The neighbour is socat, which takes zeros from a socat of its own at PORT + 1 for as long as this runs. Nobody who is recorded has to do with either.
It prints `ready` when both sides of it move bytes.
"""

import argparse
import os
import signal
import subprocess
import sys
import time

LOOK_S, LOOKS = 0.05, 200


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--address", required=True, help="the server's")
    parser.add_argument("--directory", required=True)
    parser.add_argument("--neighbour", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    own = subprocess.run(["ip", "netns", "identify", str(os.getpid())], check=True, capture_output=True, text=True).stdout.strip()
    at_client = ["nsenter", f"--net=/run/netns/{own.removesuffix('server')}client"]
    started = []

    def start(*argv):
        started.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    try:
        start(sys.executable, "-m", "http.server", str(options.port), "--directory", options.directory)
        wait_for(options.address, options.port)
        if options.neighbour:
            start("socat", "-u", "OPEN:/dev/zero", f"TCP-LISTEN:{options.port + 1},reuseaddr")
            time.sleep(LOOK_S)
            start(*at_client, "socat", "-u", f"TCP:{options.address}:{options.port + 1}", "OPEN:/dev/null")
            wait_until(lambda: moved(started[-1].pid) > 1 << 20)
        print("ready", flush=True)
        signal.pause()
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(5)


def moved(pid):
    """How many bytes a process has read."""
    with open(f"/proc/{pid}/io", encoding="ascii") as counts:
        return int(counts.readline().split()[1])


def wait_for(address, port):
    """Until somebody listens there."""

    def answers():
        probe = f"import socket; socket.create_connection(('{address}', {port}), 1).close()"
        return subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False).returncode == 0

    wait_until(answers)


def wait_until(is_so):
    """Until something is so."""
    for _ in range(LOOKS):
        if is_so():
            return
        time.sleep(LOOK_S)
    raise OSError("what was waited for did not come about")


if __name__ == "__main__":
    main()
