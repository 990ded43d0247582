//! The replay model: the observed run as a small simulation, and what changes of it would give.
//!
//! A sample of the recording becomes a [`copy::Copy`]: its shape and what its stages cost ([`calibrate`]).
//! The simulator ([`engine`]) replays it; where that misses what was observed by more than
//! [`MOST_ERROR`], the model does not hold and nothing is predicted. Otherwise each change ([`changes`])
//! is simulated, and the prediction is the observed time, scaled as the simulated one changed.

pub(crate) mod calibrate;
pub(crate) mod changes;
pub(crate) mod copy;
pub(crate) mod engine;
pub(crate) mod graph;
pub(crate) mod load;

use crate::assemble::Parts;
use crate::document::{MAX_WHAT_IFS, Model, RoundTrips, WhatIf};
use calibrate::Calibrated;
use changes::Proposal;
use thalweg_trace::numbers::duration;
use thalweg_trace::{Meta, Source};

/// A model that misses the observed run by more than this predicts nothing.
pub(crate) const MOST_ERROR: f64 = 0.10;

/// A change that gains less than this is not worth a line.
const LEAST_SPEEDUP: f64 = 1.02;

/// Of proposals of one kind, the first that is this near the best is taken.
const NEAR_BEST: f64 = 1.02;

/// From this many threads of other programs on, the reader is told of them.
const FOREIGN_WORTH_TELLING: f64 = 0.3;

/// What the model has to say.
#[derive(Clone, Debug)]
pub(crate) struct Prediction {
    /// How well it replays the run.
    pub model: Model,
    /// What changes would give, best first.
    pub what_if: Vec<WhatIf>,
    /// What a reader must know of the run besides.
    pub note: Option<String>,
}

/// What is said when no prediction was asked for.
pub(crate) fn not_asked() -> Prediction {
    Prediction { model: Model { replayed_wall_s: None, error: None, reason: None }, what_if: Vec::new(), note: None }
}

/// Replays the run, and what changes would give.
pub(crate) fn predict(source: &dyn Source, parts: &Parts<'_>, meta: &Meta, trips: Option<&RoundTrips>) -> Prediction {
    // Only the store says what its requests are; what other programs do shows in what they wait for. Requests for entries move no data.
    let walks = parts.seen.asking.delivered > 0;
    if walks || meta.recorder != "store" && parts.seen.asked.is_empty() {
        return graph::predict(source, parts, meta, trips);
    }
    // Where the model of a copy does not hold, the threads that made it may.
    let of_copy = predict_copy(parts, meta);
    if of_copy.model.reason.is_none() {
        return of_copy;
    }
    let of_threads = graph::predict(source, parts, meta, trips);
    if of_threads.model.reason.is_none() { of_threads } else { of_copy }
}

/// The same for a copy of the store.
fn predict_copy(parts: &Parts<'_>, meta: &Meta) -> Prediction {
    let refuse = |replayed_wall_s, error, reason| Prediction {
        model: Model { replayed_wall_s, error, reason: Some(reason) },
        what_if: Vec::new(),
        note: None,
    };
    let run = match calibrate::calibrate(parts, meta) {
        Ok(run) => run,
        Err(reason) => return refuse(None, None, reason),
    };
    let foreign = run.copy.processors[0].foreign;
    let note = (foreign >= FOREIGN_WORTH_TELLING).then(|| {
        format!(
            "Other programs were running too: about {foreign:.1} of their threads wanted a processor at any time. Predictions are \
             for a machine as busy as that; on an idle one, record again."
        )
    });
    let Some(flow_ns) = run.copy.simulate() else {
        return refuse(None, None, "the model of this run does not come to an end".to_owned());
    };
    let wall_s = parts.wall_s();
    let replayed_s = (run.around_ns + flow_ns) / 1e9;
    let error = (replayed_s - wall_s).abs() / wall_s;
    if error > MOST_ERROR {
        let reason = format!(
            "the model replays this run in {} where {} were observed, which is too far off to predict from",
            duration(replayed_s),
            duration(wall_s)
        );
        return Prediction { note, ..refuse(Some(replayed_s), Some(error), reason) };
    }
    let mut what_if: Vec<WhatIf> =
        changes::ALL.iter().filter_map(|propose| best_of(propose(&run.copy), &run, flow_ns, wall_s, meta)).collect();
    what_if.sort_by(|a, b| a.predicted_wall_s.total_cmp(&b.predicted_wall_s));
    what_if.truncate(MAX_WHAT_IFS);
    Prediction { model: Model { replayed_wall_s: Some(replayed_s), error: Some(error), reason: None }, what_if, note }
}

/// Of proposals of one kind, from simple to far-reaching, the first that gives nearly what the best gives.
fn best_of(proposals: Vec<Proposal>, run: &Calibrated, flow_ns: f64, wall_s: f64, meta: &Meta) -> Option<WhatIf> {
    let predicted: Vec<(Proposal, f64)> =
        proposals.into_iter().filter_map(|p| p.copy.simulate().map(|ns| (p, (run.around_ns + run.flow_ns * ns / flow_ns) / 1e9))).collect();
    let best = predicted.iter().map(|(_, s)| *s).fold(f64::INFINITY, f64::min);
    let (proposal, predicted_wall_s) = predicted.into_iter().find(|(_, s)| *s <= best * NEAR_BEST)?;
    let speedup = wall_s / predicted_wall_s;
    (speedup >= LEAST_SPEEDUP).then(|| WhatIf {
        id: proposal.id.to_owned(),
        basis: crate::document::Grounds::Replayed,
        change: proposal.change.clone(),
        predicted_wall_s,
        speedup,
        how: how(&proposal, meta),
        flags: if meta.recorder == "store" {
            proposal.flags.iter().map(|(f, v)| ((*f).to_owned(), v.clone())).collect()
        } else {
            Vec::new()
        },
    })
}

/// The recorded command with the proposal's flags, where they are its own; else in words.
fn how(proposal: &Proposal, meta: &Meta) -> String {
    if meta.recorder != "store" || proposal.flags.is_empty() {
        return proposal.how.clone();
    }
    let mut words = meta.command.clone();
    for (flag, value) in &proposal.flags {
        set_flag(&mut words, flag, value);
    }
    match words.first_mut() {
        Some(program) => *program = program.rsplit('/').next().unwrap_or("thalweg").to_owned(),
        None => words = vec!["thalweg".into(), "cp".into()],
    }
    // What records and explains is not part of the change.
    drop_flag(&mut words, "--record", true);
    drop_flag(&mut words, "--explain", false);
    words.join(" ")
}

fn set_flag(words: &mut Vec<String>, flag: &str, value: &str) {
    set_flag_of(&["cp"], words, flag, value);
}

/// The same for the verbs that walk.
fn set_walk_flag(words: &mut Vec<String>, flag: &str, value: &str) {
    set_flag_of(&["ls", "find", "du", "rm", "cp"], words, flag, value);
}

fn set_flag_of(verbs: &[&str], words: &mut Vec<String>, flag: &str, value: &str) {
    drop_flag(words, flag, true);
    let verb = words.iter().position(|w| verbs.contains(&w.as_str())).map_or(words.len().min(1), |at| at + 1);
    words.splice(verb..verb, [flag.to_owned(), value.to_owned()]);
}

fn drop_flag(words: &mut Vec<String>, flag: &str, valued: bool) {
    let joined = format!("{flag}=");
    words.retain(|w| !w.starts_with(&joined));
    while let Some(at) = words.iter().position(|w| w == flag) {
        let until = (at + 1 + usize::from(valued)).min(words.len());
        words.drain(at..until);
    }
}
