//! Programs stopped by a supervisor at its timeout (`timeout`). The supervisor only waited; the time is what the stopped program did until
//! then. If that was a wait for a peer, the timeout ended that wait.

use super::place::Place;
use super::*;
use crate::limits::waits as limits;
use crate::observe::ended::is_by;

impl View<'_, '_, '_> {
    /// A span as it would have ended by itself: if a signal ended both it and its process, and came from outside the recorded programs or
    /// from a supervisor at its timeout, the signal's sender is not the awaited thread.
    pub(super) fn without_killing_signal(&self, span: LiveSpan) -> LiveSpan {
        let Some(own) = self.tables.process(self.track).filter(|_| span.waker != NONE && span.ending_seen()) else { return span };
        let soon = span.end - limits::STOPPED_SOON_NS..=span.end + limits::STOPPED_SOON_NS;
        let sent_by_waker = |sender: u32| {
            let by = self.tables.actors.get(span.waker as usize).map(|actor| actor.pid);
            // The kernel sends the signal of a typed key.
            sender == NONE || self.tables.objects.get(sender as usize).zip(by).is_some_and(|(sender, pid)| is_by(&sender.name, pid))
        };
        let mut ended = self.facts.ended.iter().filter(|ended| self.tables.process(ended.leader) == Some(own));
        let by_other = self.memory.stopped.contains(&self.track) || self.is_from_outside(span.waker);
        let killed = by_other && ended.any(|ended| soon.contains(&ended.at) && sent_by_waker(ended.sender));
        if killed { LiveSpan { waker: NONE, ..span } } else { span }
    }

    /// Whether a track is no thread of a program recorded from its start.
    fn is_from_outside(&self, track: u32) -> bool {
        let actor = self.tables.actors.get(track as usize).filter(|actor| actor.thread && !actor.reached);
        actor.is_none_or(|actor| matches!(actor.role, Role::None | Role::Kernel | Role::Recorder)) || self.is_before_its_life(track)
    }

    /// In a wait for another program's end that ended with this program: returns whether the walk has gone to what that program runs.
    pub(super) fn ended_with_its_child(&mut self, span: &LiveSpan) -> bool {
        if !self.is_for_process(span) || span.waker != NONE || self.circling {
            return false;
        }
        let runs = self.runs_for(self.track);
        if runs != self.track {
            self.wait_for(runs);
        }
        runs != self.track
    }

    /// Whether a span is a wait for the end of a process.
    fn is_for_process(&self, span: &LiveSpan) -> bool {
        span.kind == SpanKind::WaitLock && self.is_process(span.object)
    }

    /// In a wait that ended at a timeout: returns whether the thread's process then stopped a program that it had made, and the walk has
    /// gone there. Not to a program whose wait is unknown, nor to one that slept.
    pub(super) fn stopped_another(&mut self, span: &LiveSpan) -> Answer<bool> {
        if self.circling {
            return Ok(false);
        }
        let Some(stopped) = self.stopped_soon(span) else { return Ok(false) };
        self.ensure(self.at)?;
        let stopped = self.runs_for(stopped);
        let Some(wait) = self.innermost_of(stopped) else {
            self.wait_for(stopped);
            return Ok(true);
        };
        if !matches!(rule(wait.kind), Rule::Thread | Rule::Receive) {
            let works = !matches!(rule(wait.kind), Rule::Wait(Activity::Think) | Rule::Unknown);
            if works {
                self.wait_for(stopped);
            }
            return Ok(works);
        }
        let object = if self.is_addressed(wait.object) { wait.object } else { NONE };
        let connection = if object == NONE { self.waited_on(stopped, &wait) } else { NONE };
        let is_on_something = self.tables.objects.get(wait.object as usize).is_some();
        if connection == NONE && object == NONE && !is_on_something {
            return Ok(false);
        }
        self.wait_for(stopped);
        if connection == NONE && object == NONE {
            // The object it waited at says for what.
            self.memory.stopped.insert(stopped);
            return Ok(true);
        }
        let place = Place::TimeLimit { waiter: self.labels.label(stopped), connection, object };
        self.charge_at_own(RuleId::StoppedWaiting, Activity::Think.at(self.end), place, self.within_life(wait.start));
        // Its process acted before.
        self.acts.push(Act::Paused(i64::MAX));
        Ok(true)
    }

    /// The first thread of a program that this thread's process had made, and stopped when a wait ended.
    fn stopped_soon(&self, span: &LiveSpan) -> Option<u32> {
        let own = self.tables.process(self.track)?;
        let soon = span.end - limits::STOPPED_SOON_NS..=span.end + limits::STOPPED_SOON_NS;
        let is_sender = |object: u32| self.tables.objects.get(object as usize).is_some_and(|by| is_by(&by.name, own.1));
        let is_own = |leader: u32| self.facts.lives[leader as usize].made().is_some_and(|(_, by)| self.tables.process(by) == Some(own));
        let stopped = self.facts.ended.iter().filter(|ended| soon.contains(&ended.at) && is_sender(ended.sender));
        stopped.map(|ended| ended.leader).find(|&leader| is_own(leader) && !self.is_outside_its_life(leader))
    }

    /// The program run by a program that waits for it to end.
    fn runs_for(&mut self, program: u32) -> u32 {
        let mut runs = program;
        for _ in 0..limits::NESTED_PROGRAMS {
            if !self.innermost_of(runs).is_some_and(|span| self.is_for_process(&span)) {
                break;
            }
            let process = self.tables.process(runs);
            let is_child = |&track: &u32| {
                let by = self.facts.lives[track as usize].made().map(|(_, by)| by);
                let leads = self.tables.actors[track as usize].leads() && self.tables.process(track) != process;
                leads && by.is_some_and(|by| self.tables.process(by) == process) && !self.is_outside_its_life(track)
            };
            let Some(child) = self.tables.workers().filter(is_child).last() else { break };
            runs = child;
        }
        runs
    }

    /// The connection on which a stopped thread waited: that of its wait, or the last one its process used; or, if it had none, the only
    /// one over which no client sent.
    fn waited_on(&mut self, track: u32, wait: &LiveSpan) -> u32 {
        if wait.connection != NONE {
            return wait.connection;
        }
        let Some(process) = self.tables.process(track) else { return NONE };
        let is_its = |parties: &[Vec<u32>; 2]| parties.iter().flatten().any(|&party| self.tables.process(party) == Some(process));
        let last = |connection: usize| {
            self.feed.traffic[connection].iter().flat_map(|end| [end.last_send, end.last_receive]).max().unwrap_or(i64::MIN)
        };
        let own = (0..self.feed.parties.len()).filter(|&c| is_its(&self.feed.parties[c])).max_by_key(|&c| last(c));
        let mut silent = (0..self.tables.connections.len() as u32).filter(|&c| {
            let called = self.feed.parties.get(c as usize).is_none_or(|parties| parties[End::Client as usize].is_empty());
            called && !self.is_within_stopped(c, process)
        });
        match own {
            Some(own) => own as u32,
            None => match (silent.next(), silent.next()) {
                (Some(only), None) => only,
                _ => NONE,
            },
        }
    }

    /// Whether the process serves the connection.
    fn is_within_stopped(&self, connection: u32, process: (u32, u32)) -> bool {
        self.parties(connection, End::Server).iter().any(|&party| self.tables.process(party) == Some(process))
    }
}
