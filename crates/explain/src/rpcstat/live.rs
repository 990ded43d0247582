//! RPCs as they happen: sums since the last line.

use super::document::Outcome;
use super::responses::outcome;
use thalweg_trace::{Event, Mark, MarkKind, Span, SpanKind};

/// Sums over one interval.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Interval {
    pub calls: u64,
    pub errors: u64,
    pub unanswered: u64,
    pub retransmissions: u64,
    pub tcp_retransmissions: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Response times of the replies.
    pub response_total_ns: u64,
    pub response_max_ns: u64,
    /// Integral of the number pending: divided by the interval's length, the mean.
    pub pending_max: u64,
}

impl Interval {
    /// Adds an event of the recording.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::Span(span) => self.span(span),
            Event::Mark(Mark { kind: MarkKind::RpcRetransmit, .. }) => self.retransmissions += 1,
            Event::Mark(Mark { kind: MarkKind::TcpRetransmit, .. }) => self.tcp_retransmissions += 1,
            Event::Counter(counter) if counter.name == thalweg_trace::CounterName::RpcPending => {
                self.pending_max = self.pending_max.max(counter.value.max(0) as u64);
            }
            _ => {}
        }
    }

    fn span(&mut self, span: &Span) {
        let bytes = span.size_bytes.unwrap_or(0);
        match span.kind {
            SpanKind::NetSend => self.sent_bytes += bytes,
            SpanKind::NetReceive => self.received_bytes += bytes,
            SpanKind::RpcCall => match span.result.map_or(Outcome::Answered, outcome) {
                Outcome::Unanswered => self.unanswered += 1,
                Outcome::NotCaptured => {}
                answered => {
                    self.calls += 1;
                    self.errors += u64::from(answered == Outcome::Error);
                    self.response_total_ns = self.response_total_ns.saturating_add(span.duration_ns);
                    self.response_max_ns = self.response_max_ns.max(span.duration_ns);
                }
            },
            _ => {}
        }
    }

    /// Mean response time; `None` without replies.
    pub fn response_mean_s(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.response_total_ns as f64 / self.calls as f64 / 1e9)
    }
}
