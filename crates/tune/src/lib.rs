//! Finds the setting at which something is fastest: of any command, in about a dozen runs, or of a copy while its bytes move.
//!
//! **In:** a command with parameters and their values (a [`thalweg_study::sweep::Sweep`]), or anything with a
//! [`thalweg_store::copy::Controller`]. **Out:** the setting, what it gives against the default with an interval, and why each step was taken.
//! **Never:** a way of its own to run or time a command (the sweep's), a cause of its own (`explain`'s), a claim without runs in turn.

#![warn(unreachable_pub)]

pub mod online;
