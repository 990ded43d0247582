//! The probes, one for each row of the table.

mod files;
mod holding;
mod lots;
mod privileges;
mod servers;

use super::asking::{Asker, Attempts, Outcome, Who, World};

/// A row's probe.
pub(super) struct Row {
    /// As the table has it.
    pub name: &'static str,
    /// What comes of each attempt where a cell has this wording for this credential; `None`: a wording that is not known.
    pub says: fn(&str, Who) -> Option<Vec<Outcome>>,
    /// Tries.
    pub attempt: fn(&World, &mut Asker) -> Attempts,
}

/// All of them, in the order of the table.
pub(super) const ROWS: &[Row] = &[
    files::NAMES,
    files::BYTES,
    files::CHANGES,
    privileges::MODES,
    privileges::ATTRIBUTES,
    privileges::ROOT,
    privileges::USERS,
    holding::LOCKS,
    holding::TURNS,
    lots::LOTS,
    lots::DIRECTORIES,
    servers::RECORDINGS,
    servers::CREDENTIALS,
    servers::BETWEEN_SERVERS,
];

/// A wording that says the same of every attempt, of this many.
fn all(outcome: Outcome, attempts: usize) -> Option<Vec<Outcome>> {
    Some(vec![outcome; attempts])
}
