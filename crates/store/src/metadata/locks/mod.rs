//! Advisory locks and append turns, which the metadata service keeps for all clients.
//!
//! | room | what is in it |
//! |---|---|
//! | `ranges` | who holds which bytes of one file: splitting, merging, upgrading |
//! | `table` | the locks of all files, those who wait, and who is granted when something is freed |
//! | `keeper` | the table at the service: lives and deaths of clients, the time after a restart |
//! | [`client`] | the other end |
//!
//! A lock belongs to an owner (a process, or an open file) of a client (a mount, a program). A client lives as long as the
//! connection on which it said who it is; when that ends, everything it held is free. The service keeps locks in memory, and
//! in its database only who has any: after a restart those clients have a moment (the grace) in which they, and nobody
//! else, get locks, namely those they had.

pub mod client;
pub(super) mod keeper;
mod own;
mod ranges;
pub(super) mod table;
#[cfg(test)]
mod table_model;
