//! Arrows: from who woke a thread to the thread, and from a request's send over the server to the arrival of its reply.
//!
//! Perfetto joins slices by arrows, and draws an arrow to a slice's *beginning*. A wake-up and an arrival are ends; and who runs often has no
//! slice. So both ends of a wake-up, and the arrival of a reply, are instants of their own.

use crate::arrows::{Exchange, Exchanges, Part, wakes};
use crate::{Source, Span, Time, TrackId};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

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

/// Finds the arrows of a recording: first all spans are shown to it, backward in time, then the slices.
pub(super) struct Arrows {
    tracks: HashSet<u64>,
    exchanges: Exchanges,
}

impl Arrows {
    pub(super) fn new(source: &dyn Source) -> Arrows {
        let tracks = source.tracks().iter().map(|track| track.track.number()).collect();
        Arrows { tracks, exchanges: Exchanges::new(source, usize::MAX) }
    }

    /// Takes in a span; returns the instants at its end.
    pub(super) fn see(&mut self, span: &Span) -> impl Iterator<Item = ArrowEnd> + use<> {
        let arrives = self.exchanges.see(span) == Some(Part::Arrives);
        let arrival = span.request.filter(|_| arrives).map(|request| ArrowEnd {
            at: span.end(),
            track: span.track,
            flow: request.number(),
            what: What::Arrives,
        });
        self.wake_up(span).into_iter().flatten().chain(arrival)
    }

    fn wake_up(&self, span: &Span) -> Option<[ArrowEnd; 2]> {
        let is_wake_up = span.duration_ns > 0 && wakes(span.kind, span.waker_context);
        let known = |waker: &TrackId| *waker != span.track && self.tracks.contains(&waker.number());
        let waker = span.waker_track.filter(known).filter(|_| is_wake_up)?;
        let runnable_ns = i64::try_from(span.runqueue_ns.unwrap_or(0).min(span.duration_ns)).unwrap_or(0);
        let flow = WAKE_UP | span.span.number();
        let woken = ArrowEnd { at: span.end(), track: span.track, flow, what: What::Woken };
        Some([ArrowEnd { at: span.end().plus_ns(-runnable_ns), track: waker, what: What::Wakes, ..woken }, woken])
    }

    /// Whether the instant has an arrow; without, it is left out.
    pub(super) fn is_known(&self, end: &ArrowEnd) -> bool {
        end.what != What::Arrives || self.exchanges.of(end.flow).is_some_and(Exchange::is_sent)
    }

    /// Returns the arrow that passes through a slice, if one does.
    pub(super) fn through(&self, span: &Span) -> Option<u64> {
        let request = span.request?.number();
        let begins = || self.exchanges.of(request).and_then(Exchange::begins) == Some(span.span);
        let passes = match self.exchanges.part(span)? {
            Part::Serves | Part::Replies => true,
            Part::Sends | Part::Calls => begins(),
            Part::Arrives => false,
        };
        passes.then_some(request)
    }
}
