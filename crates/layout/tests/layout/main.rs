//! Tests of distributions and plans: published vectors, independent definitions and general properties.
//!
//! One test program for all, because each one links the whole crate.

mod bad_input;
mod common;
mod oracles;
mod plan;
mod properties;
mod vectors;
