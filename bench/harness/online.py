"""What is measured of tuning while data moves: cases on a store behind a door that is as narrow as a case wants, on a link that two share, and on
loopback.

A case is a function that is given a program and returns a line: `figures` (each a number with its unit in its name), `ratio` with `interval` where
there is one, `asked` in words, and `met`.
"""

import json
import math
import os
import signal
import statistics
import subprocess
import time
from contextlib import ExitStack, contextmanager

from testbed import shell
from testbed.campaign import Campaign, Item
from testbed.errors import Broken
from testbed.hosts import LOOPBACK
from testbed.links import DEVICE, Bridge, Pair
from testbed.paths import REPOSITORY
from testbed.processes import Process
from testbed.results import RAW, Results
from testbed.scratch import Scratch
from testbed.store import Store
from testbed.undoing import Undoing

PREFIX = "thalweg-online"
RESULTS = os.path.join(REPOSITORY, "bench", "online", "results.jsonl")
DOOR = os.path.join(REPOSITORY, "bench", "online", "door")
MEGABYTE = 1_000_000
# Student's t for 95 % and so many ratios less one.
T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
# A source that outlasts every run: it is stopped.
ENDLESS = "memory:1Ti"

# In clear: what a tuner is held against is the door, and not ciphers; and behind it the server listens on loopback.
STORE = """store = "5f0c1d2e3a4b5968"
plain = true

[metadata]
address = "{metadata}"
directory = "metadata"

[[servers]]
name = "io0"
address = "{server}"
targets = ["io0/target0"]
"""


def environment(state, credential):
    """A state directory of its own, in which no tuning was remembered and no credential is."""
    return {**os.environ, "XDG_STATE_HOME": state, "THALWEG_CREDENTIAL": credential, "NO_COLOR": "1"}


class Behind(Undoing):
    """A client, and a store whose only I/O server is behind a door: two network namespaces and a link."""

    def __init__(self, program):
        super().__init__()
        self.program = program
        self.scratch = Scratch(PREFIX)

    def _set_up(self):
        self.undo.enter_context(self.scratch)
        pair = Pair("veth", self.scratch.name, {"client": None, "server": None}, None, self.scratch.directory)
        self.undo.callback(pair.remove)
        pair.make()
        self.client, self.server = pair.hosts
        self._start()

    def inside(self, name):
        return os.path.join(self.scratch.directory, name)

    def _start(self):
        """Two descriptions of one store: in the one that clients get, the server is where the door is."""
        addresses = {"metadata": f"{self.server.address}:7400", "shown": f"{self.server.address}:7401", "true": "127.0.0.1:7402"}
        for name, at in (("shown.toml", "shown"), ("true.toml", "true")):
            with open(self.inside(name), "w", encoding="utf-8") as out:
                out.write(STORE.format(metadata=addresses["metadata"], server=addresses[at]))
        self.rules({})
        self._serve([self.program, "serve", "--store", self.inside("true.toml"), "--name", "io0", "--initialise"], "io0", "io0 ")
        self._serve([DOOR, addresses["shown"], addresses["true"], self.inside("rules.json"), self.inside("door.jsonl")], "door", "ready")
        metadata = [self.program, "serve", "--store", self.inside("shown.toml"), "--name", "metadata", "--initialise", "--beyond-loopback"]
        self._serve(metadata, "metadata", "metadata ")
        self.address = f"thal://{addresses['metadata']}#plain"

    def _serve(self, argv, name, word):
        log = self.inside(f"{name}.log")
        process = Process(argv, log, self.server)
        self.undo.callback(process.stop)
        process.wait_until(name, lambda: word in process.output(), Broken)

    def rules(self, rules):
        """From now on the door is so narrow."""
        draft = self.inside("rules.new")
        with open(draft, "w", encoding="utf-8") as out:
            json.dump(rules, out)
        os.rename(draft, self.inside("rules.json"))

    def environment(self):
        """A history that begins with each run."""
        return environment(self.inside(f"state-{time.monotonic_ns()}"), self.inside("store.credential"))

    def command(self, *arguments):
        return self.client.argv([self.program, "cp", *arguments])

    @contextmanager
    def copying(self, *flags):
        """A copy without an end, which is stopped; its table is kept."""
        argv = self.command(*flags, "--source", ENDLESS, f"{self.address}/endless")
        log = open(self.inside("copy.log"), "ab")
        process = subprocess.Popen(argv, stdout=log, stderr=log, env=self.environment(), start_new_session=True)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
            log.close()

    def copy_s(self, size, *flags):
        """The seconds that a copy of so many bytes takes, as it says itself."""
        argv = self.command("--json", "--force", *flags, "--source", f"memory:{size}", f"{self.address}/file")
        done = subprocess.run(argv, capture_output=True, text=True, env=self.environment(), check=False, timeout=200)
        if done.returncode != 0:
            raise Broken(f"cp: {shell.last_line(done.stderr)}")
        return json.loads(done.stdout)["elapsed_s"]

    def looks(self):
        """What the door has seen: the clock, bytes and connections."""
        with open(self.inside("door.jsonl"), encoding="utf-8") as lines:
            return [json.loads(line) for line in lines if line.endswith("\n")]

    def table(self):
        """The tables of the copies, for people."""
        return [line for line in (shell.read(self.inside("copy.log")) or "").splitlines() if " > " in line or line.startswith("at the end")]


