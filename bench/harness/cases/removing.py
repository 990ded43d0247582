"""`rm -r` of a directory of many empty files, beside a program that removes one name after the other.

That program is the worker of the bench's studies (`thalweg bench node`), one process for all names, which waits for the answer of each
before it sends the next. It also makes the files, many in a request, before each run.
"""

import json
import os
import shlex
import subprocess

from bench.harness import pairs, result
from bench.harness.cases.mounted import mount_of
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount, Bar
from testbed.errors import Broken, NotRun

COUNT, QUICK_COUNT = 100_000, 5_000
IN_A_REQUEST = 512
TIMEOUT_S = 30.0
FASTER_THAN_ONE_BY_ONE = 10.0


def trees_removed(bench):
    """100,000 files (a quick run: 5,000) in one directory."""
    count = QUICK_COUNT if bench.quick else COUNT
    store = bench.store()
    cast, absent = [tree(store, count, "thalweg", "Thalweg, rm -r", lambda at: [store.program, "rm", "-r", store.url(at)])], []
    cast.append(one_by_one(bench, store, count))
    try:
        place = mount_of(bench, store)
        cast.append(tree(store, count, "mount", "mounted store, rm -r", lambda at: ["rm", "-r", os.path.join(place, at)]))
    except NotRun as reason:
        absent.append({"name": "mount", "label": "mounted store, rm -r", "reason": str(reason)})
    # Each run has files of its own: there is nothing to be warmed up.
    plan = Plan(least=3, most=5, seconds=10 if bench.quick else 60, warm_up=False)
    outcome = pairs.run(bench, cast, plan, "thalweg", Amount(count, "files"))
    document = result.of_pairs(outcome, cast, "thalweg", [Bar("one", median=FASTER_THAN_ONE_BY_ONE), Bar("mount")])
    return {**document, "absent": absent}


def tree(store, count, name, label, command):
    """A command that removes the directory and all in it; `command` gives it for a path of the store."""
    at = lambda run: f"removed-{name}-{run}"  # noqa: E731

    def gone(run):
        if store.run("stat", "--json", store.url(at(run)), check=False):
            raise Broken(f"{store.url(at(run))} is still there")

    return Subject(name, label, lambda run: command(at(run)), before=lambda run: make(store, at(run), count), after=gone)


def one_by_one(bench, store, count):
    """The worker, which gets its orders from a file."""
    at = lambda run: f"removed-one-{run}"  # noqa: E731
    orders = lambda run: bench.path("orders", at(run))  # noqa: E731

    def before(run):
        make(store, at(run), count)
        with open(orders(run), "w") as out:
            out.write(lines(store, [names(at(run), "file_removal", count, 1)]))

    def gone(run):
        left = store.run("ls", store.url(f"{at(run)}/all"))
        if left:
            raise Broken(f"{store.url(at(run))}: {len(left.splitlines())} names are still there")
        store.remove(at(run))

    command = lambda run: ["sh", "-c", f"exec {shlex.quote(store.program)} bench node < {shlex.quote(orders(run))}"]  # noqa: E731
    return Subject("one", "library, one name in a request", command, before=before, after=gone, own=took_s)


def make(store, at, count):
    """A directory of the store with so many empty files, as quickly as the library makes them."""
    orders = lines(store, [names(at, "tree_creation", count, 1), names(at, "file_creation", count, IN_A_REQUEST)])
    took_s(subprocess.run([store.program, "bench", "node"], input=orders, capture_output=True, text=True, check=False).stdout)


def names(at, phase, each, batch):
    """The worker's order to do something with all names, so many in a request."""
    point = {"location": "here", "mounted": False, "shared": True, "workers": 1, "batch": batch, "bytes": 0, "stride": 0}
    return {"names": {"point": point, "phase": phase, "below": f"/{at}", "each": each}}


def lines(store, orders):
    """Orders as the worker reads them: first to connect to the store."""
    connect = {"store": store.address.removeprefix("thal://"), "node": "bench", "timeout_s": TIMEOUT_S, "credential": None}
    return "".join(f"{json.dumps(order)}\n" for order in [{"connect": connect}, *orders])


def took_s(output):
    """How long the worker's last order took, as it says itself; `Broken` where an order failed."""
    answers = [json.loads(line) for line in output.splitlines()]
    failed = [answer["failed"] for answer in answers if "failed" in answer]
    if failed or not answers:
        raise Broken(f"thalweg bench node: {failed[0] if failed else 'it said nothing'}")
    return answers[-1]["done"]["took"]
