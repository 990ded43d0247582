//! What a listing costs: directories of many files, listed with each mechanism, at each round trip, beside other systems.
//!
//! The question is what a file costs in `ls -l`, and what each further datafile of it adds. So the same directory is walked one file at
//! a time, with attributes ahead, with sizes ahead, and with sizes that the metadata service proves; by the `thalweg ls` command, by
//! the stock `ls` through a mount, and as the same number of files over another system. The time per file is split by a straight line
//! over the number of datafiles into an intercept and a slope, for each mechanism by itself: comparing only with the synchronous case
//! would hide what each datafile still costs.
//!
//! **In:** a [`Choice`], which has the locations that listings are made from (this machine, or words that start a command
//! beyond a link of a known round trip). **Out:** every run in a raw log, and a [`Document`]. **Never:** a figure for a
//! listing that was not complete: the number of entries and the sum of their sizes are held against what was made.
//!
//! | room | what is in it |
//! |---|---|
//! | [`choice`] | what to measure, from where, how much of it |
//! | [`plan`], [`sample`] | the plan: fixtures (a store with a directory in it), and what is measured on each; what a run gives |
//! | [`runs`] | one run of each kind |
//! | [`serving`] | the store of a batch: started for it, and removed with it |
//! | [`document`], [`points`], [`bars`] | what came of it: points, lines through them, promises |
//!
//! A fixture is made, all its points are measured, all repetitions interleaved, and it is removed before the next: what exists at one
//! time is one population. Each runs in a process of its own, so its processor time is known from outside.

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
