//! The layout study: every node of a store writes and reads its part of a file, at the same time as all others, and is timed.
//!
//! **In:** a store, its nodes, what to measure ([`Choice`]). **Out:** every run in a raw log, and a [`Document`] with medians,
//! intervals, predictions ([`mod@predict`]) and the explanation of each run's recording.
//! **Never:** a figure without the state of the caches it was measured with.
//!
//! | module | contents |
//! |---|---|
//! | [`pattern`] | the named patterns: IOR's, and `b_eff_io`'s with their weights |
//! | [`series`] | the curves: local disk, layouts, peers |
//! | [`mod@predict`] | the rate that disks and links allow a layout |
//! | [`plan`], [`sample`] | the plan: every series at every size; the sample of a run |
//! | [`runs`], [`job`] | one run on all nodes at the same time; one run by an MPI job |
//! | [`document`] | the result |
//!
//! In a run, the first node makes the file with the series' layout; every node opens it and reports that it is ready; all start
//! simultaneously; each times its own writing and its own sync. Then every server's datafiles are evicted from the page cache, which is
//! verified with the kernel, and all nodes read simultaneously.

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
