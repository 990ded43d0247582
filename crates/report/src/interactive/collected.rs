//! What is collected beside the spans to draw, while all spans are read: requests, and stops by signals.

use thalweg_trace::arrows::Exchanges;
use thalweg_trace::{Source, Span, SpanBatch, Tied};

/// Bound: most requests and messages followed, 60 MB of memory. Of more, the last are followed.
pub(super) const MAX_EXCHANGES: usize = 400_000;

/// Bound: most stops by signals.
const MAX_STOPS: usize = 100_000;

/// A thread that a signal stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    /// Number of its track.
    pub(super) track: u64,
    pub(super) at_ns: i64,
    pub(super) signal: i64,
}

/// Collects requests and stops.
pub(super) struct Collector {
    stops: Vec<Stop>,
    exchanges: Exchanges,
    tied: Tied,
}

impl Collector {
    /// Returns a collector that has seen no span.
    pub(super) fn new(source: &dyn Source) -> Collector {
        Collector { stops: Vec::new(), exchanges: Exchanges::new(source, MAX_EXCHANGES), tied: Tied::default() }
    }

    /// Adds a row; rows must come in order of descending end.
    pub(super) fn see(&mut self, batch: &SpanBatch, row: usize) {
        if let Some(signal) = batch.stopped_by(row).filter(|_| self.stops.len() < MAX_STOPS) {
            self.stops.push(Stop { track: batch.track[row], at_ns: batch.start_ns[row], signal });
        }
        if batch.request[row] == 0 || self.exchanges.is_closed() {
            return;
        }
        if let Some(span) = batch.row(row) {
            let Ok(()) = self.tied.push(span, seen(&mut self.exchanges));
        }
    }

    /// Returns the stops, in no order.
    pub(super) fn stops(&self) -> &[Stop] {
        &self.stops
    }

    /// Returns the exchanges, once all rows were added.
    pub(super) fn finish(mut self) -> Exchanges {
        let Ok(()) = self.tied.finish(seen(&mut self.exchanges));
        self.exchanges
    }
}

fn seen(exchanges: &mut Exchanges) -> impl FnMut(Span) -> Result<(), std::convert::Infallible> + '_ {
    |span| {
        exchanges.see(&span);
        Ok(())
    }
}
