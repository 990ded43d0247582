"""A scenario's fixture: its hosts, disks and server, and one run on it at a time.

Before every run the caches are put in the same state (and shown to be), as much memory is used as the run will need (a virtual
machine gives memory back that it has not used, and whoever needs it next waits for it), and the sink gets a name that was never
used. The command's time is from its start to its end; where it is recorded, the recording says both.
"""

import json
import os
import shutil
import subprocess
import threading
import time
from contextlib import ExitStack, contextmanager

from lab.harness.scenario import RECORDERS
from lab.harness.servers import Files, Mounted, Program, Store
from testbed import files, shell
from testbed.errors import Broken, NotRun
from testbed.links import Pair
from testbed.packages import missing
from testbed.paths import PROGRAMS, REPOSITORY
from testbed.processes import Process
from testbed.servers import SERVERS
from testbed.undoing import Undoing
from testbed.users import FOR_USER, NOBODY_ID

STORES = {"store": Store, "mount": Mounted}
SCRIPTS = os.path.join(REPOSITORY, "lab", "scripts")
RUN_TIMEOUT_S = 60
EXPLAIN_TIMEOUT_S = 120
# The boot of a host that is to be another machine's.
BOOT = "6d0f3c52-7a41-4c8e-9b1d-{:012x}"
NOBODY = ["setpriv", f"--reuid={NOBODY_ID}", f"--regid={NOBODY_ID}", "--clear-groups"]


class Run:
    """One run: what the faults may look at while it goes on, and what came of it."""

    def __init__(self, name, sink):
        self.name = name
        self.sink = sink
        self.process = None
        self.over = threading.Event()
        self.notes = []
        self.wall_s = None
        self.recording = None
        self.explanation = None
        self.explained_in_s = None
        self.clock = None

    def progress_bytes(self):
        """How much of the sink there is."""
        for path in (self.sink, f"{self.sink}.partial"):
            try:
                return os.stat(path).st_blocks * 512
            except OSError:
                continue
        return 0

    def client_pids(self):
        """The client's processes: those below the one we started, but for the recorder and what leads to it."""
        below = [self.process.pid]
        for pid in below:
            for thread in os.listdir(f"/proc/{pid}/task"):
                below += [int(word) for word in (shell.read(f"/proc/{pid}/task/{thread}/children") or "").split()]
        return [pid for pid in below if not _leads_to_client(pid)]


def _leads_to_client(pid):
    """Whether a process is one of ours around the client's."""
    words = (shell.read(f"/proc/{pid}/cmdline") or "").split("\0")
    return os.path.basename(words[0]) in ("timed", "nsenter", "sh", "unshare", "taskset") or words[1:2] == ["record"]


