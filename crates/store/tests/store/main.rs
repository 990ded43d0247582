//! The store as programs see it: through its clients, over servers on loopback, and over processes that are killed.
//!
//! A single test program, since each one links the whole store.

#[path = "../../../../tests/bounded.rs"]
mod bounded;
mod client;
mod copy;
mod epochs;
mod loopback;
mod lots;
mod metadata;
#[path = "../../../../tests/postgresql.rs"]
mod postgresql;
mod rot;
mod scrub;
mod walk;
mod wire;
mod wire_panics;
