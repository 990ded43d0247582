//! Programs that are stopped by who set a time limit for them (`timeout`, a supervisor). The one that stops them only waited; what they did until then is what took
//! the time. Where that was a wait for a peer, the limit ended that wait.

use super::place::Place;
use super::*;
use crate::limits::waits as limits;
use crate::observe::ended::is_by;

impl View<'_, '_, '_> {
    /// A span as it would have ended by itself: where a signal ended both it and its process, that came from outside of the recorded programs, or from one whose
    /// time limit had ended, who sent it is not who was waited for.
    pub(super) fn without_its_killer(&self, span: LiveSpan) -> LiveSpan {
        let Some(own) = self.tables.process(self.track).filter(|_| span.waker != NONE && span.ending_seen()) else { return span };
        let soon = span.end - limits::STOPPED_SOON_NS..=span.end + limits::STOPPED_SOON_NS;
        let sent_by_waker = |sender: u32| {
            let by = self.tables.actors.get(span.waker as usize).map(|actor| actor.pid);
            // (The kernel sends the signal of a key that was typed.)
            sender == NONE || self.tables.objects.get(sender as usize).zip(by).is_some_and(|(sender, pid)| is_by(&sender.name, pid))
        };
        let mut ended = self.facts.ended.iter().filter(|ended| self.tables.process(ended.leader) == Some(own));
        let by_other = self.memory.stopped.contains(&self.track) || self.is_from_outside(span.waker);
        let killed = by_other && ended.any(|ended| soon.contains(&ended.at) && sent_by_waker(ended.sender));
        if killed { LiveSpan { waker: NONE, ..span } } else { span }
    }

    /// Whether a track is no thread of a program that was recorded from its start.
    fn is_from_outside(&self, track: u32) -> bool {
        let actor = self.tables.actors.get(track as usize).filter(|actor| actor.thread && !actor.reached);
        actor.is_none_or(|actor| matches!(actor.role, Role::None | Role::Kernel | Role::Recorder)) || self.is_before_its_life(track)
    }

    /// Stands in a wait for the end of another program that ended with this one's own end: the walk has gone to what that program runs.
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

    /// Stands in a wait that a time limit ended: whether the thread's process then stopped a program that it had made, and the walk has gone there. Not to a
    /// program of which it is not known what it waited for, nor to one that slept.
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
            // (What it waited at says what for.)
            self.memory.stopped.insert(stopped);
            return Ok(true);
        }
        let place = Place::TimeLimit { waiter: self.labels.label(stopped), connection, object };
        self.charge_at_own(RuleId::StoppedWaiting, Activity::Think.at(self.end), place, self.within_life(wait.start));
        // Whatever its process did, it did before.
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

    /// What a program that waits for the end of another one runs.
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

    /// The connection on which a thread waited that was stopped: that of its wait, or the last over which its process sent or took anything; or, where that had none,
    /// the only one over which nobody did.
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

    /// Whether a connection is one that the process serves.
    fn is_within_stopped(&self, connection: u32, process: (u32, u32)) -> bool {
        self.parties(connection, End::Server).iter().any(|&party| self.tables.process(party) == Some(process))
    }
}
