//! Waits that ended at their own timeout. A program that sleeps by `poll`, a timed condition wait or `sem_timedwait` pauses; one that polls
//! at intervals waits for what it polls for.

use super::*;
use crate::limits::waits as limits;
use crate::observe::feed::NextActions;
use thalweg_trace::ObjectKind;

impl View<'_, '_, '_> {
    /// For any wait that ended at its timeout: the wait for what it polled for; `None` if it is charged, or the walk has continued.
    pub(super) fn until_its_limit(&mut self, span: &LiveSpan, passed: &NextActions) -> Answer<Option<LiveSpan>> {
        if let Some(looked_for) = self.looked_for_in_vain(span, passed)? {
            // For locks it is no guess if the thread that finally released it had been at work.
            if looked_for.waker == NONE || self.tables.wakers_inferred {
                self.infer(span.start);
            }
            return Ok(Some(looked_for));
        }
        if self.waits_by_pauses(span)? {
            return Ok(None);
        }
        let (slept, deed) = (self.slept(span)?, self.next_deed()?);
        let earliest = self.piece_start(span);
        let descriptors = span.kind == SpanKind::WaitNetwork || span.object != NONE;
        if self.tables.wakers_inferred && descriptors && self.lane().traits.deals_with_others {
            // It may have waited for one of its communication partners.
            self.charge_thread_as(RuleId::TimeLimitUnknown, Cause::Unknown, What::Blocked(span.kind), span.object, earliest);
            return Ok(None);
        }
        // Or a lock that a running thread held meanwhile, and released just then.
        if span.kind == SpanKind::WaitLock && (self.tables.wakers_inferred || self.running_sibling(self.track, NONE).is_some()) {
            self.infer(earliest);
        }
        // An end of its own pair of sockets names nothing that a reader knows.
        let is_nameless = self.tables.objects.get(span.object as usize).is_some_and(|object| object.kind == ObjectKind::Socket);
        let on = if is_nameless { NONE } else { span.object };
        self.charge_thread(RuleId::TimeLimit, Activity::Think, What::Blocked(span.kind), on, earliest);
        self.acts.extend([slept, Act::Paused(deed)]);
        Ok(None)
    }

    /// A wait for one peer's answer that the waiter's own timeout ended, not the peer. The thread had made a request, and then continued
    /// without the answer: it sent more, asked again, or gave up. (A thread that waits again for the same answer had only polled, and one
    /// that alternately sends and pauses paces itself.)
    pub(super) fn ended_by_its_limit(&mut self, span: &LiveSpan, passed: &NextActions) -> Answer<bool> {
        if self.circling {
            return Ok(false);
        }
        if let Some(connection) = self.never_answered(span)? {
            self.charge_limit(span, connection, NONE)?;
            return Ok(true);
        }
        if span.kind == SpanKind::WaitLock || span.end - span.start < limits::TIME_LIMIT_NS {
            return Ok(false);
        }
        let (connection, object) = if self.is_addressed(span.object) { (NONE, span.object) } else { (self.asked_before(span)?, NONE) };
        let goes_on = match (connection, object) {
            (NONE, NONE) => false,
            // An answer that came soon after belongs to the next question; one that took part of another timeout came late.
            (NONE, _) => self.answered_another(span, passed),
            _ => {
                passed.send.0 < passed.receive.0 && passed.send.0 <= passed.wait.0
                    || ![passed.receive.1, passed.wait.1].contains(&connection)
            }
        };
        if goes_on {
            self.charge_limit(span, connection, object)?;
        }
        Ok(goes_on)
    }

    /// Charges a wait to the timeout that ended it, at the peer that did not answer.
    fn charge_limit(&mut self, span: &LiveSpan, connection: u32, object: u32) -> Answer<()> {
        let deed = self.next_deed()?;
        let from = self.piece_start(span);
        let place = Place::TimeLimit { waiter: self.labels.label(self.track), connection, object };
        self.charge_at_own(RuleId::TimeLimit, Activity::Think.at(self.end), place, self.within_life(from));
        if connection != NONE {
            // What was sent through a socket without connections is not recorded.
            self.acts.push(Act::Paused(deed));
        }
        Ok(())
    }

    /// The connection of this thread as a client whose request preceded a wait; [`NONE`] if another one is waited for, no request was made,
    /// or it has paused like this since its last answer.
    fn asked_before(&mut self, span: &LiveSpan) -> Answer<u32> {
        self.ensure(span.start - 2 * (span.end - span.start))?;
        let (mut asked, mut farewell) = (NONE, false);
        for before in &self.lane().ahead {
            match before.kind {
                SpanKind::NetSend if asked == NONE => {
                    (asked, farewell) = (before.connection, before.bytes() < limits::FAREWELL_BYTES && self.is_given_up_after(before));
                }
                // An event loop that sent a farewell over a connection waits for something else.
                SpanKind::NetReceive if before.bytes() > 0 && farewell && span.connection == NONE => return Ok(NONE),
                SpanKind::NetReceive if before.bytes() > 0 => break,
                SpanKind::NetConnect => break,
                // A thread that waited for this connection alone paced nothing.
                SpanKind::WaitNetwork if before.timed_out() && asked != NONE && span.connection != asked => return Ok(NONE),
                _ => {}
            }
        }
        let is_its = asked != NONE && (span.connection == NONE || span.connection == asked);
        Ok(if is_its && self.feed.side_of(self.tables, self.track, asked) == End::Client { asked } else { NONE })
    }

    /// Whether the end of the thread's next wait answered another request than that of a fruitless wait: it came within a fraction of the
    /// timeout. Of several timeouts in a row, the last decides.
    fn answered_another(&mut self, span: &LiveSpan, passed: &NextActions) -> bool {
        let (next_ns, in_vain) = passed.next_waited;
        let last = self.memory.time_limit.filter(|last| in_vain && (last.0, last.1) == (self.track, passed.next_wait));
        let soon = passed.next_wait == i64::MAX || in_vain || next_ns <= (span.end - span.start) / limits::ANSWERED_PART;
        let another = last.map_or(soon, |last| last.2);
        self.memory.time_limit = Some((self.track, span.start, another));
        another
    }

    /// The purpose of a timed-out wait, as a wait of that kind; `None` if it was a voluntary pause.
    fn looked_for_in_vain(&mut self, span: &LiveSpan, passed: &NextActions) -> Answer<Option<LiveSpan>> {
        let next = passed.receive.0.min(passed.send.0);
        if span.kind == SpanKind::WaitNetwork && next <= passed.wait.0 && next != i64::MAX {
            if passed.send.0 < passed.receive.0 {
                return Ok(None);
            }
            // It took the bytes that it had waited for, unless they were already unread when the wait began.
            let offset_bytes = passed.receive.2;
            let taken = LiveSpan { offset_bytes, size_bytes: 1, ..self.on_connection(*span, passed.receive.1) };
            let had_unread = self.find_send(&taken)?.is_some_and(|send| send.end <= span.start);
            return Ok((!had_unread).then(|| self.on_connection(*span, passed.receive.1)));
        }
        if !passed.looks_again(span) || passed.pause || self.ended_previous_wait(span, passed) {
            return Ok(None);
        }
        let (_, connection, waker) = passed.wait;
        let carried =
            connection == NONE && self.is_walkable(waker) && self.carries(waker, passed.receive.1) && passed.receive.0 < passed.send.0;
        let connection = if carried { passed.receive.1 } else { connection };
        if connection == NONE && waker != NONE && self.had_nothing_to_do(waker, span) {
            return Ok(None);
        }
        let kind = if connection != NONE { SpanKind::WaitNetwork } else { SpanKind::WaitLock };
        Ok((connection != NONE || waker != NONE).then(|| LiveSpan { kind, waker, ..self.on_connection(*span, connection) }))
    }

    /// Whether, after this wait and before its next, the thread ended the wait of the thread the walk came from: that was the timeout's
    /// purpose, and the wait was no poll.
    fn ended_previous_wait(&self, span: &LiveSpan, passed: &NextActions) -> bool {
        let Some(lane) = self.memory.came_from.get(&self.track).and_then(|&came| self.feed.lanes.get(came as usize)) else { return false };
        lane.open.iter().any(|wait| wait.waker == self.track && wait.start <= span.end && wait.end > span.end && wait.end <= passed.wait.0)
    }

    /// Whether a thread waited throughout another's pause for that thread, or for an unknown one: then it was not what the pause was for.
    /// It may wait through a chain of others.
    fn had_nothing_to_do(&mut self, track: u32, pause: &LiveSpan) -> bool {
        let early = pause.start + (pause.end - pause.start) / limits::EARLY_PART;
        let mut waits = track;
        for _ in 0..limits::LONGEST_CHAIN {
            let inner = self.innermost_of(waits);
            let idle = |s: &LiveSpan| s.kind == SpanKind::WaitLock && s.cpu_ns == 0 && s.start <= early && s.end >= self.at;
            match inner.filter(idle).map(|s| s.waker) {
                None => return false,
                Some(NONE) => return true,
                Some(waker) if waker == self.track => return true,
                Some(waker) => waits = waker,
            }
        }
        true
    }
}
