//! What rules remember while the path goes backward.

use super::place::Missing;
use crate::observe::span::LiveSpan;
use crate::observe::wire::UsualLags;
use std::collections::{HashMap, HashSet};

/// What rules found out before, further on in the recording, and need again.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// From which thread the path last came to a thread that had ended its wait.
    pub came_from: HashMap<u32, u32>,
    /// Processes that brought bytes of connections in which they have no part, by machine and number.
    pub carriers: HashSet<(u32, u32)>,
    /// By connection: threads that carry it.
    pub carried: HashMap<u32, Vec<u32>>,
    /// By process: how often it slept, and the shortest and longest of these sleeps.
    pub slept: HashMap<(u32, u32), (u64, i64, i64)>,
    /// Threads of programs that the path came to since their maker stopped them when its time limit had ended.
    pub stopped: HashSet<u32>,
    /// Who looked at intervals, and for whose end.
    pub polled_for: Option<(u32, u32)>,
    /// Who looked at intervals for what is not known, when the last pause of it began that was come to, and how long it was.
    pub polls_for_unknown: Option<(u32, i64, i64)>,
    /// What was looked for between pauses.
    pub looking: Option<Looking>,
    /// Whose wait a time limit ended last, when that began, and whether the limit is charged.
    pub time_limit: Option<(u32, i64, bool)>,
    /// Of the call last stood in: whether it is made of parts.
    pub parts_of: (u64, bool),
    /// How long messages usually lie before they are picked up.
    pub usual_lags: UsualLags,
    /// By track: the MPI call that ended what it looked for in vain before.
    pub looked_for: HashMap<u32, LiveSpan>,
    /// MPI calls that depended on ranks of which nothing was recorded: which, by the instant down to which it was so charged, and for how long.
    pub unrecorded_ranks: std::collections::BTreeMap<String, i64>,
}

/// What was looked for, and by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// What it was on.
    pub object: u32,
    /// The thread that looked.
    pub track: u32,
    /// Its connection, where it was for one.
    pub connection: u32,
    /// When it looked.
    pub at: i64,
    pub missing: Missing,
}

/// Of a row of pauses: what was looked for between them, when the pause that was come to last began, and how long it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looking {
    pub look: Look,
    pub pauser: u32,
    pub later: i64,
    pub length: i64,
}
