//! Advisory locks and append turns, which the metadata service keeps for all clients: a table of them ([`thalweg_wire::locks`]), the lives and deaths
//! of clients, and the time after a restart ([`keeper`]).
//!
//! A lock belongs to an owner (a process, or an open file) of a client (a mount, a program). A client lives as long as the
//! connection on which it said who it is; when that ends, everything it held is free. The service keeps locks in memory, and
//! in its database only who has any: after a restart those clients have a moment (the grace) in which they, and nobody
//! else, get locks, namely those they had.

#[cfg(all(test, feature = "shuttle"))]
mod checked;
pub(super) mod keeper;
