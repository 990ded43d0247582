//! Arrows: from who woke a thread to the thread, and from a request's send over the server to the arrival of its reply.
//!
//! Perfetto joins slices by arrows, and draws an arrow to a slice's *beginning*. A wake-up and an arrival are ends; and who runs often has no
//! slice. So both ends of a wake-up, and the arrival of a reply, are instants of their own.

use crate::{Role, Source, Span, SpanKind, Time, TrackId, WakerContext};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Set in the arrows of wake-ups, whose numbers are those of the waits, to tell them from requests.
const WAKE_UP: u64 = 1 << 62;

/// An end of an arrow that has an instant of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ArrowEnd {
    pub(super) at: Time,
    pub(super) track: TrackId,
    pub(super) flow: u64,
    pub(super) what: What,
}

/// What an instant at the end of an arrow stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum What {
    /// A thread (or a device) wakes another.
    Wakes,
    /// A thread runs again, or begins to wait for a processor.
    Woken,
    /// The reply to a request, or a message, has arrived.
    Arrives,
}

impl What {
    pub(super) const ALL: [What; 3] = [What::Wakes, What::Woken, What::Arrives];

    /// The instant's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            What::Wakes => "wakes",
            What::Woken => "woken",
            What::Arrives => "arrives",
        }
    }
}

/// Finds the arrows of a recording: first all spans are shown to it, backward in time, then the slices in order of time.
pub(super) struct Arrows {
    roles: HashMap<u64, Role>,
    /// The track of each request's call.
    callers: HashMap<u64, u64>,
    /// Requests and messages whose send was recorded at the caller's end.
    sent: HashSet<u64>,
    arrived: HashSet<u64>,
    /// Those whose arrow has begun.
    begun: HashSet<u64>,
}

impl Arrows {
    pub(super) fn new(source: &dyn Source) -> Arrows {
        let roles = source.tracks().iter().map(|track| (track.track.number(), track.role)).collect();
        Arrows { roles, callers: HashMap::new(), sent: HashSet::new(), arrived: HashSet::new(), begun: HashSet::new() }
    }

    /// Takes in a span; returns the instants at its end.
    pub(super) fn see(&mut self, span: &Span) -> impl Iterator<Item = ArrowEnd> + use<> {
        let wake_up = self.wake_up(span);
        wake_up.into_iter().flatten().chain(self.arrival(span))
    }

    fn wake_up(&self, span: &Span) -> Option<[ArrowEnd; 2]> {
        use SpanKind::{DiskFlush, DiskRead, DiskWrite, WaitRunqueue};
        // The waker of a device's span is who asked for it; that of a wait for a processor, who had it.
        let waits = !matches!(span.kind, WaitRunqueue | DiskRead | DiskWrite | DiskFlush) && span.duration_ns > 0;
        let waker = span.waker_track.filter(|waker| waits && *waker != span.track && self.roles.contains_key(&waker.number()))?;
        if span.waker_context == Some(WakerContext::Timer) {
            return None;
        }
        let runnable_ns = i64::try_from(span.runqueue_ns.unwrap_or(0).min(span.duration_ns)).unwrap_or(0);
        let flow = WAKE_UP | span.span.number();
        let woken = ArrowEnd { at: span.end(), track: span.track, flow, what: What::Woken };
        Some([ArrowEnd { at: span.end().plus_ns(-runnable_ns), track: waker, what: What::Wakes, ..woken }, woken])
    }

    fn arrival(&mut self, span: &Span) -> Option<ArrowEnd> {
        let request = span.request?.number();
        match span.kind {
            SpanKind::RpcCall => _ = self.callers.insert(request, span.track.number()),
            SpanKind::MpiSend => _ = self.sent.insert(request),
            SpanKind::NetSend if self.is_callers(span, request) => _ = self.sent.insert(request),
            SpanKind::NetReceive if !self.is_callers(span, request) => {}
            // Of several, the last: the reply is complete then.
            SpanKind::NetReceive | SpanKind::MpiReceive if self.arrived.insert(request) => {
                return Some(ArrowEnd { at: span.end(), track: span.track, flow: request, what: What::Arrives });
            }
            _ => {}
        }
        None
    }

    /// Whether the span is of the end that made the request.
    fn is_callers(&self, span: &Span, request: u64) -> bool {
        let track = span.track.number();
        self.callers.get(&request) == Some(&track) || self.roles.get(&track) == Some(&Role::Client)
    }

    /// Whether the instant has an arrow; without, it is left out.
    pub(super) fn is_known(&self, end: &ArrowEnd) -> bool {
        end.what != What::Arrives || self.sent.contains(&end.flow)
    }

    /// Returns the arrow that passes through a slice, if one does. Slices are asked for in order of their starts.
    pub(super) fn through(&mut self, span: &Span) -> Option<u64> {
        let request = span.request?.number();
        let first = match span.kind {
            SpanKind::RpcServe => return Some(request),
            SpanKind::NetSend if !self.is_callers(span, request) => return Some(request),
            SpanKind::NetSend | SpanKind::MpiSend => true,
            SpanKind::RpcCall => !self.sent.contains(&request),
            _ => false,
        };
        Some(request).filter(|_| first && self.begun.insert(request))
    }
}
