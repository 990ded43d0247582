//! Which span leads to which: a send to the server's work, the server's reply to its arrival, a message's send to its receive; and which
//! wakers woke a thread.
//!
//! Spans of one request have one number on all ends. Spans come backward in time, so a call precedes its sends and receives, and the
//! first receive seen is the one that completes the reply.

use crate::{Role, Source, Span, SpanId, SpanKind, WakerContext};
use std::collections::{HashMap, HashSet};

/// Whether the waker of a span of this kind woke its thread. The waker of a device's span is the thread that asked for it, that of a wait
/// for a processor is the thread that had the processor, and a timer interrupts any thread.
pub const fn wakes(kind: SpanKind, context: Option<WakerContext>) -> bool {
    let wakes = !matches!(kind, SpanKind::WaitRunqueue | SpanKind::DiskRead | SpanKind::DiskWrite | SpanKind::DiskFlush);
    wakes && !matches!(context, Some(WakerContext::Timer))
}

/// The part of a span in the exchange of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The caller's call, from its post to its reply.
    Calls,
    /// The caller sends the request; a rank sends a message.
    Sends,
    /// The server executes the request.
    Serves,
    /// The server sends the reply.
    Replies,
    /// The caller receives the reply; a rank receives a message.
    Arrives,
}

/// The spans of one request, or of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    caller: u64,
    call: Option<SpanId>,
    send: Option<SpanId>,
    serve: Option<SpanId>,
    reply: Option<SpanId>,
    arrival: Option<SpanId>,
    is_message: bool,
}

impl Exchange {
    /// Returns the span that begins the exchange: the first send, or the call if no send was recorded.
    pub fn begins(&self) -> Option<SpanId> {
        self.send.or(self.call)
    }

    /// Whether the send was recorded.
    pub fn is_sent(&self) -> bool {
        self.send.is_some()
    }

    /// Returns the arrows between its spans.
    pub fn arrows(&self) -> impl Iterator<Item = Arrow> + use<> {
        let start = |span: Option<SpanId>| span.map(ArrowEnd::Start);
        let end = |span: Option<SpanId>| span.map(ArrowEnd::End);
        let arrow = |kind, from, to| Some(Arrow { kind, from, to });
        let (begins, arrives) = ([start(self.send), start(self.call)], [end(self.arrival), end(self.call)]);
        let arrows = if self.is_message {
            [arrow(ArrowKind::Message, [start(self.send), None], [end(self.arrival), None]), None]
        } else if self.serve.is_none() && self.reply.is_none() {
            [arrow(ArrowKind::Reply, [start(self.send), None], [end(self.arrival), None]), None]
        } else {
            [
                arrow(ArrowKind::Request, begins, [start(self.serve), start(self.reply)]),
                arrow(ArrowKind::Reply, [start(self.reply), end(self.serve)], arrives),
            ]
        };
        let is_whole = |arrow: &Arrow| arrow.from.iter().any(Option::is_some) && arrow.to.iter().any(Option::is_some);
        arrows.into_iter().flatten().filter(is_whole)
    }
}

/// Kinds of arrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ArrowKind {
    /// From the send of a request to the server's work.
    Request,
    /// From the send of a reply to its arrival; from the send of the request if nothing of the server was recorded.
    Reply,
    /// From the send of a message to its arrival.
    Message,
}

impl ArrowKind {
    /// All kinds, by number.
    pub const ALL: [ArrowKind; 3] = [ArrowKind::Request, ArrowKind::Reply, ArrowKind::Message];

    /// Returns the kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            ArrowKind::Request => "request",
            ArrowKind::Reply => "reply",
            ArrowKind::Message => "message",
        }
    }
}

/// The end of an arrow: an end of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrowEnd {
    /// The span's start.
    Start(SpanId),
    /// The span's end.
    End(SpanId),
}

impl ArrowEnd {
    /// Returns the span.
    pub const fn span(self) -> SpanId {
        match self {
            ArrowEnd::Start(span) | ArrowEnd::End(span) => span,
        }
    }
}

