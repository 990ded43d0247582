//! Response times by procedure.

use super::document::{Outcome, Procedure};
use crate::limits::rpcstat as limits;
use crate::observe::quantile::{Lengths, of_sorted};
use std::collections::HashMap;
use thalweg_trace::{ABSENT_RESULT, Object, Source};

/// `result` of a call that was never answered.
const UNANSWERED: i64 = -110;

/// `result` of a call whose head or reply was not captured: its length is unknown.
const NOT_CAPTURED: i64 = -61;

/// Times of one procedure.
#[derive(Clone, Debug, Default)]
struct Times {
    kept: Vec<u64>,
    lengths: Lengths,
    least_ns: u64,
    /// In 128 bits: sums of invalid times in damaged recordings must not overflow.
    total_ns: u128,
    longest_ns: u64,
    answered: u64,
    unanswered: u64,
    not_captured: u64,
    errors: u64,
    retransmissions: u64,
    bytes: u64,
}

impl Times {
    fn add(&mut self, ns: u64) {
        if self.answered == 0 {
            self.least_ns = ns;
        }
        self.answered += 1;
        self.least_ns = self.least_ns.min(ns);
        self.longest_ns = self.longest_ns.max(ns);
        self.total_ns += u128::from(ns);
        if self.kept.len() < limits::KEPT_TIMES {
            self.kept.push(ns);
        } else if self.kept.len() == limits::KEPT_TIMES && self.lengths.count == 0 {
            self.kept.iter().for_each(|&ns| self.lengths.add(ns.min(1 << 50)));
            self.lengths.add(ns.min(1 << 50));
        } else {
            self.lengths.add(ns.min(1 << 50));
        }
    }

    /// A quantile of the answered calls; `None` if there are none.
    fn quantile_s(&self, sorted: &[u64], part: f64) -> Option<f64> {
        if self.answered == 0 {
            return None;
        }
        let ns = match self.lengths.count {
            0 => of_sorted(sorted, part).unwrap_or(0),
            _ => self.lengths.quantile_ns(part).clamp(self.least_ns, self.longest_ns),
        };
        Some(ns as f64 / 1e9)
    }
}

/// Times of all procedures, by the object that names them.
#[derive(Debug, Default)]
pub(super) struct Responses {
    by_object: HashMap<u64, Times>,
    all: Lengths,
}

impl Responses {
    /// Adds a call that took `ns`, with its result.
    pub(super) fn call(&mut self, object: u64, ns: u64, bytes: u64, result: i64) {
        let times = self.by_object.entry(object).or_default();
        times.bytes = times.bytes.saturating_add(bytes);
        match outcome(result) {
            Outcome::NotCaptured => times.not_captured += 1,
            Outcome::Unanswered => times.unanswered += 1,
            answered => {
                self.all.add(ns.min(1 << 50));
                times.errors += u64::from(answered == Outcome::Error);
                times.add(ns);
            }
        }
    }

    /// Adds a repeated sending of this procedure's call.
    pub(super) fn again(&mut self, object: u64) {
        self.by_object.entry(object).or_default().retransmissions += 1;
    }

    /// The response time that this part of all calls took at most.
    pub(super) fn quantile_ns(&self, part: f64) -> u64 {
        self.all.quantile_ns(part)
    }

    /// Number of calls whose head or reply was not captured.
    pub(super) fn not_captured(&self) -> u64 {
        self.by_object.values().map(|t| t.not_captured).sum()
    }

    /// Number of calls, of unanswered ones, and of errors.
    pub(super) fn totals(&self) -> (u64, u64, u64) {
        let sum = |of: &dyn Fn(&Times) -> u64| self.by_object.values().map(of).sum();
        (sum(&|t| t.answered + t.unanswered + t.not_captured), sum(&|t| t.unanswered), sum(&|t| t.errors))
    }

    /// The document's procedures.
    pub(super) fn procedures(&self, source: &dyn Source) -> Vec<Procedure> {
        let objects: HashMap<u64, &Object> = source.objects().iter().map(|o| (o.object.number(), o)).collect();
        let mut all: Vec<Procedure> = self.by_object.iter().map(|(number, times)| procedure(objects.get(number).copied(), times)).collect();
        all.sort_by(|a, b| b.total_s.total_cmp(&a.total_s).then_with(|| (&a.server, &a.name).cmp(&(&b.server, &b.name))));
        all
    }
}

/// The outcome that a call's result stands for.
pub(super) fn outcome(result: i64) -> Outcome {
    match result {
        UNANSWERED => Outcome::Unanswered,
        NOT_CAPTURED => Outcome::NotCaptured,
        result if result < 0 && result != ABSENT_RESULT => Outcome::Error,
        _ => Outcome::Answered,
    }
}

/// The procedure name from a call's object.
pub(super) fn procedure_name(object: Option<&Object>) -> String {
    attribute(object, "procedure").unwrap_or_else(|| "call".to_owned())
}

fn attribute(object: Option<&Object>, name: &str) -> Option<String> {
    object?.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
}

fn procedure(object: Option<&Object>, times: &Times) -> Procedure {
    let attribute = |name: &str| attribute(object, name);
    // For a connection, the serving end.
    let server = object.map_or("a server", |o| o.name.rsplit_once(" > ").map_or(o.name.as_str(), |(_, server)| server)).to_owned();
    let mut sorted = times.kept.clone();
    sorted.sort_unstable();
    let total_s = times.total_ns as f64 / 1e9;
    let of_answered = |seconds: f64| (times.answered > 0).then_some(seconds);
    Procedure {
        name: procedure_name(object),
        program: attribute("program"),
        version: attribute("version"),
        server,
        answered: times.answered,
        unanswered: times.unanswered,
        errors: times.errors,
        retransmissions: times.retransmissions,
        not_captured: times.not_captured,
        callback: attribute("callback").is_some(),
        min_s: of_answered(times.least_ns as f64 / 1e9),
        mean_s: of_answered(total_s / times.answered.max(1) as f64),
        median_s: times.quantile_s(&sorted, 0.5),
        p99_s: times.quantile_s(&sorted, 0.99),
        max_s: of_answered(times.longest_ns as f64 / 1e9),
        total_s,
        bytes: times.bytes,
    }
}
