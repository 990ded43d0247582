//! Trace in, explanation out: where every second of a transfer's wall time went, and what a change would give.
//!
//! **In:** a recording, through [`thalweg_trace::Source`]. **Out:** an [`Explanation`]. **Never:** files,
//! sockets, clocks, or who recorded what: rules speak of span kinds, tracks, roles, wakers, requests and
//! connections only. How time is charged and how predictions are made is described in `MODEL.md`, for those who
//! read the output.
//!
//! The recording is read once, backward in time. As it goes by, every span is looked at once for what is to be gathered (`observe`),
//! the rules (`waits`) say what each wait waited for, and the critical path (`path`) follows them, charging each instant in its ledger. What
//! was gathered and charged becomes the document (`assemble`); the spans, read once more, become the replay model (`replay`).

#![warn(unreachable_pub)]

mod assemble;
mod cause;
mod condition;
pub mod connections;
pub mod diff;
pub mod document;
mod error;
mod facts;
mod interval;
mod limits;
mod observe;
mod path;
mod peer;
pub mod profile;
mod replay;
pub mod rpcstat;
pub mod rule;
mod run;
pub mod runs;
mod said;
mod title;
mod waits;

pub use cause::Cause;
pub use condition::Condition;
pub use document::Explanation;
pub use error::ExplainError;
pub use facts::waiting::waited_in;
pub use run::{Options, explain};
pub use title::{title, title_of};
