"""An explanation (`thalweg.explain/1`) as dataclasses: what `thalweg explain --json` prints, field by field.

Written by `python/generate` from the schema; do not change it by hand. Long because the schema is. In a class, what is always there comes
first; a list that the document leaves out is empty here, anything else that it leaves out is `None`. Fields that a newer command adds are not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Optional

SCHEMA = "thalweg.explain/1"

# What an instant of wall time is charged to.
Cause = Literal[
    "client.read", "client.write", "client.sync", "client.metadata", "client.memory", "client.cpu", "client.runqueue", "client.lock",
    "client.think", "server.read", "server.write", "server.sync", "server.metadata", "server.memory", "server.cpu", "server.runqueue",
    "server.lock", "server.think", "server.unknown", "network.loss", "network.sndbuf", "network.rwnd", "network.cwnd", "network.latency",
    "network.bandwidth", "recorder", "unknown"
]

# How certain the verdict is.
Status = Literal[
    "limited", "inconclusive", "healthy", "unsure"
]

# A rule; `MODEL.md` says when it holds and what it rests on.
RuleId = Literal[
    "running", "running.between-waits", "running.tunnel", "running.container", "running.after-wait", "running.started", "unsampled",
    "runnable", "runnable.in-span", "runnable.woken", "recorder", "recorder.queue", "file.blocked", "file.no-device", "file.elsewhere",
    "file.read-for-write", "device", "memory", "blocked.computing", "still", "still.unknown", "stopped", "asleep", "asleep.for-bytes",
    "unknown-wait", "helper.waits", "poll.pause", "poll.work", "looked-for", "looked-for.listener", "tried-again", "poll.unknown",
    "time-limit", "time-limit.stopped", "time-limit.unknown", "mount.idle", "lock.held", "lock.work", "lock.handed-on",
    "lock.handed-on.unrecorded", "lock.given", "lock.file", "lock.file.unknown-holder", "unseen.asleep", "unseen", "no-waker.terminal",
    "no-waker.socket", "no-waker.datagram", "no-waker.pipe", "no-waker.inferred", "no-waker", "mpi.unrecorded", "mpi.launcher", "mpi.sleep",
    "mpi.runnable", "mpi.wire", "mpi.running", "accept.other-work", "accept.dropped", "connect.lost", "connect.accept-queue",
    "connect.round-trip", "tcp.timeout", "tcp.retransmit", "tcp.sndbuf", "tcp.rwnd", "tcp.recovering", "tcp.cwnd", "tcp.queue",
    "tcp.latency", "tcp.bandwidth", "transit", "far-end.tcp", "far-end.round-trip", "far-end.given-to-tcp", "far-end.missing", "far-end",
    "not-the-network", "each-other", "metadata.rpc", "metadata.samples", "nothing-left", "packets.moving", "packets.window", "packets.loss",
    "packets.server", "turns.moving", "turns.server", "turns.client", "turns.round-trip", "turns.loss", "turns.window",
    "packets.unanswered", "packets.client"
]

# The basis of a charge.
Basis = Literal[
    "recorded", "inferred"
]

# The phases.
PhaseName = Literal[
    "set-up", "ramp", "steady", "drain", "tear-down"
]

# The basis of the times of a channel's bytes.
ChannelBasis = Literal[
    "received", "acknowledged", "handed_over"
]

# What is counted as a question: calls that the client says it made, what it handed to its connections, or requests to disks.
Trip = Literal[
    "calls", "exchanges", "disk"
]


@dataclass(frozen=True)
class Explanation:
    """Where the time of one recording went."""

    schema: Literal["thalweg.explain/1"]
    """Always `thalweg.explain/1`."""
    command: list[str]
    """The command recorded."""
    recorder: str
    """The recorder that made the recording."""
    dropped_events: int
    """Number of lost events; figures that rest on them are less certain."""
    start_ns: int
    """Second 0 of this document, in nanoseconds on the reference host's axis."""
    wall_s: float
    """Length of the explained interval: the command, from its start to its exit."""
    verdict: Verdict
    """The limiting cause, in one word and in one sentence."""
    critical_path: list[Charge]
    """The wall time, charged: largest first; seconds sum to `wall_s`, shares to 1 (± 0.001)."""
    path: list[Segment]
    """The critical path in order of time, for pictures: segments touch, and cover the wall time. At most 4000; where there were more, a
    segment stands for its neighbours, so that shares over many are right.
    """
    transfers: list[Transfer]
    """What was moved from where to where: at most 1000, those that moved most, in order of time."""
    phases: list[Phase]
    """The phases of the transfer, in order of time."""
    channels: list[Channel]
    """The tracks whose bytes are the transfer; first the sum of each direction (`aggregate`), then, at most 64, the connections that
    moved most.
    """
    tracks: list[Utilisation]
    """The activity of each thread, busiest first; at most 256."""
    what_if: list[WhatIf]
    """What a change would give, best first; at most 5. Empty when the model does not hold."""
    model: Model
    """How well the model replays the observed run."""
    notes: list[str]
    """Further facts for the reader: what was not recorded and how to record it, why there is no prediction."""
    size_bytes: Optional[int] = None
    """Bytes transferred, summed over all transfers."""
    rate_bytes_per_s: Optional[float] = None
    """`size_bytes` over `wall_s`."""
    repeated: Optional[Repeated] = None
    """The other runs of the command, if it was run several times (`explain -n`)."""
    emulated: Optional[str] = None
    """The emulated devices of the recorded store, or of a copy's source: `disk 200 MiB/s, link 2 Gb/s, round trip 200 µs`."""
    reliable: Optional[bool] = None
    """Whether the figures are reliable. If not, the text withholds the sentence and all changes, which are still here."""
    unreliable_because: Optional[str] = None
    """Why they cannot; absent where they can."""
    summary: Optional[Summary] = None
    """The run in a few lines, in the reader's words."""
    unlisted_transfers: Optional[Unlisted] = None
    """The transfers that are not listed; absent if all are."""
    throughput: Optional[Throughput] = None
    """Bytes over time; absent if no bytes were recorded."""
    round_trips: Optional[RoundTrips] = None
    """Requests and their answers, in a run that is about answers rather than data (a walk of a directory, for example)."""
    connections: Optional[Connections] = None
    """TCP's view of connections without a known RPC protocol, in a recording of packets."""
    advice: list[Advice] = field(default_factory=list)
    """What else is known to help against what was charged, without a prediction of how much: at most 3."""


