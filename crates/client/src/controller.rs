//! The live parameters and counters of a copy, of a tree's copy, or of a store's client.
//!
//! A [`Controller`] makes no decisions. Its caller (a tuner, a test) measures with [`Controller::moved_bytes`] and finds the limiting
//! stage with [`Controller::stages`]. Decisions passed to [`Controller::note`] become marks in the recording.

use crate::stages::Stages;
use std::collections::VecDeque;
use thalweg_base::sync::Mutex;
use thalweg_trace::{Event, Mark, MarkKind, ObjectKind, Time, TraceHandle, TrackId};
use thalweg_wire::{Error, ErrorKind, Result};

/// A parameter that a tuner may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name of the parameter, as in the command's flag.
    pub name: &'static str,
    /// Current value; `None`: the copy has not begun.
    pub value: Option<u64>,
    /// Smallest useful value.
    pub least: u64,
    /// Largest useful value.
    pub most: u64,
    /// Whether a change takes effect while a copy runs, rather than at the next copy.
    pub live: bool,
}

/// A change that was tried, with its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Time of the decision.
    pub at: Time,
    /// Name of the parameter.
    pub parameter: String,
    /// Value before the change.
    pub from: u64,
    /// Value tried.
    pub to: u64,
    /// Goodput with `from`, in bytes per second; `None`: not measured.
    pub before_bytes_per_s: Option<f64>,
    /// Goodput with `to`, in bytes per second; `None`: not measured.
    pub after_bytes_per_s: Option<f64>,
    /// Whether `to` was kept.
    pub kept: bool,
    /// Short reason for the trial and its result.
    pub why: String,
}

/// A running operation with adjustable parameters.
pub trait Controller: Send + Sync {
    /// Lists every parameter.
    fn parameters(&self) -> Vec<Parameter>;

    /// Sets a parameter.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown parameter, [`ErrorKind::Invalid`] for a value out of range.
    fn set(&self, name: &str, value: u64) -> Result<()>;

    /// Returns the bytes moved so far, from which a tuner computes goodput.
    fn moved_bytes(&self) -> u64;

    /// Returns the bytes still to move, if known.
    fn left_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the time spent per stage so far, summed over the connections' threads.
    fn stages(&self) -> Stages;

    /// Returns the memory, here and at the servers, that flow buffers in flight could hold with parameter `name` at `value` and the others
    /// unchanged.
    fn memory_bytes(&self, name: &str, value: u64) -> u64;

    /// Whether the data may stop moving for reasons outside this controller: true for a mount, whose programs may not read; false for a
    /// copy.
    fn may_rest(&self) -> bool {
        false
    }

    /// Keeps a decision for the recording.
    fn note(&self, _decision: Decision) {}
}

/// Checks that `name` is one of `parameters` and `value` is in its range.
pub(crate) fn check(parameters: &[Parameter], name: &str, value: u64) -> Result<()> {
    let Some(parameter) = parameters.iter().find(|p| p.name == name) else {
        let names: Vec<&str> = parameters.iter().map(|p| p.name).collect();
        return Err(Error::new(ErrorKind::NotFound, format!("no parameter {name}: expected one of {}", names.join(", "))));
    };
    if !(parameter.least..=parameter.most).contains(&value) {
        let range = format!("{name} is {value}: expected {} to {}", parameter.least, parameter.most);
        return Err(Error::new(ErrorKind::Invalid, range));
    }
    Ok(())
}

/// Bound: decisions kept for the recording, the latest ones. A mount may be tuned for weeks.
const NOTED: usize = 1000;

/// Decisions, until they are written to the recording.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    decisions: VecDeque<Decision>,
    ended: bool,
}

impl Notes {
    /// Adds a decision, unless the recording was already written.
    pub(crate) fn note(&self, decision: Decision) {
        let mut noted = self.0.lock();
        if noted.ended {
            return;
        }
        if noted.decisions.len() >= NOTED {
            noted.decisions.pop_front();
        }
        noted.decisions.push_back(decision);
    }

    /// Stops collecting decisions and writes those collected to the recording.
    pub(crate) fn end(&self, trace: &TraceHandle, track: Option<TrackId>) {
        let mut noted = self.0.lock();
        noted.ended = true;
        if let Some(track) = track {
            record(noted.decisions.iter(), trace, track);
        }
    }
}

/// Writes decisions to the recording: one mark each on `track`, with an object that holds the details.
fn record<'a>(decisions: impl Iterator<Item = &'a Decision>, trace: &TraceHandle, track: TrackId) {
    let rate = |rate: Option<f64>| rate.map(|rate| format!("{rate:.0}"));
    for decision in decisions {
        let mut attributes = vec![("from", decision.from.to_string()), ("to", decision.to.to_string())];
        attributes.extend(rate(decision.before_bytes_per_s).map(|before| ("before_bytes_per_s", before)));
        attributes.extend(rate(decision.after_bytes_per_s).map(|after| ("after_bytes_per_s", after)));
        attributes.push(("kept", decision.kept.to_string()));
        attributes.push(("why", decision.why.clone()));
        let object = trace.object(ObjectKind::Parameter, &decision.parameter, &attributes);
        let value = i64::try_from(if decision.kept { decision.to } else { decision.from }).ok();
        trace.event(Event::Mark(Mark { track, kind: MarkKind::TuneStep, at: decision.at, object, value }));
    }
}
