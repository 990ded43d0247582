//! Options of a walk, and its counters.

use std::time::Duration;

/// Prefetching mechanisms. Each includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WalkMode {
    /// No prefetching: one file at a time, its attributes, then the sizes of all its datafiles in parallel. The baseline for the others.
    Synchronous,
    /// Attributes come with the names, ahead of the reader.
    Statahead,
    /// Sizes of datafiles are requested ahead too, many files per message.
    GlimpseAhead,
    /// The metadata service supplies the sizes it can prove, and the I/O servers only the others.
    #[default]
    SizesFromMetadata,
}

impl WalkMode {
    /// All modes, in order.
    pub const ALL: [WalkMode; 4] = [WalkMode::Synchronous, WalkMode::Statahead, WalkMode::GlimpseAhead, WalkMode::SizesFromMetadata];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            WalkMode::Synchronous => "none",
            WalkMode::Statahead => "statahead",
            WalkMode::GlimpseAhead => "glimpse-ahead",
            WalkMode::SizesFromMetadata => "metadata",
        }
    }

    /// Returns the mode of this name.
    pub fn named(name: &str) -> Option<WalkMode> {
        WalkMode::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

pub use thalweg_wire::protocol::metadata::Detail;

/// Options of a walk.
#[derive(Clone, Debug)]
pub struct WalkOptions {
    /// Prefetching mode.
    pub mode: WalkMode,
    /// Detail wanted of each entry.
    pub detail: Detail,
    /// Initial window, in entries: small, so that the first entry comes quickly.
    pub window_start: u32,
    /// Maximum window, in entries.
    pub window_most: u32,
    /// Maximum names per page; the service has its own limit.
    pub page_names: u32,
    /// Maximum requests in flight per server.
    pub requests_per_server: u32,
    /// Maximum datafiles per request ([`thalweg_wire::limits::BATCH`]).
    pub datafiles_per_request: u32,
    /// Silence after which a server is given up; `None`: the timeout of the client's connections.
    pub timeout: Option<Duration>,
}

impl Default for WalkOptions {
    fn default() -> WalkOptions {
        WalkOptions {
            mode: WalkMode::default(),
            detail: Detail::default(),
            window_start: 32,
            window_most: 8192,
            page_names: 2048,
            requests_per_server: 4,
            datafiles_per_request: 1024,
            timeout: None,
        }
    }
}

/// Counters of a walker, over all its walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkCounters {
    /// Entries requested completely before the reader needed them.
    pub hits: u64,
    /// Entries of which part was requested only when the reader needed them.
    pub misses: u64,
    /// Entries requested and not read.
    pub wasted: u64,
    /// Requests sent, to all servers.
    pub requests: u64,
    /// Longest chain of requests that each needed the previous answer.
    pub round_trips: u64,
    /// Entries read.
    pub entries: u64,
    /// Datafiles whose sizes were requested from I/O servers.
    pub glimpsed: u64,
    /// Sizes that the metadata service proved.
    pub from_metadata: u64,
    /// Window of the last walk that requested more, in entries.
    pub window: u32,
}
