"""The stage of the listing study: servers, a client at each of several round trips, and NFS beside."""

import json
import os
from contextlib import ExitStack, contextmanager

from bench.harness import ls_page
from bench.harness.distances import Distances, enter
from bench.harness.studies import NFS_CLIENT, StudyCampaign, nfs
from testbed.campaign import Item

PARTS = [
    Item("grid", "Datafiles of a file, mechanisms, round trips"),
    Item("items", "Files in a directory, and other systems"),
    Item("targets", "Targets on a server"),
    Item("names", "mdtest's tests"),
    Item("crowd", "Many listings beside a writer"),
    Item("copies", "Trees of small files"),
]
# How NFS can list: its name, the client's words, the calls in flight, round trips that one file costs with one of them.
NFS_WAYS = [
    ("NFS readdirplus", "--how readdirplus --list 1Mi", [1], 0),
    ("NFS lookup+getattr", "--how lookup+getattr", [1, 32, 128], 2),
]


class Listing(StudyCampaign):
    """`thalweg bench ls` over links of known round trips."""

    name = "ls"
    parts = PARTS
    flags = ("program", "relay", "dir")
    quick = "small directories, links of 0 and 1 ms; results go to target/NAME-quick"
    root = "only root may make network namespaces"
    page = ls_page
    place = "/var/tmp"

    def add_flags(self, parser):
        super().add_flags(parser)
        parser.add_argument("--round-trips", default="0,0.2,1,10", metavar="MS,...", help="round trips of the links; 0: no link")
        parser.add_argument("--link", choices=["auto", "netem", "relay"], default="auto", help="what the links are made of")

    @contextmanager
    def stage(self, out):
        options = self.options
        round_trips = [float(text) for text in ("0,1" if options.quick else options.round_trips).split(",")]
        with Distances(round_trips, self.relay, options.link) as distances, ExitStack() as serving:
            peer = None if options.no_nfs else serving.enter_context(nfs(distances.servers, os.path.join(self.scratch, "nfs")))
            stage = os.path.join(self.scratch, "stage.toml")
            with open(stage, "w") as text:
                text.write(stage_toml(distances, peer))
            yield ["--stage", stage, "--directory", self.scratch, *(["--short"] if options.quick else [])], None


def stage_toml(distances, peer):
    """The stage as `thalweg bench ls` reads it."""
    label = f"Links are {distances.link_words()}; NFS is NFS-Ganesha and an asynchronous client (lab/nfs-client)"
    lines = _fields({"label": label, "serve_on": enter(distances.servers), "host": distances.servers.address})
    for name, round_trip_ms, host, pids in distances.locations:
        location = {"name": name, "round_trip_us": round_trip_ms * 1000.0, "run_on": enter(host), "link_pids": pids}
        lines += ["", "[[locations]]", *_fields(location)]
    for name, how, windows, trips in NFS_WAYS if peer else []:
        walk = f"{NFS_CLIENT} walk {peer.address('{directory}')} {how} --depth {{window}} --sample 0"
        told = {"name": name, "directory": peer.root, "list": walk, "windows": windows, "trips_per_file": float(trips), "pids": [peer.process.pid]}
        lines += ["", "[[peers]]", *_fields(told)]
    return "\n".join(lines) + "\n"


def _fields(values):
    return [f"{key} = {json.dumps(value)}" for key, value in values.items()]
