//! The rows of the tables. What could not be had is `None`, never 0.

use crate::{CounterName, MarkKind, ObjectKind, Role, SpanKind, Time, TrackKind, WakerContext};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// Declares an identifier: a newtype over a non-zero number, unique within a recording.
macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(NonZeroU64);

        impl $name {
            /// The identifier with this number; `None` for 0, which means *absent*.
            pub const fn new(number: u64) -> Option<$name> {
                match NonZeroU64::new(number) { Some(n) => Some($name(n)), None => None }
            }
            /// Its number, as it stands on disk.
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
    /// One RPC, or what ranks of an MPI job do together: equal on all of its ends, unique in a recording.
    RequestId
}

impl RequestId {
    /// From this number on they mean the same in all recordings: they are made of what all ends know, and merging keeps them.
    pub const COMMON: u64 = 1 << 63;

    /// The one that all ends arrive at who make it of the same number.
    pub const fn common(made_of: u64) -> RequestId {
        RequestId(NonZeroU64::MIN.saturating_add((RequestId::COMMON | made_of) - 1))
    }

    /// Whether it means the same in all recordings.
    pub const fn is_common(self) -> bool {
        self.number() >= RequestId::COMMON
    }
}

/// A machine, or a namespace of one that is labelled as a node. Number 0 is the reference host, on
/// whose time axis the recording is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub u16);

/// The identifiers one writer may use: `space << 40 | n`, n from 1. Writers of one recording (the
/// client, each server) have different spaces, so they need not ask each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdSpace(pub u16);

/// Row of `hosts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its number in this recording.
    pub host: HostId,
    /// Its host name.
    pub name: String,
    /// The label of the machine for placement (`--node`, `THALWEG_NODE`, or the host name).
    pub node: String,
    /// Which clock its times are on, with what identifies it: `monotonic:BOOT_ID`. Equal clocks
    /// need no alignment.
    pub clock: String,
    /// Kernel release.
    pub kernel: String,
    /// Online processors.
    pub cpus: u32,
}

/// Row of `clocks`: from `from_ns` on (the host's own time), reference time =
/// host time + offset_ns + drift_ppb × (host time − from_ns) / 10⁹, within ± error_ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The host.
    pub host: HostId,
    /// Start of the piece, on the host's own clock.
    pub from_ns: i64,
    /// What to add.
    pub offset_ns: i64,
    /// How fast that changes, parts per 10⁹.
    pub drift_ppb: i64,
    /// Half the width of what is not known.
    pub error_ns: u64,
}

/// Row of `tracks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Track {
    /// Its number.
    pub track: TrackId,
    /// The host it is on.
    pub host: HostId,
    /// What it is.
    pub kind: TrackKind,
    /// On whose behalf it works.
    pub role: Role,
    /// Process, where there is one.
    pub pid: Option<u32>,
    /// Thread, where there is one.
    pub tid: Option<u32>,
    /// A name a person recognises: `io0 connection 127.0.0.1:51234`.
    pub name: String,
}

/// Row of `objects`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its number.
    pub object: ObjectId,
    /// The host it is on.
    pub host: HostId,
    /// What it is.
    pub kind: ObjectKind,
    /// A path, `host:port > host:port`, a device's or server's name.
    pub name: String,
    /// More about it, name and value (`device` = `vda`, `distribution` = `simple_stripe`, ...).
    pub attributes: Vec<(String, String)>,
}

