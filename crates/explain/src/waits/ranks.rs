//! Waits of an MPI job's ranks for each other: a rank that polls in an MPI call is charged to what it polls for.
//!
//! While a rank is in an MPI call for which another rank must do its part ([`crate::observe::ranks`]), everything its thread does by itself
//! (running, queueing for a processor, sleeping between polls) is waiting, until the other rank has done it: there the walk continues. From
//! then to the end of the call the time is the rank's own: a copy, a queue, or the message's transit. File work within a call is work, also
//! another rank's in the same collective: ranks write for each other.

use super::*;
use crate::limits::waits as limits;
use crate::observe::ranks::{Provider, is_part};
use crate::observe::span::is_mpi;

/// Other ranks' work in a collective.
enum Others {
    /// This rank is blocked in a file call.
    Work(u32),
    /// None is; the last one was until then.
    Worked(i64),
}

impl View<'_, '_, '_> {
    /// Goes to the rank that this thread waits for in an MPI call; returns `false` if another rule applies.
    pub(super) fn in_rank(&mut self, span: &LiveSpan) -> Answer<bool> {
        let Some(call) = self.mpi_call() else { return self.launcher_waits(span) };
        if !is_mpi(span.kind) && !is_idle_wait(span) {
            return Ok(false);
        }
        let Some((operation, provider)) = self.operation(&call)? else { return Ok(self.slept_in_call(span, &call)) };
        let earliest = call.start.max(self.start);
        match provider {
            Provider::Track(track, since) if since > earliest => {
                if since >= self.at {
                    if self.circling {
                        return Ok(false);
                    }
                    self.wait_for(track);
                    return Ok(true);
                }
                self.own_part(span, &operation, since, track);
                Ok(true)
            }
            Provider::Unrecorded(since) if since < self.at => {
                let from = self.piece_start(span).max(since);
                let name = self.missing(&operation);
                *self.memory.unrecorded_ranks.entry(name).or_default() += self.at - from;
                self.charge_thread_as(RuleId::MpiUnrecorded, Cause::Unknown, What::Blocked(operation.kind), NONE, from);
                Ok(true)
            }
            _ => Ok(self.others_work(span, &operation) || self.slept_in_call(span, &call)),
        }
    }

    /// A command that started ranks waits for them, by whatever means: for the one that ended last.
    fn launcher_waits(&mut self, span: &LiveSpan) -> Answer<bool> {
        let main = &self.tables.actors[self.tables.main as usize];
        let ranks: Vec<u32> = self.feed.ranks.tracks().collect();
        let is_launcher = self.actor().pid == main.pid && main.pid != 0 && !ranks.is_empty() && !ranks.contains(&self.tables.main);
        if !is_launcher || !is_idle_wait(span) || span.kind == SpanKind::WaitRunqueue || self.circling {
            return Ok(false);
        }
        // Spans come by descending end: the first one of any rank is the end of the last rank.
        let last_end = |walk: &Self, rank: u32| walk.feed.lanes[rank as usize].passed.last_end;
        if ranks.iter().all(|&rank| last_end(self, rank) == i64::MIN) && !self.cannot_look_further() {
            return self.more();
        }
        // Of several running ranks, one that works: the others may wait for each other through the launcher.
        ranks.iter().for_each(|&rank| self.settle(rank));
        let works = |rank: u32| {
            let lane = &self.feed.lanes[rank as usize];
            lane.innermost().is_none_or(|s| !is_mpi(s.kind) && !is_idle_wait(s)) && lane.passed.last_end > self.at
        };
        let latest = |&rank: &u32| (last_end(self, rank).min(self.at), works(rank), last_end(self, rank), rank);
        let Some(rank) = ranks.iter().copied().max_by_key(latest) else { return Ok(false) };
        let until = last_end(self, rank).min(self.at);
        if until <= span.start {
            return Ok(false);
        }
        if until < self.at {
            let from = self.piece_start(span).max(until);
            self.charge_thread(RuleId::MpiLauncher, Activity::Lock, What::Blocked(span.kind), NONE, from);
            return Ok(true);
        }
        let lane = &self.feed.lanes[rank as usize];
        let has_begun = lane.innermost().is_some() || lane.previous().is_some();
        if !has_begun && self.feed.position >= span.start && !self.cannot_look_further() {
            return self.more();
        }
        if has_begun {
            self.wait_for(rank);
        }
        Ok(has_begun)
    }

    /// A sleep between polls within a call is no pause of the program: it waited for something unrecorded.
    fn slept_in_call(&mut self, span: &LiveSpan, call: &LiveSpan) -> bool {
        let slept = span.kind == SpanKind::WaitTimer && !self.is_walkable(span.waker);
        if slept {
            self.charge_piece(RuleId::MpiSleep, Charge::Own(Activity::Lock, What::Blocked(call.kind), NONE), span);
        }
        slept
    }

    /// The outermost MPI call that the thread is in.
    fn mpi_call(&self) -> Option<LiveSpan> {
        self.lane().open.iter().filter(|s| is_mpi(s.kind)).min_by_key(|s| (s.start, std::cmp::Reverse(s.end), s.id)).copied()
    }

    /// The purpose of the call: of several messages and collectives, the one provided last. A fruitless poll was for what the thread
    /// received in its next successful call.
    fn operation(&mut self, call: &LiveSpan) -> Answer<Option<(LiveSpan, Provider)>> {
        const EAGAIN: i32 = 11;
        self.ensure(call.start)?;
        self.settle(self.track);
        if call.result == -EAGAIN {
            let Some(found) = self.memory.looked_for.get(&self.track).copied() else { return Ok(None) };
            let provider = self.feed.ranks.provider(self.tables, &LiveSpan { start: call.start, ..found });
            return Ok(Some((found, provider)));
        }
        let parts: Vec<LiveSpan> = self.lane().open.iter().filter(|s| is_mpi(s.kind) && is_part(s)).copied().collect();
        let provided = parts.into_iter().map(|part| (part, self.feed.ranks.provider(self.tables, &part)));
        let last = provided.max_by_key(|(part, provider)| match provider {
            Provider::Track(_, at) | Provider::Unrecorded(at) => (1, *at, part.id),
            Provider::Nobody => (0, part.start, part.id),
        });
        if let Some((part, _)) = last {
            self.memory.looked_for.insert(self.track, part);
        }
        Ok(last)
    }

    /// The time after the other rank had done its part.
    fn own_part(&mut self, span: &LiveSpan, operation: &LiveSpan, since: i64, provider: u32) {
        let worked_until = match self.work_of_others(operation) {
            Others::Work(track) => return self.jump(track),
            Others::Worked(until) => until,
        };
        let from = self.piece_start(span).max(since).max(worked_until);
        let elsewhere = self.tables.actors.get(provider as usize).is_some_and(|a| a.machine != self.actor().machine);
        if span.kind == SpanKind::WaitRunqueue {
            self.charge_thread(RuleId::MpiRunnable, Activity::Runqueue, What::Runnable, NONE, from);
            if span.waker != NONE {
                self.acts.push(Act::Holder(span.waker, span.end - from));
            }
        } else if elsewhere {
            let cause = if operation.bytes() >= limits::MPI_DATA_BYTES { Cause::NetworkBandwidth } else { Cause::NetworkLatency };
            self.charge_wire(RuleId::MpiWire, cause, (NONE, provider), operation.kind == SpanKind::MpiSend, from);
        } else {
            self.charge_thread(RuleId::MpiRunning, Activity::Cpu, What::Running(operation.kind), NONE, from);
        }
    }

    /// In a call that waits for no later rank: goes to other ranks that work in it.
    fn others_work(&mut self, span: &LiveSpan, operation: &LiveSpan) -> bool {
        match self.work_of_others(operation) {
            Others::Work(track) => self.jump(track),
            Others::Worked(until) if until > self.piece_start(span) => self.own_part(span, operation, until, NONE),
            Others::Worked(_) => return false,
        }
        true
    }

    /// Ranks in one collective work for each other: returns whether another one is blocked in a file call, or when one last was.
    fn work_of_others(&mut self, operation: &LiveSpan) -> Others {
        let mut until = i64::MIN;
        let collective = matches!(operation.kind, SpanKind::MpiRead | SpanKind::MpiWrite | SpanKind::MpiIo | SpanKind::MpiCollective)
            && is_part(operation);
        if self.circling || !collective {
            return Others::Worked(until);
        }
        let is_work = |s: &LiveSpan| rules::is_on_files(s.kind);
        let others: Vec<u32> = self.feed.ranks.parts_of(operation).iter().map(|part| part.track).filter(|&t| t != self.track).collect();
        for track in others {
            self.settle(track);
            let lane = &self.feed.lanes[track as usize];
            if lane.innermost().is_some_and(is_work) {
                return Others::Work(track);
            }
            let last = lane.ahead.iter().take(limits::NEAR_SPANS).find(|s| is_work(s) && s.end > operation.start && s.end > s.start);
            until = until.max(last.map_or(i64::MIN, |s| s.end));
        }
        Others::Worked(until)
    }

    /// The unrecorded ranks, in words.
    fn missing(&self, operation: &LiveSpan) -> String {
        let object = self.tables.objects.get(operation.object as usize);
        match object.and_then(|t| t.attribute("from").or_else(|| t.attribute("root"))) {
            Some(name) => name.to_owned(),
            None => object.map_or_else(|| "other ranks".to_owned(), |t| format!("other ranks in {}", t.name)),
        }
    }
}
