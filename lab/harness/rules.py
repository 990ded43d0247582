"""Trivial rules, scored beside the explanations on the same faults: a laboratory that a rule can pass proves little.

`Watch` reads, while a run with the fault goes on, what anybody can read; each rule names one cause from that, and its place. `best`
is the order of the rules, and the least strength at which each speaks, that would have been right most often: chosen afterwards, and so
more than anybody who does not know the answers could have.
"""

import os
import re
from itertools import permutations

from lab.faults.base import Fault
from testbed import shell

SAMPLE_S = 0.2
LIMITED = re.compile(r"\b(busy|rwnd_limited|sndbuf_limited):(\d+)ms")
LEASTS = (0.01, 0.1, 0.3, 0.5, 0.7)
# Programs of the laboratory itself: its disks, its links, the command that leads to the client.
OURS = {"slowdisk", "thalweg-relay", "timed"}


class Watch(Fault):
    """Not a fault: it only looks. `readings` is what it saw of the run."""

    def __init__(self):
        self.readings = None

    def during(self, fixture, run):
        """Read before and after, and in between what ends with its process or connection."""
        hosts = {host.namespace: host for host in (fixture.network.client, fixture.network.server)}.values()
        servers = fixture.server_pids() if fixture.server else []
        roles = {os.path.basename(disk.device): "server" for name, disk in fixture.resources.disks.items() if name.startswith("server")}
        devices, sent_again = _devices(), sum(map(_sent_again, hosts))
        first_cpu, first_limited = _cpu(), _limited(hosts)
        cpu, limited = dict(first_cpu), dict(first_limited)
        while not run.over.wait(SAMPLE_S):
            cpu.update(_cpu())
            limited.update(_limited(hosts))
        mine = (os.getpid(), run.process.pid)
        spent = [(pid, name, used - first_cpu.get(pid, ("", 0.0))[1]) for pid, (name, used) in cpu.items() if name not in OURS and pid not in mine]
        self.readings = {
            "devices": [
                {"name": name, "role": roles.get(name, "client"), **{what: value - devices.get(name, {}).get(what, 0.0) for what, value in now.items()}}
                for name, now in _devices().items()
            ],
            "retransmitted": sum(map(_sent_again, hosts)) - sent_again,
            "connections": [
                {what: value - first_limited.get(key, {}).get(what, 0.0) for what, value in now.items()} for key, now in limited.items()
            ],
            "processes": [{"name": name, "role": "server" if pid in servers else "client", "cpu": used} for pid, name, used in spent],
        }


def busiest_device(readings):
    """The device with the most busy time, at its client or server."""
    found = max(readings["devices"], key=lambda device: device["busy"], default=None)
    if found is None:
        return None
    return f"{found['role']}.{'read' if found['read'] >= found['write'] else 'write'}", found["name"], found["busy"]


def retransmissions(readings):
    """Anything that was sent again is loss."""
    return ("network.loss", "network", float("inf")) if readings["retransmitted"] > 0 else None


def limited_times(readings):
    """What TCP says held its busiest connection."""
    found = max(readings["connections"], key=lambda connection: connection["busy"], default=None)
    if found is None:
        return None
    parts = {"network.rwnd": found["rwnd_limited"], "network.sndbuf": found["sndbuf_limited"]}
    parts["network.bandwidth"] = found["busy"] - sum(parts.values())
    cause = max(parts, key=parts.get)
    return cause, "network", parts[cause]


def most_cpu(readings):
    """The process that computed most."""
    found = max(readings["processes"], key=lambda process: process["cpu"], default=None)
    return (f"{found['role']}.cpu", found["name"], found["cpu"]) if found else None


RULES = {rule.__name__: rule for rule in (busiest_device, retransmissions, limited_times, most_cpu)}


def answers(readings, wall_s, judge):
    """Each rule's answer with its strength (seconds of its cause for each second of the run) and outcome; `none` is that nothing is wrong."""
    made = {"none": {"strength": 0.0, "outcome": judge({"status": "healthy", "cause": None, "where": "", "sentence": ""})}}
    for name, rule in RULES.items():
        cause, where, seconds = rule(readings) or (None, "", 0.0)
        if seconds <= 0:
            made[name] = made["none"]
            continue
        told = {"status": "limited", "cause": cause, "where": where, "sentence": where}
        made[name] = {"cause": cause, "where": where, "strength": min(seconds / wall_s, 1.0), "outcome": judge(told)}
    return made


def scores(documents):
    """How many scenarios each rule, their best combination and ours have right, as (name, right, of how many)."""
    scored = [document for document in documents if document.get("rules") and any(document["figures"].get("outcomes", []))]
    every = [document["rules"] for document in scored]
    made = [(name, sum(rules[name]["outcome"] == "right" for rules in every), len(every)) for name in RULES]
    choices = [(order, least) for order in permutations(RULES) for least in LEASTS]
    best = max((sum(_combined(rules, *choice) == "right" for rules in every) for choice in choices), default=0)
    ours = sum(document["figures"]["outcomes"].count("right") / len(document["figures"]["outcomes"]) for document in scored)
    return [*made, ("best", best, len(every)), ("ours", ours, len(every))]


def _combined(rules, order, least):
    return rules[next((name for name in order if rules[name]["strength"] >= least), "none")]["outcome"]


def _devices():
    made = {}
    for line in (shell.read("/proc/diskstats") or "").splitlines():
        words = line.split()
        made[words[2]] = {"read": int(words[6]) / 1e3, "write": int(words[10]) / 1e3, "busy": int(words[12]) / 1e3}
    return made


def _sent_again(host):
    tcp = [line.split() for line in host.run("cat", "/proc/net/snmp", check=False).splitlines() if line.startswith("Tcp:")]
    return int(dict(zip(*tcp, strict=True))["RetransSegs"]) if len(tcp) == 2 else 0


def _limited(hosts):
    made = {}
    for host in hosts:
        key = None
        for line in host.run("ss", "-tinH", check=False).splitlines():
            if not line[:1].isspace():
                key = (host.namespace, *line.split()[3:5])
            elif key:
                found = {what: int(ms) / 1e3 for what, ms in LIMITED.findall(line)}
                made[key] = {"busy": 0.0, "rwnd_limited": 0.0, "sndbuf_limited": 0.0, **found}
    return made


def _cpu():
    made = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        head, _, tail = (shell.read(f"/proc/{pid}/stat") or "").rpartition(")")
        if tail:
            words = tail.split()
            made[int(pid)] = head.partition("(")[2], (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return made
