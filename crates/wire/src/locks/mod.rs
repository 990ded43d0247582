//! Which bytes of which files are locked, and who is granted what is freed: state without I/O and without a clock. The metadata service has
//! such a table for all clients, and a client that may only read has one for its own programs.

pub mod ranges;
pub mod table;
#[cfg(test)]
mod table_model;