@dataclass(frozen=True)
class Summary:
    """The run in a few lines: programs, files and devices by their names, and no client where there is no server."""

    command: str
    """The command, with paths cut to their last part."""
    about: str
    """The command's work, its time and its rate: `256 MiB in 2.05 s, 1.05 Gb/s`."""
    sentence: str
    """One sentence of at most 240 characters; empty of a run that is too short for one."""
    rows: list[SummaryRow]
    """The charges, grouped by cause and program, largest first. Empty for a very short run."""
    innocent: list[Innocent]
    """Resources that did not limit, with the figure that shows it."""
    remarks: list[str]
    """Reasons for doubt about these figures, and what would settle them; most important first."""
    ended: Optional[str] = None
    """How it ended, where not with exit code 0: `failed with exit code 2`, `killed by SIGKILL`."""
    numbers: list[Number] = field(default_factory=list)
    """The numbers behind the rate, that of the largest cause first."""
    tuning: list[str] = field(default_factory=list)
    """A tuner's steps during the run, in at most three lines."""


@dataclass(frozen=True)
class Number:
    """A number behind the rate, with the figures that its sentence gives."""

    kind: Literal["in_flight", "one_at_a_time", "round_trips_per_item", "connection_per_item", "syncs_per_item", "times_over", "process_per_item", "call_size", "disk_one_at_a_time", "one_processor", "all_processors", "time_limit", "name_lookups", "lock_held", "other_clients", "in_series"]
    """Kind of a number."""
    sentence: str
    """One plain sentence."""
    count: Optional[int] = None
    """How often it was done; for two stages, how often they alternated."""
    each_s: Optional[float] = None
    """Time of each."""
    bytes: Optional[int] = None
    """Most bytes in flight, or bytes per request or call."""
    round_trip_s: Optional[float] = None
    """The least round trip of the path."""
    rate_bytes_per_s: Optional[float] = None
    """The rate it allows."""
    items: Optional[int] = None
    """Number of files, transactions or connections it was done for."""