def rate(looks, from_s, to_s):
    """Bytes per second between two moments of the clock."""
    within = [look for look in looks if from_s <= look["at"] <= to_s]
    return (within[-1]["bytes"] - within[0]["bytes"]) / (within[-1]["at"] - within[0]["at"])


def reached_s(looks, since_s, wanted, for_s=1.0):
    """How long after a moment goodput was so much, and stayed for a while; None: never."""
    ends = [look["at"] for look in looks if look["at"] > since_s]
    for at in ends:
        if at + for_s > ends[-1]:
            return None
        if rate(looks, at, at + for_s) >= wanted:
            return at - since_s
    return None


def after(looks, changed, wanted):
    """The same since a change at the door, of which the first second shows what was under way; so at least 1."""
    found = reached_s(looks, changed + 1.0, wanted)
    return None if found is None else found + 1.0


def interval(ratios):
    """The geometric mean of ratios, and its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    half = T[len(logs) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), [math.exp(mean - half), math.exp(mean + half)]


def wait(seconds):
    """Lets a copy run for so long: what is measured is what it does meanwhile."""
    time.sleep(seconds)


def per_connection(program, repetitions=2):
    """Each connection brings in 40 MB/s at most, all together 280: what is reached after 20 s, against one stream."""
    reached, alone = [], []
    with Behind(program) as behind:
        behind.rules({"each": 40 * MEGABYTE, "total": 280 * MEGABYTE})
        for _ in range(repetitions):
            with behind.copying("--tune"):
                begun = time.monotonic()
                wait(28)
            reached.append(rate(behind.looks(), begun + 20, begun + 28))
            with behind.copying():
                begun = time.monotonic()
                wait(6)
            alone.append(rate(behind.looks(), begun + 2, begun + 6))
        ratio, within = interval([one / other for one, other in zip(reached, alone, strict=True)])
        figures = {"bytes_per_s": statistics.median(reached), "one_stream_bytes_per_s": statistics.median(alone)}
        return {"asked": "the gain is found", "figures": figures, "ratio": ratio, "interval": within, "met": within[0] > 2.0, "steps": behind.table()}


def throttled(program, repetitions=2):
    """At 20 s the server begins to throttle clients with more than four connections to what one gets: how soon half of what four give is there."""
    times, fractions = [], []
    with Behind(program) as behind:
        for _ in range(repetitions):
            behind.rules({"each": 40 * MEGABYTE, "total": 320 * MEGABYTE})
            with behind.copying("--tune"):
                wait(20)
                changed = time.monotonic()
                behind.rules({"each": 40 * MEGABYTE, "total": 320 * MEGABYTE, "above": 4, "throttled": 40 * MEGABYTE})
                wait(20)
            looks = behind.looks()
            # What was under way comes first.
            times.append(after(looks, changed, 80 * MEGABYTE))
            fractions.append(rate(looks, changed + 8, changed + 20) / (160 * MEGABYTE))
        seconds = [math.inf if one is None else one for one in times]
        figures = {"half_back_s": times, "of_four_connections": fractions}
        return {"asked": "half the rate back in 5 s", "figures": figures, "met": max(seconds) <= 5.0, "steps": behind.table()}


def capped(program, pairs=5):
    """100 MB/s whatever one does: a tuned copy against one with one stream, in turn."""
    with Behind(program) as behind:
        behind.rules({"total": 100 * MEGABYTE})
        size = 1200 * MEGABYTE
        ratios = []
        for number in range(pairs):
            order = ("--tune", "--quiet") if number % 2 else ("--quiet", "--tune")
            took = {flag: behind.copy_s(size, flag) for flag in order}
            ratios.append(took["--quiet"] / took["--tune"])
        ratio, within = interval(ratios)
        return {"asked": "at least 0.98 of one stream", "ratio": ratio, "interval": within, "ratios": ratios, "met": ratio >= 0.98}


def moved(program, repetitions=2):
    """At 20 s connections become eight times as slow, and the path stays as wide: how soon 0.8 of it is there again."""
    times = []
    with Behind(program) as behind:
        for _ in range(repetitions):
            behind.rules({"each": 160 * MEGABYTE, "total": 160 * MEGABYTE})
            with behind.copying("--tune"):
                wait(20)
                changed = time.monotonic()
                behind.rules({"each": 20 * MEGABYTE, "total": 160 * MEGABYTE})
                wait(34)
            times.append(after(behind.looks(), changed, 0.8 * 160 * MEGABYTE))
        seconds = [math.inf if one is None else one for one in times]
        return {"asked": "found again in 30 s", "figures": {"found_s": times}, "met": max(seconds) <= 30.0, "steps": behind.table()}


def shared(program, repetitions=1):
    """Two tuned copies from two machines to one server behind a link of 800 Mb/s: Jain's index of what each brought in from 5 s to 45 s."""
    indexes, rates = [], []
    for _ in range(repetitions):
        with Scratch(PREFIX) as scratch, Bridge(scratch.name, ["server", "one", "other"], 800e6) as bridge:
            server, *clients = bridge.hosts
            log = os.path.join(scratch.directory, "up.log")
            with Store(program, [os.path.join(scratch.directory, "store")], log, server, ["--plain"]) as store:
                history = environment(os.path.join(scratch.directory, "state"), store.credential())
                with ExitStack() as running:
                    for number, client in enumerate(clients):
                        argv = client.argv([program, "cp", "--tune", "--quiet", "--source", ENDLESS, store.url(f"file{number}")])
                        copy = subprocess.Popen(argv, env=history, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                        running.callback(copy.wait, 60)
                        running.callback(copy.send_signal, signal.SIGINT)
                    wait(5)
                    before = [sent_bytes(client) for client in clients]
                    wait(40)
                    sent = [sent_bytes(client) - first for client, first in zip(clients, before, strict=True)]
        indexes.append(sum(sent) ** 2 / (len(sent) * sum(one**2 for one in sent)))
        rates.append([one / 40 for one in sent])
    return {"asked": "Jain's index of at least 0.95", "figures": {"jain": indexes, "bytes_per_s": rates}, "met": min(indexes) >= 0.95}


def sent_bytes(host):
    """What a host has sent so far. (Not from /sys, which is that of the machine's own network.)"""
    return json.loads(host.run("ip", "-s", "-j", "link", "show", "dev", DEVICE))[0]["stats64"]["tx"]["bytes"]


def loopback(program, pairs=6):
    """A file of a store on this machine, in memory, where processors are the limit: a tuned copy to nowhere against one as it comes, in turn. It is read and
    not written: memory that a file gets for the first time costs more than any tuner, and another time less.
    """
    ratios, size = [], 8 << 30
    with Scratch(PREFIX) as scratch:
        log = os.path.join(scratch.directory, "up.log")
        with Store(program, [os.path.join(scratch.directory, "store")], log, LOOPBACK) as store:
            history = environment(os.path.join(scratch.directory, "state"), store.credential())
            subprocess.run([program, "cp", "--quiet", "--source", f"memory:{size}", store.url("file")], check=True, timeout=200)
            for number in range(pairs):
                took = {}
                for flag in ("--tune", "--quiet") if number % 2 else ("--quiet", "--tune"):
                    argv = [program, "cp", "--json", flag, "--sink", "null", store.url("file")]
                    done = subprocess.run(argv, capture_output=True, text=True, env=history, check=False, timeout=200)
                    if done.returncode != 0:
                        raise Broken(f"cp: {shell.last_line(done.stderr)}")
                    took[flag] = json.loads(done.stdout)["elapsed_s"]
                ratios.append(took["--quiet"] / took["--tune"])
    ratio, within = interval(ratios)
    return {"asked": "at least 0.98 of one that is not tuned", "ratio": ratio, "interval": within, "ratios": ratios, "met": ratio >= 0.98}


CASES = {
    "per-connection": per_connection,
    "throttled": throttled,
    "capped": capped,
    "moved": moved,
    "shared": shared,
    "loopback": loopback,
}


class Online(Campaign):
    """The cases as a campaign; each takes three minutes at most."""

    name = "online"
    flags = ("program",)
    quick = None
    root = "only root may make network namespaces"
    place = "/dev/shm"

    def items(self):
        return [Item(name, case.__doc__.splitlines()[0]) for name, case in CASES.items()]

    def results(self, path=None):
        return Results(path or RESULTS, "case", "thalweg.online/1", raw=None if path else os.path.join(RAW, "bench", "online"))

    def measure(self, item):
        return CASES[item.name](self.program)

    def line(self, document):
        return {key: value for key, value in document.items() if key != "steps"}

    def show(self):
        """A line for each case; 1 when something that was measured is not as asked."""
        lines, met = self.table.all(), True
        for name in CASES:
            line = lines.get(name)
            if not line or line["state"] != "done":
                print(f"{name:16} {line['reason'] if line else 'not measured'}")
                met = met and not line
                continue
            met = met and line["met"]
            ratio = f"{line['ratio']:.3f} ({line['interval'][0]:.3f} to {line['interval'][1]:.3f})" if "ratio" in line else ""
            figures = " ".join(f"{key}={value}" for key, value in line.get("figures", {}).items())
            print(f"{name:16} {'met' if line['met'] else 'MISSED'}  {line['asked']}: {ratio} {figures}")
        return 0 if met else 1
