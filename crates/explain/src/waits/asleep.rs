//! Why a thread sleeps, as far as its actions before and after show. The kernel knows when a sleep ends, but not its purpose.

use super::looks::ECONNREFUSED;
use super::place::SleptFor;
use super::*;
use crate::limits::waits as limits;

impl View<'_, '_, '_> {
    /// The purpose of the sleep charged from here down.
    pub(super) fn slept(&self, span: &LiveSpan) -> Answer<Act> {
        let ns = self.at - self.piece_start(span);
        self.ensure(span.start - 3 * ns)?;
        let between = || match self.slept_between() {
            _ if let Some(connection) = self.does_not_listen_yet(span) => SleptFor::Listen(connection),
            _ if let Some(others) = self.slept_for_others(span, ns) => others,
            // The path comes to a server when its answer is waited for.
            SleptFor::Unknown if self.end == End::Server => SleptFor::Answer,
            known => known,
        };
        Ok(Act::Slept(self.run_to_sleep(span).map_or_else(between, SleptFor::Run), ns))
    }

    /// When this thread's process next works: looks up a name, moves bytes, makes a call on a file or a connection.
    pub(super) fn next_deed(&mut self) -> Answer<i64> {
        self.ensure(self.at)?;
        let mut next = self.lane().passed.deed;
        let Some(process) = self.tables.process(self.track) else { return Ok(next) };
        for &track in &self.facts.processes[&process] {
            self.settle(track);
            next = next.min(self.feed.lanes[track as usize].passed.deed);
        }
        Ok(next.min(self.facts.asked.next(process, self.at)))
    }

    /// The thread that ran a program only to sleep, once.
    fn run_to_sleep(&self, span: &LiveSpan) -> Option<u32> {
        let (_, by) = self.made_to_pause(span)?;
        let name = |track: u32| &self.tables.actors[track as usize].label;
        let ends = self.facts.lives[self.track as usize].until.is_some_and(|until| until - span.end <= limits::MADE_TO_PAUSE_NS);
        let (lane, on_network) =
            (self.lane(), |s: &LiveSpan| matches!(s.kind, SpanKind::NetConnect | SpanKind::NetSend | SpanKind::NetReceive));
        let asks = lane.passed.receive.1 != NONE || lane.passed.send.1 != NONE || lane.ahead.iter().any(on_network);
        let is_all = lane.passed.next_pause == i64::MAX && name(by) != name(self.track) && !asks;
        (ends && is_all).then_some(by)
    }

    /// A connection that others failed to make to this thread's process meanwhile: it did not listen yet.
    fn does_not_listen_yet(&self, span: &LiveSpan) -> Option<u32> {
        let lanes = self.tables.workers().map(|track| &self.feed.lanes[track as usize]);
        let tried =
            lanes.flat_map(|lane| lane.within(span.start, self.at)).filter(|s| s.kind == SpanKind::NetConnect && s.result == -ECONNREFUSED);
        let own = self.tables.process(self.track);
        let listens = |connection: u32| {
            let same = (0..self.feed.parties.len() as u32).filter(move |&other| self.tables.is_same_server(connection, other));
            own.is_some()
                && same.into_iter().any(|other| self.parties(other, End::Server).iter().any(|&track| self.tables.process(track) == own))
        };
        let refused = tried.map(|s| s.connection).find(|&connection| connection != NONE)?;
        listens(refused).then_some(refused)
    }

    /// The request or poll of a thread before a sleep of `ns`, if others decide when that happens.
    fn slept_for_others(&self, span: &LiveSpan, ns: i64) -> Option<SleptFor> {
        let is_like = polling::is_like(span);
        let mut pauses = self.lane().ahead.iter().filter(|s| s.end <= span.start && is_like(self.tables, s) && s.end - s.start >= ns / 2);
        let (later, earlier) = (pauses.next(), pauses.next());
        let from = later.map_or(span.start - ns, |pause| pause.end);
        let looks_for_child = |s: &&LiveSpan| s.kind == SpanKind::WaitLock && s.result < 0 && self.is_process(s.object);
        if let Some(look) = self.lane().within(from, span.start).find(looks_for_child) {
            return Some(SleptFor::Child(look.object));
        }
        let moves = |s: &LiveSpan| matches!(s.kind, SpanKind::NetSend | SpanKind::NetReceive) && s.connection != NONE && s.bytes() > 0;
        let is_asked = |process| (from..span.start).contains(&self.facts.asked.next(process, from));
        if self.tables.process(self.track).is_some_and(is_asked) && !self.lane().within(from, span.start).any(moves) {
            return Some(SleptFor::Names);
        }
        let (later, earlier) = (later?, earlier?);
        let (last, before) = (self.exchange((later.end, span.start))?, self.exchange((earlier.end, later.start))?);
        self.is_asked_alike(&last, &before).then_some(SleptFor::Alike(last.connection))
    }

    fn slept_between(&self) -> SleptFor {
        let passed = &self.lane().passed;
        let is_pause = |s: &LiveSpan| s.kind == SpanKind::WaitTimer || s.may_be_in_vain();
        let Some(before) = self.lane().ahead.iter().find(|s| self.is_step(s) || is_pause(s)) else { return SleptFor::Unknown };
        if is_pause(before) {
            return SleptFor::Steps;
        }
        if before.kind == SpanKind::WaitNetwork {
            return SleptFor::Answer;
        }
        let next = passed.acted.min(passed.send.0).min(passed.receive.0);
        if before.kind == SpanKind::NetReceive && passed.send.1 == before.connection && passed.send.0 <= next {
            let serves = self.feed.side_of(self.tables, self.track, before.connection) == End::Server;
            return if serves { SleptFor::Answer } else { SleptFor::Requests };
        }
        if next == i64::MAX { SleptFor::Unknown } else { SleptFor::Steps }
    }

    /// Whether a span moves data, or is a wait for a datagram that came.
    fn is_step(&self, span: &LiveSpan) -> bool {
        match span.kind {
            SpanKind::NetSend | SpanKind::NetReceive | SpanKind::FileRead | SpanKind::FileWrite => !span.is_fruitless(),
            SpanKind::WaitNetwork => !span.timed_out() && self.is_addressed(span.object),
            _ => false,
        }
    }
}
