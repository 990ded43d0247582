//! The rules: one closed list, each with when it holds and the fact that it rests on. `MODEL.md` has a row for each; a test holds the two
//! together. Which of them a charge rests on is gathered only where it is asked for ([`crate::Options::why`]).

use serde::{Deserialize, Serialize};

/// Declares the closed set of rules from one list: name on paper, when the rule holds, and what it rests on.
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
    RunningTunnel = "running.tunnel", "bytes were on their way, and a program that carries their connection computed for nearly all of that", "who ended waits for the connection, the program's own spans";
    RunningContainer = "running.container", "what the spans within a request or an MPI call leave over", "the spans within it";
    RunningAfterWait = "running.after-wait", "a thread ran at the end of its wait", "the wait's processor time";
    RunningStarted = "running.started", "a thread ran since the one that started it waits for it", "the starter's wait";
    Unsampled = "unsampled", "a thread was in no wait for long, and no sample found it running", "samples, none of which were lost";
    Runnable = "runnable", "a thread was runnable, and not running", "`wait.runqueue`, its object and waker";
    RunnableInSpan = "runnable.in-span", "the runnable part of a call or a wait", "the span's run-queue time";
    RunnableWoken = "runnable.woken", "a thread was woken, and did not run yet", "the waker's last act";
    Recorder = "recorder", "a thread of the recorder's ran or waited", "the track's role";
    RecorderQueue = "recorder.queue", "a thread was runnable while the recorder held a processor", "the recorder's own spans";
    FileBlocked = "file.blocked", "a thread was blocked in a call on a file", "the span's kind and object";
    FileNoDevice = "file.no-device", "the same, and no device was seen to work for it", "the device's spans";
    FileElsewhere = "file.elsewhere", "the same, on a file that another program or machine serves", "the object's attributes";
    FileReadForWrite = "file.read-for-write", "a write that a device's reading ended", "the device's request at the end of the wait";
    Device = "device", "a thread was blocked on a device", "`wait.disk` and the file call around it";
    Memory = "memory", "a thread was blocked on memory", "`wait.memory`, or a blocked computation";
    BlockedComputing = "blocked.computing", "a thread was off the processor in a stretch of running", "`cpu.run` and its processor time";
    Still = "still", "a thread neither ran, nor was runnable, nor waited", "the span's totals";
    StillUnknown = "still.unknown", "the same, where stops are not recorded", "the recording's `wakers`";
    Stopped = "stopped", "a thread was stopped by a signal", "`wait.other` with the signal";
    Asleep = "asleep", "a thread slept until a time", "`wait.timer`";
    AsleepForBytes = "asleep.for-bytes", "the same, and it took bytes next of which none lay there yet", "the connection's unread bytes";
    UnknownWait = "unknown-wait", "a thread waited, and the recorder could not see what for", "the span's kind";
    HelperWaits = "helper.waits", "a thread of the kernel's or the recorder's waited while it was waited for", "the helper's wait";
    PollPause = "poll.pause", "a pause went on after what was polled for had come about", "earlier pauses, and the end of what was polled for";
    PollWork = "poll.work", "the poll itself came before that, and ran on", "earlier pauses";
    LookedFor = "looked-for", "a thread paused between attempts at a file or a lock that failed, until one succeeded or its process gave up", "calls that failed, their objects and errors; the one that did not";
    LookedForListener = "looked-for.listener", "the same, for somebody to listen at an address", "`net.connect` that failed, the connection";
    TriedAgain = "tried-again", "a thread paused between runs of a program that failed, or between equal answers to one question (or none), until the last", "`thread.exit` with its status, the bytes of questions and answers";
    PollUnknown = "poll.unknown", "a thread slept between polls for something that is not known", "earlier pauses";
    TimeLimit = "time-limit", "a wait was ended by its time limit", "context `timer`, and what came next";
    StoppedWaiting = "time-limit.stopped", "a program was stopped by the one that ran it for a time, and had waited for a peer", "the signal, the stopped program's last wait";
    TimeLimitUnknown = "time-limit.unknown", "the same, in a thread that deals with others by descriptors", "the thread's other spans";
    MountIdle = "mount.idle", "no thread of a mount had a request", "the waits of all of its threads";
    LockHeld = "lock.held", "a thread slept or computed for itself while another waited for its lock", "the waker, the lock's object";
    LockWork = "lock.work", "the same, but the holder works for those who wait", "what the holder did in all of the recording";
    LockHanded = "lock.handed-on", "another client had the lock that a server handed on: the path came to that client, or to a server's thread that serves it alone, where it is no part of the command (a database's session)", "the server's waits for each other; whose bytes the thread took, or who woke it at a socket";
    LockHandedUnrecorded = "lock.handed-on.unrecorded", "the same, and nothing was recorded of that client", "the connection it came back by";
    LockGiven = "lock.given", "a program of which nothing was recorded then gave a lock, a semaphore, or opened the other end of a FIFO", "the wait's object, the waker";
    LockFile = "lock.file", "another program had the lock on a file", "the lock's object, the waker";
    LockFileUnknown = "lock.file.unknown-holder", "a lock on a file, of which the holder is not known", "the lock's object";
    UnseenAsleep = "unseen.asleep", "a thread that was not recorded then took as long as it slept each time afterwards", "its later sleeps";
    Unseen = "unseen", "a thread that was not recorded then ended the wait", "`thread.seen`, the waker's role";
    NoWakerTerminal = "no-waker.terminal", "a thread waited at a terminal, or for a file to change", "the wait's object";
    NoWakerSocket = "no-waker.socket", "a thread waited at a socket without a connection", "the wait's object";
    NoWakerDatagram = "no-waker.datagram", "a packet ended a poll, of no connection that is known", "context `softirq`";
    NoWakerPipe = "no-waker.pipe", "a thread waited at a pipe or for a child", "the wait's object";
    NoWakerInferred = "no-waker.inferred", "a thread waited for another, where wakers are inferred", "the recording's `wakers`";
    NoWaker = "no-waker", "nobody is known to have ended the wait", "the wait's kind";
    MpiUnrecorded = "mpi.unrecorded", "an MPI call depended on a rank that was not recorded", "the call's `request`";
    MpiLauncher = "mpi.launcher", "the launcher went on waiting after its last rank had ended", "the ranks' last spans";
    MpiSleep = "mpi.sleep", "a rank slept within an MPI call", "the call around the sleep";
    MpiRunnable = "mpi.runnable", "a rank was runnable after the others had done their part", "`wait.runqueue` in the call";
    MpiWire = "mpi.wire", "the message was on its way between machines", "the other rank's span, the bytes";
    MpiRunning = "mpi.running", "a rank copied within its machine after the others had done their part", "the ranks' spans of one `request`";
    AcceptOther = "accept.other-work", "the thread that was to accept did something else", "`tcp.not_accepted`, its spans";
    AcceptDropped = "accept.dropped", "a call was dropped, and would be sent again", "`tcp.not_accepted`";
    ConnectLost = "connect.lost", "what sets up a connection was lost on its way", "`tcp.syn_retransmit`, `tcp.retransmit`";
    ConnectAcceptQueue = "connect.accept-queue", "the same, and the listener had dropped requests since", "`tcp.accept_queue`";
    ConnectRoundTrip = "connect.round-trip", "setting up a connection took its round trip", "`net.connect`";
    WireTimeout = "tcp.timeout", "bytes were under way, and TCP's retransmission timer ran out", "`tcp.timeout`, `tcp.syn_retransmit`";
    WireRetransmit = "tcp.retransmit", "bytes were under way, a segment was sent again, and there was no queue", "`tcp.retransmit`, round trips";
    WireSndbuf = "tcp.sndbuf", "bytes were under way, and the send buffer was full", "TCP's time limited by it, or bytes in flight";
    WireRwnd = "tcp.rwnd", "bytes were under way, and the receive window was full", "TCP's time limited by it, or bytes in flight";
    WireRecovering = "tcp.recovering", "bytes were under way, and the window was smaller for a loss", "congestion window, marks of loss";
    WireCwnd = "tcp.cwnd", "bytes were under way, and the congestion window was full or still grew", "congestion window, bytes in flight";
    WireQueue = "tcp.queue", "bytes were under way, and the round trip was long: the link is full", "smoothed and least round trip";
    WireLatency = "tcp.latency", "few bytes were under way, or for no longer than the path's round trip", "the bytes' size, the least round trip";
    WireBandwidth = "tcp.bandwidth", "many bytes were under way, and nothing of TCP's held them back", "the bytes' size";
    Transit = "transit", "the other end had acted, and its bytes were on their way", "the other end's spans";
    FarEndTcp = "far-end.tcp", "nothing was recorded of the other end, and TCP at this one says that it is the network", "TCP's marks and counters";
    FarEndRoundTrip = "far-end.round-trip", "the same: the least round trip of the answer", "the least round trip";
    FarEnd = "far-end", "nothing was recorded of the other end, and the rest is its own", "what the recording lacks";
    NotTheNetwork = "not-the-network", "the connection's figures say that the network cannot have taken so long", "round trips, windows and bytes";
    EachOther = "each-other", "two threads wait for each other at one pipe or socket", "the waits' objects and wakers";
    MetadataRpc = "metadata.rpc", "work within an RPC that moves no data", "the RPC's bytes";
    MetadataSamples = "metadata.samples", "a running thread was in metadata calls", "samples of the calls";
    NothingLeft = "nothing-left", "the walk could go nowhere", "what the recording lacks";
    PacketsMoving = "packets.moving", "a message was on its way", "the packets";
    PacketsWindow = "packets.window", "the same, and the window offered was in flight", "the packets' windows";
    PacketsLoss = "packets.loss", "segments were sent again, or a message paused for that", "the packets' sequence numbers";
    PacketsServer = "packets.server", "nothing was on its way, and calls were pending", "calls without replies";
    TurnsMoving = "turns.moving", "bytes of a connection without RPCs were on their way", "the packets";
    TurnsServer = "turns.server", "no bytes were on their way on any connection; a server sent next", "who spoke when";
    TurnsClient = "turns.client", "no bytes were on their way on any connection; a client sent next, or no end did", "who spoke when";
    TurnsRoundTrip = "turns.round-trip", "the same, for a round trip's time; or a sender went on when its acknowledgements came", "handshakes and acknowledgements";
    TurnsLoss = "turns.loss", "the same, and it ended with segments sent again", "the packets' sequence numbers";
    TurnsWindow = "turns.window", "the same, and the window offered was closed or in flight", "the packets' windows";
    PacketsUnanswered = "packets.unanswered", "no bytes were on their way, and the only calls pending were datagrams that never got an answer", "calls without replies";
    PacketsClient = "packets.client", "nothing was on its way, and the client was to call next", "calls and replies";
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
