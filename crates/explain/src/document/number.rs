//! The number behind a rate: what a program does so often, or has so little of, that it can go no faster.

use serde::{Deserialize, Serialize};

/// A number behind the rate, with the figures that its sentence gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// Kind of the number.
    pub kind: NumberKind,
    /// One plain sentence.
    pub sentence: String,
    /// How often it was done; for two stages, how often they alternated.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
    /// Time of each.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub each_s: Option<f64>,
    /// Most bytes in flight, or bytes per request or call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    /// The least round trip of the path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trip_s: Option<f64>,
    /// The rate it allows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_bytes_per_s: Option<f64>,
    /// Number of files, transactions or connections it was done for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub items: Option<u64>,
}

/// Kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumberKind {
    /// Most bytes in flight on a connection: a limit of the program, or of TCP's windows.
    InFlight,
    /// Requests, each sent when the previous one was answered.
    OneAtATime,
    /// Round trips for each file, transaction or connection.
    RoundTripsPerItem,
    /// A new connection for each item.
    ConnectionPerItem,
    /// Waits for stable storage for each file or transaction.
    SyncsPerItem,
    /// A new process for each item.
    ProcessPerItem,
    /// How many times over the bytes of a file were read or written.
    TimesOver,
    /// Calls that move few bytes each.
    CallSize,
    /// Requests to a disk, each made when the previous one was done.
    DiskOneAtATime,
    /// The speed of one processor.
    OneProcessor,
    /// All processors, busy with the run.
    AllProcessors,
    /// Timeouts that expired while a peer sent nothing.
    TimeLimit,
    /// Names looked up, and the answers.
    NameLookups,
    /// A lock held across work, so that one thread or process at a time proceeded.
    LockHeld,
    /// The part of a server's work done for clients of other programs.
    OtherClients,
    /// Two stages that alternate and could overlap.
    InSeries,
}
