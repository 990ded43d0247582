//! Explanations of recordings: synthetic ones with a known truth, and of real runs.
//!
//! One program for all: each one links the whole crate.

mod abouts;
mod accepting;
mod advised;
#[path = "../../../../tests/bounded.rs"]
mod bounded;
mod chains;
mod clocks;
mod common;
mod deciding;
mod diffs;
mod failures;
mod fixtures;
mod held;
mod lookups;
mod neighbours;
mod numbers;
mod numbers_of_programs;
mod other_ends;
mod pauses;
mod phases;
mod polling;
mod predictions;
mod profile;
mod profiled;
mod programs;
mod programs_mounted;
mod programs_network;
mod programs_recorded;
mod promises;
mod random;
mod ranks;
mod readings;
mod recordings;
mod replies;
mod rpcstat;
mod rules;
mod schema;
mod totals;
mod tried;
mod tuned;
mod unprivileged;
mod waits;
mod walks;
mod why;
