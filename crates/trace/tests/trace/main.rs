//! Recordings: written and read again, damaged, merged and exported.
//!
//! One program for all: each one links the whole crate.

mod anonymous;
#[path = "../../../../tests/bounded.rs"]
mod bounded;
mod common;
mod damage;
mod export;
mod export_profile;
mod merge;
mod recording;
mod waited;
