"""The cases, in the order in which they run. A new case is one function and one line here.

A case's function takes the bench and returns its document (see `bench.harness.result`); it raises `NotRun` with the reason when it
cannot run here. `quick` says whether `--quick` includes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.harness.bench import GIB, MIB
from bench.harness.cases.captured import captured
from bench.harness.cases.copies import copies
from bench.harness.cases.databases import listing_on_each, small_files_on_each
from bench.harness.cases.explaining import explaining
from bench.harness.cases.lots import large, small
from bench.harness.cases.mounted import mounted
from bench.harness.cases.one_more import one_more_server
from bench.harness.cases.recording import recording
from bench.harness.cases.removing import trees_removed
from bench.harness.cases.scrubbing import beside, scrubbed
from bench.harness.cases.servers import server_counts
from bench.harness.cases.small import small_files, small_files_mounted
from bench.harness.cases.sums import copied, mounted as mounted_with_sums, small as small_with_sums
from bench.harness.cases.trust import connecting, encrypted, flooded, handshakes
from bench.harness.cases.watching import other_tools, watching, watching_as_user


@dataclass
class Case:
    """A name for files and the command line, a title for the page, and the function that does it."""

    name: str
    title: str
    function: Callable
    quick: bool = True


CASES = [
    Case("copy-in-256Mi", "Copy in, 256 MiB", partial(copies, "in", 256 * MIB, sync=False)),
    Case("copy-out-256Mi", "Copy out, 256 MiB", partial(copies, "out", 256 * MIB, sync=False)),
    Case("sync-in-256Mi", "Copy in with --sync, 256 MiB", partial(copies, "in", 256 * MIB, sync=True)),
    Case("sync-out-256Mi", "Copy out with --sync, 256 MiB", partial(copies, "out", 256 * MIB, sync=True)),
    Case("mount-write", "Copy in through a mount, 256 MiB", partial(mounted, "in", 256 * MIB)),
    Case("mount-read", "Copy out through a mount, 256 MiB", partial(mounted, "out", 256 * MIB)),
    Case("recording-in", "Recording on and off, copy in, 256 MiB", partial(recording, "in", 256 * MIB)),
    Case("recording-out", "Recording on and off, copy out, 256 MiB", partial(recording, "out", 256 * MIB)),
    Case("watch-c", "A C loop of 4 KiB reads and writes, recorded", partial(watching, "c")),
    Case("watch-python", "A Python loop of 4 KiB reads and writes, recorded", partial(watching, "python")),
    Case("watch-cp", "cp of 256 MiB, recorded", partial(watching, "cp")),
    Case("watch-nfs", "nfs-cp to NFS-Ganesha, both ends recorded", partial(watching, "nfs")),
    Case("watch-gridftp", "globus-url-copy, both ends recorded", partial(watching, "gridftp")),
    Case("watch-store", "thalweg cp, both ends recorded from outside", partial(watching, "store")),
    Case("watch-pipeline", "dd and three cats in a pipeline, recorded", partial(watching, "pipeline")),
    Case("watch-filters", "A pipeline of four that filter, recorded", partial(watching, "filters")),
    Case("watch-pipeline-pinned", "dd and three cats in a pipeline on one processor, recorded", partial(watching, "pipeline-pinned")),
    Case("watch-filters-pinned", "A pipeline of four that filter on one processor, recorded", partial(watching, "filters-pinned")),
    Case("watch-bystander", "Two processes that nobody records, which do nothing but switch, beside a recording", partial(watching, "bystander")),
    Case("user-c", "A C loop of 4 KiB reads and writes, recorded as an ordinary user", partial(watching_as_user, "c")),
    Case("user-python", "A Python loop of 4 KiB reads and writes, recorded as an ordinary user", partial(watching_as_user, "python")),
    Case("user-cp", "cp of 256 MiB, recorded as an ordinary user", partial(watching_as_user, "cp")),
    Case("user-gridftp", "globus-url-copy, both ends an ordinary user's and recorded", partial(watching_as_user, "gridftp")),
    Case("user-pipeline", "dd and three cats in a pipeline, recorded as an ordinary user", partial(watching_as_user, "pipeline")),
    Case("user-filters", "A pipeline of four that filter, recorded as an ordinary user", partial(watching_as_user, "filters")),
    Case("user-bystander", "Two processes that nobody records, beside an ordinary user's recording", partial(watching_as_user, "bystander")),
    Case("tools-python", "A Python loop of 4 KiB reads and writes under other tools", partial(other_tools, "python")),
    Case("tools-nfs", "nfs-cp under other tools", partial(other_tools, "nfs")),
    Case("small-in", "Small files in, 4 KiB each", partial(small_files, "in")),
    Case("small-out", "Small files out, 4 KiB each", partial(small_files, "out")),
    Case("small-mount", "Small files in through a mount, 40 KiB each", small_files_mounted),
    Case("remove", "rm -r of many empty files in one directory", trees_removed),
    Case("names-ls", "ls -l with names in PostgreSQL and in redb", listing_on_each),
    Case("names-small", "Small files in with names in PostgreSQL and in redb", small_files_on_each),
    Case("servers-in", "1, 2, 4 and 8 servers, copy in, 256 MiB", partial(server_counts, "in", 256 * MIB)),
    Case("servers-out", "1, 2, 4 and 8 servers, copy out, 256 MiB", partial(server_counts, "out", 256 * MIB)),
    Case("one-more", "One more server is not slower, or the explanation says why", one_more_server),
    Case("tls-in", "Encrypted and in clear beyond loopback, copy in, 256 MiB, in memory", partial(encrypted, "in", 256 * MIB)),
    Case("tls-out", "Encrypted and in clear beyond loopback, copy out, 256 MiB, in memory", partial(encrypted, "out", 256 * MIB)),
    Case("tls-handshake", "Handshakes of TLS", handshakes),
    Case("connect", "Connections and their proof", connecting),
    Case("flood", "Copy in under a flood of strangers, 1 GiB, in memory", partial(flooded, GIB)),
    Case("lot-large", "In a lot and beside it, copy in, 256 MiB, in memory", partial(large, 256 * MIB)),
    Case("lot-small", "In a lot and beside it, cp -r of 2,000 files of 4 KiB, in memory", partial(small, 2000)),
    Case("sums-in", "With checksums at rest and without, copy in, 256 MiB", partial(copied, "in", 256 * MIB)),
    Case("sums-out", "With checksums at rest and without, copy out, 256 MiB", partial(copied, "out", 256 * MIB)),
    Case("sums-small", "With checksums at rest and without, cp -r of 2,000 files of 4 KiB", partial(small_with_sums, 2000)),
    Case("sums-dd", "With checksums at rest and without, dd bs=4k through a mount", partial(mounted_with_sums, "dd", 16_384)),
    Case("sums-overwrite", "With checksums at rest and without, overwrites of 4 KiB at random through a mount", partial(mounted_with_sums, "overwrite", 4000)),
    Case("sums-append", "With checksums at rest and without, appends of 100 bytes through a mount", partial(mounted_with_sums, "append", 2000)),
    Case("scrub-cached", "Scrub of a store in the page cache, 2 GiB", partial(scrubbed, 2 * GIB)),
    Case("scrub-beside", "Copy in beside a scrub and alone, 256 MiB", partial(beside, 256 * MIB)),
    Case("explain", "Explaining a recording of 20 million spans", explaining),
    Case("rpcstat-whole", "RPC statistics of a capture, whole packets", partial(captured, 262_144)),
    Case("rpcstat-cut", "RPC statistics of a capture, packets cut at 256 bytes", partial(captured, 256)),
    Case("copy-in-2Gi", "Copy in, 2 GiB", partial(copies, "in", 2 * GIB, sync=False), quick=False),
    Case("copy-out-2Gi", "Copy out, 2 GiB", partial(copies, "out", 2 * GIB, sync=False), quick=False),
    Case("recording-in-2Gi", "Recording on and off, copy in, 2 GiB", partial(recording, "in", 2 * GIB), quick=False),
    Case("sync-in-2Gi", "Copy in with --sync, 2 GiB", partial(copies, "in", 2 * GIB, sync=True), quick=False),
    Case("sync-out-2Gi", "Copy out with --sync, 2 GiB", partial(copies, "out", 2 * GIB, sync=True), quick=False),
]
