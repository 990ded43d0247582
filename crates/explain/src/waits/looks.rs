//! Pauses between looks: a thread sleeps, looks for a file, a lock or somebody who listens, does not find it, and sleeps again. It waits for what it
//! looked for; the sleep is only how. Looks are calls that failed, each a span of no length with its object and why it failed.

use super::memory::{Look, Looking};
use super::place::Missing;
use super::*;
use crate::limits::waits as limits;
use crate::observe::tables::Tables;
use std::ops::RangeInclusive;
use thalweg_trace::ObjectKind;

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTEMPTY: i32 = 39;
const ECONNREFUSED: i32 = 111;

impl Look {
    fn of(span: &LiveSpan) -> Option<Look> {
        let missing = match -span.result {
            _ if span.kind == SpanKind::NetConnect => Missing::Listener,
            ECONNREFUSED => Missing::Listener,
            ENOENT => Missing::Absent,
            EEXIST | ENOTEMPTY => Missing::Present,
            _ => Missing::Busy,
        };
        let failed = span.result < 0 && span.kind != SpanKind::NetReceive && span.object != NONE;
        failed.then_some(Look { object: span.object, track: span.track, connection: span.connection, at: span.start, missing })
    }

    /// Whether two are for the same: each try for a listener has a connection of its own.
    fn is_like(&self, other: &Look, tables: &Tables) -> bool {
        self.object == other.object || self.connection != NONE && tables.is_same_server(self.connection, other.connection)
    }
}

