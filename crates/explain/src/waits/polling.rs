//! Programs that look at intervals whether something has come about: a thread or a process that was to end, a job that a server was to have
//! done. Nobody wakes them, so no wait says whom they wait for. But the polls stop when it has come about: the one that ended, or was done,
//! since the last poll in vain is what was waited for.

use super::*;
use crate::limits::waits as limits;
use crate::observe::tables::Tables;
use std::collections::BTreeSet;

/// The last pauses of a thread that polls at intervals.
struct Polls {
    /// Who polls.
    track: u32,
    /// The end of the pause before the last poll in vain: what is looked for came about since.
    since: i64,
    /// Since when it had polled at least.
    from: i64,
    /// Whether it had polled so often that what came about in the last pause is no chance.
    often: bool,
}

/// A process: machine and number.
type Process = (u32, u32);

impl View<'_, '_, '_> {
    /// Stands in a pause: whether that is only how it waited for something, and was dealt with as waiting for that.
    pub(super) fn waits_by_pauses(&mut self, pause: &LiveSpan) -> Answer<bool> {
        Ok(self.pauses_between_looks(pause)? || self.polled(pause)? || self.polls_for_unknown(pause)?)
    }

    /// Stands in a pause: whether the thread polled at intervals for the end of something, and the walk has gone there.
    fn polled(&mut self, pause: &LiveSpan) -> Answer<bool> {
        if self.circling || self.held.is_some() || self.at - pause.start < limits::SHORTEST_PAUSE_NS {
            return Ok(false);
        }
        if self.back_to_what_is_polled_for(pause)? {
            return Ok(true);
        }
        let Some(polls) = self.polls(pause)? else { return Ok(false) };
        let Some((done, at)) = self.looked_for(&polls)? else { return Ok(false) };
        if !polls.often {
            self.infer(polls.from);
        }
        self.charge_thread(RuleId::PollPause, Activity::Think, What::Blocked(pause.kind), NONE, at);
        if self.at > at {
            // It had ended by the last poll already, which came too early: that ran, or waited for what it polls with.
            self.jump(polls.track);
            self.infer(at);
            self.charge_thread(RuleId::PollWork, Activity::Cpu, What::OwnWork, NONE, at);
        }
        self.memory.came_from.insert(done, polls.track);
        self.memory.polled_for = Some((polls.track, done));
        self.jump(done);
        Ok(true)
    }

    /// Stands in the last pause of a thread that polls: whether something ended in it that the thread may have waited for.
    pub(super) fn ended_meanwhile(&mut self, pause: &LiveSpan) -> Answer<bool> {
        match self.polls(pause)? {
            Some(polls) => Ok(self.looked_for(&polls)?.is_some()),
            None => Ok(false),
        }
    }

    /// In an earlier pause of the poller: what it polled for had waited for it for a moment (for a lock that polling needs), and works on.
    fn back_to_what_is_polled_for(&mut self, pause: &LiveSpan) -> Answer<bool> {
        let Some((polls, done)) = self.memory.polled_for else { return Ok(false) };
        let made = self.facts.lives[self.track as usize].made();
        let pauses = self.track == polls || made.is_some_and(|(_, by)| by == polls);
        if !pauses || done == self.track || self.is_outside_its_life(done) {
            return Ok(false);
        }
        self.ensure(self.at)?;
        self.settle(done);
        let lane = &self.feed.lanes[done as usize];
        let idle = lane.innermost().filter(|s| matches!(rule(s.kind), Rule::Thread | Rule::Receive)).copied();
        // (Of one without a life, nothing may have been recorded yet.)
        let works =
            idle.is_none() && (lane.innermost().is_some() || lane.previous().is_some() || self.facts.lives[done as usize].from.is_some());
        if works {
            self.jump(done);
        } else if idle.is_some_and(|wait| wait.waker == polls && wait.start <= pause.start) {
            // It was given something to do by the later poller: before that, pauses were something else.
            self.memory.polled_for = None;
        }
        Ok(works)
    }

    /// The pauses before this one, where they are like it, little was done in between, and this is the last.
    fn polls(&mut self, pause: &LiveSpan) -> Answer<Option<Polls>> {
        // Most pauses are not the last, and that costs nothing to ask.
        let next = self.feed.lanes[self.track as usize].passed.next_pause;
        if next != i64::MAX && next - pause.end <= pause.end - pause.start {
            return Ok(None);
        }
        if let Some(polls) = self.pauses(self.track, pause.start, &is_like(pause))? {
            return Ok(Some(polls));
        }
        // A process that does nothing but pause, and another that waits for one such after the other: a shell's loop.
        let Some((made, by)) = self.made_to_pause(pause) else { return Ok(None) };
        let name = &self.tables.actors[self.track as usize].name;
        let Some(waits) = self.innermost_of(by).filter(|s| s.kind == SpanKind::WaitLock) else { return Ok(None) };
        let alike = |tables: &Tables, s: &LiveSpan| tables.actors.get(s.waker as usize).is_some_and(|a| a.name == *name);
        let Some(polls) = self.pauses(by, waits.start.min(made), &alike)? else { return Ok(None) };
        let soon = pause.end + 2 * (pause.end - pause.start);
        let again =
            self.tables.actors.iter().zip(&self.facts.lives).any(|(actor, life)| {
                actor.name == *name && life.made().is_some_and(|(at, maker)| maker == by && at > pause.end && at <= soon)
            });
        Ok((!again).then_some(polls))
    }

    /// A thread's two latest pauses before `before`. `None` if they are not like each other, or more lay in between than a poll.
    fn pauses(&mut self, track: u32, before: i64, is_pause: &dyn Fn(&Tables, &LiveSpan) -> bool) -> Answer<Option<Polls>> {
        let length = self.at - before;
        // What is shorter belongs to a poll.
        let shortest = (length / limits::ALIKE_TIMES).max(limits::SHORTEST_PAUSE_NS);
        let oldest = before - limits::FURTHEST_PAUSES_NS.min(length.saturating_mul(limits::EARLIER_PAUSES));
        self.settle(track);
        let lane = &self.feed.lanes[track as usize];
        let recent = lane.ahead.iter().take_while(|s| s.end >= oldest);
        let recent = recent.filter(|s| s.end <= before && s.end - s.start >= shortest && is_pause(self.tables, s));
        let found: Vec<&LiveSpan> = recent.take(limits::MANY_PAUSES).collect();
        if let [later, earlier, ..] = found[..] {
            let (one, other) = (later.end - later.start, earlier.end - earlier.start);
            let between = [(later.end, before), (earlier.end, later.start)];
            let polls = between.iter().all(|&(from, until)| {
                let bytes = lane.within(from, until).map(LiveSpan::bytes).sum::<u64>();
                until - from <= one.max(other) && bytes <= limits::POLL_BYTES
            });
            let steady = alike(length, one) && alike(one, other);
            let often = found.len() == limits::MANY_PAUSES;
            return Ok((polls && steady).then_some(Polls { track, since: later.end, from: earlier.start, often }));
        }
        if self.feed.position < oldest.max(self.facts.lives[track as usize].floor()) || self.cannot_look_further() {
            return Ok(None);
        }
        self.more()
    }

    /// Stands in a pause of which nothing says what it was for, where nobody saw who ended waits: whether it is one of many, alike, between which
    /// somebody was asked, or while all of which another thread that it can poll was at work. Then it may be that for which it paused, and is charged
    /// so.
    fn polls_for_unknown(&mut self, pause: &LiveSpan) -> Answer<bool> {
        let length = self.at - pause.start;
        // (Who sleeps with a lock is waited for whatever it polls for.)
        if !self.tables.wakers_inferred || length < limits::SHORTEST_PAUSE_NS || self.held.is_some() || self.circling {
            return Ok(false);
        }
        // The first pauses of a series are like those after them.
        let goes_on = self.memory.polls_for_unknown.is_some_and(|(track, later, usual)| {
            track == self.track && later >= self.at && later - self.at <= usual && alike(length, usual)
        });
        let polls = goes_on
            || match self.pauses(self.track, pause.start, &is_like(pause))? {
                Some(polls) => polls.often && (self.asks_between(&polls, pause.start) || self.somebody_works(&polls)?),
                None => false,
            };
        self.memory.polls_for_unknown = polls.then_some((self.track, pause.start, length));
        if polls {
            self.infer(self.piece_start(pause));
            self.charge_piece(RuleId::PollUnknown, Charge::Own(Activity::Think, What::Looking, NONE), pause);
        }
        Ok(polls)
    }

    /// Whether between the last two pauses little was sent over a connection, and an answer taken; or, where the thread was only sampled, it
    /// waited for something, and moved nothing.
    fn asks_between(&self, polls: &Polls, until: i64) -> bool {
        let between: Vec<&LiveSpan> = self.lane().within(polls.since, until).collect();
        let sent: u64 = between.iter().filter(|s| s.kind == SpanKind::NetSend).map(|s| s.bytes()).sum();
        let answered = between.iter().any(|s| s.kind == SpanKind::NetReceive && s.bytes() > 0);
        // When bytes were moved is known to within the samples only.
        let moved: u64 = self.lane().ahead.iter().take_while(|s| s.end >= polls.from).map(LiveSpan::bytes).sum();
        let waits = self.tables.sampled && moved <= limits::MANY_PAUSES as u64 * limits::QUESTION_BYTES;
        let waited = waits && between.iter().any(|s| s.kind == SpanKind::WaitOther);
        waited || answered && sent > 0 && sent <= limits::QUESTION_BYTES
    }

    /// Whether a thread of those that are polled was at work, or slept, through all of the pauses.
    fn somebody_works(&mut self, polls: &Polls) -> Answer<bool> {
        self.ensure(polls.from)?;
        let (processes, _) = self.asked(polls.track);
        for track in self.tables.workers().filter(|&track| track != polls.track) {
            let life = self.facts.lives[track as usize];
            let is_asked = self.tables.process(track).is_some_and(|process| processes.contains(&process));
            if !is_asked || life.is_before(polls.from) || life.is_over(self.at) {
                continue;
            }
            self.settle(track);
            let lane = &self.feed.lanes[track as usize];
            let mut seen = lane.open.iter().chain(lane.ahead.iter().take_while(|s| s.end > polls.from));
            let rested = |s: &LiveSpan| {
                let sleeps = matches!(rule(s.kind), Rule::Wait(_)) && s.start > polls.from;
                (sleeps || matches!(rule(s.kind), Rule::Thread | Rule::Receive))
                    && s.cpu_ns == 0
                    && s.end - s.start > limits::SHORTEST_PAUSE_NS
            };
            // Computing shows where it is recorded, or where nothing else was seen.
            let there = self.tables.sampled && (life.from.is_some() || lane.previous().is_some()) || seen.clone().next().is_some();
            if there && !seen.any(rested) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Who came to an end while it was polled for, and when: a thread or a process that this one, or a server that it asked, had made; else
    /// one of theirs that had been at work all the while, and has nothing to do any more.
    fn looked_for(&mut self, polls: &Polls) -> Answer<Option<(u32, i64)>> {
        self.ensure(polls.from)?;
        let mut found: Vec<(bool, i64, bool, u32)> = Vec::new();
        let own = self.track;
        for track in self.tables.workers().filter(|&track| track != polls.track && track != own) {
            let leads = self.tables.actors[track as usize].leads();
            let life = self.facts.lives[track as usize];
            let there = life.from.is_none_or(|(from, _)| from < polls.from);
            // Who looks at what others write down may look once more after an end. (Not after those of its own pauses.)
            let long_there = life.from.is_none_or(|(from, _)| polls.from - from > self.at - polls.since);
            let since = if long_there { polls.from } else { polls.since };
            let ended = life.until.filter(|&until| there && until > since && until <= self.at);
            let done = match ended {
                Some(until) => Some((true, until)),
                None if there && life.until.is_none_or(|until| until > self.at) => self.idle_since(track, polls).map(|at| (false, at)),
                None => None,
            };
            found.extend(done.map(|(ended, at)| (ended, at, leads, track)));
        }
        if found.is_empty() {
            return Ok(None);
        }
        let (processes, answering) = self.asked(polls.track);
        found.retain(|&(ended, _, _, track)| {
            let process = self.tables.process(track);
            process.is_some_and(|process| processes.contains(&process)) && (ended || !answering.contains(&track))
        });
        Ok(found.into_iter().max().map(|(_, at, _, track)| (track, at)))
    }

    /// Since when a thread waits for something to do that was at work before, from one poll to the next at least.
    fn idle_since(&mut self, track: u32, polls: &Polls) -> Option<i64> {
        let idle = |s: &LiveSpan| matches!(rule(s.kind), Rule::Thread | Rule::Receive) && s.cpu_ns == 0;
        self.settle(track);
        let lane = &self.feed.lanes[track as usize];
        let since = lane.innermost().filter(|s| idle(s)).map(|s| s.start).filter(|&at| at > polls.since && at < self.at)?;
        let mut meanwhile = lane.ahead.iter().take_while(|s| s.end > polls.from);
        let rested = meanwhile.any(|s| idle(s) && s.end - s.start > limits::SHORTEST_PAUSE_NS);
        let worked = lane.ahead.front().is_some_and(|s| since - s.end <= limits::SHORTEST_PAUSE_NS);
        (worked && !rested).then_some(since)
    }

    /// The processes that a thread polls: its own, those that it asks over connections, and all that these made; and who answers it.
    fn asked(&self, track: u32) -> (BTreeSet<Process>, BTreeSet<u32>) {
        let process = |track: u32| self.tables.process(track);
        let mut processes: BTreeSet<Process> = process(track).into_iter().collect();
        let mut answering = BTreeSet::new();
        loop {
            let before = processes.len();
            for parties in &self.feed.parties {
                let asks = parties[End::Client as usize].iter().any(|&t| process(t).is_some_and(|p| processes.contains(&p)));
                if asks {
                    answering.extend(&parties[End::Server as usize]);
                    processes.extend(parties[End::Server as usize].iter().filter_map(|&t| process(t)));
                }
            }
            for (child, life) in self.facts.lives.iter().enumerate() {
                if life.made().and_then(|(_, by)| process(by)).is_some_and(|maker| processes.contains(&maker)) {
                    processes.extend(process(child as u32));
                }
            }
            if processes.len() == before {
                return (processes, answering);
            }
        }
    }
}

/// Pauses of the same kind.
pub(super) fn is_like(pause: &LiveSpan) -> impl Fn(&Tables, &LiveSpan) -> bool + use<> {
    let kind = pause.kind;
    move |_, s| s.kind == kind && (kind == SpanKind::WaitTimer || s.may_be_in_vain())
}

/// Whether two lengths are about the same.
pub(super) fn alike(one: i64, other: i64) -> bool {
    one <= limits::ALIKE_TIMES * other + limits::SHORTEST_PAUSE_NS && other <= limits::ALIKE_TIMES * one + limits::SHORTEST_PAUSE_NS
}
