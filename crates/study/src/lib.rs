//! Studies: plans on [`thalweg_measure`]'s engine, of a store or of any command, what is run for them, and what comes of them.
//!
//! **In:** what to measure ([`layout::Choice`], [`ls::Choice`], [`sweep::Choice`]). **Out:** every run in a raw log ([`RAW`]), and a document with medians,
//! intervals, predictions and causes. **Never:** an order of runs, a log or a worker's start of its own (those are the engine's); a
//! picture or a page (those are `report`'s); a cause of its own (that is `explain`'s).
//!
//! | room | what is in it |
//! |---|---|
//! | [`layout`] | what each layout gives every node, against its disk |
//! | [`ls`] | what a file costs in a listing, with each mechanism |
//! | [`sweep`] | any command at every point of a grid, and why each is as fast as it is |
//! | [`repeated()`] | one command run several times: which run stands for all, and how far the others differ |
//! | [`locality`] | which layout keeps the bytes of a recorded job on its nodes |
//! | [`access`] | which bytes a rank touches, in which order: IOR's arithmetic |
//! | [`mod@worker`] | one process on each node, which gets its orders over a pipe |
//! | [`mod@bar`] | what is promised, and whether it is kept |
//!
//! A study is added as a folder with its plan, its [`Subjects`](thalweg_measure::Subjects) and its document; what its runs do on a node
//! is a kind of work of the workers.

#![warn(unreachable_pub)]

mod access;
mod bar;
mod error;
#[cfg(test)]
mod fixtures;
pub mod layout;
pub mod locality;
pub mod ls;
mod repeated;
pub mod sweep;
mod worker;

pub use bar::Bar;
pub use error::{Error, Result};
pub use repeated::repeated;
pub use worker::serve;

/// The raw log in a directory of results.
pub const RAW: &str = "raw.jsonl";
