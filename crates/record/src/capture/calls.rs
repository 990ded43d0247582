//! Calls and replies of one connection, matched by XID, and the calls pending at each instant.

use super::call::{Call, NOT_CAPTURED};
use super::emit::{About, Out};
use super::frame::End;
use super::rpc::{Heading, Message, Outcome, Part, Procedure};
use super::shared::Shared;
use std::collections::{HashMap, VecDeque};
use thalweg_trace::{CounterName, MarkKind, ObjectId, RequestId, SpanKind, TrackId};

/// Maximum calls pending in one direction; beyond it the oldest is counted as unanswered.
const MOST_PENDING: usize = 1 << 16;

/// Answered XIDs remembered, to recognise a second reply.
const ANSWERED: usize = 256;

/// How long to wait for the reply to a datagram after it was last sent: no client's retransmission timer is longer
/// (RPC_MAX_UDP_TIMEOUT is 60 s).
const DATAGRAM_NS: i64 = 60_000_000_000;

/// `result` of a call that the server's RPC layer rejected: −EPROTO.
const REFUSED: i64 = -71;

/// Minimum interval between values of a counter, unless the value is 0.
const COUNTER_NS: i64 = 200_000;

/// The connection of a message: its track, its object at the client's end, and the server.
#[derive(Clone, Copy)]
pub(super) struct MessageContext {
    pub track: TrackId,
    pub connection: ObjectId,
    pub client_ip: u128,
    pub server: End,
    /// Whether the message went from client to server.
    pub outward: bool,
    /// Whether it was a datagram: only the client retransmits what is lost.
    pub datagram: bool,
    /// Whether it belongs to a call that the server makes and the client answers.
    pub callback: bool,
    /// Latest time at which calls with missing heads passed.
    pub calls_missed_ns: Option<i64>,
    /// Its position in the stream, if known.
    pub offset: Option<u64>,
}

/// The calls sent in one direction.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pending: HashMap<u32, Call>,
    answered: VecDeque<u32>,
    /// No pending call times out before this instant.
    over_ns: Option<i64>,
    /// Number of pending calls whose reply may have been missed.
    doubted: usize,
    window: Window,
    emitted_pending: usize,
    emitted_pending_ns: i64,
    emitted_window: usize,
}

/// Estimate of the window: the maximum pending during the last completions.
#[derive(Debug, Default)]
struct Window {
    peak: usize,
    peak_before: usize,
    completions: usize,
}

impl Window {
    fn posted(&mut self, pending: usize) {
        self.peak = self.peak.max(pending);
    }
    fn completed(&mut self, pending: usize) {
        self.completions += 1;
        if self.completions > (2 * self.peak).max(16) {
            *self = Window { peak: pending, peak_before: self.peak, completions: 0 };
        }
    }
    fn value(&self) -> usize {
        self.peak.max(self.peak_before)
    }
}

impl Calls {
    /// Notes that replies are missing from about this instant: any pending call may have been answered then.
    pub(super) fn doubt(&mut self, at_ns: i64) {
        for call in self.pending.values_mut() {
            call.doubted_ns.get_or_insert(at_ns);
        }
        self.doubted = self.pending.len();
    }

    fn count_doubted(&mut self) {
        self.doubted = self.pending.values().filter(|call| call.doubted_ns.is_some()).count();
    }

    /// Returns the number of calls certainly pending.
    fn surely_pending(&self) -> usize {
        self.pending.len().saturating_sub(self.doubted)
    }

    /// Ends doubted calls once a call posted at `posted_ns` is answered. Servers answer in any order, but no call is
    /// overtaken for long: if a whole window of calls posted after the gap was answered, the doubted call's reply was
    /// missed, and it ends at the gap.
    fn settle_doubts(&mut self, posted_ns: i64, shared: &mut Shared) {
        if self.doubted == 0 {
            return;
        }
        let window = self.window.value() as u32;
        for call in self.pending.values_mut().filter(|call| call.doubted_ns.is_some_and(|doubted| posted_ns > doubted)) {
            call.overtaken += 1;
        }
        let missed = |call: &Call| call.overtaken > window;
        let mut ended: Vec<(u32, Call)> = self.pending.iter().filter(|(_, call)| missed(call)).map(|(xid, call)| (*xid, *call)).collect();
        ended.sort_by_key(|(_, call)| (call.posted_ns, call.request));
        self.pending.retain(|_, call| !missed(call));
        self.count_doubted();
        for (xid, call) in ended {
            // If its reply arrives after all, it must not match another call.
            self.remember(xid);
            call.without_answer(&mut shared.counts, &mut shared.out, posted_ns);
        }
    }

