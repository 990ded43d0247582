//! Programs that poll at intervals for an event: the end of a thread or a process, or of a server's job. Nothing wakes them, so no wait
//! says what they wait for. But the polls stop after the event: the thread or job that ended since the last fruitless poll is what was
//! waited for.

use super::*;
use crate::limits::waits as limits;
use crate::observe::tables::Tables;
use std::collections::BTreeSet;

/// The last pauses of a thread that polls at intervals.
struct Polls {
    /// The polling thread.
    track: u32,
    /// End of the pause before the last fruitless poll: the event came after it.
    since: i64,
    /// The earliest known start of the polling.
    from: i64,
    /// Whether there were enough polls that an event in the last pause is no coincidence.
    often: bool,
}

/// A process: machine and number.
type Process = (u32, u32);

impl View<'_, '_, '_> {
    /// In a pause: returns whether it was only a way of waiting for an event, and was handled as such.
    pub(super) fn waits_by_pauses(&mut self, pause: &LiveSpan) -> Answer<bool> {
        Ok(self.pauses_between_looks(pause)? || self.polled(pause)? || self.polls_for_unknown(pause)?)
    }

    /// In a pause: returns whether the thread polled for the end of something, and the walk has gone there.
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
            // It had ended by the last poll, which came early: that poll ran, or waited for what it polls with.
            self.jump(polls.track);
            self.infer(at);
            self.charge_thread(RuleId::PollWork, Activity::Cpu, What::OwnWork, NONE, at);
        }
        self.memory.came_from.insert(done, polls.track);
        self.memory.polled_for = Some((polls.track, done));
        self.jump(done);
        Ok(true)
    }

    /// In the last pause of a polling thread: returns whether something ended in it that the thread may have waited for.
    pub(super) fn ended_meanwhile(&mut self, pause: &LiveSpan) -> Answer<bool> {
        match self.polls(pause)? {
            Some(polls) => Ok(self.looked_for(&polls)?.is_some()),
            None => Ok(false),
        }
    }

    /// In an earlier pause of the poller: the polled thread had waited for the poller briefly (for a lock that polling needs), and
    /// continues.
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
        // If its life is unknown, it may not have been recorded yet.
        let works =
            idle.is_none() && (lane.innermost().is_some() || lane.previous().is_some() || self.facts.lives[done as usize].from.is_some());
        if works {
            self.jump(done);
        } else if idle.is_some_and(|wait| wait.waker == polls && wait.start <= pause.start) {
            // The later poller gave it work: earlier pauses had another purpose.
            self.memory.polled_for = None;
        }
        Ok(works)
    }

    /// The pauses before this one, if they are like it, little was done in between, and this is the last.
    fn polls(&mut self, pause: &LiveSpan) -> Answer<Option<Polls>> {
        // Most pauses are not the last; this check is cheap.
        let next = self.feed.lanes[self.track as usize].passed.next_pause;
        if next != i64::MAX && next - pause.end <= pause.end - pause.start {
            return Ok(None);
        }
        if let Some(polls) = self.pauses(self.track, pause.start, &is_like(pause))? {
            return Ok(Some(polls));
        }
        // A process that only pauses, and another that waits for one such process after the other: a shell's loop.
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

    /// A thread's two latest pauses before `before`; `None` if they differ, or more than a poll lay between them.
    fn pauses(&mut self, track: u32, before: i64, is_pause: &dyn Fn(&Tables, &LiveSpan) -> bool) -> Answer<Option<Polls>> {
        let length = self.at - before;
        // Shorter pauses belong to a poll.
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

    /// In a pause of unknown purpose, in a recording without wakers: returns whether it is one of many similar ones, between which another
    /// process was asked, or during which a thread that it can poll was always at work. That may be its purpose, and it is charged so.
    fn polls_for_unknown(&mut self, pause: &LiveSpan) -> Answer<bool> {
        let length = self.at - pause.start;
        // A sleeping thread that holds a lock is waited for, whatever it polls for.
        if !self.tables.wakers_inferred || length < limits::SHORTEST_PAUSE_NS || self.held.is_some() || self.circling {
            return Ok(false);
        }
        // The first pauses of a series are like the later ones.
        let goes_on = self.memory.polls_for_unknown.is_some_and(|(track, later, usual)| {
            track == self.track && later >= self.at && later - self.at <= usual && alike(length, usual)
        });
        let polls = goes_on
            || self.was_in_vain(pause)
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

    /// Whether the thread went to sleep just after a call that failed for a reason that may pass (a name that is not there, or is; a
    /// refused connection), or twice with next to nothing in between: then it may wait for that reason to pass.
    fn was_in_vain(&self, pause: &LiveSpan) -> bool {
        let before = || self.lane().within(pause.start - limits::IN_VAIN_NS, pause.start).filter(|s| s.start < pause.start);
        // A program that starts looks for many names that are not there: a single pause after it is no attempt.
        let may_pass = |error: i32| limits::MAY_PASS.contains(&error) && (!limits::NAMES.contains(&error) || self.pauses_again(pause));
        // (Where such calls are recorded with what they looked for, those that it waited for are known.)
        let is_known = before().any(|s| s.start == s.end && s.object != NONE);
        let failed = !is_known && before().any(|s| may_pass(-s.result)) || self.sleeps_between_others();
        let Some(last) = self.lane().ahead.iter().find(|s| s.end <= pause.start && s.start < pause.start) else { return failed };
        let again = last.kind == SpanKind::WaitTimer && last.timed_out() && pause.start - last.end <= limits::NOTHING_NS;
        failed || again && last.end - last.start >= limits::SHORTEST_PAUSE_NS
    }

    /// Whether the thread pauses another time, before or after this pause.
    fn pauses_again(&self, pause: &LiveSpan) -> bool {
        let is_pause = |s: &LiveSpan| s.kind == SpanKind::WaitTimer && s.end - s.start >= limits::SHORTEST_PAUSE_NS;
        self.lane().passed.next_pause != i64::MAX || self.lane().ahead.iter().any(|s| s.end <= pause.start && is_pause(s))
    }

    /// Whether the process is one of several of a name that its maker made in turns with others: a script that sleeps between attempts, or
    /// between steps; which of them, the others' results would say.
    fn sleeps_between_others(&self) -> bool {
        let made = |track: u32| self.facts.lives[track as usize].made().filter(|_| self.tables.actors[track as usize].leads());
        let Some((at, by)) = made(self.track) else { return false };
        let label = |track: u32| self.tables.actors[track as usize].label.as_str();
        let ended = |track: u32| self.facts.lives[track as usize].until.filter(|&until| until <= at);
        let siblings =
            || self.tables.workers().filter(move |&track| track != self.track && made(track).is_some_and(|(_, maker)| maker == by));
        let last = siblings().filter(|&track| label(track) == label(self.track)).filter_map(ended).max();
        // One that succeeded was no attempt, or the last.
        let may_have_failed = |track: u32| self.facts.lives[track as usize].status != Some(0);
        let between = |track: u32, last: i64| label(track) != label(self.track) && ended(track).is_some_and(|until| until > last);
        last.is_some_and(|last| siblings().any(|track| between(track, last) && may_have_failed(track)))
    }

    /// Whether between the last two pauses little was sent over a connection, and an answer taken; or, for a sampled thread, it waited for
    /// something, and moved nothing.
    fn asks_between(&self, polls: &Polls, until: i64) -> bool {
        let between: Vec<&LiveSpan> = self.lane().within(polls.since, until).collect();
        let sent: u64 = between.iter().filter(|s| s.kind == SpanKind::NetSend).map(|s| s.bytes()).sum();
        let answered = between.iter().any(|s| s.kind == SpanKind::NetReceive && s.bytes() > 0);
        // Samples show only approximately when bytes were moved.
        let moved: u64 = self.lane().ahead.iter().take_while(|s| s.end >= polls.from).map(LiveSpan::bytes).sum();
        let waits = self.tables.sampled && moved <= limits::MANY_PAUSES as u64 * limits::QUESTION_BYTES;
        let waited = waits && between.iter().any(|s| s.kind == SpanKind::WaitOther);
        // Not every write is a recorded call, but a short reply that was waited for answers something.
        let replied: u64 = between.iter().filter(|s| s.kind == SpanKind::NetReceive).map(|s| s.bytes()).sum();
        let asked =
            sent > 0 || replied <= limits::QUESTION_BYTES && between.iter().any(|s| s.kind == SpanKind::NetReceive && s.cpu_ns == 0);
        waited || answered && asked && sent <= limits::QUESTION_BYTES
    }

    /// Whether one of the polled threads was at work, or slept, through all of the pauses.
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
            // Computing is visible if it is recorded, or if nothing else was.
            let there = self.tables.sampled && (life.from.is_some() || lane.previous().is_some()) || seen.clone().next().is_some();
            if there && !seen.any(rested) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The thread that ended while it was polled for, and when: a thread or process made by this one, or by a server that it asked; else
    /// one of theirs that had worked all the time, and then had nothing more to do.
    fn looked_for(&mut self, polls: &Polls) -> Answer<Option<(u32, i64)>> {
        self.ensure(polls.from)?;
        let mut found: Vec<(bool, i64, bool, u32)> = Vec::new();
        let own = self.track;
        for track in self.tables.workers().filter(|&track| track != polls.track && track != own) {
            let leads = self.tables.actors[track as usize].leads();
            let life = self.facts.lives[track as usize];
            let there = life.from.is_none_or(|(from, _)| from < polls.from);
            // A program that watches others' output may look once more after an end, but not after the ends of its own pauses.
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

    /// Since when a thread waits for work, if it worked before, from one poll to the next at least.
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

    /// The processes that a thread polls: its own, those that it asks over connections, and all that these made; and the threads that
    /// answer it.
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

/// A predicate for pauses of the same kind.
pub(super) fn is_like(pause: &LiveSpan) -> impl Fn(&Tables, &LiveSpan) -> bool + use<> {
    let kind = pause.kind;
    move |_, s| s.kind == kind && (kind == SpanKind::WaitTimer || s.may_be_in_vain())
}

/// Whether two lengths are about equal.
pub(super) fn alike(one: i64, other: i64) -> bool {
    one <= limits::ALIKE_TIMES * other + limits::SHORTEST_PAUSE_NS && other <= limits::ALIKE_TIMES * one + limits::SHORTEST_PAUSE_NS
}
