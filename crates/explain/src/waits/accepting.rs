//! Calls in an accept queue. A caller waits for the thread that should accept, whatever that does meanwhile: the walk continues with that
//! thread until the wait began. What it did before the call delayed nothing, so the walk then returns to the caller.

use super::*;
use crate::limits::waits as limits;

impl View<'_, '_, '_> {
    /// The thread that should accept a connection not accepted by the walk's instant: one that accepted it later, or else the process's
    /// main thread.
    fn acceptor(&self, span: &LiveSpan) -> Option<u32> {
        let listening = self.facts.wire.not_accepted.get(&span.connection).filter(|_| span.side == End::Client)?;
        let served = &self.feed.traffic.get(span.connection as usize)?[End::Server as usize];
        if served.party(self.at).is_some() {
            return None;
        }
        let process = |track: u32| self.tables.process(track);
        let mut later = self.parties(span.connection, End::Server).iter().copied();
        let of_listener = |&track: &u32| listening.iter().any(|&l| process(l) == process(track)) && !self.is_outside_its_life(track);
        let alive = listening.iter().copied().find(|&track| !self.is_outside_its_life(track));
        later.rfind(of_listener).or(alive).or(listening.first().copied()).filter(|&track| track != NONE && track != self.track)
    }

    /// Goes to the thread that should accept, if the connection of a wait was not accepted yet; returns whether it did.
    pub(super) fn goes_to_acceptor(&mut self, span: &LiveSpan) -> Answer<bool> {
        let Some(acceptor) = self.acceptor(span).filter(|_| !self.circling) else { return Ok(false) };
        if self.is_outside_its_life(acceptor) {
            let from = self.piece_start(span);
            let ended = self.facts.lives.get(acceptor as usize).and_then(|life| life.until).filter(|&until| until < self.at);
            let place = Place::FarEnd { seen_by: self.labels.label(self.track), connection: span.connection, side: End::Server };
            self.charge_at_own(RuleId::Unseen, Cause::ServerUnknown, place, ended.map_or(from, |until| until.max(from)));
            return Ok(true);
        }
        if let Some(since) = self.accepts_meanwhile(acceptor, span) {
            self.ensure(span.start)?;
            let from = self.piece_start(span).max(since);
            match self.acceptor_busy_with(span.connection, acceptor, (span.start, since)) {
                Some((activity, what, object)) => {
                    let place = self.labels.thread_place(acceptor, what, object);
                    let cause = activity.at(self.tables.actors[acceptor as usize].end);
                    self.charge_at(RuleId::AcceptOther, (cause, place), false, from);
                }
                None => self.charge_wire(RuleId::AcceptDropped, Cause::NetworkLoss, (span.connection, acceptor), true, from),
            }
            return Ok(true);
        }
        self.acts.push(Act::Called(span.start));
        self.wait_for(acceptor);
        Ok(true)
    }

    /// Since when the acceptor waits for calls while this one is not admitted: it was dropped before, and will be sent again.
    fn accepts_meanwhile(&mut self, acceptor: u32, span: &LiveSpan) -> Option<i64> {
        let theirs = self.innermost_of(acceptor).filter(|_| span.kind == SpanKind::NetConnect)?;
        let for_calls = theirs.kind == SpanKind::WaitNetwork && (theirs.connection == NONE || theirs.connection == span.connection);
        (for_calls && theirs.start < self.at).then_some(theirs.start)
    }

    /// The acceptor's other activity for most of an interval in which a call was not admitted: the pause until the call is sent again is
    /// due to that, too.
    fn acceptor_busy_with(&self, connection: u32, acceptor: u32, (since, until): (i64, i64)) -> Option<(Activity, What, u32)> {
        let length = |s: &LiveSpan| s.end.min(until) - s.start.max(since);
        let within = self.feed.lanes[acceptor as usize].ahead.iter().take_while(|s| s.end > since);
        let within: Vec<&LiveSpan> = within.filter(|s| s.is_activity() && length(s) > 0).collect();
        let known_since = self.facts.lives.get(acceptor as usize).map_or(since, |life| life.floor().max(since));
        if known_since >= until {
            return None;
        }
        if within.iter().map(|s| length(s)).sum::<i64>() < (until - known_since) / 2 {
            return Some((Activity::Cpu, What::OwnWork, NONE));
        }
        let longest = within.into_iter().max_by_key(|s| length(s))?;
        let activity = match rule(longest.kind) {
            Rule::Work { running, .. } if longest.cpu_ns != 0 => return Some((running, What::Running(longest.kind), longest.object)),
            Rule::Work { blocked, .. } | Rule::Wait(blocked) => blocked,
            Rule::Thread => Activity::Lock,
            // For another connection's bytes; a wait for calls names no connection, or this one.
            Rule::Receive | Rule::Send if longest.connection != NONE && longest.connection != connection => Activity::Think,
            _ => return None,
        };
        Some((activity, What::Blocked(longest.kind), longest.object))
    }

    /// Handles a wait that ended at its timeout, for an answer to bytes sent over a connection not accepted yet, in the same way.
    pub(super) fn waited_for_acceptance(&mut self, span: &LiveSpan) -> Answer<bool> {
        if self.facts.wire.not_accepted.is_empty() {
            return Ok(false);
        }
        let used = self.lane().ahead.iter().filter(|s| s.is_activity()).take(limits::LAST_CALLS).map(|s| s.connection).find(|&c| c != NONE);
        used.map_or(Ok(false), |connection| self.goes_to_acceptor(&self.on_connection(*span, connection)))
    }

    /// Notes that the walk goes from this thread to the one that serves it over a connection from its accept queue.
    pub(super) fn note_call(&mut self, span: &LiveSpan) {
        if span.side == End::Client && self.facts.wire.not_accepted.contains_key(&span.connection) {
            self.acts.push(Act::Called(span.start));
        }
    }
}