    /// Ends calls whose wait has timed out.
    fn end_those_over(&mut self, now_ns: i64, shared: &mut Shared) {
        if self.over_ns.is_none_or(|over_ns| now_ns <= over_ns) {
            return;
        }
        let is_over = |call: &Call| call.until_ns < now_ns;
        let mut ended: Vec<Call> = self.pending.values().filter(|call| is_over(call)).copied().collect();
        ended.sort_by_key(|call| (call.posted_ns, call.request));
        self.pending.retain(|_, call| !is_over(call));
        self.over_ns = self.pending.values().map(|call| call.until_ns).min();
        self.count_doubted();
        ended.iter().for_each(|call| call.without_answer(&mut shared.counts, &mut shared.out, now_ns));
    }

    /// Whether a call with this XID awaits its reply.
    pub(super) fn is_pending(&self, xid: u32) -> bool {
        self.pending.contains_key(&xid)
    }

    /// Handles a complete call.
    pub(super) fn call(&mut self, message: &Message, xid: u32, procedure: Procedure, context: MessageContext, shared: &mut Shared) {
        shared.counts.calls += 1;
        self.end_those_over(message.last_ns, shared);
        let until_ns = if context.datagram { message.last_ns.saturating_add(DATAGRAM_NS) } else { i64::MAX };
        let known = match self.pending.get(&xid) {
            Some(call) if call.procedure == procedure => Some((*call, true)),
            // Sent again here by the client after its other connection broke.
            _ => shared.orphan(context.client_ip, context.server, (xid, procedure), message.last_ns).map(|call| (call, false)),
        };
        let call = match known {
            Some((call, same_connection)) => {
                let waited_ns = message.last_ns - call.sent_ns;
                shared.counts.rpc_retransmissions += 1;
                shared.out.mark(context.track, MarkKind::RpcRetransmit, message.last_ns, call.object, Some(waited_ns));
                if same_connection {
                    shared.out.mark(context.track, MarkKind::RpcTimeout, message.last_ns, call.object, Some(waited_ns));
                }
                Call { sent_ns: message.last_ns, bytes: call.bytes + message.bytes, doubted_ns: None, overtaken: 0, until_ns, ..call }
            }
            None => Call {
                request: shared.out.request(),
                procedure,
                object: shared.procedure(context.server, Some(procedure), context.callback),
                track: context.track,
                posted_ns: message.last_ns,
                sent_ns: message.last_ns,
                bytes: message.bytes,
                doubted_ns: None,
                overtaken: 0,
                until_ns,
            },
        };
        if context.datagram {
            self.over_ns = Some(self.over_ns.map_or(until_ns, |over_ns| over_ns.min(until_ns)));
        }
        moved(message, context, call.request, &mut shared.out);
        if self.pending.len() >= MOST_PENDING {
            self.forget_oldest(message.last_ns, shared);
        }
        let before = self.pending.insert(xid, call);
        self.doubted = self.doubted.saturating_sub(usize::from(before.is_some_and(|call| call.doubted_ns.is_some())));
        if let Some(other) = before
            && other.request != call.request
        {
            // The XID is in use for another call, so this one is given up.
            other.without_answer(&mut shared.counts, &mut shared.out, message.last_ns);
        }
        self.window.posted(self.surely_pending());
        self.emit(message.last_ns, context, &mut shared.out);
    }

    /// Handles a complete reply.
    pub(super) fn reply(&mut self, message: &Message, xid: u32, outcome: Outcome, context: MessageContext, shared: &mut Shared) {
        shared.counts.replies += 1;
        self.end_those_over(message.last_ns, shared);
        let Some(call) = self.pending.remove(&xid) else {
            let again = self.answered.contains(&xid);
            self.remember(xid);
            return reply_alone(message, again, context, shared);
        };
        self.remember(xid);
        self.doubted = self.doubted.saturating_sub(usize::from(call.doubted_ns.is_some()));
        let result = match outcome {
            Outcome::Refused => Some(REFUSED),
            Outcome::Done(Some(status)) if call.procedure.has_status() => Some(-i64::from(status)),
            Outcome::Done(_) => None,
        };
        call.span(&mut shared.out, call.posted_ns, message.last_ns.max(call.posted_ns), message.bytes, result);
        moved(message, context, call.request, &mut shared.out);
        self.settle_doubts(call.posted_ns, shared);
        self.window.completed(self.surely_pending());
        self.emit(message.last_ns, context, &mut shared.out);
    }