/// Row of `spans`: from post to completion. Spans of one track may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its number.
    pub span: SpanId,
    /// Where it happened.
    pub track: TrackId,
    /// What it is.
    pub kind: SpanKind,
    /// When it was posted, on its host's clock.
    pub start: Time,
    /// How long until it completed.
    pub duration_ns: u64,
    /// How many calls of one kind on one object that never blocked were merged into it (≥ 1).
    pub count: u32,
    /// What it worked on.
    pub object: Option<ObjectId>,
    /// Where in the object it began.
    pub offset_bytes: Option<u64>,
    /// How many bytes it moved or asked for.
    pub size_bytes: Option<u64>,
    /// What it returned: bytes or 0, or −errno.
    pub result: Option<i64>,
    /// The span it is a part of.
    pub parent: Option<SpanId>,
    /// The RPC it belongs to.
    pub request: Option<RequestId>,
    /// Who ended the wait, if it is one.
    pub waker_track: Option<TrackId>,
    /// In which context.
    pub waker_context: Option<WakerContext>,
    /// How long its thread ran within it.
    pub cpu_ns: Option<u64>,
    /// How long its thread was runnable and not running within it.
    pub runqueue_ns: Option<u64>,
    /// Row of `stacks`: where its thread waited, if it is a wait and that was taken.
    pub stack: Option<u32>,
}

impl Span {
    /// A span with nothing but its place in time.
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

/// A span as events have it: as spans were before they had stacks, so that segments of then are read. The stack follows as [`Waited`].
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
    /// When it completed.
    pub fn end(&self) -> Time {
        self.start.plus_ns(i64::try_from(self.duration_ns).unwrap_or(i64::MAX))
    }
}

/// Row of `marks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Where.
    pub track: TrackId,
    /// What.
    pub kind: MarkKind,
    /// When.
    pub at: Time,
    /// On what.
    pub object: Option<ObjectId>,
    /// How much; the unit is the kind's.
    pub value: Option<i64>,
}

/// What a counter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum CounterOf {
    Track(TrackId),
    Object(ObjectId),
}

/// Row of `counters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Whose.
    pub of: CounterOf,
    /// Which.
    pub name: CounterName,
    /// When.
    pub at: Time,
    /// Its value then.
    pub value: i64,
}

/// Row of `samples`: what a processor was doing at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// On which host.
    pub host: HostId,
    /// On which processor.
    pub cpu: u32,
    /// Which thread ran there, if it is known.
    pub track: Option<TrackId>,
    /// Class of code (a small number; named in `meta.json`).
    pub class: u16,
    /// Row of `stacks`, if a stack was taken; of samples that are none of a profile, the innermost frame alone.
    pub stack: Option<u32>,
    /// How much time the sample stands for.
    pub weight_ns: u64,
}

impl Sample {
    /// Classes from here on are a profile's; other recorders number theirs from 0.
    pub const FIRST_PROFILE_CLASS: u16 = 32;

    /// The stack of what ran on a processor, whosoever it was; `None` of another recorder's sample, which has a leaf at most.
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

/// The stack of a thread that waited: no row of its own, it becomes the `stack` of the span of that wait. Who takes stacks and who records
/// waits need not be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// The thread.
    pub track: TrackId,
    /// When it was switched away, as the wait's span has it.
    pub from: Time,
    /// When it ran again, or later.
    pub until: Time,
    /// Row of `stacks`.
    pub stack: u32,
}

/// Anything a recorder hands to a [`crate::Sink`].
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

/// What is said once about a recording: `meta.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the format ([`FORMAT_VERSION`]).
    pub format: u32,
    /// The command recorded, as it was given.
    pub command: Vec<String>,
    /// Which recorder made it: `store`, `bpf`, `preload`, `capture`.
    pub recorder: String,
    /// Start of the interval to explain, on the reference host's clock.
    pub start: Time,
    /// End of it; `None` while it is being recorded, or when the recorder was killed.
    pub end: Option<Time>,
    /// Exit code of the command, if it ended.
    pub exit_code: Option<i32>,
    /// How many events were lost in all.
    pub dropped_events: u64,
    /// Anything the recorder wants to say of how it ran (parameters of the copy, versions, ...).
    pub attributes: Vec<(String, String)>,
}

/// The version of the format that this crate writes. Each change of it is a line in SCHEMA.md.
pub const FORMAT_VERSION: u32 = 2;
