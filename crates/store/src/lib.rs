//! A store as a whole: a striped, user-space, job-scoped file system.
//!
//! **In:** directories (targets), a `store.toml`. **Out:** a store that runs, in one process or a server at a time. **Never:** what a server does
//! (`io`, `metadata`), what a client does (`client`), and what they say to each other (`wire`).
//!
//! | room | what is in it |
//! |---|---|
//! | [`config`] | `store.toml`, and addresses |
//! | [`start`] | a whole store in one process, or one server of it |
//! | `scale` | for tests: a site of a thousand servers, simulated with the code that ships |
//!
//! Tests and measurements that need servers and clients together are here.

#![warn(unreachable_pub)]

pub mod config;
#[cfg(test)]
mod scale;
pub mod start;

/// What a store's parts speak of: credentials, messages' types, errors.
pub use thalweg_wire as wire;
