//! A point of a sweep's result, and its runs.

use super::sample::{Classes, Digest, Point, Sample, State};
use super::values::Parameter;
use serde::{Deserialize, Serialize};
use thalweg_measure::{CacheState, Estimate};

/// One point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointResult {
    /// The labels of its values, in the order of the parameters.
    pub values: Point,
    /// Its state.
    pub state: State,
    /// Why it failed, or the condition by which it was skipped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
    /// Wall time of the counted runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wall_s: Option<Estimate>,
    /// Bytes over wall time; the median of the rates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_bytes_per_s: Option<Estimate>,
    /// The ceiling's rate at this point's values.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ceiling_bytes_per_s: Option<Estimate>,
    /// The rate as a part of the ceiling's, repetition by repetition.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_ceiling: Option<Estimate>,
    /// Median CPU time of the command and its waited-for children.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_cpu_s: Option<f64>,
    /// Median CPU time of the server meanwhile.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_cpu_s: Option<f64>,
    /// CPU time of both ends per byte moved, in ns.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_ns_per_byte: Option<f64>,
    /// State of the page cache: that of all runs, or the first that is not verified.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<CacheState>,
    /// The explanation of recorded runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub explanation: Option<Digest>,
    /// CPU time by class in the profiled runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<Classes>,
    /// The counted runs.
    pub runs: Vec<RunResult>,
}

/// A counted run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// The repetition, from 1.
    pub repeat: usize,
    /// Wall time.
    pub wall_s: f64,
    /// CPU time of the command in user mode.
    pub user_s: f64,
    /// CPU time of the command in the kernel.
    pub system_s: f64,
    /// CPU time of the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_cpu_s: Option<f64>,
    /// Bytes moved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
}

/// Returns the indexes of a point's values.
pub(super) fn places(parameters: &[Parameter], point: &Point) -> Vec<usize> {
    let place = |(parameter, label): (&Parameter, &String)| parameter.values.iter().position(|value| value.label == *label).unwrap_or(0);
    parameters.iter().zip(point).map(place).collect()
}

impl RunResult {
    pub(super) fn of(repeat: usize, sample: &Sample) -> Option<RunResult> {
        let usage = sample.usage.as_ref()?;
        let (user_s, system_s) = (usage.user_s, usage.system_s);
        Some(RunResult { repeat, wall_s: usage.wall_s, user_s, system_s, server_cpu_s: sample.server_cpu_s, bytes: sample.bytes })
    }

    /// Returns bytes moved over wall time.
    pub(super) fn rate(&self) -> Option<f64> {
        self.bytes.map(|bytes| bytes as f64 / self.wall_s)
    }

    /// Returns the CPU time of both ends.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s + self.server_cpu_s.unwrap_or(0.0)
    }
}

impl PointResult {
    pub(super) fn bare(values: &Point, state: State, problem: Option<String>) -> PointResult {
        PointResult {
            values: values.clone(),
            state,
            problem,
            wall_s: None,
            rate_bytes_per_s: None,
            ceiling_bytes_per_s: None,
            of_ceiling: None,
            client_cpu_s: None,
            server_cpu_s: None,
            cpu_ns_per_byte: None,
            cache: None,
            explanation: None,
            profile: None,
            runs: Vec::new(),
        }
    }

    /// Returns the CPU time of both ends.
    pub fn cpu_s(&self) -> Option<f64> {
        self.client_cpu_s.map(|client| client + self.server_cpu_s.unwrap_or(0.0))
    }
}

/// Formats a point.
pub(super) fn name(parameters: &[Parameter], values: &[String]) -> String {
    parameters.iter().zip(values).map(|(parameter, label)| format!("{}={label}", parameter.name)).collect::<Vec<_>>().join(" ")
}
