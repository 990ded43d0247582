//! Recordings that verbs make and explain.

pub mod around;
pub mod explained;
pub mod record_flags;
pub mod temporary;
