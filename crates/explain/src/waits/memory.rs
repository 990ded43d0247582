//! The memory of rules while the path goes backward.

use super::place::Missing;
use crate::observe::span::LiveSpan;
use crate::observe::wire::UsualLags;
use std::collections::{HashMap, HashSet};

/// Findings of rules later in the recording, needed again.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// By thread that ended a wait: the thread the path came from.
    pub came_from: HashMap<u32, u32>,
    /// Processes that carried bytes of connections they take no part in, by machine and number.
    pub carriers: HashSet<(u32, u32)>,
    /// By connection: threads that carry it.
    pub carried: HashMap<u32, Vec<u32>>,
    /// By process: number of its sleeps, and the shortest and longest of them, in ns.
    pub slept: HashMap<(u32, u32), (u64, i64, i64)>,
    /// Threads of programs that the path reached after their maker stopped them at its timeout.
    pub stopped: HashSet<u32>,
    /// The thread that polled, and the thread whose end it polled for.
    pub polled_for: Option<(u32, u32)>,
    /// A thread that polled for something unknown, the start of its last visited pause, and the pause's length.
    pub polls_for_unknown: Option<(u32, i64, i64)>,
    /// The object looked for between pauses.
    pub looking: Option<Looking>,
    /// The thread whose wait last ended at a timeout, the start of that wait, and whether the timeout is charged.
    pub time_limit: Option<(u32, i64, bool)>,
    /// The last visited call, and whether it consists of parts.
    pub parts_of: (u64, bool),
    /// Usual times that messages wait to be picked up.
    pub usual_lags: UsualLags,
    /// By track: the MPI call that ended its earlier fruitless polling.
    pub looked_for: HashMap<u32, LiveSpan>,
    /// MPI calls that depended on unrecorded ranks: the ranks, the instant down to which time was charged so, and for how long.
    pub unrecorded_ranks: std::collections::BTreeMap<String, i64>,
}

/// An object looked for, and the looking thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// The object.
    pub object: u32,
    /// The looking thread.
    pub track: u32,
    /// Its connection, for a listener.
    pub connection: u32,
    /// Time of the look.
    pub at: i64,
    pub missing: Missing,
}

/// A row of pauses: what was looked for between them, and the start and length of the pause visited last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looking {
    pub look: Look,
    pub pauser: u32,
    pub later: i64,
    pub length: i64,
}
