//! What the tuner is given, and what it returns.

use super::rules::MEMORY_BYTES;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thalweg_client::{Parameter, Stages};

/// What a tuner may do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Parameters that somebody has chosen: they are not turned.
    pub fixed: BTreeSet<String>,
    /// What was found here before, by parameter: tried first.
    pub history: BTreeMap<String, u64>,
    /// Memory that flow buffers in flight may hold, here and at the servers.
    pub memory_bytes: u64,
    /// For the little chance there is in when it probes.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { fixed: BTreeSet::new(), history: BTreeMap::new(), memory_bytes: MEMORY_BYTES, seed: 1 }
    }
}

/// What it is given, about ten times a second.
pub struct Seen<'a> {
    /// Since any fixed moment.
    pub now: Duration,
    /// Bytes that have moved so far.
    pub moved_bytes: u64,
    /// Bytes that are still to be moved, if that is known.
    pub left_bytes: Option<u64>,
    /// Where threads have spent their time so far.
    pub stages: Stages,
    /// All parameters, with their values now.
    pub parameters: &'a [Parameter],
    /// Bytes of memory with this value of a parameter.
    pub memory_bytes: &'a dyn Fn(&str, u64) -> u64,
    /// Whether programs decide when bytes move.
    pub may_rest: bool,
}

/// A change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The parameter.
    pub parameter: &'static str,
    /// Its value from now on.
    pub value: u64,
}

/// A change that was tried, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// When it was decided, in seconds since the first byte moved.
    pub at_s: f64,
    /// The parameter.
    pub parameter: &'static str,
    /// Its value before.
    pub from: u64,
    /// The value that was tried.
    pub to: u64,
    /// Goodput with `from`; `None`: not measured.
    pub before_bytes_per_s: Option<f64>,
    /// Goodput with `to`.
    pub after_bytes_per_s: Option<f64>,
    /// Whether it stays.
    pub kept: bool,
    /// Why it was tried, and what it came to.
    pub why: String,
}

impl Seen<'_> {
    /// Bytes of a flow buffer.
    pub(super) fn buffer_bytes(&self) -> u64 {
        self.parameters.iter().find(|p| p.name == "buffer").and_then(|p| p.value).unwrap_or(1 << 20)
    }
}
