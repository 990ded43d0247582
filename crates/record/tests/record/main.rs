//! Commands that run and are recorded, whatever the recorder; and captures.
//!
//! One program for all: each one links the whole crate.

#[path = "../../../../tests/bounded.rs"]
mod bounded;
#[path = "../common/mod.rs"]
mod common;

mod capture;
mod preloading;
mod running;