    /// Remembers the XID of an answered call.
    fn remember(&mut self, xid: u32) {
        if self.answered.len() == ANSWERED {
            self.answered.pop_front();
        }
        self.answered.push_back(xid);
    }

    /// Emits the number of pending calls, and the window, as counters of the connection.
    fn emit(&mut self, at_ns: i64, context: MessageContext, out: &mut Out) {
        let pending = self.surely_pending();
        if pending != self.emitted_pending && (pending == 0 || self.emitted_pending == 0 || at_ns - self.emitted_pending_ns >= COUNTER_NS) {
            (self.emitted_pending, self.emitted_pending_ns) = (pending, at_ns);
            out.counter(context.connection, CounterName::RpcPending, at_ns, pending as i64);
        }
        if self.window.value() != self.emitted_window {
            self.emitted_window = self.window.value();
            out.counter(context.connection, CounterName::RpcWindow, at_ns, self.emitted_window as i64);
        }
    }

    fn forget_oldest(&mut self, now_ns: i64, shared: &mut Shared) {
        if let Some(&xid) = self.pending.iter().min_by_key(|(_, call)| call.posted_ns).map(|(xid, _)| xid)
            && let Some(call) = self.pending.remove(&xid)
        {
            call.without_answer(&mut shared.counts, &mut shared.out, now_ns);
        }
    }

    /// Removes all pending calls when the connection has ended.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (u32, Call)> {
        let mut left: Vec<(u32, Call)> = self.pending.drain().collect();
        left.sort_by_key(|(_, call)| (call.posted_ns, call.request));
        left.into_iter()
    }
}

/// Handles a reply without its call. If the capture misses heads of calls, the reply proves one: its procedure, size
/// and time are unknown, but it was pending no later than the last such call.
fn reply_alone(message: &Message, again: bool, context: MessageContext, shared: &mut Shared) {
    let request = shared.out.request();
    match (again, context.calls_missed_ns) {
        (true, _) => shared.counts.duplicate_replies += 1,
        (false, None) => shared.counts.unmatched_replies += 1,
        (false, Some(missed_ns)) => {
            shared.counts.calls_not_captured += 1;
            let object = shared.procedure(context.server, None, context.callback);
            let about = About {
                object: Some(object),
                size_bytes: Some(message.bytes),
                result: Some(NOT_CAPTURED),
                request: Some(request),
                ..About::default()
            };
            shared.out.span(context.track, SpanKind::RpcCall, missed_ns.min(message.last_ns), message.last_ns, about);
        }
    }
    moved(message, context, request, &mut shared.out);
}

/// Emits a message's transfer as the client sees it: calls are sent, replies received. One span, or one per part
/// between pauses.
fn moved(message: &Message, context: MessageContext, request: RequestId, out: &mut Out) {
    let kind = if context.outward { SpanKind::NetSend } else { SpanKind::NetReceive };
    let whole = [Part { first_ns: message.first_ns, last_ns: message.last_ns, bytes: message.bytes }];
    let parts = if message.parts.is_empty() { &whole[..] } else { &message.parts };
    let mut before = 0;
    for part in parts {
        let about = About {
            object: Some(context.connection),
            offset_bytes: context.offset.map(|offset| offset + before),
            size_bytes: Some(part.bytes),
            request: Some(request),
            ..About::default()
        };
        before += part.bytes;
        out.span(context.track, kind, part.first_ns, part.last_ns, about);
    }
}

/// Matches a message with the calls of both directions of its connection.
pub(super) fn matched(calls: &mut [Calls; 2], direction: usize, message: &Message, context: MessageContext, shared: &mut Shared) {
    shared.counts.rpc(message.first_ns, message.last_ns);
    match message.heading {
        Heading::Call { xid, procedure } => calls[direction].call(message, xid, procedure, context, shared),
        Heading::Reply { xid, outcome } => calls[1 - direction].reply(message, xid, outcome, context, shared),
    }
}
