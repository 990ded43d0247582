//! Distributions and plans: against published vectors, independent definitions and what holds of every one.
//!
//! One program for all: each one links the whole crate.

mod bad_input;
mod common;
mod oracles;
mod plan;
mod properties;
mod vectors;
