//! What each layout gives: every node of a store writes and reads its part of a file, at the same time as all others, and is timed.
//!
//! **In:** a store, its nodes, what to measure ([`Choice`]). **Out:** every run in a raw log, and a [`Document`] with medians,
//! intervals, what arithmetic predicts ([`mod@predict`]) and what the recording of each run says held it up.
//! **Never:** a figure without the state of the caches that it was measured with.
//!
//! | room | what is in it |
//! |---|---|
//! | [`pattern`] | the named patterns: IOR's, and `b_eff_io`'s with their weights |
//! | [`series`] | the curves: local disk, layouts, peers |
//! | [`mod@predict`] | what disks and links allow a layout |
//! | [`plan`], [`sample`] | the plan: every series at every size; what a run gives |
//! | [`runs`], [`job`] | one run on all nodes at once; one run by an MPI job |
//! | [`document`] | what came of it |
//!
//! A run goes so: the first node makes the file with the series' layout; every node opens it and says that it is ready; all
//! start at once; each times its own writing, and its own sync after it. Then every server's datafiles are put out of the
//! page cache, which the kernel is asked to confirm, and all read at once.

mod document;
mod job;
mod pattern;
mod plan;
mod predict;
mod runs;
mod sample;
mod series;

pub use document::{Document, PointResult};
pub use pattern::PATTERNS;
pub use plan::{Choice, Mpi, Peer, Via};
pub use runs::run;
pub use sample::Operation;
#[cfg(test)]
pub(crate) use sample::{Point, Sample, Subject};
pub use series::{CEILING, SERIES};
