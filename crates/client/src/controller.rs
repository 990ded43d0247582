//! What can be turned while bytes move, and what can be seen meanwhile: the numbers of a copy, of a tree's copies, of a store's client.
//!
//! A [`Controller`] decides nothing. Who turns it (a tuner, a test) judges by [`Controller::moved_bytes`], and finds out which stage limits from
//! [`Controller::stages`]. What it decided is noted with the controller, and so comes to stand in the recording as marks.

use crate::stages::Stages;
use std::collections::VecDeque;
use thalweg_base::sync::Mutex;
use thalweg_trace::{Event, Mark, MarkKind, ObjectKind, Time, TraceHandle, TrackId};
use thalweg_wire::{Error, ErrorKind, Result};

/// A parameter that a tuner may turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, as the command's flag.
    pub name: &'static str,
    /// Its value now; `None`: the copy has not begun.
    pub value: Option<u64>,
    /// Smallest useful value.
    pub least: u64,
    /// Largest.
    pub most: u64,
    /// Whether a change takes effect while a copy runs, and not only at the next one.
    pub live: bool,
}

/// A change that was tried, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When it was decided.
    pub at: Time,
    /// The parameter's name.
    pub parameter: String,
    /// Its value before the change.
    pub from: u64,
    /// The value that was tried.
    pub to: u64,
    /// Goodput with `from`, in bytes per second; `None`: it was not measured.
    pub before_bytes_per_s: Option<f64>,
    /// Goodput with `to`.
    pub after_bytes_per_s: Option<f64>,
    /// Whether `to` stays.
    pub kept: bool,
    /// Why it was tried and what it came to, in a few words.
    pub why: String,
}

/// Anything whose parameters can be turned while it runs.
pub trait Controller: Send + Sync {
    /// All of them.
    fn parameters(&self) -> Vec<Parameter>;

    /// Turns one.
    ///
    /// # Errors
    /// When there is no such parameter, or the value is out of its range.
    fn set(&self, name: &str, value: u64) -> Result<()>;

    /// Bytes moved so far: what a tuner measures by.
    fn moved_bytes(&self) -> u64;

    /// Bytes that are still to be moved, as far as is known.
    fn left_bytes(&self) -> Option<u64> {
        None
    }

    /// Where connections' threads have spent their time so far.
    fn stages(&self) -> Stages;

    /// Bytes of memory, here and at the servers, that flow buffers in flight may hold if one parameter had this value and the others stay.
    fn memory_bytes(&self, name: &str, value: u64) -> u64;

    /// Whether the bytes' owner decides when they move: a mount, whose programs may just not read. (A copy has work to its end.)
    fn may_rest(&self) -> bool {
        false
    }

    /// Takes note of a decision, for the recording.
    fn note(&self, _decision: Decision) {}
}

/// Whether a controller with these parameters can be set so.
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

/// Decisions that are kept for the recording at most; of more, the last. (A mount may be tuned for weeks.)
const NOTED: usize = 1000;

/// What was decided, until it is put into a recording.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    decisions: VecDeque<Decision>,
    ended: bool,
}

impl Notes {
    /// One more, unless the recording was written.
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

    /// Nothing is noted any more; what was becomes a part of the recording.
    pub(crate) fn end(&self, mode: &TraceHandle, track: Option<TrackId>) {
        let mut noted = self.0.lock();
        noted.ended = true;
        if let Some(track) = track {
            record(noted.decisions.iter(), mode, track);
        }
    }
}

/// Puts decisions into a recording: a mark each, on this track, with an object that says the rest.
fn record<'a>(decisions: impl Iterator<Item = &'a Decision>, mode: &TraceHandle, track: TrackId) {
    let rate = |rate: Option<f64>| rate.map(|rate| format!("{rate:.0}"));
    for decision in decisions {
        let mut attributes = vec![("from", decision.from.to_string()), ("to", decision.to.to_string())];
        attributes.extend(rate(decision.before_bytes_per_s).map(|before| ("before_bytes_per_s", before)));
        attributes.extend(rate(decision.after_bytes_per_s).map(|after| ("after_bytes_per_s", after)));
        attributes.push(("kept", decision.kept.to_string()));
        attributes.push(("why", decision.why.clone()));
        let object = mode.object(ObjectKind::Parameter, &decision.parameter, &attributes);
        let value = i64::try_from(if decision.kept { decision.to } else { decision.from }).ok();
        mode.event(Event::Mark(Mark { track, kind: MarkKind::TuneStep, at: decision.at, object, value }));
    }
}
