//! Making, opening and explaining recordings for the verbs.

pub(crate) mod around;
pub(crate) mod captured;
pub(crate) mod explained;
pub(crate) mod memory;
pub(crate) mod record_flags;
pub(crate) mod runs;
pub(crate) mod symbols;
pub(crate) mod temporary;