@dataclass(frozen=True)
class SummaryRow:
    """The charges of one cause to one program, device or path."""

    cause: Cause
    """The cause."""
    share: float
    """Its share of the wall time."""
    subject: str
    """The program, device or path."""
    figures: str
    """The most important figures."""


@dataclass(frozen=True)
class Innocent:
    """Something that did not limit the run."""

    what: str
    """What did not limit."""
    figure: str
    """The figure that says so."""


@dataclass(frozen=True)
class Verdict:
    """The limiting cause."""

    status: Status
    """Whether one cause stands out."""
    cause: Cause
    """The largest cause."""
    where: str
    """The place of its largest part."""
    share: float
    """Its share of the wall time, summed over places."""
    sentence: str
    """One plain sentence."""
    second: Optional[Second] = None
    """The second cause, if the verdict is inconclusive."""
    of_ceiling: Optional[float] = None
    """Part of its measured ceiling that the limiting device or path reached, if it came close."""
    settle: list[str] = field(default_factory=list)
    """For an answer that is unsure, or names a server that was not recorded: what was not seen, and the shortest way to see it, the most
    important first; or the control run that would tell. Absent otherwise.
    """


@dataclass(frozen=True)
class Second:
    """The runner-up of an inconclusive verdict."""

    cause: Cause
    """The second largest cause."""
    where: str
    """The place of its largest part."""
    share: float
    """Its share of the wall time, summed over places."""


@dataclass(frozen=True)
class HottestOfCharge:
    """One of `hottest`."""

    function: str
    """Its name, or its module in brackets if the name is not known."""
    share: float
    """Time on the critical path in it, as a part of wall_s."""
    module: Optional[str] = None
    """The file that it is in, without its folder; kernel: the kernel's own, jit: code made at run time."""
    of_samples: Optional[float] = None
    """Time of the path in it, as a part of the charge's samples."""


@dataclass(frozen=True)
class WaitsOfCharge:
    """One of `waits`."""

    count: int
    """How many waits of this charge had this stack, of those of which stacks were taken: long ones."""
    seconds: float
    """How long the critical path lay in them."""
    longest_s: float
    """Time of the path in the longest."""
    at_s: float
    """Start of the longest."""
    track: int
    """The track that waited then, by its number in the recording."""
    functions: list[str]
    """The program's functions, innermost first; a module and place in brackets where a name is not known. Empty of a thread of the
    kernel.
    """
    kernel: list[str] = field(default_factory=list)
    """The kernel's functions that the longest waited in, innermost first. Absent: no names of any are known."""


@dataclass(frozen=True)
class Charge:
    """Wall time charged to one cause at one place."""

    cause: Cause
    """The cause."""
    where: str
    """The place."""
    seconds: float
    """Wall time charged."""
    share: float
    """Part of `wall_s`."""
    slack_s: float
    """How much `seconds` can shrink before another chain of waits becomes critical, estimated (`MODEL.md` says how)."""
    basis: Basis
    """Whether all of it was recorded."""
    evidence: str
    """The evidence: how many intervals, how long, around what."""
    inferred_s: Optional[float] = None
    """How much of `seconds` a rule inferred. Absent: nothing."""
    via: Optional[str] = None
    """Who waited for this at once, in the same process, where that was so for most of it. Absent: nobody."""
    quota: Optional[bool] = None
    """Whether the wait was for a processor quota."""
    hottest: list[HottestOfCharge] = field(default_factory=list)
    """Of a charge to a processor: the functions in which it ran longest, where the recording has a profile."""
    waits: list[WaitsOfCharge] = field(default_factory=list)
    """Of a charge for waiting: where its longest waits waited, by the longest of each stack, where the recording has a profile."""
    rules: list[Applied] = field(default_factory=list)
    """By which rules it was charged, the one by which most of it was first. Absent: that was not asked for."""


@dataclass(frozen=True)
class Applied:
    """A rule by which some of a charge was charged, and the spans that it rests on."""

    rule: RuleId
    """Its name."""
    seconds: float
    """How much of the charge."""
    rests_on: list[Stretch]
    """The longest stretches so charged: of all rules of a charge together at most five."""


