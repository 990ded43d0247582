//! Stores named on the command line, and connections to them.

pub(crate) mod emulation;
pub(crate) mod honoured;
pub(crate) mod layout_flags;
pub(crate) mod lots;
pub(crate) mod operand;
pub(crate) mod scrubbed;
pub(crate) mod session;
pub(crate) mod tuning;
