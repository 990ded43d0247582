"""An explanation (`thalweg.explain/1`) as dataclasses: what `thalweg explain --json` prints, field by field.

Written by `python/generate` from the schema; do not change it by hand. Long because the schema is. A list that the document leaves out is
empty here, anything else that it leaves out is `None`. Fields that a newer command adds are not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SCHEMA = "thalweg.explain/1"

# What an instant of wall time is charged to.
Cause = Literal[
    "client.read", "client.write", "client.sync", "client.metadata", "client.memory", "client.cpu", "client.runqueue", "client.lock",
    "client.think", "server.read", "server.write", "server.sync", "server.metadata", "server.memory", "server.cpu", "server.runqueue",
    "server.lock", "server.think", "server.unknown", "network.loss", "network.sndbuf", "network.rwnd", "network.cwnd", "network.latency",
    "network.bandwidth", "recorder", "unknown"
]

# How sure the verdict is.
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
    "tcp.latency", "tcp.bandwidth", "transit", "far-end.tcp", "far-end.round-trip", "far-end", "not-the-network", "each-other",
    "metadata.rpc", "metadata.samples", "nothing-left", "packets.moving", "packets.window", "packets.loss", "packets.server",
    "turns.moving", "turns.server", "turns.client", "turns.round-trip", "turns.loss", "turns.window", "packets.unanswered", "packets.client"
]

# What a charge rests on.
Basis = Literal[
    "recorded", "inferred"
]

# The phases.
PhaseName = Literal[
    "set-up", "ramp", "steady", "drain", "tear-down"
]

# What is known of when a channel carried its bytes.
ChannelBasis = Literal[
    "received", "acknowledged", "handed_over"
]

# What is counted as a question: calls that the client says it made, what it handed to its connections, or requests to disks.
Trip = Literal[
    "calls", "exchanges", "disk"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where the time of one recording went."""

    schema: Literal["thalweg.explain/1"]
    """Always `thalweg.explain/1`."""
    command: list[str]
    """The command recorded."""
    recorder: str
    """Which recorder made the recording."""
    dropped_events: int
    """How many events were lost; what rests on them is weaker by that much."""
    start_ns: int
    """Where second 0 of this document is, in nanoseconds on the reference host's axis."""
    wall_s: float
    """How long the interval explained is: the command, from its start to its exit."""
    size_bytes: int | None = None
    """How many bytes were transferred, all transfers together."""
    rate_bytes_per_s: float | None = None
    """`size_bytes` over `wall_s`."""
    repeated: Repeated | None = None
    """The other runs of the command, where it was run several times (`explain -n`)."""
    emulated: str | None = None
    """The devices that the recorded store, or a copy's source, only pretended to have: `disk 200 MiB/s, link 2 Gb/s, round trip 200 µs`."""
    reliable: bool | None = None
    """Whether the figures can be relied on. Where not, the text withholds the sentence and all changes; they stand here for what they
    are worth.
    """
    unreliable_because: str | None = None
    """Why they cannot; absent where they can."""
    summary: Summary | None = None
    """The run in a few lines, in the reader's words."""
    verdict: Verdict
    """What limits, in one word and in one sentence."""
    critical_path: list[Charge]
    """The wall time, charged: largest first; seconds sum to `wall_s`, shares to 1 (± 0.001)."""
    path: list[Segment]
    """The critical path in order of time, for pictures: segments touch, and cover the wall time. At most 4000; where there were more, a
    segment stands for its neighbours, so that shares over many are right.
    """
    transfers: list[Transfer]
    """What was moved from where to where: at most 1000, those that moved most, in order of time."""
    unlisted_transfers: Unlisted | None = None
    """The transfers besides; absent where all are listed."""
    phases: list[Phase]
    """The phases of the transfer, in order of time."""
    channels: list[Channel]
    """The tracks whose bytes are the transfer; first the sum of each direction (`aggregate`), then, at most 64, the connections that
    moved most.
    """
    throughput: Throughput | None = None
    """Bytes over time; absent when no bytes were seen."""
    tracks: list[Utilisation]
    """What each thread did, busiest first; at most 256."""
    round_trips: RoundTrips | None = None
    """What was asked and waited for, in a run that is about answers and not about data (a walk of a directory, say)."""
    connections: Connections | None = None
    """What TCP shows of connections that carry no RPC known here, in a recording of packets."""
    what_if: list[WhatIf]
    """What a change would give, best first; at most 5. Empty when the model does not hold."""
    advice: list[Advice] = field(default_factory=list)
    """What else is known to help against what was charged, without a prediction of how much: at most 3."""
    model: Model
    """How well the model replays what was observed."""
    notes: list[str]
    """What a reader must know besides: what was not recorded and how to record it, why there is no prediction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The run in a few lines: programs, files and devices by their names, and no client where there is no server."""

    command: str
    """The command, with paths cut to their last part."""
    ended: str | None = None
    """How it ended, where not with exit code 0: `failed with exit code 2`, `killed by SIGKILL`."""
    about: str
    """What it did, how long that took and at which rate: `256 MiB in 2.05 s, 1.05 Gb/s`."""
    sentence: str
    """One sentence of at most 240 characters; empty of a run that is too short for one."""
    numbers: list[Number] = field(default_factory=list)
    """The number behind the rate, that of the largest cause first."""
    rows: list[SummaryRow]
    """The charges, those of one cause and one program together: largest first. None of a run that is over at once."""
    innocent: list[Innocent]
    """What did not limit, with the figure that says so."""
    remarks: list[str]
    """What keeps these figures from being relied on, and what would settle it; what counts most comes first."""
    tuning: list[str] = field(default_factory=list)
    """What a tuner did meanwhile, in at most three lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number behind the rate, with the figures that its sentence gives."""

    kind: Literal["in_flight", "one_at_a_time", "round_trips_per_item", "connection_per_item", "syncs_per_item", "times_over", "process_per_item", "call_size", "disk_one_at_a_time", "one_processor", "all_processors", "time_limit", "name_lookups", "lock_held", "other_clients", "in_series"]
    """What kind of number."""
    sentence: str
    """One plain sentence."""
    count: int | None = None
    """How often it was done; of two stages, how often they took turns."""
    each_s: float | None = None
    """How long each took."""
    bytes: int | None = None
    """Bytes in flight at the most, of each request, or of each call."""
    round_trip_s: float | None = None
    """The least round trip of the path."""
    rate_bytes_per_s: float | None = None
    """The rate that it allows."""
    items: int | None = None
    """How many files, transactions or connections it was done for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRow:
    """The charges of one cause to one program, device or path."""

    cause: Cause
    """The cause."""
    share: float
    """Its share of the wall time."""
    subject: str
    """Who or what it was."""
    figures: str
    """The figures that matter most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Innocent:
    """Something that did not limit."""

    what: str
    """What did not limit."""
    figure: str
    """The figure that says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What limits."""

    status: Status
    """Whether one cause stands out."""
    cause: Cause
    """The largest cause."""
    where: str
    """Where its largest part was."""
    share: float
    """Its share of the wall time, all places together."""
    second: Second | None = None
    """The second, when the verdict is inconclusive."""
    of_ceiling: float | None = None
    """Which part of its measured ceiling the limiting device or path reached, where it came near."""
    sentence: str
    """One plain sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """The runner-up of an inconclusive verdict."""

    cause: Cause
    """The second largest cause."""
    where: str
    """Where its largest part was."""
    share: float
    """Its share of the wall time, all places together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HottestOfCharge:
    """One of `hottest`."""

    function: str
    """Its name, or its module in brackets where it is not known."""
    module: str | None = None
    """The file that it is in, without its folder; kernel: the kernel's own, jit: code made at run time."""
    share: float
    """Time on the critical path in it, as a part of wall_s."""
    of_samples: float | None = None
    """The same as a part of what was sampled of the charge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsOfCharge:
    """One of `waits`."""

    count: int
    """How many waits of this charge had this stack, of those of which stacks were taken: long ones."""
    seconds: float
    """How long the critical path lay in them."""
    longest_s: float
    """How long it lay in the longest."""
    at_s: float
    """When that began."""
    track: int
    """The track that waited then, as its number in the recording."""
    functions: list[str]
    """The program's functions, innermost first; a module and place in brackets where a name is not known. Empty of a thread of the
    kernel.
    """
    kernel: list[str] = field(default_factory=list)
    """The kernel's functions that the longest waited in, innermost first. Absent: no names of any are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Wall time charged to one cause at one place."""

    cause: Cause
    """What it is charged to."""
    where: str
    """Where."""
    seconds: float
    """How much of the wall time."""
    share: float
    """The same as a part of `wall_s`."""
    slack_s: float
    """How much of `seconds` can go before another chain of waits is critical, estimated (`MODEL.md` says how)."""
    basis: Basis
    """Whether all of it was recorded."""
    inferred_s: float | None = None
    """How much of `seconds` a rule inferred. Absent: nothing."""
    via: str | None = None
    """Who waited for this at once, in the same process, where that was so for most of it. Absent: nobody."""
    quota: bool | None = None
    """Whether a processor quota is what was waited for."""
    evidence: str
    """What was seen: how many intervals, how long, around what."""
    hottest: list[HottestOfCharge] = field(default_factory=list)
    """Of a charge to a processor: the functions in which it ran longest, where the recording has a profile."""
    waits: list[WaitsOfCharge] = field(default_factory=list)
    """Of a charge for waiting: where its longest waits waited, by the longest of each stack, where the recording has a profile."""
    rules: list[Applied] = field(default_factory=list)
    """By which rules it was charged, the one by which most of it was first. Absent: that was not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A rule by which some of a charge was charged, and the spans that it rests on."""

    rule: RuleId
    """Which."""
    seconds: float
    """How much of the charge."""
    rests_on: list[Stretch]
    """The longest stretches so charged: of all rules of a charge together at most five."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of the critical path, and the span that the thread was in."""

    span: int | None = None
    """The span's number in the recording. Absent: between spans."""
    kind: str | None = None
    """The span's kind. Absent: between spans."""
    track: int | None = None
    """The thread's track, as its number in the recording."""
    start_s: float
    """Where the stretch begins."""
    end_s: float
    """Where it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of the critical path."""

    cause: Cause
    """What it is charged to."""
    charge: int
    """Which entry of `critical_path` it belongs to (an index)."""
    start_s: float
    """Where it begins."""
    end_s: float
    """Where it ends."""
    track: int | None = None
    """The track the walk was on, as its number in the recording; absent for the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Bytes moved from one set of objects to another for one purpose."""

    from_: str
    """The source."""
    to: str | None = None
    """The sink, where it is known."""
    size_bytes: int
    """How many bytes."""
    requests: int
    """In how many requests."""
    start_s: float
    """When its first request began."""
    wall_s: float
    """How long until its last ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlisted:
    """Transfers that are counted and not listed."""

    count: int
    """How many."""
    size_bytes: int
    """How many bytes, all together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase of the transfer."""

    name: PhaseName
    """Which."""
    start_s: float
    """Where it begins."""
    end_s: float
    """Where it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A track whose bytes are the transfer, or the sum of all in one direction."""

    name: str
    """The connection, `HOST:PORT > HOST:PORT`, in the direction the bytes went; or `all to servers`, `all from servers`, `all written`,
    `all read`.
    """
    aggregate: bool
    """Whether this is the sum over the connections of one direction: busy when any of them is."""
    object: int | None = None
    """The connection's number in the recording (one of the two rows of it); absent for a sum."""
    basis: ChannelBasis | None = None
    """What its bytes and times are known from."""
    size_bytes: int
    """How many bytes, of all that basis counts."""
    sends: int
    """In how many sends."""
    bursts: int
    """How many bursts: what lies between two gaps."""
    burst_bytes_per_s: float | None = None
    """Bytes over time within bursts; absent of a connection of which only what was handed over is known: a socket takes bytes faster
    than its link.
    """
    busy_share: float
    """The part of the wall time in bursts."""
    gaps: Gaps
    """The idle intervals between bursts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """The gaps of a channel."""

    count: int
    """How many."""
    total_s: float
    """All together."""
    median_s: float | None = None
    """The median length."""
    p99_s: float | None = None
    """The 99th percentile."""
    period_bytes: int | None = None
    """How many bytes apart they are, when they recur."""
    groups: list[GapGroup]
    """The gaps by what the critical path was charged to within them; most time first."""
    parts: list[GapPart] = field(default_factory=list)
    """The same time without regard to which gap it was in: what gaps are made of; most time first."""
    longest: list[Gap]
    """Single gaps in order of time; the longest 100 where there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapGroup:
    """Gaps with one cause."""

    cause: Cause
    """What most of each gap was charged to."""
    where: str
    """Where most of that was."""
    count: int
    """How many gaps."""
    total_s: float
    """All together."""
    median_s: float
    """The median length."""
    p99_s: float
    """The 99th percentile."""
    period_bytes: int | None = None
    """How many bytes apart they are, when they recur."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapPart:
    """What one cause has of all gaps."""

    cause: Cause
    """What the critical path was charged to."""
    gaps: int
    """In how many gaps."""
    total_s: float
    """All together."""
    median_s: float
    """The median of those gaps' parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One gap."""

    start_s: float
    """Where it begins."""
    end_s: float
    """Where it ends."""
    after_bytes: int
    """How many bytes the channel had carried before it."""
    cause: Cause
    """What most of it was charged to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Payload bytes over time."""

    bin_s: float
    """Width of a bin. The first begins at second 0; the last may reach past the end."""
    bytes_per_s: list[float]
    """Payload bytes sent per second in each bin, all channels together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """What one thread did with the wall time."""

    track: int
    """Its number in the recording."""
    name: str
    """Its name."""
    role: str
    """Whose it is: `client`, `server`, `kernel`, `recorder`, `none`."""
    cpu_s: float
    """How long it ran, as far as it is known."""
    runqueue_s: float
    """How long it was runnable and not running."""
    file_s: float
    """How long it was blocked in files: reading, writing, syncing."""
    network_s: float
    """How long it was blocked in sends and receives that carried something it had begun."""
    lock_s: float
    """How long it was blocked on other threads."""
    spans: int
    """How many spans it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrips:
    """Questions that were asked and waited for."""

    of: Trip
    """What is counted."""
    count: int
    """How many questions."""
    in_a_row: int
    """How many of them one after the other: how often the critical path left the client and came back (of a recording without threads:
    the longest chain of calls of which each was made when the one before it had been answered).
    """
    at_once: float | None = None
    """How many were under way on average, while any was; of exchanges, questions for each of those one after the other."""
    most_at_once: int | None = None
    """The most that were under way at one time."""
    median_s: float | None = None
    """The median from question to answer."""
    asking_s: float
    """From the first question to the last answer."""
    each_s: float
    """`asking_s` over `in_a_row`: what one of those one after the other takes, with all that lies between it and the next."""
    of_each: list[Part]
    """What `each_s` is made of, as the critical path was charged; most first."""
    per_entry: PerEntry | None = None
    """The same for each entry, where it is known how many there were."""
    to: list[Answerer]
    """Who answered, most first; at most 16."""
    sentence: str
    """One or two plain sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Time charged to one cause."""

    cause: Cause
    """The cause."""
    seconds: float
    """How long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerEntry:
    """What was asked, and what it took, for each entry of a walk."""

    entries: int
    """How many entries."""
    questions: float
    """Questions."""
    round_trips: float
    """Those of them that were one after the other."""
    seconds: float
    """Time, from the first question to the last answer."""
    parts: list[Part]
    """What that is made of; most first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answerer:
    """A server, or a disk, that answered."""

    name: str
    """Its address, or the disk's name."""
    count: int
    """How many questions."""
    at_once: float
    """How many were under way on average, while any was."""
    median_s: float
    """The median from question to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A change against what was charged, of which no what-if predicts what it gives."""

    cause: Cause
    """The cause that it is for."""
    says: str
    """The change, in words."""
    command: list[str] = field(default_factory=list)
    """The recorded command with the change made, word by word; absent where a command does not make it."""
    gives_up: str | None = None
    """What it gives up, where it gives up anything."""
    recipe: str
    """Whose recipe says it: a file of `recipes/`, without its ending."""
    source: str
    """The page that documents it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What one change would give."""

    id: str | None = None
    """What kind of change, stable and machine-readable: `device.read.x2`, `no_sync`, ... (`MODEL.md` lists them)."""
    change: str
    """The change, in words."""
    basis: Literal["replayed", "bounded"] | None = None
    """What the prediction rests on: the recorded run replayed with the change made, or a bound on what it can give."""
    predicted_wall_s: float
    """The wall time the model predicts, corrected for its own error on the observed run; of a bound, the least that it can be."""
    interval_s: tuple[float, float] | None = None
    """Between which wall times four of five such changes came to lie; of a bound, from the least that it can be to no gain."""
    speedup: float
    """`wall_s` over `predicted_wall_s`; of a bound, the most that it can be."""
    about: list[Cause] = field(default_factory=list)
    """The causes that it takes time from: nothing is proposed where none of them was charged."""
    how: str
    """How to make the change with this very program; or what would have to change."""
    flags: list[tuple[str, str]] = field(default_factory=list)
    """The flags alone, as (flag, value), where the change is a matter of flags; for scripts."""
    command: list[str] = field(default_factory=list)
    """The recorded command with the change made, word by word; empty where a command does not make it."""
    gives_up: str | None = None
    """What the change gives up (durability, encryption, ...), where it gives up anything."""
    recipe: str | None = None
    """Whose recipe says how: a file of `recipes/`, without its ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """Runs of one command, one after the other; the document explains the one of median wall time."""

    wall_s: list[float]
    """The wall time of each, in the order in which they were run."""
    explained: int
    """Which of them the document explains, from 1."""
    median_s: float
    """The median of `wall_s`."""
    interval_s: list[float]
    """Its 95 % interval, by the bootstrap."""
    shares: list[list[float]]
    """For each row of the summary, in its order: the 95 % interval of the median of its share over all runs."""
    leading: list[Leading]
    """The largest cause of each run, counted; the one of most runs first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """A cause that was the largest in some of the runs."""

    cause: Cause
    """The cause."""
    runs: int
    """In how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """How well the model replays what was observed."""

    replayed_wall_s: float | None = None
    """The wall time it gives for the run as it was; absent when the run cannot be modelled (`reason` says why)."""
    error: float | None = None
    """|replayed − observed| / observed."""
    reason: str | None = None
    """Why there is no prediction, when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """Connections that carry no RPC known here, as far as TCP shows."""

    count: int
    """How many."""
    failed: int
    """Connections that were asked for and did not come about: refused, or unanswered."""
    sent_bytes: int
    """Bytes from clients, each counted once however often it was sent."""
    received_bytes: int
    """Bytes to clients."""
    round_trips: int
    """How often a client spoke and then its server: requests and their answers, where a protocol has such."""
    answer_median_s: float | None = None
    """From the client's last byte to the server's first, seen where the packets were captured: the median."""
    answer_max_s: float | None = None
    """... the longest."""
    tcp_retransmissions: int
    """Segments sent again."""
    tcp_timeouts: int
    """Times that a sender's TCP waited for its timer."""
    zero_windows: int
    """Times that a receiver closed its window."""
    listed: list[Conversation]
    """Each by itself, most bytes first; at most 64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One connection."""

    name: str
    """`CLIENT:PORT > SERVER:PORT`."""
    protocol: str | None = None
    """What it carries, as its first bytes or its server's port say."""
    protocol_from: str | None = None
    """`content` or `port`: what says so."""
    start_s: float
    """When it began."""
    end_s: float
    """When its last byte passed."""
    sent_bytes: int
    """Bytes from the client."""
    received_bytes: int
    """Bytes to the client."""
    handshake_s: float | None = None
    """From SYN to SYN and ACK; absent where the connection's beginning was not captured."""
    failed: bool
    """Whether it did not come about."""
    round_trips: int
    """How often the client spoke and then the server."""
    answer_median_s: float | None = None
    """From the client's last byte to the server's first: the median."""
    answer_max_s: float | None = None
    """... the longest."""
    server_s: float
    """Time in which this connection waited for its server, beyond the round trip."""
    client_s: float
    """Time in which it waited for its client, beyond the round trip."""
    round_trip_s: float
    """Time in which it waited for messages and acknowledgements on their way."""
    loss_s: float
    """Time in which it waited for TCP to send again."""
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
    server_window_bytes: int | None = None
    """The least window that the server offered; absent where the window's scale was not captured."""
    client_window_bytes: int | None = None
    """The least window that the client offered."""
