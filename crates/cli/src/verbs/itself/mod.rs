//! Verbs about the command itself.

pub(super) mod completions;
pub(super) mod man;
