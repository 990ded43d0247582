//! The probes, one for each row of the table.

mod files;
mod holding;
mod lots;
mod privileges;
mod servers;

use super::asking::{Asker, Attempts, Outcome, Who, World};

/// A row's probe.
pub(super) struct Row {
    /// The row's name in the table.
    pub name: &'static str,
    /// Returns the outcomes that a wording means for this credential; `None` for an unknown wording.
    pub says: fn(&str, Who) -> Option<Vec<Outcome>>,
    /// Runs the attempts.
    pub attempt: fn(&World, &mut Asker) -> Attempts,
}

/// All probes, in the order of the table.
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
    servers::BACKUPS,
    servers::BETWEEN_SERVERS,
];

/// Returns the same outcome for this many attempts.
fn all(outcome: Outcome, attempts: usize) -> Option<Vec<Outcome>> {
    Some(vec![outcome; attempts])
}
