//! Finds the setting at which something is fastest: of any command, in about a dozen runs, or of a copy while its bytes move.
//!
//! **In:** a command with parameters and their values (a [`thalweg_study::sweep::Sweep`]), or anything with a
//! [`thalweg_client::Controller`]. **Out:** the setting, what it gives against the default with an interval, and why each step was taken.
//! **Never:** a way of its own to run or time a command (the sweep's), a cause of its own (`explain`'s), a claim without runs in turn.
//!
//! | module | what is in it |
//! |---|---|
//! | [`search`] | which setting is run next, by the causes of the best so far: no clock, no process |
//! | [`tuning`] | a whole tuning: who runs settings (commands, or a sweep made before), checks, the claim at the end |
//! | [`recipes`], [`history`] | programs whose parameters are known, put into a command; what earlier tunings found |
//! | [`document`] | the result |
//! | [`trying`] | one proposed change: the command as it is and with the change, in turn |
//! | [`online`] | the same while data moves |

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
