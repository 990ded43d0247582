//! The lock table: which bytes of which files are locked, and who is granted a lock that is freed. State without I/O or clock.
//! The metadata service keeps a table for all clients; a read-only client keeps one for its own programs.

pub mod ranges;
pub mod table;
#[cfg(test)]
mod table_model;
