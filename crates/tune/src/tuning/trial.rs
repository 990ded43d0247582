//! One run of a setting, by command or by replay, and the quantity to optimise.

use crate::Result;
use serde::{Deserialize, Serialize};
use thalweg_base::numbers::{byte_rate, duration};
use thalweg_measure::Observer;
use thalweg_study::sweep::{Digest, Point, State};

/// Measurements of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Wall time, in seconds.
    pub wall_s: f64,
    /// Bytes moved, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    /// Processor time of the command, its children and the server, in seconds, if measured without a recorder.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_s: Option<f64>,
    /// The 99th percentile of its calls, in seconds, if that is the goal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_s: Option<f64>,
}

/// A run of a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Result state.
    pub state: State,
    /// Reason of a failure.
    pub problem: Option<String>,
    /// Measurements of a successful run.
    pub figures: Figures,
    /// Causes with their shares of the wall time, largest first.
    pub causes: Vec<(String, f64)>,
    /// Location of the largest cause.
    pub place: String,
    /// The sentence of `explain`.
    pub sentence: String,
    /// Share of its measured ceiling that the limiting device or path reached.
    pub of_ceiling: Option<f64>,
}

impl Trial {
    /// Builds the result of a successful run, with its explanation.
    pub(super) fn done(figures: Figures, digest: Option<Digest>, of_ceiling: Option<f64>) -> Trial {
        let (causes, place, sentence) = digest.map(|digest| (digest.shares, digest.place, digest.sentence)).unwrap_or_default();
        Trial { state: State::Done, problem: None, figures, causes, place, sentence, of_ceiling }
    }

    /// Builds the result of a failed run.
    pub(super) fn failed(state: State, problem: String) -> Trial {
        let (figures, causes, place, sentence) = (Figures::default(), Vec::new(), String::new(), String::new());
        Trial { state, problem: Some(problem), figures, causes, place, sentence, of_ceiling: None }
    }
}

/// Runs settings: as commands, or from an earlier sweep.
pub trait Trials {
    /// Runs a setting for the `nth` time (from 1). The first run of all is preceded by a warm-up.
    ///
    /// # Errors
    /// Nothing can be run; the user wants to stop. A run that fails is a [`Trial`].
    fn run(&mut self, point: &Point, nth: usize, observer: &dyn Observer) -> Result<Trial>;

    /// Runs `pairs` pairs of two settings in alternation, without any overhead the goal does not need; returns the pairs in which both
    /// succeeded.
    ///
    /// # Errors
    /// As [`Trials::run`].
    fn pairs(&mut self, points: [&Point; 2], pairs: usize, observer: &dyn Observer) -> Result<Vec<[Figures; 2]>>;

    /// Sets the default's time: no run needs to be waited for much longer.
    fn default_took(&mut self, _seconds: f64) {}
}

/// Quantity to optimise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Bytes per wall time.
    #[default]
    Rate,
    /// Processor time per byte, at both ends.
    CpuPerByte,
    /// The 99th percentile of the durations of single reads, writes, syncs and metadata queries.
    P99,
}

impl Goal {
    /// Returns the figure as a number to maximise. `by_bytes`: settings move different amounts.
    pub(super) fn value(self, figures: &Figures, by_bytes: bool) -> Option<f64> {
        let amount = if by_bytes { figures.bytes? as f64 } else { 1.0 };
        let small = match self {
            Goal::Rate => figures.wall_s,
            Goal::CpuPerByte => figures.cpu_s?,
            Goal::P99 => return figures.p99_s.filter(|p99| *p99 > 0.0).map(f64::recip),
        };
        (small > 0.0).then(|| amount / small)
    }

    /// Formats the figure.
    pub fn figure(self, figures: &Figures) -> String {
        let bytes = figures.bytes.filter(|bytes| *bytes > 0);
        match (self, bytes) {
            (Goal::Rate, Some(bytes)) => byte_rate(bytes as f64 / figures.wall_s),
            (Goal::Rate, None) => duration(figures.wall_s),
            (Goal::CpuPerByte, Some(bytes)) => format!("{:.2} ns/byte", figures.cpu_s.unwrap_or(0.0) * 1e9 / bytes as f64),
            (Goal::CpuPerByte, None) => figures.cpu_s.map_or_else(|| "unknown".to_owned(), duration),
            (Goal::P99, _) => figures.p99_s.map_or_else(|| "unknown".to_owned(), duration),
        }
    }

    /// Describes the ratio to the default.
    pub fn gain(self) -> &'static str {
        match self {
            Goal::Rate => "as fast as the default",
            Goal::CpuPerByte => "as much for the same processor time as the default",
            Goal::P99 => "as short a 99th percentile as the default",
        }
    }
}
