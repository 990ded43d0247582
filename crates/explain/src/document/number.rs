//! The number behind a rate: what a program does so often, or has so little of, that it can go no faster.

use serde::{Deserialize, Serialize};

/// A number behind the rate, with the figures that its sentence gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// What kind of number.
    pub kind: NumberKind,
    /// One plain sentence.
    pub sentence: String,
    /// How often it was done; of two stages, how often they took turns.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
    /// How long each took.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub each_s: Option<f64>,
    /// Bytes in flight at the most, of each request, or of each call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    /// The least round trip of the path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trip_s: Option<f64>,
    /// The rate that it allows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_bytes_per_s: Option<f64>,
    /// How many files, transactions or connections it was done for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub items: Option<u64>,
}

/// What kind of number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumberKind {
    /// The most bytes that a connection had on their way: a limit of what runs over it, or of TCP's windows.
    InFlight,
    /// Requests of which each was sent when the last was answered.
    OneAtATime,
    /// Round trips for each file, transaction or connection.
    RoundTripsPerItem,
    /// A connection for each of many.
    ConnectionPerItem,
    /// Waits for stable storage for each file or transaction.
    SyncsPerItem,
    /// A process for each of many.
    ProcessPerItem,
    /// How many times over the bytes of a file were read or written.
    TimesOver,
    /// Calls that move few bytes each.
    CallSize,
    /// Requests to a disk, of which each was made when the last was done.
    DiskOneAtATime,
    /// What one processor can do.
    OneProcessor,
    /// All processors, which the run keeps busy.
    AllProcessors,
    /// Time limits that ran out while a peer sent nothing.
    TimeLimit,
    /// Names that were asked for, and what came back.
    NameLookups,
    /// Threads or processes of which one at a time went on: a lock held meanwhile.
    LockHeld,
    /// The part of what a server did that it did for clients of other programs.
    OtherClients,
    /// Two stages that take turns and could overlap.
    InSeries,
}
