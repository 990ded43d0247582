//! The study of listings: directories of many files, listed with each mechanism, at each round-trip time, compared with other systems.
//!
//! It measures the cost of a file in `ls -l`, and of each further datafile. The same directory is walked one file at a time, with
//! attributes ahead, with sizes ahead, and with sizes from the metadata service; by the `thalweg ls` command, by the stock `ls` through a
//! mount, and as the same number of files on another system. A straight line over the number of datafiles splits the time per file into
//! intercept and slope, for each mechanism separately: comparing only with the synchronous case would hide the remaining cost of a
//! datafile.
//!
//! **In:** a [`Choice`] with the locations to list from (this machine, or a prefix that starts a command behind a link of known round-trip
//! time). **Out:** every run in a raw log, and a [`Document`]. **Never:** a figure for an incomplete listing: the number of entries and the
//! sum of their sizes are checked.
//!
//! | module | contents |
//! |---|---|
//! | [`choice`] | parts, locations and scale |
//! | [`plan`], [`sample`] | the plan: fixtures (a store with a directory in it), and the cases on each; the sample of a run |
//! | [`runs`] | one run of each kind |
//! | [`serving`] | the store of a batch |
//! | [`document`], [`points`], [`bars`] | the result: points, fitted lines, targets |
//!
//! A fixture is made, all its points are measured with repetitions interleaved, and it is removed before the next: only one population
//! exists at a time. Each store runs in its own process, so that its CPU time is known.

mod bars;
mod choice;
mod document;
mod plan;
mod points;
mod runs;
mod sample;
mod serving;

pub use crate::worker::protocol::{NamesPoint, Phase};
pub use choice::{Choice, Part, Scale, Stage};
pub use document::{Document, NamesResult};
pub use plan::{COMMAND, MOUNT};
pub use points::{PointResult, method_rank};
pub use runs::run;
#[cfg(test)]
pub(crate) use sample::{Point, Sample, Subject};
pub use thalweg_client::walk::WalkMode;
