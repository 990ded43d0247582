//! Stores as a command line names them, and the connections to them.

pub mod layout_flags;
pub mod operand;
pub mod session;
