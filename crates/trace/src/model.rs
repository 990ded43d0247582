//! Rows of the tables. Unknown values are `None`, never 0.

use crate::{CounterName, MarkKind, ObjectKind, Role, SpanKind, Time, TrackKind, WakerContext};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// Declares an identifier: a non-zero number in a newtype, unique within a recording.
macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(NonZeroU64);

        impl $name {
            /// Creates an identifier; `None` for 0, which means *absent*.
            pub const fn new(number: u64) -> Option<$name> {
                match NonZeroU64::new(number) { Some(n) => Some($name(n)), None => None }
            }
            /// Returns the number stored on disk.
            pub const fn number(self) -> u64 {
                self.0.get()
            }
        }
    };
}

identifier! {
    /// A thread, connection, device, CPU or link.
    TrackId
}
identifier! {
    /// A file, connection, device, server or mount.
    ObjectId
}
identifier! {
    /// A span.
    SpanId
}
identifier! {
    /// One RPC, or one operation shared by ranks of an MPI job: equal on all of its ends, unique in a recording.
    RequestId
}

impl RequestId {
    /// Requests from this number on have the same meaning in all recordings: they are derived from data that all ends
    /// know, and merging keeps them.
    pub const COMMON: u64 = 1 << 63;

    /// Returns the request that all ends derive from the same number.
    pub const fn common(made_of: u64) -> RequestId {
        RequestId(NonZeroU64::MIN.saturating_add((RequestId::COMMON | made_of) - 1))
    }

    /// Whether the request means the same in all recordings.
    pub const fn is_common(self) -> bool {
        self.number() >= RequestId::COMMON
    }
}

/// A machine, or a namespace of a machine labelled as a node. Number 0 is the reference host, whose time axis the
/// recording uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub u16);

/// The identifiers one writer may use: `space << 40 | n`, n from 1. The writers of a recording (the client, each
/// server) use different spaces, so they need no coordination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdSpace(pub u16);

/// Row of `hosts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its number in this recording.
    pub host: HostId,
    /// Its host name.
    pub name: String,
    /// The machine's placement label (`--node`, `THALWEG_NODE`, or the host name).
    pub node: String,
    /// The clock of its times, with its identity: `monotonic:BOOT_ID`. Equal clocks need no alignment.
    pub clock: String,
    /// Kernel release.
    pub kernel: String,
    /// Online CPUs.
    pub cpus: u32,
}

/// Row of `clocks`: from `from_ns` on (the host's own time), reference time = host time + offset_ns + drift_ppb ×
/// (host time − from_ns) / 10⁹, within ± error_ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The host.
    pub host: HostId,
    /// Start of the piece, on the host's own clock.
    pub from_ns: i64,
    /// Offset to add at `from_ns`.
    pub offset_ns: i64,
    /// Rate of change of the offset, in parts per 10⁹.
    pub drift_ppb: i64,
    /// Half the width of the uncertainty.
    pub error_ns: u64,
}

/// Row of `tracks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Track {
    /// Its number.
    pub track: TrackId,
    /// Its host.
    pub host: HostId,
    /// Its kind.
    pub kind: TrackKind,
    /// The side on whose behalf it works.
    pub role: Role,
    /// Process id, if it has one.
    pub pid: Option<u32>,
    /// Thread id, if it has one.
    pub tid: Option<u32>,
    /// A recognisable name: `io0 connection 127.0.0.1:51234`.
    pub name: String,
}

/// Row of `objects`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its number.
    pub object: ObjectId,
    /// Its host.
    pub host: HostId,
    /// Its kind.
    pub kind: ObjectKind,
    /// A path, `host:port > host:port`, a device's or server's name.
    pub name: String,
    /// Further attributes, name and value (`device` = `vda`, `distribution` = `simple_stripe`, ...).
    pub attributes: Vec<(String, String)>,
}

/// Row of `spans`: from post to completion. Spans of one track may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its number.
    pub span: SpanId,
    /// The track it happened on.
    pub track: TrackId,
    /// Its kind.
    pub kind: SpanKind,
    /// Time of its post, on its host's clock.
    pub start: Time,
    /// Time from post to completion.
    pub duration_ns: u64,
    /// Number of calls of one kind on one object that never blocked and were merged into it (≥ 1).
    pub count: u32,
    /// The object it worked on.
    pub object: Option<ObjectId>,
    /// Start offset in the object.
    pub offset_bytes: Option<u64>,
    /// Bytes moved or requested.
    pub size_bytes: Option<u64>,
    /// Result: bytes or 0, or −errno.
    pub result: Option<i64>,
    /// The span that contains it.
    pub parent: Option<SpanId>,
    /// The RPC it belongs to.
    pub request: Option<RequestId>,
    /// The track that ended the wait, for waits.
    pub waker_track: Option<TrackId>,
    /// The context in which the wait was ended.
    pub waker_context: Option<WakerContext>,
    /// CPU time of its thread within it.
    pub cpu_ns: Option<u64>,
    /// Time its thread was runnable but not running within it.
    pub runqueue_ns: Option<u64>,
    /// Row of `stacks`: where its thread waited, for a wait whose stack was taken.
    pub stack: Option<u32>,
}

