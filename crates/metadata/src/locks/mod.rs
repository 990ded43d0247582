//! Advisory locks and append turns of all clients: a table ([`thalweg_wire::locks`]), the clients' lives, and recovery after a restart
//! ([`keeper`]).
//!
//! A lock belongs to an owner (a process, or an open file) of a client (a mount, a program). A client lives as long as the connection on
//! which it identified itself; when that ends, all its locks are free. Locks are kept in memory; the database only stores which clients
//! have any. After a restart only these clients, for a grace period, can get locks, and only those they had.

#[cfg(all(test, feature = "shuttle"))]
mod checked;
pub(super) mod keeper;
