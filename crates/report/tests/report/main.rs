//! The text and the picture of an explanation.
//!
//! One program for all: each one links the whole crate.

#[path = "../../../../tests/bounded.rs"]
mod bounded;
mod diff;
mod made_up;
mod made_up_rpcs;
mod picture;
mod profile;
mod rpcstat;
mod short;
mod text;