/// An arrow. Each end is the first place in its list whose span is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Its kind.
    pub kind: ArrowKind,
    /// Where it begins.
    pub from: [Option<ArrowEnd>; 2],
    /// Where it points.
    pub to: [Option<ArrowEnd>; 2],
}

/// Spans of exchanges left out after which no span of a kept one is expected.
const PASSED: usize = 100_000;

/// The exchanges of a recording, by request.
#[derive(Debug)]
pub struct Exchanges {
    clients: HashSet<u64>,
    of: HashMap<u64, Exchange>,
    most: usize,
    left_out: bool,
    /// Number of spans of exchanges left out, since the last span of one that is kept.
    passed: usize,
}

impl Exchanges {
    /// Returns no exchanges; at most `most` will be kept, the latest ones.
    pub fn new(source: &dyn Source, most: usize) -> Exchanges {
        let clients = source.tracks().iter().filter(|track| track.role == Role::Client).map(|track| track.track.number()).collect();
        Exchanges { clients, of: HashMap::new(), most, left_out: false, passed: 0 }
    }

    /// Adds a span; returns its part unless a later span of the exchange has that part. Spans must come in order of descending end, those
    /// with one end in the order of [`crate::Tied`].
    pub fn see(&mut self, span: &Span) -> Option<Part> {
        let request = span.request?.number();
        let part = self.part(span)?;
        if self.of.len() >= self.most && !self.of.contains_key(&request) {
            self.left_out = true;
            self.passed += 1;
            return None;
        }
        self.passed = 0;
        let exchange = self.of.entry(request).or_default();
        exchange.is_message |= matches!(span.kind, SpanKind::MpiSend | SpanKind::MpiReceive);
        let first_seen = match part {
            Part::Calls => {
                exchange.caller = span.track.number();
                exchange.call.replace(span.span).is_none()
            }
            Part::Sends => exchange.send.replace(span.span).is_none(),
            Part::Serves => exchange.serve.replace(span.span).is_none(),
            Part::Replies => *exchange.reply.get_or_insert(span.span) == span.span,
            Part::Arrives => *exchange.arrival.get_or_insert(span.span) == span.span,
        };
        Some(part).filter(|_| first_seen)
    }

    /// Returns the part of a span in its exchange.
    pub fn part(&self, span: &Span) -> Option<Part> {
        let request = span.request?.number();
        match span.kind {
            SpanKind::RpcCall => Some(Part::Calls),
            SpanKind::RpcServe => Some(Part::Serves),
            SpanKind::MpiSend => Some(Part::Sends),
            SpanKind::MpiReceive => Some(Part::Arrives),
            SpanKind::NetSend if self.is_callers(span, request) => Some(Part::Sends),
            SpanKind::NetSend => Some(Part::Replies),
            SpanKind::NetReceive if self.is_callers(span, request) => Some(Part::Arrives),
            _ => None,
        }
    }

    /// Whether the span is of the end that made the request.
    fn is_callers(&self, span: &Span, request: u64) -> bool {
        let track = span.track.number();
        self.clients.contains(&track) || self.of.get(&request).is_some_and(|exchange| exchange.caller == track)
    }

    /// Returns the exchange of a request.
    pub fn of(&self, request: u64) -> Option<&Exchange> {
        self.of.get(&request)
    }

