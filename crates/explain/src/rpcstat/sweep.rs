//! A sweep backward through the spans: what was pending and in transit between any two events.
//!
//! Spans come by descending end. A span's end is an event immediately; its start is kept until no later end can come. So all events pass in
//! descending order of time, in memory for pending calls only.

use super::document::Outcome;
use super::responses::outcome;
use crate::limits::rpcstat as limits;
use std::collections::{BinaryHeap, HashSet};
use thalweg_trace::{ABSENT, Role, Source, SourceError, SpanBatch, SpanKind, TrackKind};

/// An event at an instant, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Edge {
    /// A reply's last byte: a call is no longer pending.
    Replied,
    /// A call in a datagram that was never answered is no longer waited for.
    GivenUp,
    /// A reply's first byte.
    ReceiveBegins,
    /// A reply's last byte.
    ReceiveEnds,
    /// A call's first byte.
    SendBegins,
    /// A call's last byte.
    SendEnds,
    /// A call becomes pending.
    Posted,
    /// A call that is never answered becomes pending.
    PostedInVain,
}

/// The state between two events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Calls sent but not answered.
    pub pending: u64,
    /// Calls in datagrams that are never answered: lost in either direction, or not served.
    pub in_vain: u64,
    /// Calls in transit.
    pub sending: u64,
    /// Replies in transit.
    pub receiving: u64,
}

impl State {
    /// Whether nothing is in transit.
    pub(super) fn is_quiet(&self) -> bool {
        self.sending == 0 && self.receiving == 0
    }
}

/// One RPC, or one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    /// `RpcCall`, `NetSend` or `NetReceive`.
    pub kind: SpanKind,
    /// Number of its track.
    pub track: u64,
    /// Number of its object, or 0.
    pub object: u64,
    /// Number of its RPC, or 0.
    pub request: u64,
    /// Its first instant.
    pub start_ns: i64,
    /// Its last.
    pub end_ns: i64,
    /// Its bytes, or 0.
    pub bytes: u64,
    /// Whether the server calls, and the client answers: it is not in the pending queue.
    pub callback: bool,
    /// Whether the message is a call in a datagram that was never answered.
    pub in_vain: bool,
    /// Its result; [`thalweg_trace::ABSENT_RESULT`] if absent.
    pub result: i64,
}

/// Receives the events, backward in time.
pub(super) trait Watcher {
    /// Receives a span, by descending end.
    fn passing(&mut self, span: &Passing);
    /// Receives the interval between two events. The intervals are adjacent, and come by descending time.
    fn interval(&mut self, from_ns: i64, to_ns: i64, state: State);
    /// Receives an event of an RPC; `after` is the state it leads to, in the order of time.
    fn edge(&mut self, at_ns: i64, edge: Edge, request: u64, after: State);
}

/// A future event, going backward.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Coming {
    at_ns: i64,
    edge: Edge,
    request: u64,
}

struct Sweep<'a, W> {
    watcher: &'a mut W,
    coming: BinaryHeap<Coming>,
    state: State,
    now_ns: i64,
}

/// Sweeps through the RPCs of a recording from its end to its start.
pub(super) fn sweep<W: Watcher>(source: &dyn Source, start_ns: i64, end_ns: i64, watcher: &mut W) -> Result<(), SourceError> {
    let servers = server_tracks(source);
    let is_callback = |o: &&thalweg_trace::Object| o.attributes.iter().any(|(name, _)| name == "callback");
    let callbacks: HashSet<u64> = source.objects().iter().filter(is_callback).map(|o| o.object.number()).collect();
    let has_messages = has_messages(source, &servers)?;
    let datagrams = datagram_tracks(source);
    let mut sweep = Sweep { watcher, coming: BinaryHeap::new(), state: State::default(), now_ns: end_ns };
    for batch in source.spans_backward() {
        let batch = batch?;
        for row in 0..batch.len() {
            if let Some(span) = passing(&batch, row, &servers) {
                let callback = span.kind == SpanKind::RpcCall && callbacks.contains(&span.object);
                let unanswered = span.kind == SpanKind::RpcCall && outcome(span.result) == Outcome::Unanswered;
                let in_vain = unanswered && datagrams.contains(&span.track);
                sweep.take(&Passing { callback, in_vain, ..span }, has_messages);
            }
        }
    }
    sweep.until(i64::MIN);
    sweep.advance(start_ns);
    Ok(())
}

/// The tracks of servers, in order: their spans are the other end of clients' calls.
pub(super) fn server_tracks(source: &dyn Source) -> Vec<u64> {
    let mut servers: Vec<u64> = source.tracks().iter().filter(|t| t.role == Role::Server).map(|t| t.track.number()).collect();
    servers.sort_unstable();
    servers
}

