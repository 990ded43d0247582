//! Pauses between tries: a program is run repeatedly until it succeeds, or a server is asked the same until its answer changes. No call
//! fails; that the tries failed is known from the programs' exit status, and from the bytes of the answers.

use super::memory::Look;
use super::place::Missing;
use super::*;
use crate::limits::waits as limits;
use crate::observe::answered::Answered;
use crate::observe::lives::Life;
use thalweg_trace::ObjectKind;

/// The bytes of one exchange over a connection between two pauses, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    pub connection: u32,
    asked: u64,
    answered: u64,
}

impl View<'_, '_, '_> {
    /// The failed try before a pause, if the next try succeeds: by programs that `pauser` ran, or by its own requests.
    pub(super) fn tried_in_vain(&mut self, pause: &LiveSpan, pauser: u32, window: i64) -> Answer<Option<Look>> {
        match self.failed_before(pause, pauser, window)? {
            Some(look) => Ok(Some(look)),
            None if pauser != self.track => Ok(None),
            None => match self.unanswered(pause, window)? {
                Some(look) => Ok(Some(look)),
                None => self.answered_alike(pause, window),
            },
        }
    }

    /// A program that failed before the pause, and runs again after it and succeeds.
    fn failed_before(&mut self, pause: &LiveSpan, pauser: u32, window: i64) -> Answer<Option<Look>> {
        let made = self.made_by_process(pauser);
        let ended = |life: &Life| life.until.unwrap_or(i64::MAX);
        let before = pause.start - window..=pause.start;
        let mut failed: Vec<u32> = made.iter().copied().filter(|&t| self.failed(t) && before.contains(&ended(self.life(t)))).collect();
        failed.sort_by_key(|&track| std::cmp::Reverse(ended(self.life(track))));
        for track in failed {
            let name = |track: u32| &self.tables.actors[track as usize].name;
            let began = |&other: &u32| self.life(other).floor();
            let again = || made.iter().copied().filter(|&other| other != track && name(other) == name(track));
            let next = again().filter(|other| began(other) >= self.at).min_by_key(began);
            let Some(next) = next.filter(|&next| self.life(next).status == Some(0)) else { continue };
            let earlier = again().filter(|&other| ended(self.life(other)) < began(&track) && self.failed(other));
            let earlier = earlier.max_by_key(|&other| ended(self.life(other)));
            // If pauses between runs continue, they are its pace.
            let (last, length) = (ended(self.life(next)), self.at - pause.start);
            let goes_on =
                |&other: &u32| began(&other) > last.saturating_add(length / 2) && began(&other) <= last.saturating_add(2 * length + window);
            if again().any(|other| goes_on(&other)) {
                continue;
            }
            let look = Look { object: NONE, track, connection: NONE, at: ended(self.life(track)), missing: Missing::Success };
            let try_of = |track: u32| -> Vec<u32> {
                let (from, until) = (self.life(track).floor() - window, ended(self.life(track)) + window);
                made.iter().copied().filter(|&t| self.life(t).floor() >= from && ended(self.life(t)) <= until).collect()
            };
            let (this, again) = (try_of(track), try_of(next));
            if let Some(connection) = self.asked_in_both(&this, &again) {
                return Ok(Some(Look { connection, ..look }));
            }
            if let Some(earlier) = earlier {
                self.ensure(self.life(earlier).floor())?;
                let (file, before) = (self.last_file(track), self.last_file(earlier));
                if let Some(object) = file.filter(|_| file == before) {
                    return Ok(Some(Look { object, ..look }));
                }
                if file.is_some() && before.is_some() {
                    // Each look is at another file: they are handled one by one.
                    continue;
                }
                return Ok(Some(look));
            }
        }
        Ok(None)
    }

    fn life(&self, track: u32) -> &Life {
        &self.facts.lives[track as usize]
    }

    fn failed(&self, track: u32) -> bool {
        self.life(track).status.is_some_and(|status| status != 0)
    }

    /// The processes that a thread's process made, by their first threads.
    fn made_by_process(&self, pauser: u32) -> Vec<u32> {
        let own = self.tables.process(pauser);
        let is_child = |&track: &u32| {
            let made_by_it = self.life(track).made().is_some_and(|(_, by)| self.tables.process(by) == own);
            made_by_it && self.tables.process(track) != own && self.life(track).status.is_some()
        };
        (0..self.facts.lives.len() as u32).filter(is_child).collect()
    }

    /// A connection of one try to a server that the other try also asked.
    fn asked_in_both(&self, one: &[u32], other: &[u32]) -> Option<u32> {
        let asked_by = |tries: &[u32], connection: u32| self.parties(connection, End::Client).iter().any(|track| tries.contains(track));
        let all = 0..self.feed.parties.len() as u32;
        let again: Vec<u32> = all.clone().filter(|&connection| asked_by(other, connection)).collect();
        all.rev()
            .filter(|&connection| asked_by(one, connection))
            .find(|&connection| again.iter().any(|&other| self.tables.is_same_server(connection, other)))
    }

    /// The last file that a program used before it ended.
    fn last_file(&mut self, track: u32) -> Option<u32> {
        self.settle(track);
        let is_file = |s: &&LiveSpan| {
            matches!(s.kind, SpanKind::FileRead | SpanKind::FileOpen)
                && self.tables.objects.get(s.object as usize).is_some_and(|object| object.kind == ObjectKind::File)
        };
        self.feed.lanes[track as usize].ahead.iter().find(is_file).map(|s| s.object)
    }

    /// Equal requests before this pause and the previous one, with equally long answers, and a different answer after this pause.
    fn answered_alike(&mut self, pause: &LiveSpan, window: i64) -> Answer<Option<Look>> {
        let (took, taken_from) = (self.lane().passed.took_bytes, self.lane().passed.receive.1);
        let asks_next = self.lane().passed.send.0 < self.lane().passed.receive.0;
        if taken_from == NONE || !asks_next {
            return Ok(None);
        }
        let oldest = pause.start - 2 * (self.at - pause.start) - 2 * window;
        self.ensure(oldest)?;
        let is_like = polling::is_like(pause);
        let is_pause = |s: &LiveSpan| is_like(self.tables, s) && s.end - s.start >= limits::SHORTEST_PAUSE_NS;
        let earlier: Vec<(i64, i64)> =
            self.lane().ahead.iter().take_while(|s| s.end >= oldest).filter(|s| is_pause(s)).map(|s| (s.start, s.end)).take(2).collect();
        let [later, earlier] = earlier[..] else { return Ok(None) };
        let (Some(last), Some(before)) = (self.exchange((later.1, pause.start)), self.exchange((earlier.1, later.0))) else {
            return Ok(None);
        };
        let alike = self.is_asked_alike(&last, &before);
        let steady = polling::alike(self.at - pause.start, later.1 - later.0) && polling::alike(later.1 - later.0, earlier.1 - earlier.0);
        let answered = took != last.answered && self.tables.is_same_server(last.connection, taken_from);
        // A thread that pauses once more continues as before, and paces itself.
        let goes_on = self.lane().passed.next_pause.saturating_sub(self.at) <= self.at - pause.start;
        let look = Look { object: NONE, track: self.track, connection: last.connection, at: later.1, missing: Missing::Answer };
        let failed = self.answers_failed(last.connection) != Some(false);
        Ok((alike && steady && answered && !goes_on && failed).then_some(look))
    }

    /// Whether this thread asked one server twice with equally many bytes and received equally many, and few, as for a status query. (A
    /// server takes requests and gives answers between pauses of its own.)
    pub(super) fn is_asked_alike(&self, last: &Exchange, before: &Exchange) -> bool {
        let brief = last.answered <= limits::QUESTION_BYTES && last.asked <= limits::QUESTION_BYTES;
        let same = (last.asked, last.answered) == (before.asked, before.answered);
        brief
            && same
            && self.tables.is_same_server(last.connection, before.connection)
            && self.parties(last.connection, End::Client).contains(&self.track)
    }

    /// Whether a server's answers say that the request failed; `None` if its answers were not recorded.
    fn answers_failed(&self, connection: u32) -> Option<bool> {
        let (_, server) = self.tables.ends(connection)?;
        let mut own = self.tables.answered.iter().filter(|answered| answered.server == server).peekable();
        own.peek()?;
        Some(own.any(Answered::is_failure))
    }

    /// A request before the pause without an answer, repeated after it to the same server over another connection: that one is answered, or
    /// is another try of the row. (A thread that only ever sends is never answered, and paces itself.)
    fn unanswered(&mut self, pause: &LiveSpan, window: i64) -> Answer<Option<Look>> {
        let (sends, takes) = (self.lane().passed.send, self.lane().passed.receive);
        if sends.1 == NONE {
            return Ok(None);
        }
        self.ensure(pause.start - window)?;
        let moved = |s: &&LiveSpan| matches!(s.kind, SpanKind::NetSend | SpanKind::NetReceive) && s.connection != NONE && s.bytes() > 0;
        let last = self.lane().within(pause.start - window, pause.start).find(moved).filter(|s| s.kind == SpanKind::NetSend);
        let Some(&LiveSpan { connection, start: at, .. }) = last else { return Ok(None) };
        let same_server = |other: u32| other != NONE && self.tables.is_same_server(connection, other);
        let again = sends.1 != connection && same_server(sends.1);
        let answered = takes.1 == sends.1 && takes.0 >= sends.0;
        let of_row = self.memory.looking.is_some_and(|known| known.look.missing == Missing::Reply && same_server(known.look.connection));
        let asks = self.parties(connection, End::Client).contains(&self.track);
        let look = Look { object: NONE, track: self.track, connection, at, missing: Missing::Reply };
        Ok((again && asks && (answered || of_row)).then_some(look))
    }

    /// The requests and answers of this thread within an interval, over one connection.
    pub(super) fn exchange(&self, (from, until): (i64, i64)) -> Option<Exchange> {
        let between = self.lane().within(from, until).filter(|s| s.connection != NONE && s.bytes() > 0);
        let mut found: Option<Exchange> = None;
        for span in between {
            let exchange = found.get_or_insert(Exchange { connection: span.connection, asked: 0, answered: 0 });
            if exchange.connection != span.connection {
                return None;
            }
            match span.kind {
                SpanKind::NetSend => exchange.asked += span.bytes(),
                SpanKind::NetReceive => exchange.answered += span.bytes(),
                _ => {}
            }
        }
        found.filter(|exchange| exchange.asked > 0 && exchange.answered > 0)
    }

    /// Charges a pause between tries without a known object: to the server that was asked, or the program that failed.
    pub(super) fn charge_try(&mut self, look: &Look, looker: u32, from: i64) {
        let from = self.within_life(from.max(self.floor));
        if look.connection == NONE {
            let place = self.labels.thread_place(look.track, What::LooksFor(Missing::Success), NONE);
            return self.charge_at_own(RuleId::TriedAgain, Cause::Unknown, place, from);
        }
        let (cause, place) = match self.parties(look.connection, End::Server).first() {
            Some(&server) => (Activity::Lock.at(End::Server), self.labels.thread_place(server, What::LooksFor(look.missing), NONE)),
            None => {
                let place = Place::FarEnd { seen_by: self.labels.label(looker), connection: look.connection, side: End::Server };
                (Cause::ServerUnknown, place)
            }
        };
        self.charge_at_own(RuleId::TriedAgain, cause, place, from);
    }
}
