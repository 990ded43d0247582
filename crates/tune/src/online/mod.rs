//! Tuning while data moves: one controller for each endpoint, which turns what belongs to the stage that limits and keeps a step only where
//! bytes arrive faster for it.
//!
//! | room | what is in it |
//! |---|---|
//! | [`tuner`] | the rules as a state machine: time, bytes and counters in, changes and steps out; no clock, no thread |
//! | `seen` | what it is given and returns |
//! | `probe` | one change that is tried, and how it is judged |
//! | `window` | goodput over a window, and its noise |
//! | `stage` | which stage limits, and what belongs to it |
//! | `way` | when a parameter may be tried again |
//! | `rules` | every number, with its reason |
//! | [`drive`] | the thread that looks at a [`thalweg_client::Controller`] ten times a second |
//!
//! Rejected, each for what it did to somebody: *success as the signal to go up* (a controller of huggingface_hub climbed to 64 connections because
//! nothing failed, and got a hundredth of the rate: issue 4893); *comparing with a decayed best* (it ratchets up during TCP's slow start:
//! huggingface.js PR 2352); *starting high* (azcopy issue 1419); *latency as the judge* (it says how full a queue is, not how many bytes come out);
//! *a model of the path* (Globus and others fit one to past transfers: it needs them, and cannot see a server that throttles).

pub mod drive;
mod probe;
mod rules;
mod seen;
mod stage;
pub mod tuner;
mod way;
mod window;

pub use drive::{Outcome, Tuning, start};
pub use seen::{Change, Options, Seen, Step};
pub use tuner::Tuner;
