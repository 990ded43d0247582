//! Pauses between looks: a thread sleeps, looks for a file, a lock or a listener, does not find it, and sleeps again. It waits for what it
//! looks for; the sleep is only the method. Looks are failed calls, each a span of no length with its object and error.
//!
//! A failed call before each pause is not enough: a program that paces itself fails each time to find a settings file, a logger's socket,
//! or anything in a queue. So the same call must succeed after the last pause, or its program must give up: it fails once more and exits
//! with an error.

use super::memory::{Look, Looking};
use super::place::Missing;
use super::*;
use crate::limits::path as slices;
use crate::limits::waits as limits;
use crate::observe::tables::Tables;
use std::ops::RangeInclusive;
use thalweg_trace::ObjectKind;

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTEMPTY: i32 = 39;
pub(super) const ECONNREFUSED: i32 = 111;

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

    /// Whether two looks are for the same object: each attempt at a listener has a connection of its own.
    fn is_like(&self, other: &Look, tables: &Tables) -> bool {
        self.object == other.object || self.connection != NONE && tables.is_same_server(self.connection, other.connection)
    }
}

/// Objects that a thread failed to find, and did not find with its next call on the same object: a directory that exists is no failure of `mkdir
/// -p`, which checks for it immediately. `calls` has the latest first.
fn still_missing<'a>(calls: &'a [&'a LiveSpan]) -> impl Iterator<Item = Look> + 'a {
    let found = |at: usize| calls[..at].iter().rev().find(|next| next.object == calls[at].object).is_some_and(|next| next.result >= 0);
    (0..calls.len()).filter(move |&at| !found(at)).filter_map(|at| Look::of(calls[at]))
}

/// Looks around a pause: failed ones before it, and ones after it with whether each failed.
struct Looks<'a> {
    earlier: &'a [Look],
    before: &'a [Look],
    after: &'a [(Look, bool)],
    /// Length of the pause.
    length: i64,
}

impl Looks<'_> {
    /// Whether a look before the pause was also made before an earlier one: a repeated look is for one object.
    fn over_pauses(&self, look: &Look, tables: &Tables) -> bool {
        let past = self.earlier.iter().chain(self.before);
        past.into_iter().any(|other| look.at - other.at >= self.length / 2 && other.is_like(look, tables))
    }
}