impl View<'_, '_, '_> {
    /// Stands in a pause: whether something was looked for before it in vain, and it is charged to that.
    pub(super) fn pauses_between_looks(&mut self, pause: &LiveSpan) -> Answer<bool> {
        let length = self.at - pause.start;
        if length < limits::SHORTEST_PAUSE_NS || self.held.is_some() || self.circling {
            return Ok(false);
        }
        let pauser = self.made_to_pause(pause).map_or(self.track, |(_, maker)| maker);
        let window = length.max(limits::MADE_TO_PAUSE_NS);
        let before = self.looks_of(pauser, (pause.start - window, pause.start))?;
        let earlier = if before.is_empty() { Vec::new() } else { self.looks_of(pauser, (pause.start - 2 * window, pause.start - window))? };
        // The first pauses of a row are like those after them: looks are recorded from the third on.
        let known = self.memory.looking.filter(|known| {
            let soon = known.later >= self.at && known.later - self.at <= known.length.max(limits::MADE_TO_PAUSE_NS);
            known.pauser == pauser && soon && polling::alike(length, known.length)
        });
        let after = self.looks_after(pauser, window);
        // (What is not there at first, and then is, the thread has made itself.)
        let found_after = |look: &Look| {
            let next = after.iter().filter(|(other, _)| other.is_like(look, self.tables)).min_by_key(|(other, _)| other.at);
            next.is_some_and(|(_, failed)| !failed)
        };
        let fails_again = |look: &Look| after.iter().any(|(other, failed)| *failed && other.is_like(look, self.tables));
        let repeated = |look: &Look| {
            let is_earlier = |other: &Look| other.at < look.at && other.is_like(look, self.tables);
            earlier.iter().chain(&before).any(is_earlier) || fails_again(look)
        };
        let of_row = known.and_then(|known| before.iter().rev().find(|look| known.look.is_like(look, self.tables)));
        // After the last pause what was looked for is there; what fails each time is no matter (a file of settings).
        let comes_about = |look: &&Look| found_after(look) || look.missing != Missing::Absent && !after.is_empty() && !fails_again(look);
        let came_about = before.iter().rev().find(comes_about);
        let never_there = |look: &&Look| (look.missing != Missing::Absent || after.is_empty()) && repeated(look);
        let found = of_row.or(came_about).or_else(|| before.iter().rev().find(never_there));
        // Of what did not come about nothing was waited for where a child was looked for as well, and that ended.
        let in_vain = of_row.or(came_about).is_none() && found.is_some_and(|look| look.missing == Missing::Absent);
        if in_vain && self.looked_for_child(pauser, (pause.start - limits::POLLS_BACK * window, pause.start)) {
            return Ok(false);
        }
        // Nor where a thread or process ended in the last pause: that is what a program waits for that looks for messages to it meanwhile.
        if in_vain && self.ended_meanwhile(pause)? {
            return Ok(false);
        }
        let look = found.copied().or(known.map(|known| known.look)).filter(|look| !self.is_process(look.object));
        let look = match look {
            Some(look) => Some(look),
            None => self.tried_in_vain(pause, pauser, window)?,
        };
        let Some(look) = look else {
            if self.tables.looks_in_part && length >= limits::LOOKED_BETWEEN_NS && !self.was_asked_before() {
                // Not all looks were recorded.
                self.infer(pause.start);
            }
            return Ok(false);
        };
        self.memory.looking = Some(Looking { look, pauser, later: pause.start, length });
        if before.is_empty() && !matches!(look.missing, Missing::Answer | Missing::Success) {
            self.infer(pause.start);
        }
        self.charge_look(pause, &look, pauser)
    }

    /// Whether a thread was sent something since it last slept: it sleeps because it was asked, and not again because it had looked in vain.
    fn was_asked_before(&self) -> bool {
        let since = self.lane().ahead.iter().take_while(|span| span.kind != SpanKind::WaitTimer);
        since.into_iter().any(|span| span.kind == SpanKind::NetReceive && span.bytes() > 0)
    }

    /// If this thread was made only to pause (`sleep`), by a process that does so again and again: when, and by whom.
    pub(super) fn made_to_pause(&self, pause: &LiveSpan) -> Option<(i64, u32)> {
        let (made, by) = self.facts.lives[self.track as usize].made()?;
        let (own, maker) = (self.actor(), self.tables.actors.get(by as usize)?);
        let brief = pause.start - made <= (pause.end - pause.start).max(limits::MADE_TO_PAUSE_NS);
        (brief && maker.thread && maker.pid != own.pid).then_some((made, by))
    }

    /// A thread, and those that were made for it within an interval, by itself or by one of these: a shell runs what looks.
    fn lookers(&self, looker: u32, within: RangeInclusive<i64>) -> Vec<u32> {
        let mut lookers = vec![looker];
        for (track, life) in self.facts.lives.iter().enumerate() {
            let made = life.made().is_some_and(|(at, by)| within.contains(&at) && lookers.contains(&by));
            if made && lookers.len() <= limits::LOOKERS {
                lookers.push(track as u32);
            }
        }
        lookers
    }

    /// Looks in vain of a thread, and of those that it made, within an interval, in order of time.
    fn looks_of(&mut self, looker: u32, (from, until): (i64, i64)) -> Answer<Vec<Look>> {
        self.ensure(from)?;
        let mut looks = Vec::new();
        for track in self.lookers(looker, from..=until) {
            self.settle(track);
            let recent = self.feed.lanes[track as usize].within(from, until);
            looks.extend(recent.filter(|s| s.start == s.end).filter_map(Look::of));
        }
        looks.sort_by_key(|look| look.at);
        Ok(looks)
    }

    /// Whether a thread asked within an interval whether a child of its had ended.
    fn looked_for_child(&mut self, looker: u32, (from, until): (i64, i64)) -> bool {
        self.settle(looker);
        let objects: Vec<u32> =
            self.feed.lanes[looker as usize].within(from, until).filter(|s| s.start == s.end).map(|s| s.object).collect();
        objects.into_iter().any(|object| self.is_process(object))
    }

    /// Looks of a thread, and of those that it made, soon after this instant; and whether each failed.
    fn looks_after(&self, looker: u32, window: i64) -> Vec<(Look, bool)> {
        let soon = self.at..=self.at.saturating_add(window);
        let lookers = self.lookers(looker, soon.clone());
        let next = lookers.into_iter().flat_map(|track| &self.feed.lanes[track as usize].looks).filter(|s| soon.contains(&s.start));
        next.filter_map(|s| Some((Look::of(&LiveSpan { result: s.result.min(-1), ..*s })?, s.result < 0))).collect()
    }

    /// Whether an object is a child that is waited for: who ended is found by its end.
    fn is_process(&self, object: u32) -> bool {
        self.tables.objects.get(object as usize).is_some_and(|object| object.kind == ObjectKind::Process)
    }

    /// A connection that did not come about, and that this thread gave up next: its waits in vain until then were for that. And which side of it asked.
    pub(super) fn gave_up_connecting(&self) -> Option<(u32, End)> {
        let lane = self.lane();
        let next = lane.looks.iter().find(|s| s.start >= self.at)?;
        let failed = next.kind == SpanKind::NetConnect && next.connection != NONE && next.result < 0 && -next.result != ECONNREFUSED;
        let moved = lane.passed.receive.0.min(lane.passed.send.0);
        (failed && moved >= next.start).then_some((next.connection, next.side))
    }

    /// Charges a pause to what `looker` looked for: the thread, or who made it to pause.
    fn charge_look(&mut self, pause: &LiveSpan, look: &Look, looker: u32) -> Answer<bool> {
        let from = self.piece_start(pause);
        match look.missing {
            Missing::Answer | Missing::Success if look.object == NONE => self.charge_try(look, looker, from),
            Missing::Listener => {
                // Who listens there later had not come so far.
                if let Some(server) = self.listens_later(look).filter(|&server| !self.is_outside_its_life(server)) {
                    self.infer(from);
                    self.wait_for(server);
                    return Ok(true);
                }
                let place = Place::FarEnd { seen_by: self.labels.label(looker), connection: look.connection, side: End::Server };
                self.charge_at_own(RuleId::LookedForListener, Cause::ServerUnknown, place, self.within_life(from));
            }
            missing => {
                if let Some((track, at)) = self.brought_about(look) {
                    self.charge_thread(RuleId::PollPause, Activity::Think, What::Blocked(pause.kind), NONE, at.max(from));
                    self.wait_for(track);
                    return Ok(true);
                }
                let place = self.labels.thread_place(looker, What::LooksFor(missing), look.object);
                self.charge_at_own(RuleId::LookedFor, Activity::Lock.at(self.end), place, self.within_life(from.max(self.floor)));
            }
        }
        Ok(true)
    }

    /// Who serves connections to the same address later on.
    fn listens_later(&self, look: &Look) -> Option<u32> {
        let served = (0..self.feed.parties.len() as u32).filter(|&other| self.tables.is_same_server(look.connection, other));
        let parties = served.flat_map(|connection| self.parties(connection, End::Server));
        parties.copied().rev().find(|&track| track != self.track)
    }

    /// Who did something with what was looked for since it was not found last, and when: it came about by that. (A child that is waited for is
    /// found by its end.)
    fn brought_about(&mut self, look: &Look) -> Option<(u32, i64)> {
        let kind = self.tables.objects.get(look.object as usize)?.kind;
        if kind != ObjectKind::File {
            return None;
        }
        let own = self.tables.actors[look.track as usize].pid;
        let mut latest = None;
        for track in self.tables.workers().filter(|&track| self.tables.actors[track as usize].pid != own) {
            self.settle(track);
            let since = self.feed.lanes[track as usize].ahead.iter().take_while(|s| s.end > look.at);
            let touched = since.filter(|s| s.object == look.object && s.end > s.start).map(|s| s.end).max();
            latest = latest.max(touched.map(|end| (end, track)));
        }
        latest.map(|(end, track)| (track, end))
    }
}
