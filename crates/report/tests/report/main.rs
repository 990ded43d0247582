//! What a person sees of explanations and of measurements.
//!
//! One program for all: each one links the whole crate.

#[path = "../../../../tests/bounded.rs"]
mod bounded;
mod diff;
mod golden;
mod interactive;
mod made_up;
mod made_up_rpcs;
mod markdown;
mod page_data;
mod picture;
#[cfg(feature = "png")]
mod png;
mod profile;
mod rpcstat;
mod short;
mod study;
mod text;
mod tune;