    /// Returns the arrows of all exchanges, in no order.
    pub fn arrows(&self) -> impl Iterator<Item = Arrow> + '_ {
        self.of.values().flat_map(Exchange::arrows)
    }

    /// Whether no span that is still to come is likely to be of an exchange that is kept.
    pub fn is_closed(&self) -> bool {
        self.passed > PASSED
    }

    /// Whether there were more exchanges than are kept.
    pub fn is_incomplete(&self) -> bool {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, HostId, MemorySource, Meta, RequestId, Tied, Time, Track, TrackId, TrackKind};

    const CLIENT: u64 = 1;
    const SERVER: u64 = 2;

    /// The kind of an arrow, and the span and the end of it at which each of its ends is.
    type ArrowFields = (&'static str, (u64, char), (u64, char));

    /// Spans: number, track, kind, start and end. All are of one request.
    fn arrows(spans: &[(u64, u64, SpanKind, i64, i64)]) -> Vec<ArrowFields> {
        let meta = Meta {
            format: crate::FORMAT_VERSION,
            command: vec![],
            recorder: "test".into(),
            start: Time::from_monotonic_ns(0),
            end: None,
            exit_code: None,
            dropped_events: 0,
            attributes: vec![],
        };
        let track = |(number, role)| {
            let (track, name) = (TrackId::new(number).unwrap(), String::new());
            Event::Track(Track { track, host: HostId(0), kind: TrackKind::Thread, role, pid: None, tid: None, name })
        };
        let span = |&(number, track, kind, start, end): &(u64, u64, SpanKind, i64, i64)| {
            let (id, track) = (SpanId::new(number).unwrap(), TrackId::new(track).unwrap());
            let bare = Span::bare(id, track, kind, Time::from_monotonic_ns(start), (end - start) as u64);
            Event::Span(Span { request: RequestId::new(7), ..bare })
        };
        let tracks = [(CLIENT, Role::Client), (SERVER, Role::Server)].map(track);
        let source = MemorySource::from_events(meta, tracks.into_iter().chain(spans.iter().map(span)));
        let (mut exchanges, mut tied) = (Exchanges::new(&source, 10), Tied::default());
        let mut see = |span: Span| {
            exchanges.see(&span);
            Ok::<(), ()>(())
        };
        for batch in source.spans_backward().map(Result::unwrap) {
            (0..batch.len()).for_each(|row| tied.push(batch.row(row).unwrap(), &mut see).unwrap());
        }
        tied.finish(&mut see).unwrap();
        let end = |ends: [Option<ArrowEnd>; 2]| match ends.into_iter().flatten().next().unwrap() {
            ArrowEnd::Start(span) => (span.number(), 's'),
            ArrowEnd::End(span) => (span.number(), 'e'),
        };
        exchanges.arrows().map(|arrow| (arrow.kind.name(), end(arrow.from), end(arrow.to))).collect()
    }

    use SpanKind::{MpiReceive, MpiSend, NetReceive, NetSend, RpcCall, RpcServe};

    #[test]
    fn arrows_lead_from_the_first_send_to_the_server_and_from_the_last_send_to_the_last_receive() {
        let call = [(1, CLIENT, RpcCall, 0, 100), (2, CLIENT, NetSend, 5, 10), (3, CLIENT, NetSend, 11, 15)];
        let serve =
            [(4, SERVER, NetReceive, 12, 20), (5, SERVER, RpcServe, 20, 60), (6, SERVER, NetSend, 61, 65), (7, SERVER, NetSend, 66, 70)];
        let reply = [(8, CLIENT, NetReceive, 70, 80), (9, CLIENT, NetReceive, 80, 100)];
        let whole: Vec<_> = call.into_iter().chain(serve).chain(reply).collect();
        assert_eq!(arrows(&whole), [("request", (2, 's'), (5, 's')), ("reply", (7, 's'), (9, 'e'))]);
        let unsent: Vec<_> = whole.iter().filter(|span| span.2 == RpcCall || span.2 == RpcServe).copied().collect();
        assert_eq!(arrows(&unsent), [("request", (1, 's'), (5, 's')), ("reply", (5, 'e'), (1, 'e'))]);
    }

    #[test]
    fn one_end_alone_has_an_arrow_from_request_to_reply() {
        let client = [(1, CLIENT, RpcCall, 0, 100), (2, CLIENT, NetSend, 5, 10), (3, CLIENT, NetReceive, 70, 100)];
        assert_eq!(arrows(&client), [("reply", (2, 's'), (3, 'e'))]);
        assert_eq!(arrows(&client[..1]), [], "a call alone leads nowhere");
        let server = [(1, SERVER, RpcServe, 0, 100), (2, SERVER, NetSend, 50, 100)];
        assert_eq!(arrows(&server), []);
    }

    #[test]
    fn a_message_is_one_arrow() {
        assert_eq!(arrows(&[(1, CLIENT, MpiSend, 0, 9), (2, CLIENT, MpiReceive, 3, 20)]), [("message", (1, 's'), (2, 'e'))]);
        assert_eq!(arrows(&[(1, CLIENT, MpiSend, 0, 9)]), []);
    }
}
