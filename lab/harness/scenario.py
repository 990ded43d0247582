"""A scenario: one TOML file, read and checked before anything is started.

    title = "..."                  one line
    needs = [...]                  programs without which it cannot run
    recorders = [...]              which other recorders are tried on it, of RECORDERS (the usual ones, but where the scenario is about a recorder)
    story = "..."                  what happens, and why the answer must be what it is

    [hosts]                        link = none | veth | relay; relay = {delay, rate, loss, ...}; clocks = {client, server: so many
                                   seconds ahead of the machine's; boots: 2 makes them two machines' clocks}
    [copy]                         size; direction = local | to | from; command; cold; cpu; checked; tree (small files at the server), tree_in (so many to a
                                   directory, 100; the first is 0000)
    [server]                       kind (a name in testbed/servers, `store`, `mount` (a mounted store) or `program`); recorded (`reached`: by nobody's asking, since
                                   it is on the client's machine; `itself`: in a recording of its own, which is merged with the client's); cpu;
                                   command (of a program); options (of a store: servers, disks; of a mount also flags, mounts)
    [record]                       tier, flags (of `thalweg record`), ceilings (of which disks), cpu, all (also of the baseline)
    [[faults]]                     kind (a file in lab/faults) and its parameters; the baseline runs without any of them
    [expect]                       causes, one for each fault (alternatives with |), where (what the place of the first cause's largest charge, and the
                                   sentence, must hold: one text, or a list of alternatives), serial, status, number (the kind of the first number behind the rate;
                                   alternatives with |)
    [predict]                      id of the what-if; what the re-run changes: faults = [{parameters}, ...], or command, or nothing:
                                   then it is the baseline. advised = true: the command that the fault's explanation gives for that what-if is
                                   run, to the letter, with what is said to change of the faults (`command` where there is no explanation)
    [user]                         where all of it is an ordinary user's (harness/ordinary.py): server = why it stays root's; cannot = why such a user cannot run it;
                                   where = what of the place such a user can know, instead of expect's

A command is a list of words in which {source}, {sink}, {url}, {size}, ... stand for the run's own (`Fixture.words` has them all).
"""

import os
import tomllib
from dataclasses import dataclass, field

from lab.faults import FAULTS
from testbed.units import size_bytes

LINKS = ("none", "veth", "relay")
DIRECTIONS = ("local", "to", "from")
# The other recorders: what `--method` calls them (None: the best one that there is), and whether they run without privilege.
RECORDERS = {"preload": ("preload", False), "proc": ("proc", False), "proc-unprivileged": ("proc", True), "unprivileged": (None, True), "user": ("user", True)}
# Those that a scenario is tried with unless its file names others.
USUAL = ("preload", "proc", "proc-unprivileged")
# Servers that nobody but root can run, and why.
ROOTS_SERVERS = {"nfs": "NFS-Ganesha opens files by handle, which only root may"}
KEYS = {
    "": {"title", "recorders", "story", "short", "needs", "hosts", "copy", "server", "record", "faults", "expect", "predict", "user"},
    "hosts": {"link", "relay", "clocks"},
    "copy": {"size", "direction", "command", "cold", "cpu", "checked", "tree", "tree_in"},
    "server": {"kind", "recorded", "cpu", "command", "options"},
    "record": {"tier", "flags", "ceilings", "cpu", "all"},
    "expect": {"causes", "where", "serial", "status", "share", "number"},
    "predict": {"id", "faults", "command", "server_command", "none", "advised"},
    "user": {"server", "cannot", "where"},
}


@dataclass
class Variant:
    """One way in which the scenario is run: with which faults, by which command."""

    name: str
    faults: list
    command: list
    server_command: list = None
    # Another recorder than the best, by its name in RECORDERS.
    recorder: str = None


