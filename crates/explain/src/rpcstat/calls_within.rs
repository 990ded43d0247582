//! The individual calls of a few short parts of a recording: a second pass backward, as far as the earliest of them.

use super::document::CallBar;
use super::responses::{outcome, procedure_name};
use super::sweep::{Passing, passing, server_tracks};
use crate::limits::rpcstat as limits;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use thalweg_trace::{Object, Source, SourceError, SpanKind};

/// A part of the time, and its middle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub start_ns: i64,
    pub end_ns: i64,
    pub from_ns: i64,
    pub to_ns: i64,
}

/// Its calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Within {
    /// The longest, by start.
    pub calls: Vec<CallBar>,
    pub left_out: u64,
    /// Calls that were pending at the middle's start and complete in it, by procedure.
    pub complete: Vec<(String, u64)>,
    /// Number of calls that are sent in the middle and complete in it, and the longest of them.
    pub alone: u64,
    pub longest_alone: Option<(String, f64)>,
}

/// A call; ordered by its length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    ns: i64,
    start_ns: i64,
    end_ns: i64,
    object: u64,
    bytes: u64,
    result: i64,
}

#[derive(Default)]
struct Gathering {
    calls: BinaryHeap<Reverse<Call>>,
    left_out: u64,
    complete: HashMap<u64, u64>,
    alone: u64,
    longest_alone: Option<Call>,
}

impl Gathering {
    fn add(&mut self, part: &Part, call: Call) {
        if call.start_ns < part.to_ns && call.end_ns > part.from_ns && call.end_ns <= part.to_ns {
            if call.start_ns <= part.from_ns {
                *self.complete.entry(call.object).or_default() += 1;
            } else {
                self.alone += 1;
                self.longest_alone = self.longest_alone.max(Some(call));
            }
        }
        self.calls.push(Reverse(call));
        if self.calls.len() > limits::CALL_BARS {
            self.calls.pop();
            self.left_out += 1;
        }
    }
}

/// The calls in progress in each of these parts.
pub(super) fn calls_within(source: &dyn Source, axis_ns: i64, parts: &[Part]) -> Result<Vec<Within>, SourceError> {
    let servers = server_tracks(source);
    let mut gathered: Vec<Gathering> = parts.iter().map(|_| Gathering::default()).collect();
    let earliest_ns = parts.iter().map(|p| p.start_ns).min().unwrap_or(i64::MAX);
    let latest_ns = parts.iter().map(|p| p.end_ns).max().unwrap_or(i64::MIN);
    for batch in source.spans_backward().take_while(|_| !parts.is_empty()) {
        let batch = batch?;
        for row in 0..batch.len() {
            if batch.end_ns[row] <= earliest_ns || batch.kind[row] != SpanKind::RpcCall || batch.start_ns[row] >= latest_ns {
                continue;
            }
            let Some(Passing { start_ns, end_ns, object, bytes, result, .. }) = passing(&batch, row, &servers) else { continue };
            let call = Call { ns: end_ns.saturating_sub(start_ns), start_ns, end_ns, object, bytes, result };
            for (part, gathering) in parts.iter().zip(&mut gathered) {
                if start_ns < part.end_ns && end_ns > part.start_ns {
                    gathering.add(part, call);
                }
            }
        }
        if batch.end_ns.last().is_some_and(|&end_ns| end_ns <= earliest_ns) {
            break;
        }
    }
    let objects: HashMap<u64, &Object> = source.objects().iter().map(|o| (o.object.number(), o)).collect();
    Ok(gathered.into_iter().map(|g| within(g, axis_ns, &objects)).collect())
}

fn within(gathering: Gathering, axis_ns: i64, objects: &HashMap<u64, &Object>) -> Within {
    let name = |object: u64| procedure_name(objects.get(&object).copied());
    let mut calls: Vec<Call> = gathering.calls.into_iter().map(|Reverse(call)| call).collect();
    calls.sort_by_key(|c| (c.start_ns, c.end_ns));
    let mut complete: HashMap<String, u64> = HashMap::new();
    for (object, count) in gathering.complete {
        *complete.entry(name(object)).or_default() += count;
    }
    let mut complete: Vec<(String, u64)> = complete.into_iter().collect();
    complete.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let seconds = |ns: i64| (ns - axis_ns) as f64 / 1e9;
    let bar = |c: &Call| CallBar {
        procedure: name(c.object),
        bytes: c.bytes,
        start_s: seconds(c.start_ns),
        end_s: seconds(c.end_ns),
        outcome: outcome(c.result),
    };
    Within {
        calls: calls.iter().map(bar).collect(),
        left_out: gathering.left_out,
        complete,
        alone: gathering.alone,
        longest_alone: gathering.longest_alone.map(|c| (name(c.object), c.ns as f64 / 1e9)),
    }
}
