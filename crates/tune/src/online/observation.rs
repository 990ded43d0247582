//! Input and output of the tuner's rules.

use super::rules::MEMORY_BYTES;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thalweg_client::{Parameter, Stages};

/// Options of a tuner.
#[derive(Clone, Debug)]
pub struct Options {
    /// Parameters chosen by the user, which are not changed.
    pub fixed: BTreeSet<String>,
    /// Values remembered from earlier, by parameter; tried first.
    pub history: BTreeMap<String, u64>,
    /// Maximum memory of flow buffers in flight, here and at the servers, in bytes.
    pub memory_bytes: u64,
    /// Seed for randomising when it probes.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { fixed: BTreeSet::new(), history: BTreeMap::new(), memory_bytes: MEMORY_BYTES, seed: 1 }
    }
}

/// State of the controller, about ten times a second.
pub struct Observation<'a> {
    /// Time since an arbitrary fixed moment.
    pub now: Duration,
    /// Bytes moved so far.
    pub moved_bytes: u64,
    /// Bytes left to move, if known.
    pub left_bytes: Option<u64>,
    /// Time the threads have spent per stage so far.
    pub stages: Stages,
    /// All parameters with their current values.
    pub parameters: &'a [Parameter],
    /// Returns the memory in bytes with this value of a parameter.
    pub memory_bytes: &'a dyn Fn(&str, u64) -> u64,
    /// Whether programs decide when bytes move.
    pub may_rest: bool,
}

/// A change to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the parameter.
    pub parameter: &'static str,
    /// New value.
    pub value: u64,
}

/// A change that was tried, with its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Time of the decision, in seconds since the first byte moved.
    pub at_s: f64,
    /// Name of the parameter.
    pub parameter: &'static str,
    /// Value before.
    pub from: u64,
    /// Value tried.
    pub to: u64,
    /// Goodput with `from`; `None`: not measured.
    pub before_bytes_per_s: Option<f64>,
    /// Goodput with `to`; `None`: not measured.
    pub after_bytes_per_s: Option<f64>,
    /// Whether it was kept.
    pub kept: bool,
    /// Reason for the trial, and its result.
    pub why: String,
}

impl Observation<'_> {
    /// Returns the size of a flow buffer.
    pub(super) fn buffer_bytes(&self) -> u64 {
        self.parameters.iter().find(|p| p.name == "buffer").and_then(|p| p.value).unwrap_or(1 << 20)
    }
}
