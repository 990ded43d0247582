//! The terminal: results, notes and progress, formatting of names and numbers, signals, exit codes.

pub(crate) mod asking;
mod c_library;
pub(crate) mod completion;
pub(crate) mod detached;
pub(crate) mod exit;
pub(crate) mod failure;
pub(crate) mod interrupt;
pub(crate) mod listing;
pub(crate) mod names;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod version;
