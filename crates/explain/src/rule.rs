//! The rules: one closed list, each with its condition and the fact it rests on. `MODEL.md` has a row for each; a test compares the two.
//! The rules behind a charge are gathered only on request ([`crate::Options::why`]).

use serde::{Deserialize, Serialize};

/// Declares the closed set of rules from one list: name in documents, condition, and basis.
macro_rules! rules {
    ($($rule:ident = $name:literal, $when:literal, $basis:literal);+ $(;)?) => {
        /// By which rule time was charged.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum RuleId { $(#[doc = $when] #[serde(rename = $name)] $rule),+ }

        impl RuleId {
            /// Every rule.
            pub const ALL: &'static [RuleId] = &[$(RuleId::$rule),+];

            /// The name that stands in documents.
            pub const fn name(self) -> &'static str {
                match self { $(RuleId::$rule => $name),+ }
            }

            /// When it holds.
            pub const fn when(self) -> &'static str {
                match self { $(RuleId::$rule => $when),+ }
            }

            /// The fact that it rests on.
            pub const fn basis(self) -> &'static str {
                match self { $(RuleId::$rule => $basis),+ }
            }
        }
    };
}

rules! {
    Running = "running", "a thread ran, in a call or between calls", "no wait covers the instant, or the span's processor time";
    RunningBetweenWaits = "running.between-waits", "a call ran between waits that are spans of their own", "`parent` of the waits";
    RunningTunnel = "running.tunnel", "bytes were in transit, and a program that carries their connection computed for nearly all of that time", "who ended waits for the connection, the program's own spans";
    RunningContainer = "running.container", "time within a request or an MPI call that no span in it covers", "the spans within it";
    RunningAfterWait = "running.after-wait", "a thread ran at the end of its wait", "the wait's processor time";
    RunningStarted = "running.started", "a thread ran while the one that started it waited for it", "the starter's wait";
    Unsampled = "unsampled", "a thread was not waiting for a long time, and no sample found it running", "samples, none of which were lost";
    Runnable = "runnable", "a thread was runnable but not running", "`wait.runqueue`, its object and waker";
    RunnableInSpan = "runnable.in-span", "the runnable part of a call or a wait", "the span's run-queue time";
    RunnableWoken = "runnable.woken", "a thread had been woken and had not run yet", "the waker's last act";
    Recorder = "recorder", "a recorder thread ran or waited", "the track's role";
    RecorderQueue = "recorder.queue", "a thread was runnable while the recorder held a processor", "the recorder's own spans";
    FileBlocked = "file.blocked", "a thread was blocked in a call on a file", "the span's kind and object";
    FileNoDevice = "file.no-device", "a thread was blocked in a call on a file, and no device was seen to work for it", "the device's spans";
    FileElsewhere = "file.elsewhere", "a thread was blocked in a call on a file that another program or machine serves", "the object's attributes";
    FileReadForWrite = "file.read-for-write", "a write ended when a device finished a read, or, without privilege, waited while disks only read", "the device's request at the end of the wait, or all of theirs during it";
    Device = "device", "a thread was blocked on a device", "`wait.disk` and the file call around it";
    Memory = "memory", "a thread was blocked on memory", "`wait.memory`, or a blocked computation";
    BlockedComputing = "blocked.computing", "a thread was off the processor during a computation", "`cpu.run` and its processor time";
    Still = "still", "a thread was neither running, nor runnable, nor waiting", "the span's totals";
    StillUnknown = "still.unknown", "a thread was neither running, nor runnable, nor waiting, in a recording without stops", "the recording's `wakers`";
    Stopped = "stopped", "a thread was stopped by a signal", "`wait.other` with the signal";
    Asleep = "asleep", "a thread slept until a time", "`wait.timer`";
    AsleepForBytes = "asleep.for-bytes", "a thread slept until a time, and next took bytes that had not arrived before", "the connection's unread bytes";
    UnknownWait = "unknown-wait", "a thread waited for something the recorder could not see", "the span's kind";
    HelperWaits = "helper.waits", "a kernel or recorder thread waited while another thread waited for it", "the helper's wait";
    PollPause = "poll.pause", "a pause between polls continued after the awaited event", "earlier pauses, and the end of the polled thread or process";
    PollWork = "poll.work", "a poll began before the awaited event and continued after it", "earlier pauses";
    LookedFor = "looked-for", "a thread paused between failed attempts at a file or a lock, until one succeeded or its process gave up", "failed calls with their objects and errors; the call that succeeded";
    LookedForListener = "looked-for.listener", "a thread paused between failed attempts to connect to an address", "failed `net.connect`, the connection";
    TriedAgain = "tried-again", "a thread paused between runs of a failing program, or between equal answers (or none) to one request, until the last", "`thread.exit` with its status, the bytes of requests and answers";
    PollUnknown = "poll.unknown", "a thread slept between polls for an unknown event", "earlier pauses";
    TimeLimit = "time-limit", "a wait ended at its timeout", "context `timer`, and what came next";
    StoppedWaiting = "time-limit.stopped", "a program that waited for a peer was stopped by the program that limited its run time", "the signal, the stopped program's last wait";
    TimeLimitUnknown = "time-limit.unknown", "a wait ended at its timeout, in a thread that communicates through descriptors", "the thread's other spans";
    MountIdle = "mount.idle", "no thread of a mount had a request", "the waits of all of its threads";
    LockHeld = "lock.held", "a thread slept or computed for itself while another waited for the lock it held", "the waker, the lock's object";
    LockWork = "lock.work", "a thread that serves the waiting threads worked while they waited for the lock it held", "all that the holder did in the recording";
    LockHanded = "lock.handed-on", "another client held the lock that a server passed on: the path reached that client, or the server thread that serves it alone where the client is not part of the command (a database session)", "the waits of server threads for each other; whose bytes the thread took, or who woke it at a socket";
    LockHandedUnrecorded = "lock.handed-on.unrecorded", "another client, which was not recorded, held the lock that a server passed on", "the connection over which the lock was released";
    LockGiven = "lock.given", "a program not recorded at the time released a lock or a semaphore, or opened the other end of a FIFO", "the wait's object, the waker";
    LockFile = "lock.file", "another program held the lock on a file", "the lock's object, the waker";
    LockFileUnknown = "lock.file.unknown-holder", "the holder of a lock on a file is not known", "the lock's object";
    UnseenAsleep = "unseen.asleep", "a thread not yet recorded took as long as each of its later sleeps", "its later sleeps";
    Unseen = "unseen", "a thread not recorded at the time ended the wait", "`thread.seen`, the waker's role";
    NoWakerTerminal = "no-waker.terminal", "a thread waited at a terminal, or for a file to change", "the wait's object";
    NoWakerSocket = "no-waker.socket", "a thread waited at a socket without a connection", "the wait's object";
    NoWakerDatagram = "no-waker.datagram", "a packet of no known connection ended a poll", "context `softirq`";
    NoWakerPipe = "no-waker.pipe", "a thread waited at a pipe or for a child", "the wait's object";
    NoWakerInferred = "no-waker.inferred", "a thread waited for another, where wakers are inferred", "the recording's `wakers`";
    NoWaker = "no-waker", "no waker is known", "the wait's kind";
    MpiUnrecorded = "mpi.unrecorded", "an MPI call depended on a rank that was not recorded", "the call's `request`";
    MpiLauncher = "mpi.launcher", "the launcher kept waiting after its last rank had ended", "the ranks' last spans";
    MpiSleep = "mpi.sleep", "a rank slept within an MPI call", "the call around the sleep";
    MpiRunnable = "mpi.runnable", "a rank was runnable after the others had done their part", "`wait.runqueue` in the call";
    MpiWire = "mpi.wire", "the message was in transit between machines", "the other rank's span, the bytes";
    MpiRunning = "mpi.running", "a rank copied within its machine after the others had done their part", "the ranks' spans of one `request`";
    AcceptOther = "accept.other-work", "the thread that should have accepted did something else", "`tcp.not_accepted`, its spans";
    AcceptDropped = "accept.dropped", "the listener dropped a connection request, which TCP sends again", "`tcp.not_accepted`";
    ConnectLost = "connect.lost", "a packet that sets up a connection was lost", "`tcp.syn_retransmit`, `tcp.retransmit`";
    ConnectAcceptQueue = "connect.accept-queue", "a packet that sets up a connection was lost, and the listener had dropped requests since", "`tcp.accept_queue`";
    ConnectRoundTrip = "connect.round-trip", "setting up a connection took its round trip", "`net.connect`";
    WireTimeout = "tcp.timeout", "bytes were in flight, and TCP's retransmission timer expired", "`tcp.timeout`, `tcp.syn_retransmit`";
    WireRetransmit = "tcp.retransmit", "bytes were in flight, a segment was retransmitted, and there was no queue", "`tcp.retransmit`, round trips";
    WireSndbuf = "tcp.sndbuf", "bytes were in flight, and the send buffer was full", "TCP's time limited by it, or bytes in flight";
    WireRwnd = "tcp.rwnd", "bytes were in flight, and the receive window was full", "TCP's time limited by it, or bytes in flight";
    WireRecovering = "tcp.recovering", "bytes were in flight, and the congestion window was reduced after a loss", "congestion window, marks of loss";
    WireCwnd = "tcp.cwnd", "bytes were in flight, and the congestion window was full or still growing", "congestion window, bytes in flight";
    WireQueue = "tcp.queue", "bytes were in flight, and the round trip was long: the link is full", "smoothed and least round trip";
    WireLatency = "tcp.latency", "few bytes were in flight, or for no longer than the path's round trip", "the bytes' size, the least round trip";
    WireBandwidth = "tcp.bandwidth", "many bytes were in flight, and no limit of TCP applied", "the bytes' size";
    Transit = "transit", "the other end had acted, and its bytes were in transit", "the other end's spans";
    FarEndTcp = "far-end.tcp", "the other end was not recorded, and TCP at this end attributes the wait to the network", "TCP's marks and counters";
    FarEndRoundTrip = "far-end.round-trip", "the other end was not recorded: the round trip before the reply; the whole wait, if the reply came a round trip after its request", "the least round trip, sends and receives";
    FarEndGiven = "far-end.given-to-tcp", "the other end was not recorded, but had given the bytes to TCP: they were unacknowledged there", "TCP's figures of the other end, read from outside";
    FarEndMissing = "far-end.missing", "the other end was not recorded, and a segment was missing while later ones had arrived", "segments that arrived out of order";
    FarEnd = "far-end", "the other end was not recorded, and the rest of the wait is its own", "what the recording lacks";
    NotTheNetwork = "not-the-network", "by the connection's figures the network cannot have taken this long", "round trips, windows and bytes";
    EachOther = "each-other", "two threads waited for each other at one pipe or socket", "the waits' objects and wakers";
    MetadataRpc = "metadata.rpc", "work within an RPC that moves no data", "the RPC's bytes";
    MetadataSamples = "metadata.samples", "a running thread was in metadata calls", "samples of the calls";
    NothingLeft = "nothing-left", "the walk had nowhere to continue", "what the recording lacks";
    PacketsMoving = "packets.moving", "a message was in transit", "the packets";
    PacketsWindow = "packets.window", "a message was in transit, and the whole offered window was in flight", "the packets' windows";
    PacketsLoss = "packets.loss", "segments were retransmitted, or a message paused for a retransmission", "the packets' sequence numbers";
    PacketsServer = "packets.server", "nothing was in transit, and calls were pending", "calls without replies";
    TurnsMoving = "turns.moving", "bytes of a connection without RPCs were in transit", "the packets";
    TurnsServer = "turns.server", "no bytes were in transit on any connection; a server sent next", "who spoke when";
    TurnsClient = "turns.client", "no bytes were in transit on any connection; a client sent next, or neither end did", "who spoke when";
    TurnsRoundTrip = "turns.round-trip", "no bytes were in transit for a round trip's time; or a sender continued when its acknowledgements arrived", "handshakes and acknowledgements";
    TurnsLoss = "turns.loss", "no bytes were in transit until segments were retransmitted", "the packets' sequence numbers";
    TurnsWindow = "turns.window", "no bytes were in transit, and the offered window was closed or fully in flight", "the packets' windows";
    PacketsUnanswered = "packets.unanswered", "no bytes were in transit, and the only pending calls were datagrams that were never answered", "calls without replies";
    PacketsClient = "packets.client", "nothing was in transit, and the client made the next call", "calls and replies";
}

/// A rule by which some of a charge was charged, and the spans that it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// Which.
    pub rule: RuleId,
    /// How much of the charge.
    pub seconds: f64,
    /// The longest stretches so charged: of all rules of a charge together at most [`MAX_STRETCHES`].
    pub rests_on: Vec<Stretch>,
}

/// A stretch of the critical path, and the span that the thread was in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// The span's number in the recording; absent between spans.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub span: Option<u64>,
    /// The span's kind; absent between spans.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<String>,
    /// The thread's track, as its number in the recording.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub track: Option<u64>,
    /// Where the stretch begins.
    pub start_s: f64,
    /// Where it ends.
    pub end_s: f64,
}

/// At most this many stretches of one charge.
pub const MAX_STRETCHES: usize = 5;
