"""How fast a store is scrubbed from the page cache, and what a scrub takes from a copy beside it."""

import dataclasses
import subprocess

from bench.harness import pairs, result, subjects
from bench.harness.bench import GIB
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount, Bar
from testbed import files
from testbed.errors import Broken
from testbed.store import Store

RATE_PER_S = 1.5 * GIB
ALONE, BESIDE = "copy-alone", "copy-beside-scrub"


def store_of(size_bytes, bench):
    """A store of four servers with one file, and nothing else."""
    key = f"store-scrubbed-{size_bytes}"
    if key not in bench.kept:
        directory = bench.path(key)
        store = bench.closing.enter_context(Store(bench.program("thalweg"), [directory], directory + ".log", flags=["--servers", 4]))
        subjects.put_once(bench, store, bench.source(size_bytes))
        bench.kept[key] = store
    return bench.kept[key]


def scrubbed(size_bytes, bench):
    """`thalweg scrub` of a store that is in the page cache."""
    store = store_of(size_bytes, bench)

    def own(text):
        told = subjects.own_document(text)
        if not told or not told["complete"] or told["findings"] or told["read_bytes"] != size_bytes:
            raise Broken(f"the scrub is not one of {size_bytes} intact bytes: {text[:500]}")
        return {key: told[key] for key in ("read_bytes", "seconds", "datafiles")}

    scrub = Subject(
        "scrub",
        "thalweg scrub --no-limit",
        command=lambda run: [store.program, "scrub", "--quiet", "--no-limit", "--json", "--store", store.address],
        before=lambda run: subjects.warm(*files.files_under(store.directories[0], at_least_bytes=1 << 16)),
        own=own,
    )
    least = 3 if bench.quick else 10
    outcome = pairs.run(bench, [scrub], Plan(least=least, most=2 * least, seconds=60), "scrub", Amount(size_bytes, "bytes"))
    document = result.of_pairs(outcome, [scrub], "scrub", [])
    rates = document["subjects"][0]["rate_per_s"]
    document["bars"] = [result.absolute_bar("bytes scrubbed per second", "≥ 1.5 GiB/s", rates, rates["median"] >= RATE_PER_S)]
    return document


def beside(size_bytes, bench):
    """A copy into a store that is scrubbed at 200 MiB/s meanwhile, and one into the same store alone."""
    # Enough that no scrub ends before its copy does.
    store = store_of(2 * GIB, bench)
    source = bench.source(size_bytes)
    copy, alone = (
        subjects.thalweg(bench, store, "in", source, sync=False, name=name, label=label)
        for name, label in ((BESIDE, "beside scrub --rate 200Mi"), (ALONE, "alone"))
    )
    running = []

    def before(run):
        copy.before(run)
        command = [store.program, "scrub", "--quiet", "--rate", "200Mi", "--store", store.address]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def after(run):
        scrub = running.pop()
        is_over = scrub.poll() is not None
        scrub.terminate()
        scrub.wait()
        copy.after(run)
        if is_over:
            raise Broken("the scrub had ended before the copy did")

    cast = [dataclasses.replace(copy, before=before, after=after), alone]
    plan = Plan(least=5, most=8, seconds=10) if bench.quick else Plan(least=20, most=60, seconds=60, narrow=0.02)
    outcome = pairs.run(bench, cast, plan, BESIDE, Amount(size_bytes, "bytes"), bench.memory(size_bytes))
    return result.of_pairs(outcome, cast, BESIDE, [Bar(ALONE, median=0.85)])
