//! Studies of a store or of any command: plans for [`thalweg_measure`]'s engine, their runs, and their results.
//!
//! **In:** what to measure ([`layout::Choice`], [`ls::Choice`], [`sweep::Choice`]). **Out:** every run in a raw log ([`RAW`]), and a document
//! with medians, intervals, predictions and causes. **Never:** ordering runs, logging or starting workers (the engine does); a picture or a
//! page (`report` makes those); a cause (`explain` finds those).
//!
//! | module | contents |
//! |---|---|
//! | [`layout`] | the throughput of each layout on every node, against its disk |
//! | [`ls`] | the cost of a file in a listing, with each mechanism |
//! | [`sweep`] | any command at every point of a grid, and what limits each |
//! | [`repeated()`] | several runs of one command: the median run, and the spread of the others |
//! | [`locality`] | the layout that keeps the bytes of a recorded job on its nodes |
//! | [`access`] | IOR's access patterns: the bytes of a rank, and their order |
//! | [`mod@worker`] | one process on each node, which takes orders over a pipe |
//! | [`mod@bar`] | targets for figures, and whether they are met |
//!
//! A new study is a folder with its plan, its [`Subjects`](thalweg_measure::Subjects) and its document; the work of its runs on a node is
//! an order of the workers.

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

/// File name of the raw log in a directory of results.
pub const RAW: &str = "raw.jsonl";