impl Span {
    /// Creates a span with only its track, kind and interval.
    pub fn bare(span: SpanId, track: TrackId, kind: SpanKind, start: Time, duration_ns: u64) -> Span {
        Span {
            span,
            track,
            kind,
            start,
            duration_ns,
            count: 1,
            object: None,
            offset_bytes: None,
            size_bytes: None,
            result: None,
            parent: None,
            request: None,
            waker_track: None,
            waker_context: None,
            cpu_ns: None,
            runqueue_ns: None,
            stack: None,
        }
    }
}

/// A span as events encode it: without the later field `stack`, so that older segments can be read. The stack follows
/// as [`Waited`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Span")]
struct SpanWithoutStack {
    span: SpanId,
    track: TrackId,
    kind: SpanKind,
    start: Time,
    duration_ns: u64,
    count: u32,
    object: Option<ObjectId>,
    offset_bytes: Option<u64>,
    size_bytes: Option<u64>,
    result: Option<i64>,
    parent: Option<SpanId>,
    request: Option<RequestId>,
    waker_track: Option<TrackId>,
    waker_context: Option<WakerContext>,
    cpu_ns: Option<u64>,
    runqueue_ns: Option<u64>,
    #[serde(skip)]
    stack: Option<u32>,
}

impl Span {
    /// Returns the time of completion.
    pub fn end(&self) -> Time {
        self.start.plus_ns(i64::try_from(self.duration_ns).unwrap_or(i64::MAX))
    }
}

/// Row of `marks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The track it is on.
    pub track: TrackId,
    /// Its kind.
    pub kind: MarkKind,
    /// Its time.
    pub at: Time,
    /// The object concerned.
    pub object: Option<ObjectId>,
    /// The value; its unit depends on the kind.
    pub value: Option<i64>,
}

/// The owner of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum CounterOf {
    Track(TrackId),
    Object(ObjectId),
}

/// Row of `counters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its owner.
    pub of: CounterOf,
    /// The quantity counted.
    pub name: CounterName,
    /// Time of the value.
    pub at: Time,
    /// The value.
    pub value: i64,
}

/// Row of `samples`: what a CPU was doing at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Its time.
    pub at: Time,
    /// Its host.
    pub host: HostId,
    /// The CPU.
    pub cpu: u32,
    /// The thread that ran there, if known.
    pub track: Option<TrackId>,
    /// Class of code (a small number; named in `meta.json`).
    pub class: u16,
    /// Row of `stacks`, if a stack was taken; for samples not of a profile, the innermost frame only.
    pub stack: Option<u32>,
    /// Time that the sample represents.
    pub weight_ns: u64,
}

impl Sample {
    /// First class number of profiles; other recorders number their classes from 0.
    pub const FIRST_PROFILE_CLASS: u16 = 32;

    /// Returns the stack of whatever ran on a CPU; `None` for another recorder's sample, which has at most the
    /// innermost frame.
    pub fn profiled(&self) -> Option<u32> {
        self.stack.filter(|_| self.class >= Sample::FIRST_PROFILE_CLASS)
    }
}

/// Row of `stacks`, innermost frame first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Its number.
    pub stack: u32,
    /// Its frames, `symbol+offset`.
    pub frames: Vec<String>,
}

/// The stack of a waiting thread. Has no row of its own: it becomes the `stack` of the wait's span. Stacks and waits
/// may come from different recorders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// The thread.
    pub track: TrackId,
    /// When the thread was switched out, equal to the start of the wait's span.
    pub from: Time,
    /// When the thread ran again, or later.
    pub until: Time,
    /// Row of `stacks`.
    pub stack: u32,
}

/// Any event that a recorder passes to a [`crate::Sink`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Event {
    Host(Host),
    Clock(Clock),
    Track(Track),
    Object(Object),
    Span(#[serde(with = "SpanWithoutStack")] Span),
    Mark(Mark),
    Counter(Counter),
    Sample(Sample),
    Stack(Stack),
    Waited(Waited),
}

/// Metadata of a recording: `meta.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Format version ([`FORMAT_VERSION`]).
    pub format: u32,
    /// The recorded command, as given.
    pub command: Vec<String>,
    /// The recorder that made it: `store`, `bpf`, `preload`, `capture`.
    pub recorder: String,
    /// Start of the interval to explain, on the reference host's clock.
    pub start: Time,
    /// End of the interval; `None` while recording, or if the recorder was killed.
    pub end: Option<Time>,
    /// Exit code of the command, if it exited.
    pub exit_code: Option<i32>,
    /// Total number of lost events.
    pub dropped_events: u64,
    /// Further facts from the recorder (parameters of the copy, versions, ...).
    pub attributes: Vec<(String, String)>,
}

/// The format version this crate writes. Each change of it is a line in SCHEMA.md.
pub const FORMAT_VERSION: u32 = 2;