@dataclass(frozen=True)
class Stretch:
    """A stretch of the critical path, and the span that the thread was in."""

    start_s: float
    """Where the stretch begins."""
    end_s: float
    """Time it ends."""
    span: Optional[int] = None
    """The span's number in the recording. Absent: between spans."""
    kind: Optional[str] = None
    """The span's kind. Absent: between spans."""
    track: Optional[int] = None
    """The thread's track, as its number in the recording."""


@dataclass(frozen=True)
class Segment:
    """A stretch of the critical path."""

    cause: Cause
    """The cause."""
    charge: int
    """Index of its entry in `critical_path`."""
    start_s: float
    """Time it starts."""
    end_s: float
    """Time it ends."""
    track: Optional[int] = None
    """The track of the walk, by its number in the recording; absent for the wire."""


@dataclass(frozen=True)
class Transfer:
    """Bytes moved from one set of objects to another for one purpose."""

    from_: str
    """The source."""
    size_bytes: int
    """Bytes moved."""
    requests: int
    """Number of requests."""
    start_s: float
    """Start of its first request."""
    wall_s: float
    """Time until its last request ended."""
    to: Optional[str] = None
    """The sink, if known."""


@dataclass(frozen=True)
class Unlisted:
    """Transfers that are counted but not listed."""

    count: int
    """Number of transfers."""
    size_bytes: int
    """Their bytes, summed."""


@dataclass(frozen=True)
class Phase:
    """A phase of the transfer."""

    name: PhaseName
    """Its name."""
    start_s: float
    """Time it starts."""
    end_s: float
    """Time it ends."""


@dataclass(frozen=True)
class Channel:
    """A track that carried the transfer's bytes, or the sum of all in one direction."""

    name: str
    """The connection, `HOST:PORT > HOST:PORT`, in the direction the bytes went; or `all to servers`, `all from servers`, `all written`,
    `all read`.
    """
    aggregate: bool
    """Whether this is the sum over the connections of one direction, which is busy when any of them is."""
    size_bytes: int
    """Bytes carried, as the basis counts them."""
    sends: int
    """Number of sends."""
    bursts: int
    """Number of bursts: the stretches between gaps."""
    busy_share: float
    """The part of the wall time in bursts."""
    gaps: Gaps
    """The idle intervals between bursts."""
    object: Optional[int] = None
    """The connection's number in the recording (one of its two rows); absent for a sum."""
    basis: Optional[ChannelBasis] = None
    """The basis of its bytes and times."""
    burst_bytes_per_s: Optional[float] = None
    """Bytes over time within bursts; absent for a connection of which only the handover is known: a socket takes bytes faster than its
    link.
    """


@dataclass(frozen=True)
class Gaps:
    """The gaps of a channel."""

    count: int
    """Number of gaps."""
    total_s: float
    """Their total length."""
    groups: list[GapGroup]
    """The gaps, grouped by what the critical path was charged to; most time first."""
    longest: list[Gap]
    """Single gaps in order of time; the longest 100 where there are more."""
    median_s: Optional[float] = None
    """The median length."""
    p99_s: Optional[float] = None
    """The 99th percentile."""
    period_bytes: Optional[int] = None
    """Bytes between them, if they recur."""
    parts: list[GapPart] = field(default_factory=list)
    """Time by cause, across gaps; most time first."""


@dataclass(frozen=True)
class GapGroup:
    """Gaps with one cause."""

    cause: Cause
    """The cause of most of each gap."""
    where: str
    """The place of most of that."""
    count: int
    """Number of gaps."""
    total_s: float
    """Their total length."""
    median_s: float
    """The median length."""
    p99_s: float
    """The 99th percentile."""
    period_bytes: Optional[int] = None
    """Bytes between them, if they recur."""


@dataclass(frozen=True)
class GapPart:
    """The part of one cause in all gaps."""

    cause: Cause
    """The cause."""
    gaps: int
    """Number of gaps with such a part."""
    total_s: float
    """Its total length."""
    median_s: float
    """Median length of the part in those gaps."""


@dataclass(frozen=True)
class Gap:
    """One gap."""

    start_s: float
    """Time it starts."""
    end_s: float
    """Time it ends."""
    after_bytes: int
    """Bytes that the channel had carried before it."""
    cause: Cause
    """The cause of most of it."""


