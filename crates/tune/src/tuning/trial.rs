//! One run of a setting, as a search needs it, by command or by replay; and what is to be large or small about it.

use crate::Result;
use serde::{Deserialize, Serialize};
use thalweg_base::numbers::{byte_rate, duration};
use thalweg_measure::Observer;
use thalweg_study::sweep::{Digest, Point, State};

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Wall time.
    pub wall_s: f64,
    /// What it moved, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    /// Processor time of the command, its children and the server, where it was timed bare.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_s: Option<f64>,
    /// The 99th percentile of its calls, where that is the goal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_s: Option<f64>,
}

/// A run of a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// What became of it.
    pub state: State,
    /// Why it failed.
    pub problem: Option<String>,
    /// What it took; of a run that ended well.
    pub figures: Figures,
    /// Its causes with their shares of the wall time, largest first.
    pub causes: Vec<(String, f64)>,
    /// Where the largest was.
    pub place: String,
    /// What `explain` says of it, in a sentence.
    pub sentence: String,
    /// Which part of its measured ceiling the limiting device or path reached.
    pub of_ceiling: Option<f64>,
}

impl Trial {
    /// Of a run that ended well, with what `explain` says of it.
    pub(super) fn done(figures: Figures, digest: Option<Digest>, of_ceiling: Option<f64>) -> Trial {
        let (causes, place, sentence) = digest.map(|digest| (digest.shares, digest.place, digest.sentence)).unwrap_or_default();
        Trial { state: State::Done, problem: None, figures, causes, place, sentence, of_ceiling }
    }

    /// Of a run that failed.
    pub(super) fn failed(state: State, problem: String) -> Trial {
        let (figures, causes, place, sentence) = (Figures::default(), Vec::new(), String::new(), String::new());
        Trial { state, problem: Some(problem), figures, causes, place, sentence, of_ceiling: None }
    }
}

/// Who runs settings: commands, or a sweep that was made before.
pub trait Trials {
    /// Runs a setting for the `nth` time (from 1). The very first run of all is preceded by one that counts for nothing.
    ///
    /// # Errors
    /// Nothing can be run; somebody wants to stop. A run that fails is a [`Trial`].
    fn run(&mut self, point: &Point, nth: usize, observer: &dyn Observer) -> Result<Trial>;

    /// Runs two settings in turn, so many times each, with nothing beside them that the goal does not need; the pairs in which both ended well.
    ///
    /// # Errors
    /// As [`Trials::run`].
    fn pairs(&mut self, points: [&Point; 2], pairs: usize, observer: &dyn Observer) -> Result<Vec<[Figures; 2]>>;

    /// The default is known to take so long: no run needs to be waited for much longer.
    fn default_took(&mut self, _seconds: f64) {}
}

/// What is to be large or small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Bytes over wall time.
    #[default]
    Rate,
    /// Processor time for each byte, at both ends.
    CpuPerByte,
    /// The 99th percentile of how long single reads, writes, syncs and questions take.
    P99,
}

impl Goal {
    /// The figure as a number that is to be large. `by_bytes`: settings move different amounts.
    pub(super) fn value(self, figures: &Figures, by_bytes: bool) -> Option<f64> {
        let amount = if by_bytes { figures.bytes? as f64 } else { 1.0 };
        let small = match self {
            Goal::Rate => figures.wall_s,
            Goal::CpuPerByte => figures.cpu_s?,
            Goal::P99 => return figures.p99_s.filter(|p99| *p99 > 0.0).map(f64::recip),
        };
        (small > 0.0).then(|| amount / small)
    }

    /// The figure for a person.
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

    /// What a ratio of it is over the default's.
    pub fn gain(self) -> &'static str {
        match self {
            Goal::Rate => "as fast as the default",
            Goal::CpuPerByte => "as much for the same processor time as the default",
            Goal::P99 => "as short a 99th percentile as the default",
        }
    }
}
