//! Finds the fastest setting: of any command, in about a dozen runs, or of a copy while its bytes move.
//!
//! **In:** a command with parameters and their values (a [`thalweg_study::sweep::Sweep`]), or anything with a
//! [`thalweg_client::Controller`]. **Out:** the setting, its gain over the default with an interval, and the reason for each step.
//! **Never:** its own way to run or time a command (that is the sweep's), its own causes (those are `explain`'s), a claim without
//! alternating runs.
//!
//! | module | what is in it |
//! |---|---|
//! | [`search`] | chooses the next setting from the causes of the best run so far: no clock, no process |
//! | [`tuning`] | a whole tuning: running settings (commands, or a replayed sweep), checks, the claim at the end |
//! | [`recipes`], [`history`] | known programs' parameters, put into a command; results of earlier tunings |
//! | [`document`] | the result |
//! | [`trying`] | one proposed change: the command without and with it, in alternation |
//! | [`online`] | tuning while data moves |

#![warn(unreachable_pub)]

mod budget;
mod document;
mod endpoints;
mod error;
mod history;
pub mod online;
mod output;
mod recipes;
pub mod search;
mod trying;
mod tuning;

pub use budget::Budget;
pub use document::{Document, Setting};
pub use endpoints::{key, mounts};
pub use error::{Error, Result};
pub use history::History;
pub use output::Output;
pub use recipes::{Applied, apply, read};
pub use trying::{Choice, Tried, Trying, choose, consumes};
pub use tuning::{AT_CEILING, Figures, Goal, Measured, Ran, Replay, Trial, Trials, Tuned, Tuning, Watch};