@dataclass(frozen=True)
class Throughput:
    """Payload bytes over time."""

    bin_s: float
    """Width of a bin. The first starts at second 0; the last may extend past the end."""
    bytes_per_s: list[float]
    """Payload bytes per second in each bin, summed over channels."""


@dataclass(frozen=True)
class Utilisation:
    """How one thread spent the wall time."""

    track: int
    """Number of its track in the recording."""
    name: str
    """Name of the thread."""
    role: str
    """Its role: `client`, `server`, `kernel`, `recorder`, `none`."""
    cpu_s: float
    """Time it ran, as far as known."""
    runqueue_s: float
    """Time it was runnable but not running."""
    file_s: float
    """Time it was blocked in file calls: reading, writing, syncing."""
    network_s: float
    """Time it was blocked in sends and receives that carried something it had started."""
    lock_s: float
    """Time it was blocked on other threads."""
    spans: int
    """Number of its spans."""


@dataclass(frozen=True)
class RoundTrips:
    """Requests and their answers."""

    of: Trip
    """The kind of request counted."""
    count: int
    """Number of requests."""
    in_a_row: int
    """How many of them were one after the other: how often the critical path left the client and came back (in a recording without
    threads: the longest chain of calls, each made when the previous one had been answered).
    """
    asking_s: float
    """Time from the first request to the last answer."""
    each_s: float
    """`asking_s` over `in_a_row`: the time of one sequential request, including everything until the next."""
    of_each: list[Part]
    """The parts of `each_s`, as the critical path was charged; most first."""
    to: list[Answerer]
    """Who answered, most first; at most 16."""
    sentence: str
    """One or two plain sentences."""
    at_once: Optional[float] = None
    """Average number in flight while any was; for exchanges, requests per sequential one."""
    most_at_once: Optional[int] = None
    """Most in flight at one time."""
    median_s: Optional[float] = None
    """Median time from request to answer."""
    per_entry: Optional[PerEntry] = None
    """Requests and time per entry, if the number of entries is known."""


@dataclass(frozen=True)
class Part:
    """Time charged to one cause."""

    cause: Cause
    """The cause."""
    seconds: float
    """How long."""


@dataclass(frozen=True)
class PerEntry:
    """Requests and time for each entry of a walk."""

    entries: int
    """Number of entries."""
    questions: float
    """Requests per entry."""
    round_trips: float
    """Sequential requests per entry."""
    seconds: float
    """Time per entry, from the first request to the last answer."""
    parts: list[Part]
    """The parts of that time; most first."""


@dataclass(frozen=True)
class Answerer:
    """A server or a disk that answered."""

    name: str
    """Its address, or the disk's name."""
    count: int
    """Number of requests."""
    at_once: float
    """Average number in flight while any was."""
    median_s: float
    """Median time from request to answer."""


@dataclass(frozen=True)
class Advice:
    """A change against what was charged, without a prediction."""

    cause: Cause
    """The cause it is for."""
    says: str
    """The change, in words."""
    recipe: str
    """The recipe that contains this advice: a file of `recipes/`, without its extension."""
    source: str
    """The page that documents it."""
    command: list[str] = field(default_factory=list)
    """The recorded command with the change made, word by word; absent where a command does not make it."""
    gives_up: Optional[str] = None
    """Properties that it gives up, if any."""


@dataclass(frozen=True)
class WhatIf:
    """A change and its predicted effect."""

    change: str
    """The change, in words."""
    predicted_wall_s: float
    """The predicted wall time, corrected for the model's error on the observed run; for a bound, the least possible."""
    speedup: float
    """`wall_s` over `predicted_wall_s`; for a bound, the most possible."""
    how: str
    """How to make the change with this program, or what would have to change."""
    id: Optional[str] = None
    """Kind of the change, stable and machine-readable: `device.read.x2`, `no_sync`, ... (`MODEL.md` lists them)."""
    basis: Optional[Literal["replayed", "bounded"]] = None
    """What the prediction rests on: the recorded run replayed with the change made, or a bound on what it can give."""
    interval_s: Optional[tuple[float, float]] = None
    """Wall times between which four of five such changes fell; for a bound, from the least possible to no gain."""
    about: list[Cause] = field(default_factory=list)
    """The causes whose time it takes away: nothing is proposed if none of them was charged."""
    flags: list[tuple[str, str]] = field(default_factory=list)
    """The flags alone, as (flag, value), if flags make the change; for scripts."""
    command: list[str] = field(default_factory=list)
    """The recorded command with the change made, word by word; empty if no command makes it."""
    gives_up: Optional[str] = None
    """Properties that the change gives up (durability, encryption, ...), if any."""
    recipe: Optional[str] = None
    """The recipe that says how: a file of `recipes/`, without its extension."""


