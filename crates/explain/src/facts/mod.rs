//! The facts of a run: all that was gathered and charged, and what follows from it.
//!
//! The document (`assemble`) and the replay model (`replay`) are made from them. This module knows neither.

pub(crate) mod again;
mod at_a_pipe;
pub(crate) mod ceiling;
pub(crate) mod circumstances;
pub(crate) mod doubted;
pub(crate) mod ending;
pub(crate) mod file_counts;
pub(crate) mod for_recipes;
mod hottest;
pub(crate) mod killed;
pub(crate) mod links;
pub(crate) mod lookups;
pub(crate) mod mounts;
pub(crate) mod names;
pub(crate) mod neighbours;
mod others;
mod parts;
pub(crate) mod raise;
pub(crate) mod set_limits;
pub(crate) mod sharing;
pub(crate) mod waiting;

pub(crate) use parts::Parts;
