//! A store as a whole: a striped, user-space, job-scoped file system.
//!
//! **In:** directories (targets), a `store.toml`. **Out:** a running store, in one process or server by server. **Never:** implements
//! servers (`io`, `metadata`), the client (`client`) or their protocol (`wire`).
//!
//! | module | content |
//! |---|---|
//! | [`backup`] | backups of the names: taking, checking and restoring them |
//! | [`config`] | `store.toml`, and addresses |
//! | [`start`] | a whole store in one process, or one server of it |
//! | `scale` | for tests: a site of a thousand servers, simulated with the production code |
//!
//! Tests and measurements that need both servers and clients are in this crate.

#![warn(unreachable_pub)]

pub mod backup;
pub mod config;
#[cfg(test)]
mod scale;
pub mod start;

/// The version of the directories that I/O servers keep.
pub use thalweg_io::FORMAT as TARGET_FORMAT;
/// The types shared by a store's parts: credentials, messages, errors.
pub use thalweg_wire as wire;
