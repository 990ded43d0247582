//! What each layout gives: every node of a store writes and reads its part of a file, at the same time as all others, and is timed.
//!
//! **In:** a store, its nodes, what to measure ([`Choice`]). **Out:** every raw time as a line of JSON ([`raw`]), and from them a
//! document ([`Document`]) with medians, intervals, what arithmetic predicts ([`mod@predict`]) and what the recording of each run
//! says held it up; as Markdown ([`markdown`]). **Never:** a picture (that is `report`'s), a cause of its own (that is
//! `explain`'s), a figure without the state of the caches that it was measured with.
//!
//! | room | what is in it |
//! |---|---|
//! | [`access`] | which bytes a rank touches, in which order: IOR's arithmetic |
//! | [`pattern`] | the named patterns: IOR's, and `b_eff_io`'s with their weights |
//! | [`series`] | the curves: local disk, layouts, peers |
//! | [`mod@predict`] | what disks and links allow a layout |
//! | [`plan`] | what is measured, in which order, and what of it is there already |
//! | [`log`], [`raw`] | the lines that keep every time |
//! | [`protocol`], [`worker`] | one process on each node, told over a pipe what to do |
//! | [`nodes`], [`conduct`] | starting them, and conducting a run on all of them at once |
//! | `job` | a run by an MPI job |
//! | [`document`], [`markdown`] | what came of it |
//! | [`locality`] | which layout keeps the bytes of a recorded job on its nodes |
//! | [`ls`] | another study: what a listing costs |
//!
//! A run is conducted so: the first node makes the file with the series' layout; every node opens it and says that it is ready; all
//! are told to go at once; each times its own writing, and its own sync after it. Then every server's datafiles are put out of the
//! page cache, which the kernel is asked to confirm, and all read at once. Repetitions are interleaved: all series once, then all
//! again in the opposite order.

pub mod access;
pub mod conduct;
pub mod document;
mod error;
mod job;
pub mod locality;
pub mod log;
pub mod ls;
pub mod markdown;
pub mod nodes;
pub mod pattern;
pub mod plan;
pub mod predict;
pub mod protocol;
pub mod raw;
pub mod series;
pub mod worker;

pub use conduct::{Observer, run};
pub use document::Document;
pub use error::{Error, Result};
pub use plan::Choice;
