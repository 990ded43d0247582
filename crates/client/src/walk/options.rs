//! What a walk asks for, how far ahead of its reader, and what is counted.

use std::time::Duration;

/// Which mechanisms are at work. Each includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WalkMode {
    /// Nothing is prefetched. One file at a time: its attributes, then its datafiles' sizes, all of them at once. The baseline of the others.
    Synchronous,
    /// Attributes come with the names, ahead of the reader.
    Statahead,
    /// Sizes of datafiles are asked ahead of the reader too, those of many files in one message.
    GlimpseAhead,
    /// Nobody is asked for a size that the metadata service can prove.
    #[default]
    SizesFromMetadata,
}

impl WalkMode {
    /// All of them, in order.
    pub const ALL: [WalkMode; 4] = [WalkMode::Synchronous, WalkMode::Statahead, WalkMode::GlimpseAhead, WalkMode::SizesFromMetadata];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            WalkMode::Synchronous => "none",
            WalkMode::Statahead => "statahead",
            WalkMode::GlimpseAhead => "glimpse-ahead",
            WalkMode::SizesFromMetadata => "metadata",
        }
    }

    /// The mode of this name.
    pub fn named(name: &str) -> Option<WalkMode> {
        WalkMode::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

pub use thalweg_wire::protocol::metadata::Detail;

/// How to walk.
#[derive(Clone, Debug)]
pub struct WalkOptions {
    /// Which mechanisms are at work.
    pub mode: WalkMode,
    /// What is wanted of each entry.
    pub detail: Detail,
    /// Entries ahead of the reader at first: the first one comes at once.
    pub window_start: u32,
    /// Entries ahead of the reader at most.
    pub window_most: u32,
    /// Names in one page at most; the service has a bound of its own.
    pub page_names: u32,
    /// Requests in flight at one server at most.
    pub requests_per_server: u32,
    /// Datafiles in one question at most ([`thalweg_wire::limits::BATCH`]).
    pub datafiles_per_request: u32,
    /// Silence of a server after which it is given up; `None`: as its client's connections have it.
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

/// What a walker has done so far, over all its walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkCounters {
    /// Entries that had been asked for in full when the reader wanted them.
    pub hits: u64,
    /// Entries of which something was asked only when the reader wanted them already.
    pub misses: u64,
    /// Entries that were asked for and that nobody has read.
    pub wasted: u64,
    /// Requests sent, to all servers.
    pub requests: u64,
    /// Round trips one after another: the longest chain of requests of which each needed the answer to the one before.
    pub round_trips: u64,
    /// Entries read.
    pub entries: u64,
    /// Datafiles whose sizes were asked of I/O servers.
    pub glimpsed: u64,
    /// Sizes that the metadata service proved.
    pub from_metadata: u64,
    /// Entries ahead of the reader that the last walk to ask for more lets itself have.
    pub window: u32,
}
