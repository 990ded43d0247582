"""contended.py THREADS SECONDS: threads of Python that compute for so much processor time each, and so wait for the interpreter's lock (--processes: processes, which don't)."""

import argparse
import multiprocessing
import threading

from work import compute

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("threads", type=int)
parser.add_argument("seconds", type=float)
parser.add_argument("--processes", action="store_true")

if __name__ == "__main__":
    options = parser.parse_args()
    kind = multiprocessing.get_context("fork").Process if options.processes else threading.Thread
    workers = [kind(target=compute, args=(options.seconds,)) for _ in range(options.threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