/// The tracks of connections with calls in datagrams: only the client sends those again after a loss.
fn datagram_tracks(source: &dyn Source) -> HashSet<u64> {
    let is_datagrams = |o: &&thalweg_trace::Object| o.attributes.iter().any(|(name, value)| name == "protocol" && value == "udp");
    let names: HashSet<&str> = source.objects().iter().filter(is_datagrams).map(|o| o.name.as_str()).collect();
    let of_these = source.tracks().iter().filter(|t| t.kind == TrackKind::Connection && names.contains(t.name.as_str()));
    of_these.map(|t| t.track.number()).collect()
}

/// Whether messages' transits are recorded beside the calls; searched for among the last spans.
fn has_messages(source: &dyn Source, servers: &[u64]) -> Result<bool, SourceError> {
    let mut seen = 0;
    for batch in source.spans_backward() {
        let batch = batch?;
        for row in 0..batch.len() {
            if passing(&batch, row, servers).is_some_and(|s| s.kind != SpanKind::RpcCall) {
                return Ok(true);
            }
        }
        seen += batch.len();
        if seen > limits::LAST_SPANS {
            break;
        }
    }
    Ok(false)
}

/// The RPC or message in a row, unless a server recorded it.
pub(super) fn passing(batch: &SpanBatch, row: usize, servers: &[u64]) -> Option<Passing> {
    let kind = batch.kind[row];
    let counts = match kind {
        SpanKind::RpcCall => true,
        SpanKind::NetSend | SpanKind::NetReceive => batch.request[row] != 0,
        _ => false,
    };
    if !counts || servers.binary_search(&batch.track[row]).is_ok() {
        return None;
    }
    Some(Passing {
        kind,
        track: batch.track[row],
        object: batch.object[row],
        request: batch.request[row],
        start_ns: batch.start_ns[row],
        end_ns: batch.end_ns[row],
        bytes: if batch.size_bytes[row] == ABSENT { 0 } else { batch.size_bytes[row] },
        callback: false,
        in_vain: false,
        result: batch.result[row],
    })
}

impl<W: Watcher> Sweep<'_, W> {
    fn take(&mut self, span: &Passing, has_messages: bool) {
        self.until(span.end_ns);
        self.watcher.passing(span);
        if span.callback {
            return;
        }
        let (ends, begins) = match span.kind {
            SpanKind::NetSend => (Edge::SendEnds, Edge::SendBegins),
            SpanKind::NetReceive => (Edge::ReceiveEnds, Edge::ReceiveBegins),
            _ if span.in_vain => (Edge::GivenUp, Edge::PostedInVain),
            _ => (Edge::Replied, Edge::Posted),
        };
        self.pass(span.end_ns, ends, span.request);
        self.coming.push(Coming { at_ns: span.start_ns, edge: begins, request: span.request });
        if span.kind == SpanKind::RpcCall && !has_messages {
            // As far as known, a call is sent at the instant at which it is made.
            self.coming.push(Coming { at_ns: span.start_ns, edge: Edge::SendEnds, request: span.request });
            self.coming.push(Coming { at_ns: span.start_ns, edge: Edge::SendBegins, request: span.request });
        }
    }

    /// Delivers all remaining events at `at_ns` and later.
    fn until(&mut self, at_ns: i64) {
        while self.coming.peek().is_some_and(|c| c.at_ns >= at_ns) {
            if let Some(coming) = self.coming.pop() {
                self.pass(coming.at_ns, coming.edge, coming.request);
            }
        }
    }

    fn advance(&mut self, at_ns: i64) {
        if at_ns < self.now_ns {
            self.watcher.interval(at_ns, self.now_ns, self.state);
            self.now_ns = at_ns;
        }
    }

    fn pass(&mut self, at_ns: i64, edge: Edge, request: u64) {
        self.advance(at_ns);
        self.watcher.edge(self.now_ns, edge, request, self.state);
        let count = match edge {
            Edge::Replied | Edge::Posted => &mut self.state.pending,
            Edge::GivenUp | Edge::PostedInVain => &mut self.state.in_vain,
            Edge::SendBegins | Edge::SendEnds => &mut self.state.sending,
            Edge::ReceiveBegins | Edge::ReceiveEnds => &mut self.state.receiving,
        };
        match edge {
            Edge::Replied | Edge::GivenUp | Edge::SendEnds | Edge::ReceiveEnds => *count += 1,
            Edge::Posted | Edge::PostedInVain | Edge::SendBegins | Edge::ReceiveBegins => *count = count.saturating_sub(1),
        }
    }
}
