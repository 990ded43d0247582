//! The text and the picture of an explanation.
//!
//! One program for all: each one links the whole crate.

mod made_up;
mod picture;
mod short;
mod text;