class Fixture(Undoing):
    """Entered once for a scenario; then `run` as often as wanted.

    With a `user` (of testbed/users) all that is run is that user's, the server too where it can be. `before` stands before a recorder's command.
    """

    def __init__(self, resources, scenario, user=None, before=lambda argv: argv):
        super().__init__()
        self.user = user
        self.before = before
        self.resources = resources
        self.scenario = scenario
        self.directory = os.path.join(resources.directory, scenario.name)
        self.network = None
        self.server = None
        self.groups = {"client": None, "server": None}
        self.runs = 0

    def _set_up(self):
        os.makedirs(self.directory)
        if self.user:
            self.user.give(self.directory)
        self.undo.callback(self.resources.empty_disks)
        self.undo.callback(shutil.rmtree, self.directory, ignore_errors=True)
        scenario = self.scenario
        absent = missing({program: program for program in scenario.needs})
        if absent:
            raise NotRun(f"not installed: {' '.join(absent)}")
        for who in ("client", "server"):
            if self._needs_group(who):
                self.groups[who] = self.resources.group(who)
        link = scenario.hosts["link"]
        self.network = Pair(link, self.resources.name, self.groups, self.resources.relay, self.directory)
        self.undo.callback(self.network.remove)
        self.network.make()
        self._set_clocks(scenario.hosts.get("clocks", {}))
        self.network.start_relay(scenario.hosts.get("relay", {}))
        if scenario.server.get("kind"):
            self.server = self._make_server(scenario.server)
            self._hand_over()
            self.server.start()
            self.undo.callback(self.server.stop)
        if "tree" in scenario.copy:
            of_store = isinstance(self.server, Store)
            parent = os.path.join(self.disk("source" if of_store else "server").path, "tree")
            tree = files.make_small_files(parent, scenario.copy["tree"], 4096, scenario.copy.get("tree_in", 100))
            if of_store:
                self.server.put_tree(tree, "tree")
        if scenario.copy["direction"] == "from" and isinstance(self.server, Store):
            self.server.put(self.client_source(), "source")

    def _set_clocks(self, told):
        for number, who in enumerate(("client", "server")):
            if who not in told and "boots" not in told:
                continue
            boot = os.path.join(self.directory, f"boot-of-{who}")
            with open(boot, "w") as out:
                out.write(BOOT.format(number) + "\n")
            setattr(self.network, who, self.host(who).ahead(told.get(who, 0), boot if "boots" in told else None))

    def _needs_group(self, who):
        return any(fault["kind"] == "cpu_quota" and fault.get("who") == who for fault in self.scenario.faults)

    def _make_server(self, told):
        kind, root, host = told["kind"], self.disk("server").path, self.network.server
        if "cpu" in told:
            host = host.pinned(told["cpu"])
        if self.servers_user:
            host = host.owned(self.servers_user)
        options = told.get("options", {})
        if kind in SERVERS:
            return Files(kind, self.directory, root, host, options)
        if kind in STORES:
            disks = [self.disk(name).path for name in options.get("disks", ["server"])]
            return STORES[kind](self.resources.thalweg, self.directory, disks, host, options)
        return Program(self.directory, root, host)

    @property
    def servers_user(self):
        """Whose the server is: the user's, or (None) root's."""
        return self.user if self.user and not self.scenario.roots_server else None

    def _hand_over(self):
        """Have the user own what root has made for the next run, but not what the user has mounted."""
        if self.user:
            self.user.give(self.directory, *(disk.path for disk in self.resources.disks.values()))

    # What faults ask for.

    def disk(self, name):
        """One of the lab's disks."""
        return self.resources.disk(name)

    def host(self, who):
        """`client` or `server`."""
        return self.network.client if who == "client" else self.network.server

    def group(self, who):
        """Its control group."""
        if self.groups[who] is None:
            raise NotRun(f"the {who} is in no control group")
        return self.groups[who]

    def server_pids(self):
        """The server's processes."""
        return self.server.pids()

    # One run.

    def client_source(self):
        """A file of the scenario's size on the client's disk."""
        return self.disk("source").file(f"source-{self.scenario.copy['size']}", self.scenario.size)

    def run(self, variant, recorded):
        """Run one variant; `Broken` when its command fails."""
        self.runs += 1
        name = f"{self.scenario.name}-{self.runs}"
        sink = self._sink_path(name)
        run = Run(name, sink)
        with ExitStack() as undo:
            if self.network.link == "relay":
                self.network.stop_relay()
                parameters = dict(self.scenario.hosts.get("relay", {}))
                for fault in variant.faults:
                    parameters.update(fault.relay())
                self.network.start_relay(parameters)
                undo.callback(lambda: run.notes.append(f"relay: {self.network.stop_relay()}"))
            words = self.words(name)
            self._hand_over()
            if isinstance(self.server, Program):
                self.server.begin([word.format(**words) for word in variant.server_command], self._for_user())
                undo.callback(self.server.stop)
            if isinstance(self.server, Mounted):
                undo.callback(self.server.unmount)
                self.server.mount(self.network.client.owned(self.servers_user))
            undo.callback(self._remove_sink, name)
            cold_share = self._prepare_caches()
            for fault in variant.faults:
                undo.enter_context(fault.applied(self))
            argv = self._in_own_namespace([word.format(**words) for word in variant.command])
            self._execute(run, variant, argv, recorded)
            run.notes += [f"cold: {cold_share:.0%} of the source in memory"] if cold_share else []
            self._check(run)
        return run

    def _for_user(self):
        """The environment of a server that is root's: whom it makes its files for."""
        return {**os.environ, FOR_USER: str(self.user.number)} if self.user and not self.servers_user else None

    def _in_own_namespace(self, argv):
        """The command; what has mounts of its own has them, as an ordinary user, in a namespace of users of its own."""
        return ["unshare", "--map-root-user", *argv[1:]] if self.user and argv[0] == "unshare" else argv

    def words(self, name):
        """What stands in braces in a command."""
        scenario = self.scenario
        words = {
            "name": name,
            "size": str(scenario.size),
            "lab": PROGRAMS,
            "thalweg": self.resources.thalweg,
            "directory": self.directory,
            "scripts": SCRIPTS,
            "recording": os.path.join(self.resources.recordings, f"{name}.thw"),
        }
        if scenario.copy["direction"] == "from":
            words |= {"sink": os.path.join(self.disk("sink").path, name)}
            if self.server:
                name = self._server_source()
                words |= {"url": self.server.url(name), "source_name": name, "server_source": self.server.path(name)}
        else:
            words |= {"source": self.client_source(), "sink": os.path.join(self.disk("sink").path, name)}
            if self.server:
                words |= {"url": self.server.url(name)}
        if "tree" in scenario.copy:
            words["tree_url"] = self.server.url("tree" if isinstance(self.server, Store) else "tree/files")
        if self.server:
            words |= {"server_path": os.path.join(self.disk("server").path, name), **self.server.words()}
        return words

    def _server_source(self):
        if isinstance(self.server, Store):
            return "source"
        return os.path.basename(self.disk("server").file(f"source-{self.scenario.copy['size']}", self.scenario.size))

    def _sink_path(self, name):
        if self.scenario.copy["direction"] == "to":
            return self.server.path(name) or ""
        return os.path.join(self.disk("sink").path, name)

    def _prepare_caches(self):
        copy = self.scenario.copy
        for disk in self.resources.disks.values():
            disk.sync()
        from_server = copy["direction"] == "from"
        if from_server and isinstance(self.server, Store):
            self.server.cold() if copy.get("cold") else None
            share = 0
        else:
            path = self.server.path(self._server_source()) if from_server else self.client_source()
            share = files.make_cold(path) if copy.get("cold") else 0
            files.warm([path]) if not copy.get("cold") else None
        files.use_memory(os.path.join(self.resources.directory, "memory"), 2 * self.scenario.size + (64 << 20))
        return share

    def _execute(self, run, variant, argv, recorded):
        group = self.groups["client"]
        if "cpu" in self.scenario.copy:
            argv = ["taskset", "-c", str(self.scenario.copy["cpu"]), *argv]
        timing = os.path.join(self.directory, "took_ns")
        if not recorded:
            argv = [os.path.join(PROGRAMS, "timed"), timing, *(group.joined(argv) if group else argv)]
        if recorded and not any("{recording}" in word for word in variant.command):
            argv = group.joined(argv) if group else argv
            argv = self.before([*self._record_words(run, variant), "--", *argv])
        elif self.user:
            argv = self.user.argv(argv, self._credential())
        argv = self.network.client.inside(argv)
        log_path = os.path.join(self.directory, "client.log")
        acting = []
        with self._server_recorded(run, variant, recorded), open(log_path, "wb") as log:
            begun = time.perf_counter()
            run.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory)
            # Waiting with a timeout polls, and so rounds times up; killing it from a timer does not.
            too_long = threading.Timer(RUN_TIMEOUT_S, run.process.kill)
            too_long.start()
            try:
                for fault in variant.faults:
                    acting.append(threading.Thread(target=fault.during, args=(self, run)))
                    acting[-1].start()
                code = run.process.wait()
                outside_s = time.perf_counter() - begun
            except BaseException:
                run.process.kill()
                run.process.wait()
                raise
            finally:
                too_long.cancel()
                run.over.set()
                for thread in acting:
                    thread.join()
        if code != 0:
            if outside_s >= RUN_TIMEOUT_S:
                raise Broken(f"{' '.join(argv)}: still running after {RUN_TIMEOUT_S} s")
            raise Broken(f"{' '.join(argv)}: exit code {code}: {shell.last_line(shell.read(log_path))}")
        if recorded:
            run.recording = os.path.join(self.resources.recordings, f"{run.name}.thw")
            run.wall_s = _recorded_wall_s(run.recording)
            if self._records_itself:
                self._merge(run)
        else:
            run.wall_s = int(shell.read(timing)) / 1e9

    def _record_words(self, run, variant):
        record = self.scenario.record
        words = [self.resources.thalweg, "record", "-o", os.path.join(self.resources.recordings, f"{run.name}.thw")]
        # Who serves a mounted store the recorder finds by itself.
        method, unprivileged = RECORDERS.get(variant.recorder, (self.resources.method, False))
        method = self.resources.method or method
        may_look = self.servers_user if self.user else not unprivileged
        if self.scenario.server.get("recorded") is True and self.server and not isinstance(self.server, Mounted) and may_look:
            words += [word for pid in self.server_pids() for word in ("--also", str(pid))]
        if method:
            words += ["--method", method]
        if "tier" in record and method in (None, "bpf"):
            words += ["--tier", record["tier"]]
        if record.get("ceilings"):
            words += ["--ceilings", self._ceilings(record["ceilings"])]
        words += ["--only"] if self._records_itself else []
        words += record.get("flags", [])
        for fault in variant.faults:
            words += fault.record_flags()
        if record.get("cpu") is not None:
            words = ["taskset", "-c", str(record["cpu"]), *words]
        if self.user:
            return self.user.argv(words, self._credential())
        return [*self._as_nobody(), *words] if unprivileged else words

    def _credential(self):
        """The user's own variables: a store is known by its credential."""
        return [f"THALWEG_CREDENTIAL={self.server.store.credential()}"] if isinstance(self.server, Store) else []

    def _as_nobody(self):
        """What starts a command as `nobody`, who has no credential of a store but a copy."""
        of_store = isinstance(self.server, Store) and not isinstance(self.server, Mounted)
        return [*NOBODY, *(["env", f"THALWEG_CREDENTIAL={self.server.store.credential(NOBODY_ID)}"] if of_store else [])]

    @property
    def _records_itself(self):
        return self.scenario.server.get("recorded") == "itself"

    @contextmanager
    def _server_recorded(self, run, variant, recorded):
        """Meanwhile the server is recorded on its own host, as on another machine."""
        if not (recorded and self._records_itself):
            yield
            return
        method, _ = RECORDERS.get(variant.recorder, (self.resources.method, False))
        method = self.resources.method or method
        words = [self.resources.thalweg, "record", "-o", self._server_recording(run), "--only", "--server", "--port", str(self.server.port)]
        log = os.path.join(self.directory, "server-recorder.log")
        files.remove(log)
        words += ["--method", method] if method else []
        words = self.before(self.servers_user.argv(words)) if self.servers_user else words
        recorder = Process(words, log, self.network.server)
        try:
            recorder.wait_for_word("the server's recorder", "recording", failure=Broken)
            yield
        finally:
            recorder.stop()

    def _server_recording(self, run):
        return os.path.join(self.resources.recordings, f"{run.name}-server.thw")

    def _merge(self, run):
        """Have one recording of the client's and the server's, and see how far from the truth the server's clock was put."""
        parts, merged = [run.recording, self._server_recording(run)], os.path.join(self.resources.recordings, f"{run.name}-merged.thw")
        argv = [self.resources.thalweg, "merge", *parts, "-o", merged, "--json"]
        told = json.loads(shell.run(*(self.user.argv(argv) if self.user else argv), failure=Broken))
        for part in parts:
            shutil.rmtree(part)
        run.recording = merged
        clocks, server = self.scenario.hosts.get("clocks", {}), told["parts"][1]
        true_ns = (clocks.get("client", 0) - clocks.get("server", 0)) * 1_000_000_000
        off_ns = abs(server["offset_ns"] - true_ns)
        run.clock = {"from": server["clock_from"], "off_ns": off_ns, "error_ns": server["error_ns"]}

    def _ceilings(self, disks):
        """A file of what these disks can do, slowed as they are now, as `thalweg doctor --ceilings` measures it; measured once."""
        path = os.path.join(self.directory, "ceilings.json")
        if not os.path.exists(path):
            words = [word for name in disks for word in ("--path", self.disk(name).path)]
            argv = [self.resources.thalweg, "doctor", "--ceilings", *words]
            told = shell.run(*(self.user.argv(argv) if self.user else argv))
            with open(path, "w") as out:
                out.write(told)
        return path

    def explain(self, run):
        """Have the recording explained; how long that took is kept beside the document."""
        begun = time.perf_counter()
        argv = [self.resources.thalweg, "explain", run.recording, "--json"]
        argv = self.user.argv(argv) if self.user else argv
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=EXPLAIN_TIMEOUT_S, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Broken(f"thalweg explain: exit code {done.returncode}: {shell.last_line(done.stderr)}")
        run.explanation = json.loads(done.stdout)
        if run.clock:
            run.explanation["lab_clock"] = run.clock
        run.explained_in_s = time.perf_counter() - begun

    def _check(self, run):
        """What was copied is whole: its size each time, its bytes the first time."""
        if not self.scenario.copy.get("checked", True) or not run.sink:
            return
        size = os.path.getsize(run.sink) if os.path.exists(run.sink) else None
        if size != self.scenario.size:
            raise Broken(f"{run.sink}: {size} bytes arrived of {self.scenario.size}")
        if self.runs == 1:
            from_server = self.scenario.copy["direction"] == "from"
            source = self.server.path(self._server_source()) if from_server else self.client_source()
            if source and not files.same_bytes(source, run.sink):
                raise Broken(f"{run.sink}: other bytes than the source's")

    def _remove_sink(self, name):
        if self.scenario.copy["direction"] == "to" and self.server:
            self.server.remove(name)
        path = os.path.join(self.disk("sink").path, name)
        if os.path.exists(path):
            os.unlink(path)


def _recorded_wall_s(recording):
    with open(os.path.join(recording, "meta.json")) as source:
        meta = json.load(source)
    return (meta["end"] - meta["start"]) / 1e9

