//! What the replay takes of the spans: rows before the path is walked, and while it is, on what each wait depended.

use super::depends::Asking;
use super::ranks::Calls;
use super::rows::{Reading, Rows};
use super::timeline::{Timeline, timelines};
use crate::limits::replay as limits;
use crate::observe::tables::Tables;
use crate::waits::view::Facts;
use std::collections::HashMap;
use thalweg_trace::{Source, SpanBatch};

/// What is taken in before the path is walked.
pub(crate) struct Taken {
    rows: Reading,
    /// `None`: there are no ranks.
    calls: Option<Calls>,
}

impl Taken {
    /// Nothing yet, of an interval.
    pub(crate) fn new(source: &dyn Source, interval: (i64, i64)) -> Taken {
        Taken { rows: Reading::new(source, interval, limits::MAX_ROWS), calls: Calls::of(source) }
    }

    /// Whether more spans are to be looked at.
    pub(crate) fn asks_spans(&self) -> bool {
        !self.rows.is_full() || self.calls.is_some()
    }

    /// Looks at spans.
    pub(crate) fn note(&mut self, batch: &SpanBatch) {
        self.rows.note(batch);
        if let Some(calls) = &mut self.calls {
            calls.note(batch);
        }
    }

    /// The rows, with waits in place of what ranks did while they waited for each other.
    pub(crate) fn recorded(self) -> Recorded {
        let mut rows = self.rows.rows();
        if let Some(calls) = self.calls {
            calls.into_waits(&mut rows);
        }
        Recorded { rows, timelines: Vec::new() }
    }
}

/// The recorded run, as a graph is made of it.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// What was read.
    pub rows: Rows,
    /// Each thread's time; none before the path was walked.
    pub timelines: Vec<Timeline>,
}

impl Recorded {
    /// Who queues for the processor of the one it takes turns with waits for that one, at the object that is said here.
    pub(crate) fn hand_over(&mut self, hand_overs: &HashMap<(u32, u32), u32>) {
        self.rows.hand_over(hand_overs);
    }

    /// Asks on what each wait depends, of a path that is about to be walked.
    pub(crate) fn asking<'a>(&self, tables: &Tables, facts: &'a Facts, (start, end): (i64, i64)) -> Asking<'a> {
        let timelines = timelines(tables, &self.rows, &facts.lives, self.rows.from, end);
        Asking::new(tables, facts, start, timelines)
    }
}
