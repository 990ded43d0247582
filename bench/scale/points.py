"""Which storms: those of real servers, the same in the model, and those of a site that is not here."""

REPETITIONS = 3
# Storm, clients, I/O servers, how often or how many files. From these, costs are fitted (costs.py).
CALIBRATION = [
    ("connect", 4000, 1, 1),
    ("stat", 64, 4, 1000),
    ("sizes", 64, 4, 300),
    ("open", 64, 4, 60),
    ("create", 64, 4, 100),
    ("list", 128, 4, 1000),
    ("list", 128, 4, 8000),
    ("glimpse", 64, 4, 1000),
    ("glimpse", 64, 4, 8000),
]
# These hold the model to account: none of them is used for a cost, and most are larger.
HELD = [
    ("connect", 250, 1, 1),
    ("connect", 1000, 1, 1),
    ("connect", 4500, 1, 1),
    ("list", 16, 4, 1000),
    ("list", 256, 4, 1000),
    ("list", 900, 4, 1000),
    ("glimpse", 16, 4, 1000),
    ("glimpse", 256, 4, 1000),
    ("glimpse", 32, 64, 1000),
    ("open", 250, 4, 1),
    ("open", 1000, 4, 1),
    ("open", 1900, 4, 1),
    ("create", 250, 4, 1),
    ("create", 1900, 4, 1),
    ("each", 16, 64, 1),
    ("each", 64, 64, 1),
]
# Only for what memory a part takes.
MEMORY = [("locks", 256, 1, 1), ("locks", 1024, 1, 1), ("write", 16, 64, 1), ("write", 64, 64, 1)]
MEASURED = CALIBRATION + HELD + MEMORY
MODEL = HELD
# A site: machines of 16 processors, links of 10 Gb/s, a round trip of 100 us; each storm over clients, then over servers.
SITE = [
    *[(storm, clients, 1000, 1000) for storm in ("connect", "list", "open", "create") for clients in (100, 1000, 3000, 10_000)],
    # Where the system keeps more connections until they are accepted (net.core.somaxconn).
    ("connect", 10_000, 1000, 1000, "backlog=16384"),
    *[("each", clients, 1000, 1000) for clients in (100, 1000, 3000)],
    *[(storm, 10_000, servers, 1000) for storm in ("connect", "open", "each") for servers in (10, 100)],
    *[("glimpse", clients, 1000, 1000) for clients in (100, 1000)],
]
HERE = {"one_machine": 1, "processors": 2, "latency_ns": 10_000, "link_bits_per_s": 40_000_000_000}
THERE = {"one_machine": 0, "processors": 16, "latency_ns": 50_000, "link_bits_per_s": 10_000_000_000}


def name(shard, point):
    """The name of a point's line."""
    return " ".join(str(word) for word in (shard, *point))


def line(shard, point, fitted):
    """A point as the simulation reads it. `fitted` is costs by name."""
    storm, clients, servers, times, *words = point
    setting = {"storm": storm, "clients": clients, "servers": servers, "files": times, "datafiles": min(4, servers)}
    numbers = {**setting, **(HERE if shard == "model" else THERE), **fitted}
    return " ".join([*(f"{key}={value}" for key, value in numbers.items()), *words])
