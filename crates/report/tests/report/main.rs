//! The text and the picture of an explanation.
//!
//! One program for all: each one links the whole crate.

#[path = "../../../../tests/bounded.rs"]
mod bounded;
mod made_up;
mod picture;
mod profile;
mod short;
mod text;
