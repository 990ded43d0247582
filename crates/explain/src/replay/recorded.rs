//! The replay's input from the spans: rows before the path is walked, and dependencies of each wait while it is.

use super::depends::Asking;
use super::ranks::Calls;
use super::rows::{Reading, Rows};
use super::timeline::{Timeline, timelines};
use crate::limits::replay as limits;
use crate::observe::tables::Tables;
use crate::waits::view::Facts;
use std::collections::HashMap;
use thalweg_trace::{Source, SpanBatch};

/// The input gathered before the path is walked.
pub(crate) struct ReplayInput {
    rows: Reading,
    /// `None` if there are no ranks.
    calls: Option<Calls>,
}

impl ReplayInput {
    /// An empty set for an interval.
    pub(crate) fn new(source: &dyn Source, interval: (i64, i64)) -> ReplayInput {
        ReplayInput { rows: Reading::new(source, interval, limits::MAX_ROWS), calls: Calls::of(source) }
    }

    /// Whether more spans are needed.
    pub(crate) fn asks_spans(&self) -> bool {
        !self.rows.is_full() || self.calls.is_some()
    }

    /// Adds spans.
    pub(crate) fn note(&mut self, batch: &SpanBatch) {
        self.rows.note(batch);
        if let Some(calls) = &mut self.calls {
            calls.note(batch);
        }
    }

    /// The rows, with waits in place of ranks' polling for each other.
    pub(crate) fn recorded(self) -> Recorded {
        let mut rows = self.rows.rows();
        if let Some(calls) = self.calls {
            calls.into_waits(&mut rows);
        }
        Recorded { rows, timelines: Vec::new() }
    }
}

/// The recorded run, from which a graph is made.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// The rows.
    pub rows: Rows,
    /// Each thread's timeline; empty before the path was walked.
    pub timelines: Vec<Timeline>,
}

impl Recorded {
    /// Replaces queueing for the processor of a thread that it takes turns with by a wait for that thread, at the given object.
    pub(crate) fn hand_over(&mut self, hand_overs: &HashMap<(u32, u32), u32>) {
        self.rows.hand_over(hand_overs);
    }

    /// Prepares the requests for each wait's dependency, for a path about to be walked.
    pub(crate) fn asking<'a>(&self, tables: &Tables, facts: &'a Facts, (start, end): (i64, i64)) -> Asking<'a> {
        let timelines = timelines(tables, &self.rows, &facts.lives, self.rows.from, end);
        Asking::new(tables, facts, start, timelines)
    }
}
