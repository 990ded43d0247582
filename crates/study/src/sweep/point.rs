//! One point of a result, and its runs.

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
    /// What became of it.
    pub state: State,
    /// Why it failed, or the condition by which it was skipped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
    /// Wall time of the runs that count.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wall_s: Option<Estimate>,
    /// Bytes over wall time; the median is that of the rates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_bytes_per_s: Option<Estimate>,
    /// What the ceiling's command reached at this point's values.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ceiling_bytes_per_s: Option<Estimate>,
    /// The rate as a part of that, repetition by repetition.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_ceiling: Option<Estimate>,
    /// Processor time of the command and what it waited for: the median.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_cpu_s: Option<f64>,
    /// Processor time of the server meanwhile: the median.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_cpu_s: Option<f64>,
    /// Of both ends, for each byte moved, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_ns_per_byte: Option<f64>,
    /// What was verified of the page cache: the state that all runs share, or the first that is not verified.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<CacheState>,
    /// What a recorded run says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub explanation: Option<Digest>,
    /// Where processors' time went in the recorded runs that were profiled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<Classes>,
    /// Every run that counts.
    pub runs: Vec<RunResult>,
}

/// One run that counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// In which repetition, from 1.
    pub repeat: usize,
    /// Wall time.
    pub wall_s: f64,
    /// Processor time of the command in user mode.
    pub user_s: f64,
    /// Processor time of the command in the kernel.
    pub system_s: f64,
    /// Processor time of the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_cpu_s: Option<f64>,
    /// What it moved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
}

/// Where a point's values are among those of the parameters.
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

    /// What it moved over its wall time.
    pub(super) fn rate(&self) -> Option<f64> {
        self.bytes.map(|bytes| bytes as f64 / self.wall_s)
    }

    /// Processor time of both ends.
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

    /// Processor time of both ends.
    pub fn cpu_s(&self) -> Option<f64> {
        self.client_cpu_s.map(|client| client + self.server_cpu_s.unwrap_or(0.0))
    }
}

/// A point in words.
pub(super) fn name(parameters: &[Parameter], values: &[String]) -> String {
    parameters.iter().zip(values).map(|(parameter, label)| format!("{}={label}", parameter.name)).collect::<Vec<_>>().join(" ")
}
