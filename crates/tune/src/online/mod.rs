//! Tuning while data moves: one tuner per endpoint, which changes the parameters of the limiting stage and keeps a change only if goodput
//! rises.
//!
//! | room | what is in it |
//! |---|---|
//! | [`tuner`] | the rules as a state machine: time, bytes and counters in, changes and steps out; no clock, no thread |
//! | `observation` | input and output of the rules |
//! | `probe` | trying one change, and judging it |
//! | `window` | goodput over a window, and its noise |
//! | `stage` | the limiting stage and its parameters |
//! | `retry` | when a parameter may be tried again |
//! | `rules` | every number, with its reason |
//! | [`drive`] | the thread that polls a [`thalweg_client::Controller`] ten times a second |
//!
//! Rejected, each for a reported failure: *success as the signal to go up* (a controller of huggingface_hub climbed to 64 connections
//! because nothing failed, and got a hundredth of the rate: issue 4893); *comparing with a decayed best* (it ratchets up during TCP's slow
//! start: huggingface.js PR 2352); *starting high* (azcopy issue 1419); *latency as the judge* (it measures how full a queue is, not how
//! many bytes arrive); *a model of the path* (Globus and others fit one to past transfers, which it needs, and it cannot detect a
//! throttling server).

pub mod drive;
mod observation;
mod probe;
mod retry;
mod rules;
mod stage;
pub mod tuner;
mod window;

pub use drive::{Outcome, Tuning, start};
pub use observation::{Change, Observation, Options, Step};
pub use tuner::Tuner;
