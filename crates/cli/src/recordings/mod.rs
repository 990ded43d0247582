//! Recordings that verbs make and explain.

pub(crate) mod around;
pub(crate) mod explained;
mod memory;
pub(crate) mod record_flags;
pub(crate) mod temporary;