@dataclass
class Scenario:
    """What a file says. `expect.causes[i]` is the cause of fault i, as a set of acceptable names."""

    name: str
    title: str
    story: str
    hosts: dict
    copy: dict
    server: dict
    record: dict
    expect: dict
    predict: dict
    user: dict
    faults: list
    short: bool = False
    needs: list = field(default_factory=list)
    recorders: list = field(default_factory=list)
    causes: list = field(default_factory=list)

    @property
    def size(self):
        """How many bytes are moved."""
        return size_bytes(self.copy["size"])

    @property
    def places(self):
        """What of the place must be named: alternatives, or none."""
        where = self.expect.get("where", [])
        return [where] if isinstance(where, str) else where

    @property
    def roots_server(self):
        """Why its server stays root's where the rest is an ordinary user's; None: it is that user's, or there is none."""
        return self.user.get("server") or ROOTS_SERVERS.get(self.server.get("kind"))

    def variants(self):
        """The runs of one repetition, by name: `fault`, `baseline`, one `without-N` for each of several faults, and `change`."""
        base = self.copy["command"]
        serving = self.server.get("command")
        made = [Variant("fault", self._faults({}), self._command(base, self.faults, "command"), serving)]
        made[0].server_command = self._command(serving, self.faults, "server_command")
        if self.faults:
            made.append(Variant("baseline", [], base, serving))
        if len(self.faults) > 1:
            for at in range(len(self.faults)):
                rest = self.faults[:at] + self.faults[at + 1 :]
                command = self._command(base, rest, "command")
                made.append(Variant(f"without-{at}", [_fault(kind) for kind in rest], command, self._command(serving, rest, "server_command")))
        if "id" in self.predict:
            made.append(self._change(base, serving))
        return made

    def _change(self, base, serving):
        """The run that a prediction is held against: parameters changed, or the command, or (neither) the baseline."""
        overrides = self.predict.get("faults")
        changed = [] if overrides is None else [{**fault, **over} for fault, over in zip(self.faults, overrides, strict=True)]
        if overrides is None and ("command" in self.predict or "server_command" in self.predict):
            changed = [dict(fault) for fault in self.faults]
        kept = [fault for fault in changed if not fault.pop("removed", False)]
        command = self.predict.get("command") or self._command(base, kept, "command")
        server_command = self.predict.get("server_command") or self._command(serving, kept, "server_command")
        return Variant("change", [_fault(fault) for fault in kept], command, server_command)

    def _faults(self, _):
        return [_fault(fault) for fault in self.faults]

    @staticmethod
    def _command(base, faults, kind):
        """The command as a fault of kind `command` (or `server_command`) has it, or as it is."""
        for fault in faults:
            if fault["kind"] == kind:
                base = fault["command"]
        return base


def _fault(description):
    parameters = {key: value for key, value in description.items() if key != "kind"}
    return FAULTS[description["kind"]](**parameters)


def load(path):
    """Read a scenario; `ValueError` names the file and what is wrong in it."""
    name = os.path.splitext(os.path.basename(path))[0]
    with open(path, "rb") as source:
        told = tomllib.load(source)
    try:
        return _checked(name, told)
    except (KeyError, TypeError, ValueError) as reason:
        raise ValueError(f"{path}: {reason!r}") from None


def _checked(name, told):
    for section, allowed in KEYS.items():
        unknown = set(told if not section else told.get(section, {})) - allowed
        if unknown:
            raise ValueError(f"[{section}] has no {', '.join(sorted(unknown))}")
    sections = {key: told.get(key, {}) for key in ("hosts", "copy", "server", "record", "expect", "predict", "user")}
    sections["hosts"].setdefault("link", "none")
    sections["copy"].setdefault("direction", "local")
    sections["server"].setdefault("recorded", True)
    if sections["hosts"]["link"] not in LINKS or sections["copy"]["direction"] not in DIRECTIONS:
        raise ValueError("hosts.link or copy.direction is none of those there are")
    if set(sections["hosts"].get("clocks", {})) - {"client", "server", "boots"}:
        raise ValueError("hosts.clocks has client, server and boots")
    made = Scenario(name, told["title"], told["story"], faults=told.get("faults", []), short=told.get("short", False), needs=told.get("needs", []), **sections)
    made.causes = [set(cause.split("|")) for cause in made.expect["causes"]]
    if made.faults and len(made.causes) != len(made.faults):
        raise ValueError("as many causes are expected as there are faults")
    if "id" not in made.predict and "none" not in made.predict:
        raise ValueError("[predict] needs an id, or `none` with the reason why nothing can be predicted")
    # A command that records itself, and one whose fault is the recorder, say nothing of another recorder.
    own = any("{recording}" in word for word in made.copy["command"]) or any("recorder" in causes for causes in made.causes)
    # Only the kernel's recorder and /proc see a server that runs already, of whoever's it is.
    able = ["proc"] if made.server["recorded"] == "itself" else list(USUAL)
    made.recorders = told.get("recorders", [] if own else able)
    if own and not made.user:
        made.user["cannot"] = "it is about another recorder: the command records itself, or the fault is the recorder"
    if set(made.recorders) - set(RECORDERS):
        raise ValueError(f"recorders are {', '.join(RECORDERS)}")
    made.variants()
    return made


def load_all(directory, names=None):
    """All scenarios of a directory in order of their names, or those named."""
    there = sorted(entry[:-5] for entry in os.listdir(directory) if entry.endswith(".toml"))
    missing = set(names or []) - set(there)
    if missing:
        raise ValueError(f"no such scenario: {', '.join(sorted(missing))}; --list names them")
    return [load(os.path.join(directory, f"{name}.toml")) for name in there if not names or name in names]