@dataclass(frozen=True)
class Repeated:
    """Runs of one command, one after the other; the document explains the run of median wall time."""

    wall_s: list[float]
    """The wall time of each, in order."""
    explained: int
    """Number of the explained run, from 1."""
    median_s: float
    """The median of `wall_s`."""
    interval_s: list[float]
    """The 95 % interval of the median, by the bootstrap."""
    shares: list[list[float]]
    """For each row of the summary, in order: the 95 % interval of the median of its share over all runs."""
    leading: list[Leading]
    """How many runs had which largest cause; most runs first."""


@dataclass(frozen=True)
class Leading:
    """A cause that was the largest in some runs."""

    cause: Cause
    """The cause."""
    runs: int
    """Number of runs."""


@dataclass(frozen=True)
class Model:
    """How well the model replays the observed run."""

    replayed_wall_s: Optional[float] = None
    """The wall time it gives for the unchanged run; absent if the run cannot be modelled (`reason` says why)."""
    error: Optional[float] = None
    """|replayed − observed| / observed."""
    reason: Optional[str] = None
    """Why there is no prediction, if there is none."""


@dataclass(frozen=True)
class Connections:
    """Connections without a known RPC protocol, as far as TCP shows them."""

    count: int
    """Number of connections."""
    failed: int
    """Attempted connections that were not established: refused, or unanswered."""
    sent_bytes: int
    """Bytes from clients, each counted once however often it was sent."""
    received_bytes: int
    """Bytes to clients."""
    round_trips: int
    """How often a client sent and then its server: requests and their answers, if the protocol has them."""
    tcp_retransmissions: int
    """Segments sent again."""
    tcp_timeouts: int
    """Times that a sender's TCP waited for its timer."""
    zero_windows: int
    """Times that a receiver closed its window."""
    listed: list[Conversation]
    """Each by itself, most bytes first; at most 64."""
    answer_median_s: Optional[float] = None
    """Median time from the client's last byte to the server's first, as captured."""
    answer_max_s: Optional[float] = None
    """Longest time from the client's last byte to the server's first."""


@dataclass(frozen=True)
class Conversation:
    """One connection."""

    name: str
    """`CLIENT:PORT > SERVER:PORT`."""
    start_s: float
    """Time it starts."""
    end_s: float
    """Time of its last byte."""
    sent_bytes: int
    """Bytes from the client."""
    received_bytes: int
    """Bytes to the client."""
    failed: bool
    """Whether it was not established."""
    round_trips: int
    """How often the client sent and then the server."""
    server_s: float
    """Time in which this connection waited for its server, beyond the round trip."""
    client_s: float
    """Time in which it waited for its client, beyond the round trip."""
    round_trip_s: float
    """Time in which it waited for messages and acknowledgements in transit."""
    loss_s: float
    """Time in which it waited for TCP to retransmit."""
    window_s: float
    """Time in which a sender waited for a window to open."""
    sent_again: int
    """Segments that the client sent again."""
    received_again: int
    """Segments that the server sent again."""
    server_zero_windows: int
    """Times that the server closed its window, so that the client had to wait."""
    client_zero_windows: int
    """Times that the client closed its window."""
    protocol: Optional[str] = None
    """The protocol, by its first bytes or its server's port."""
    protocol_from: Optional[str] = None
    """The evidence: `content` or `port`."""
    handshake_s: Optional[float] = None
    """Time from SYN to SYN and ACK; absent if the connection's start was not captured."""
    answer_median_s: Optional[float] = None
    """Median time from the client's last byte to the server's first."""
    answer_max_s: Optional[float] = None
    """Longest time from the client's last byte to the server's first."""
    server_window_bytes: Optional[int] = None
    """The least window that the server offered; absent if the window's scale was not captured."""
    client_window_bytes: Optional[int] = None
    """The least window that the client offered."""
