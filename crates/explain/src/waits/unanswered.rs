//! Requests that were never answered. An event loop waits for everything at once, in pieces, and no wait says for what. But if its
//! program's last action was a request over a connection that carried nothing afterwards, in either direction, the program waited for that
//! answer until its own timeout, and then gave the connection up.

use super::*;
use crate::limits::waits as limits;
use crate::observe::ended::Ended;

impl View<'_, '_, '_> {
    /// For any wait that ended at its timeout, or a piece of one: the connection on which the program's last request stayed unanswered.
    ///
    /// Not if the program had sent over it before and paused: it paces itself, and no answer is due. Nor after a few bytes, which are a
    /// farewell.
    pub(super) fn never_answered(&mut self, span: &LiveSpan) -> Answer<Option<u32>> {
        if !span.may_be_in_vain() || self.tables.wakers_inferred || self.end != End::Client {
            return Ok(None);
        }
        let Some(process) = self.tables.process(self.track) else { return Ok(None) };
        let own: Vec<u32> = (0..self.tables.actors.len() as u32).filter(|&t| self.tables.process(t) == Some(process)).collect();
        let oldest = span.start - (2 * (span.end - span.start)).max(limits::FURTHEST_PAUSES_NS);
        let mut request: Option<LiveSpan> = None;
        for &track in &own {
            self.settle(track);
            let lane = &self.feed.lanes[track as usize];
            // Other threads of the process may work meanwhile; what it did before matters.
            let deeds = lane.ahead.iter().filter(|s| s.start < span.start && is_exchange(s));
            request = deeds.max_by_key(|s| s.start).copied().into_iter().chain(request).max_by_key(|s| s.start);
        }
        let floor = oldest.max(self.start);
        let Some(request) = request.filter(|s| s.end >= floor) else {
            return if self.feed.position < floor || self.cannot_look_further() { Ok(None) } else { self.more() };
        };
        let is_request = request.kind == SpanKind::NetSend && request.bytes() >= limits::FAREWELL_BYTES && request.side == End::Client;
        if !is_request || !self.is_given_up_after(&request) || self.paced_itself(&own, &request, floor)? {
            return Ok(None);
        }
        Ok(Some(request.connection))
    }

    /// Charges a wait for an unrecorded peer to the signal that ended it with its process, if no answer had come: however fast the peer is,
    /// it had not answered by then. Returns whether it applies.
    pub(super) fn stopped_in_vain(&mut self, blocked: &Blocked, from: i64) -> bool {
        let span = &blocked.span;
        if blocked.for_room || span.connection == NONE || span.side != End::Client || span.end - span.start < limits::TIME_LIMIT_NS {
            return false;
        }
        let came = self.feed.traffic.get(span.connection as usize).map_or(i64::MIN, |ends| ends[End::Client as usize].last_receive);
        let is_stopped = came <= span.start && self.is_stopped_in(span);
        if is_stopped {
            let place = Place::TimeLimit { waiter: self.labels.label(self.track), connection: span.connection, object: NONE };
            self.charge_at_own(RuleId::StoppedWaiting, Activity::Think.at(self.end), place, self.within_life(from));
        }
        is_stopped
    }

    /// Whether a signal that ended the process of the walk's thread ended this wait.
    fn is_stopped_in(&self, span: &LiveSpan) -> bool {
        let soon = span.end - limits::STOPPED_SOON_NS..=span.end + limits::STOPPED_SOON_NS;
        let process = self.tables.process(self.track);
        let ended = |ended: &Ended| soon.contains(&ended.at) && self.tables.process(ended.leader) == process;
        process.is_some() && self.facts.ended.iter().any(ended)
    }

    /// Whether this was the last send over its connection, with nothing received afterwards.
    pub(super) fn is_given_up_after(&self, request: &LiveSpan) -> bool {
        let traffic = self.feed.traffic.get(request.connection as usize).map(|ends| &ends[End::Client as usize]);
        traffic.is_some_and(|own| own.last_send <= request.start && own.last_receive <= request.end)
    }

    /// Whether a program had sent over the connection of its last request before, and paused between the two without an answer.
    fn paced_itself(&mut self, own: &[u32], request: &LiveSpan, oldest: i64) -> Answer<bool> {
        self.ensure(oldest.max(request.start - limits::FURTHEST_PAUSES_NS))?;
        let (mut sent, mut answered) = (i64::MIN, i64::MIN);
        let before = |s: &&LiveSpan| s.connection == request.connection && s.start < request.start && s.bytes() > 0;
        for &track in own {
            for span in self.feed.lanes[track as usize].ahead.iter().filter(before) {
                match span.kind {
                    SpanKind::NetSend => sent = sent.max(span.end),
                    SpanKind::NetReceive => answered = answered.max(span.end),
                    _ => {}
                }
            }
        }
        Ok(sent > answered && request.start - sent > limits::SAME_REQUEST_NS)
    }
}

/// Whether bytes went over a connection in it.
fn is_exchange(span: &LiveSpan) -> bool {
    matches!(span.kind, SpanKind::NetSend | SpanKind::NetReceive) && span.connection != NONE && span.bytes() > 0 && !span.is_fruitless()
}
