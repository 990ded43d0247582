"""How fast the capture of a large NFS write is read, on one core, beside tshark's response times of the same file."""

import json
import os
import shutil
import signal
import subprocess

from bench.harness import pairs, result, subjects
from bench.harness.bench import GIB, MIB
from bench.harness.command import timed
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount
from testbed import files
from testbed.errors import Broken, NotRun

BYTES_PER_S = 1e9
WRITE_BYTES = MIB


def captured(snaplen, bench):
    """`thalweg rpcstat --json` over a capture of `nfs-cp` writing 2 GiB (a quick run: 256 MiB), each packet cut at `snaplen`."""
    for program in ("dumpcap", "tshark"):
        if shutil.which(program) is None:
            raise NotRun(f"there is no {program} (apt-get install tshark)")
    size_bytes = 256 * MIB if bench.quick else 2 * GIB
    path = capture(bench, snaplen, size_bytes)
    core = str(max(os.sched_getaffinity(0)))
    calls = size_bytes // WRITE_BYTES

    def ours(text):
        document = json.loads(text)
        written = sum(p["answered"] for p in document["procedures"] if p["name"] == "WRITE")
        if written != calls:
            raise Broken(f"{written} WRITEs were found, and {calls} were made")
        return {"writes": written, "sentence": document["sentence"]}

    rpcstat = Subject(
        "rpcstat",
        "thalweg rpcstat --json, one core",
        command=lambda run: ["taskset", "-c", core, bench.program("thalweg"), "rpcstat", "--json", path],
        before=lambda run: subjects.warm(path),
        own=ours,
    )
    tshark = Subject(
        "tshark",
        "tshark -q -z rpc,srt, one core",
        command=lambda run: ["taskset", "-c", core, "tshark", "-r", path, "-q", "-z", "rpc,srt,100003,3"],
        before=lambda run: subjects.warm(path),
        own=lambda text: {"writes": next((int(line.split()[2]) for line in text.splitlines() if " WRITE " in line), 0)},
    )
    file_bytes = os.path.getsize(path)
    try:
        plan = Plan(least=3, most=3) if bench.quick else Plan(least=7, most=7)
        outcome = pairs.run(bench, [rpcstat, tshark], plan, "rpcstat", Amount(size_bytes, "bytes written"))
    except Broken as failure:
        raise NotRun(str(failure)) from None
    finally:
        files.remove(path)
    document = result.of_pairs(outcome, [rpcstat, tshark], "rpcstat", [result.Bar("tshark")])
    rates = document["subjects"][0]["rate_per_s"]
    wanted = f"≥ {BYTES_PER_S / 1e9:.0f} GB/s"
    document["file_bytes"] = file_bytes
    document["bars"].append(result.absolute_bar("bytes of the write per second", wanted, rates, rates["median"] >= BYTES_PER_S))
    return document


def capture(bench, snaplen, size_bytes):
    """The capture of one `nfs-cp` on the loopback interface; nothing of it may be lost."""
    server = bench.server("nfs")
    source = bench.source(size_bytes)
    # (A name of its own: Ganesha keeps a removed file open.)
    name = f"captured-{snaplen}"
    path = bench.path("captures", f"nfs-{size_bytes // MIB}Mi-{snaplen}.pcapng")
    # A ring that holds what comes while the disk is slow.
    argv = ["dumpcap", "-q", "-i", "lo", "-s", str(snaplen), "-B", "512", "-f", f"tcp port {server.port}", "-w", path]
    dumpcap = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        while "File:" not in (line := dumpcap.stderr.readline()):
            if not line:
                raise NotRun("dumpcap did not begin: it needs root")
        timed(["nfs-cp", source, server.address(name)])
        dumpcap.send_signal(signal.SIGINT)
        said = dumpcap.stderr.read()
    finally:
        if dumpcap.poll() is None:
            dumpcap.send_signal(signal.SIGINT)
        dumpcap.wait()
        server.remove(name)
    bench.note(said.strip().splitlines()[-1] if said.strip() else "dumpcap said nothing")
    return path