impl View<'_, '_, '_> {
    /// In a pause: whether a failed look preceded it, and the pause is charged to its object.
    pub(super) fn pauses_between_looks(&mut self, pause: &LiveSpan) -> Answer<bool> {
        let pause = &self.with_earlier_slices(pause)?;
        let length = self.at - pause.start;
        if length < limits::SHORTEST_PAUSE_NS || self.held.is_some() || self.circling {
            return Ok(false);
        }
        let pauser = self.made_to_pause(pause).map_or(self.track, |(_, maker)| maker);
        let window = length.max(limits::MADE_TO_PAUSE_NS);
        if pauser != self.track && self.looks_meanwhile(pauser, pause.start) {
            return Ok(false);
        }
        let before = self.looks_of(pauser, (pause.start - window, pause.start))?;
        let earlier = if before.is_empty() { Vec::new() } else { self.looks_of(pauser, (pause.start - 2 * window, pause.start - window))? };
        // The first pauses of a row are like the later ones: looks are recorded from the third on.
        let process = self.tables.process(pauser);
        let is_own = |row: &Looking| row.pauser == pauser || process.is_some() && self.tables.process(row.pauser) == process;
        let row = self.memory.looking.filter(|row| is_own(row) && polling::alike(length, row.length));
        let is_soon = |row: &Looking| row.later >= self.at && row.later - self.at <= row.length.max(limits::MADE_TO_PAUSE_NS);
        let known = row.filter(|row| row.pauser == pauser && is_soon(row));
        let of_row = row.and_then(|row| before.iter().rev().find(|look| row.look.is_like(look, self.tables)));
        let after = self.looks_after(pauser, window);
        let looks = Looks { earlier: &earlier, before: &before, after: &after, length };
        // A file that was looked for before one pause only, and then exists, may be the thread's own.
        let is_own_doing = |look: &Look| look.missing == Missing::Absent && !looks.over_pauses(look, self.tables);
        let came_about = before.iter().rev().find(|look| self.comes_about(look, &after) && !is_own_doing(look));
        let given_up = || before.iter().rev().find(|look| self.is_given_up(look, &looks, pauser, window));
        let found = of_row.or(came_about).or_else(given_up);
        // If the looked-for object never appeared, it was not waited for when a child was also looked for, and ended.
        let in_vain = of_row.or(came_about).is_none() && found.is_some_and(|look| look.missing == Missing::Absent);
        if in_vain && self.looked_for_child(pauser, (pause.start - limits::POLLS_BACK * window, pause.start)) {
            return Ok(false);
        }
        // Nor if a thread or process ended in the last pause: a program may poll for messages while it waits for that.
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
        if before.is_empty() && !matches!(look.missing, Missing::Answer | Missing::Reply | Missing::Success) {
            self.infer(pause.start);
        }
        let deed = self.next_deed()?;
        let looked = self.charge_look(pause, &look, pauser)?;
        if self.actor().sleeps_in_slices() {
            // For others, unrecorded attempts may lie between two pauses.
            self.acts.push(Act::Paused(deed));
        }
        Ok(looked)
    }

    /// A pause from its start; Tcl, which sleeps half a second at a time, continues immediately.
    fn with_earlier_slices(&self, pause: &LiveSpan) -> Answer<LiveSpan> {
        if !self.actor().sleeps_in_slices() {
            return Ok(*pause);
        }
        self.ensure(pause.start - slices::SLICE_NS.end)?;
        let mut whole = *pause;
        for piece in self.lane().ahead.iter().filter(|piece| piece.is_activity() && piece.kind != SpanKind::WaitRunqueue) {
            let is_slice = piece.kind == pause.kind && slices::SLICE_NS.contains(&(piece.end - piece.start));
            if !is_slice || whole.start - piece.end > slices::BETWEEN_SLICES_NS || whole.start < self.start {
                break;
            }
            whole.start = piece.start;
        }
        Ok(whole)
    }

    /// Whether a looked-for object exists after the pause. (The next look shows it: an object first missing, then present, was made by the
    /// thread itself.) A listener's connection shows it; a lock on a file is free once the thread no longer fails to take it (not all
    /// successful calls are recorded, and nothing asks for a lock between pauses except to take it).
    fn comes_about(&self, look: &Look, after: &[(Look, bool)]) -> bool {
        let next = after.iter().filter(|(other, _)| other.is_like(look, self.tables)).min_by_key(|(other, _)| other.at);
        match next {
            Some((_, failed)) => !failed,
            None if look.missing == Missing::Listener => self.is_reached(look),
            None => self.is_file_lock(look.object) && !after.is_empty(),
        }
    }

    /// Whether a thread looks for something while another sleeps: the sleep is then not for that.
    fn looks_meanwhile(&mut self, looker: u32, since: i64) -> bool {
        self.settle(looker);
        self.feed.lanes[looker as usize].within(since, self.at).any(|span| span.start == span.end && Look::of(span).is_some())
    }

    /// Whether bytes later went over a connection to the same server.
    fn is_reached(&self, look: &Look) -> bool {
        let same = (0..self.feed.parties.len() as u32)
            .filter(|&other| look.connection != NONE && self.tables.is_same_server(look.connection, other));
        same.into_iter().any(|other| !self.parties(other, End::Client).is_empty() || !self.parties(other, End::Server).is_empty())
    }

    /// Whether the search for an object was given up after several failures: the pausing process then exits with an error. A missing file
    /// must be all it looked for.
    fn is_given_up(&self, look: &Look, looks: &Looks<'_>, pauser: u32, window: i64) -> bool {
        let alike = |other: &Look| other.is_like(look, self.tables);
        let fails_again = looks.after.iter().any(|(other, failed)| *failed && alike(other));
        let repeated = looks.over_pauses(look, self.tables) || fails_again;
        if self.is_file_lock(look.object) {
            return repeated;
        }
        let only = looks.before.iter().chain(looks.after.iter().map(|(other, _)| other)).all(alike);
        let process = self.tables.process(pauser);
        let leads =
            |&track: &u32| process.is_some() && self.tables.process(track) == process && self.facts.lives[track as usize].status.is_some();
        let life = (0..self.facts.lives.len() as u32).find(leads).map(|track| self.facts.lives[track as usize]);
        let failed = life.is_some_and(|life| {
            life.status.is_some_and(|status| status != 0) && life.until.is_some_and(|until| until >= self.at && until - self.at <= window)
        });
        repeated && failed && (only || look.missing != Missing::Absent)
    }

    /// Whether a thread received something since its last sleep: it then sleeps because of a request, not because of a failed look.
    fn was_asked_before(&self) -> bool {
        let since = self.lane().ahead.iter().take_while(|span| span.kind != SpanKind::WaitTimer);
        since.into_iter().any(|span| span.kind == SpanKind::NetReceive && span.bytes() > 0)
    }

    /// If this thread was made only to pause (`sleep`), by a process that does so repeatedly: when, and by which thread.
    pub(super) fn made_to_pause(&self, pause: &LiveSpan) -> Option<(i64, u32)> {
        let (made, by) = self.facts.lives[self.track as usize].made()?;
        let (own, maker) = (self.actor(), self.tables.actors.get(by as usize)?);
        let brief = pause.start - made <= (pause.end - pause.start).max(limits::MADE_TO_PAUSE_NS);
        (brief && maker.thread && maker.pid != own.pid).then_some((made, by))
    }

    /// A thread, and those made for it within an interval, by itself or by one of these: a shell runs the program that looks.
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

    /// Failed looks of a thread, and of those that it made, within an interval, in order of time.
    fn looks_of(&mut self, looker: u32, (from, until): (i64, i64)) -> Answer<Vec<Look>> {
        self.ensure(from)?;
        let mut looks = Vec::new();
        for track in self.lookers(looker, from..=until) {
            self.settle(track);
            let recent = self.feed.lanes[track as usize].within(from, until);
            looks.extend(still_missing(&recent.filter(|s| s.start == s.end).collect::<Vec<_>>()));
        }
        for track in self.beside(looker) {
            self.settle(track);
            let recent = self.feed.lanes[track as usize].within(from.max(until - limits::BESIDE_NS), until);
            looks.extend(still_missing(&recent.filter(|s| s.start == s.end).collect::<Vec<_>>()));
        }
        looks.sort_by_key(|look| look.at);
        Ok(looks)
    }

    /// The other threads of a process: a runtime that moves tasks between threads has one look and another sleep, in quick succession.
    fn beside(&self, looker: u32) -> Vec<u32> {
        let process = self.tables.process(looker).filter(|_| looker == self.track);
        (0..self.tables.actors.len() as u32)
            .filter(|&track| track != looker && process.is_some() && self.tables.process(track) == process)
            .collect()
    }

    /// Whether a thread checked within an interval whether its child had ended.
    fn looked_for_child(&mut self, looker: u32, (from, until): (i64, i64)) -> bool {
        self.settle(looker);
        let objects: Vec<u32> =
            self.feed.lanes[looker as usize].within(from, until).filter(|s| s.start == s.end).map(|s| s.object).collect();
        objects.into_iter().any(|object| self.is_process(object))
    }

    /// Looks of a thread, and of those that it made, soon after this instant, with whether each failed.
    fn looks_after(&self, looker: u32, window: i64) -> Vec<(Look, bool)> {
        let soon = self.at..=self.at.saturating_add(window);
        let lookers = self.lookers(looker, soon.clone());
        let just_after = self.at..=self.at.saturating_add(limits::BESIDE_NS);
        let beside = self.beside(looker).into_iter().flat_map(|track| &self.feed.lanes[track as usize].looks);
        let beside = beside.filter(|s| just_after.contains(&s.start));
        let own = lookers.into_iter().flat_map(|track| &self.feed.lanes[track as usize].looks);
        let next = own.filter(|s| soon.contains(&s.start)).chain(beside);
        next.filter_map(|s| Some((Look::of(&LiveSpan { result: s.result.min(-1), ..*s })?, s.result < 0))).collect()
    }

    /// Whether an object is an awaited child, which is found by its end.
    pub(super) fn is_process(&self, object: u32) -> bool {
        self.tables.objects.get(object as usize).is_some_and(|object| object.kind == ObjectKind::Process)
    }

    /// A failed connection that this thread gave up next, with the connecting side: its fruitless waits until then were for that.
    pub(super) fn gave_up_connecting(&self) -> Option<(u32, End)> {
        let lane = self.lane();
        let next = lane.looks.iter().find(|s| s.start >= self.at)?;
        let failed = next.kind == SpanKind::NetConnect && next.connection != NONE && next.result < 0 && -next.result != ECONNREFUSED;
        let moved = lane.passed.receive.0.min(lane.passed.send.0);
        (failed && moved >= next.start).then_some((next.connection, next.side))
    }

    /// Charges a pause to what `looker` looked for: the thread, or the thread that made it to pause.
    fn charge_look(&mut self, pause: &LiveSpan, look: &Look, looker: u32) -> Answer<bool> {
        let from = self.piece_start(pause);
        match look.missing {
            Missing::Answer | Missing::Reply | Missing::Success if look.object == NONE => self.charge_try(look, looker, from),
            // A socket with a path: its listener is not recorded.
            Missing::Listener if look.connection == NONE => {
                let place = self.labels.thread_place(looker, What::LooksFor(Missing::Listener), look.object);
                self.charge_at_own(RuleId::LookedForListener, Cause::ServerUnknown, place, self.within_life(from));
            }
            Missing::Listener => {
                // The later listener was not ready yet.
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

    /// The thread that later serves connections to the same address.
    fn listens_later(&self, look: &Look) -> Option<u32> {
        let served = (0..self.feed.parties.len() as u32).filter(|&other| self.tables.is_same_server(look.connection, other));
        let parties = served.flat_map(|connection| self.parties(connection, End::Server));
        parties.copied().rev().find(|&track| track != self.track)
    }

    /// The thread that acted on the object since it was last missing, and when: that made it appear. (An awaited child is found by its
    /// end.)
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
