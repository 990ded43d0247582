"""What a lot costs: the same copies into a directory of a lot and into one beside it, in one store in memory."""

from bench.harness import pairs, result, subjects
from bench.harness.cases.small import check_tree
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount, Bar
from testbed import files

LOT = "bench"
LOT_SIZE = "4Gi"
# Directories of the store: of the lot, and of none.
INSIDE, BESIDE = "inside", "beside"
LABELS = {INSIDE: "in a lot", BESIDE: "beside it"}
SMALL_BYTES = 4096


def large(size_bytes, bench):
    """One large file."""
    store, place = with_lot(bench), bench.apart()
    source = place.source(size_bytes)
    cast = [
        subjects.thalweg(bench, store, "in", source, sync=False, name=where, label=label, within=f"{where}/", place=place)
        for where, label in LABELS.items()
    ]
    return compared(bench, cast, Amount(size_bytes, "bytes"), 0.98, bench.memory(size_bytes))


def small(count, bench):
    """A tree of files of 4 KiB."""
    store, place = with_lot(bench), bench.apart()
    tree = files.make_small_files(place.path(f"small-{count}"), count, SMALL_BYTES)

    def subject(where, label):
        name = lambda run: f"{where}/small-{run}"  # noqa: E731

        def check(run):
            if run == 0:
                back = place.path("check", where)
                store.run("cp", "-r", store.url(name(run)), back)
                check_tree(back, tree, run)
                files.remove(back)
            store.remove(name(run))

        return Subject(where, label, lambda run: store.host.argv([store.program, "cp", "--json", "-r", tree, store.url(name(run))]), after=check, own=subjects.own_document)

    cast = [subject(where, label) for where, label in LABELS.items()]
    return compared(bench, cast, Amount(count, "files"), 0.97)


def with_lot(bench):
    """The store in clear, with the lot and both directories."""
    store = bench.store_apart(plain=True)
    if (store.address, LOT) not in bench.kept:
        store.run("lot", "create", LOT, "--size", LOT_SIZE, "--for", "1d", "--store", store.address)
        store.run("mkdir", "--lot", LOT, store.url(INSIDE))
        store.run("mkdir", store.url(BESIDE))
        bench.kept[(store.address, LOT)] = True
    return store


def compared(bench, cast, amount, least, before_round=None):
    """Many pairs: what is asked is within two per cent."""
    plan = Plan(least=5, most=8, seconds=10) if bench.quick else Plan(least=40, most=200, seconds=90, narrow=0.01)
    outcome = pairs.run(bench, cast, plan, INSIDE, amount, before_round)
    return result.of_pairs(outcome, cast, INSIDE, [Bar(BESIDE, median=least)])
