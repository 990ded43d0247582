"""memory_group.py PATH SIZE: a control group that may have SIZE bytes of memory; PATH becomes a link to the file that its members write their numbers to."""

import os
import signal
import sys

ROOT = "/sys/fs/cgroup/memory"


def main():
    link, size = sys.argv[1], sys.argv[2]
    group = os.path.join(ROOT, f"thalweg-lab-{os.getpid()}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.mkdir(group)
    try:
        with open(os.path.join(group, "memory.limit_in_bytes"), "w") as limit:
            limit.write(size)
        if "THALWEG_LAB_USER" in os.environ:
            # Whom the lab runs commands as may join.
            os.chown(os.path.join(group, "cgroup.procs"), int(os.environ["THALWEG_LAB_USER"]), -1)
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink(os.path.join(group, "cgroup.procs"), link)
        print("ready", flush=True)
        signal.pause()
    finally:
        os.rmdir(group)


if __name__ == "__main__":
    main()
