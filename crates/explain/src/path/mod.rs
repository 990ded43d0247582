//! The critical path: a walk backward in time from the command's exit to its start.
//!
//! The walk is on one thread at one instant. It asks what that thread was in and what it waited for ([`crate::waits`]), charges the
//! answer's interval, and moves: earlier on the same thread, or over the answer's edge to another thread at that instant. Every move except
//! a jump goes backward, jumps without progress are counted and bounded, and each charged interval ends where the last one began: so every
//! instant is charged exactly once. [`errands`] remembers why the walk is on its thread, and when it returns.

mod errands;
pub(crate) mod ledger;
pub(crate) mod names;
mod pauses;
pub(crate) mod why;

use crate::ExplainError;
use crate::cause::{Activity, Cause, End};
use crate::limits::path as limits;
use crate::observe::feed::Feed;
use crate::observe::index::NONE;
use crate::observe::span::Observer;
use crate::observe::tables::{Actor, Tables};
use crate::rule::RuleId;
use crate::waits::answer::{Act, Charge, NeedUntil};
use crate::waits::memory::Memory;
use crate::waits::place::{Place, What};
use crate::waits::resolve;
use crate::waits::rules::for_metadata;
use crate::waits::view::{Facts, View};

use errands::Errands;
use ledger::Ledger;
use pauses::{Paused, Timer};
use thalweg_trace::{Role, SpanKind};
use why::StandsIn;

/// A path in progress.
pub(crate) struct Path<'a, 'o, O> {
    tables: &'o mut Tables,
    /// The spans.
    pub feed: Feed<'a>,
    /// The charges so far.
    pub ledger: Ledger,
    /// The contents of the small tables.
    facts: &'o Facts,
    observer: &'o mut O,
    start: i64,
    track: u32,
    /// The end that the thread works for: its own, or, for a kernel thread, that of the thread that waited for it.
    end: End,
    at: i64,
    jumps: usize,
    /// Number of threads the walk can be on; threads that only woke others or held something are excluded.
    threads: usize,
    /// Down to this instant, the path is on its thread because of an inference.
    inferred_floor: i64,
    errands: Errands,
    /// Earlier findings of rules.
    pub memory: Memory,
    /// The waiting end and the connection, if an unrecorded far end was waited for.
    pub unrecorded: Option<(End, u32)>,
}

impl<'a, 'o, O: Observer> Path<'a, 'o, O> {
    /// Starts at the end of the interval from `start` to `end`, on the command's own thread.
    pub(crate) fn new(tables: &'o mut Tables, feed: Feed<'a>, facts: &'o Facts, observer: &'o mut O, (start, end): (i64, i64)) -> Self {
        let ledger = Ledger::new(tables, end - start);
        let track = tables.main;
        let is_walked = |a: &&Actor| a.thread && matches!(a.role, Role::Client | Role::Server | Role::Kernel);
        let threads = tables.actors.iter().filter(is_walked).count();
        let errands = Errands::of(tables);
        Path {
            end: tables.actors.get(track as usize).map_or(End::Client, |a| a.end),
            tables,
            feed,
            ledger,
            facts,
            observer,
            start,
            track,
            at: end,
            jumps: 0,
            threads,
            inferred_floor: i64::MAX,
            errands,
            memory: Memory::default(),
            unrecorded: None,
        }
    }

    /// Walks to the start, and reads the rest of the recording for the observer.
    pub(crate) fn run(&mut self) -> Result<(), ExplainError> {
        self.choose_server_thread()?;
        while self.at > self.start && self.track != NONE {
            let before = self.at;
            self.step()?;
            self.jumps = if self.at < before { 0 } else { self.jumps + 1 };
        }
        self.ledger.charge(
            RuleId::NothingLeft,
            Cause::Unknown,
            Place::FarEnd { seen_by: NONE, connection: NONE, side: End::Server },
            (self.start, self.at),
            NONE,
        );
        self.at = self.start;
        self.ledger.finish();
        while !self.feed.exhausted() {
            self.feed.read(self.tables, self.start, self.observer)?;
        }
        let lanes = &self.feed.lanes;
        self.ledger.settle_locks(self.tables, |holder, asleep| lanes[holder as usize].traits.is_private_work(asleep));
        Ok(())
    }

    /// In a recording of servers only there is no command: the path starts with the last reply.
    fn choose_server_thread(&mut self) -> Result<(), ExplainError> {
        if self.end != End::Server {
            return Ok(());
        }
        loop {
            let sends = self.feed.traffic.iter().filter_map(|t| t[End::Server as usize].sends.front());
            if let Some(last) = sends.max_by_key(|s| s.end) {
                self.track = last.track;
                return Ok(());
            }
            if self.feed.exhausted() || self.feed.full() {
                return Ok(());
            }
            self.feed.read(self.tables, self.at, self.observer)?;
        }
    }

    fn step(&mut self) -> Result<(), ExplainError> {
        self.feed.ensure(self.tables, self.at, self.at, self.observer)?;
        self.feed.lanes[self.track as usize].settle(self.at);
        let (span, kind) = self.feed.lanes[self.track as usize].innermost().map_or((0, SpanKind::CpuRun), |span| (span.id, span.kind));
        self.ledger.within = StandsIn { span, kind, track: self.track };
        if self.at <= self.inferred_floor {
            self.inferred_floor = i64::MAX;
        }
        self.ledger.inferred = self.inferred_floor != i64::MAX;
        if let Some(track) = self.errands.back(&self.feed, self.at) {
            if track != self.track {
                self.go(track);
            }
            return Ok(());
        }
        for act in self.resolve()? {
            self.act(act);
        }
        Ok(())
    }

    /// Asks what the thread was in, reading as much as the answer needs.
    fn resolve(&mut self) -> Result<Vec<Act>, ExplainError> {
        loop {
            let view = View {
                tables: &*self.tables,
                feed: &mut self.feed,
                facts: self.facts,
                labels: &self.ledger.labels,
                memory: &mut self.memory,
                start: self.start,
                track: self.track,
                end: self.end,
                at: self.at,
                jumps: self.jumps,
                circling: self.jumps > (2 * self.threads + 16).min(limits::MOST_JUMPS),
                held: self.errands.held.map(|held| held.helper),
                handing: self.errands.handing(self.track),
                floor: self.errands.floor(self.track, self.at).map_or(self.start, |since| since.max(self.start)),
                acts: Vec::new(),
            };
            match resolve(view) {
                Ok(acts) => return Ok(acts),
                Err(NeedUntil(instant)) => {
                    self.feed.ensure(self.tables, instant, self.at, self.observer)?;
                    self.feed.lanes[self.track as usize].settle(self.at);
                }
            }
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Infer(since) => {
                // No earlier than this thread can be charged.
                let since = self.facts.within_life(self.tables, self.track, since.max(self.start));
                self.inferred_floor = self.inferred_floor.min(since);
                self.ledger.inferred = true;
            }
            Act::Charge(rule, Charge::Own(activity, what, object), from) => self.charge_own(rule, activity, (what, object), from),
            Act::Charge(rule, Charge::As(cause, what, object), from) => self.charge_thread(rule, cause, (what, object), from),
            // The activity of another client that held a lock, not recorded at the time.
            Act::Charge(_, Charge::At(_, Place::Unseen { track } | Place::Given { by: track, .. }, _), from)
                if let Some((place, since)) = self.errands.lock_elsewhere(self.tables, track, Activity::Think, What::Stopped, NONE) =>
            {
                let from = from.max(since).max(self.start).min(self.at);
                self.charge(RuleId::LockHandedUnrecorded, Activity::Lock.at(End::Client), place, from, self.track);
            }
            Act::Charge(rule, Charge::At(cause, place, own), from) => {
                let from = from.max(self.start).min(self.at);
                self.charge(rule, cause, place, from, if own { self.track } else { NONE });
            }
            Act::Slept(what_for, ns) => self.ledger.note_sleep(what_for, ns),
            Act::Paused(deed) => {
                let by = match self.ledger.within.kind {
                    _ if matches!(self.ledger.last_place(), Some(Place::TimeLimit { .. } | Place::FarEnd { .. })) => Timer::Other,
                    SpanKind::WaitTimer if self.tables.actors[self.track as usize].sleeps_in_slices() => Timer::Slices,
                    SpanKind::WaitTimer => Timer::Sleep,
                    _ => Timer::Limit,
                };
                self.ledger.note_pause(Paused { process: self.tables.process(self.track), deed, by, wait: None });
            }
            Act::Holder(holder, ns) => self.ledger.note(self.ledger.labels.holder(holder), ns, |entry| &mut entry.holders),
            Act::Unrecorded(end, connection) => {
                self.unrecorded.get_or_insert((end, connection));
            }
            Act::Called(since) => self.errands.called(self.track, since),
            Act::HandedOn => self.errands.handed_on(),
            Act::Ended(span) => self.errands.woke((self.tables, &self.feed), &self.ledger.labels, self.track, (&span, self.at)),
            Act::Along(_) => {}
            Act::Go(edge) => edge.track().into_iter().for_each(|track| self.go(track)),
        }
    }

    /// Moves to another thread. A kernel thread works for the end that waits for it.
    fn go(&mut self, track: u32) {
        let actor = &self.tables.actors[track as usize];
        if matches!(actor.role, Role::Client | Role::Server) {
            self.end = actor.end;
        }
        self.errands.go((self.tables, &self.feed), self.track, track);
        self.track = track;
    }

    // ---- charging

    fn charge(&mut self, rule: RuleId, cause: Cause, place: Place, from: i64, track: u32) {
        self.ledger.charge(rule, cause, place, (from, self.at), track);
        let awaited = self.errands.awaited().filter(|_| from < self.at);
        if let (Place::HeldElsewhere { .. }, Some((waiter, since))) = (place, awaited) {
            // The waiting server thread.
            self.feed.lanes[waiter as usize].settle(self.at);
            let deed = self.feed.lanes[waiter as usize].passed.deed;
            let process = self.tables.process(waiter);
            self.ledger.note_pause(Paused { process, deed, by: Timer::Other, wait: Some((waiter, since)) });
        }
        self.at = from;
    }

    /// The instant to charge this thread from: no earlier than its life, and than what led here.
    fn clip(&self, from: i64, since: i64) -> i64 {
        self.facts.within_life(self.tables, self.track, from.max(self.start).max(since)).min(self.at)
    }

    fn charge_thread(&mut self, rule: RuleId, cause: Cause, (what, object): (What, u32), from: i64) {
        let place = self.ledger.labels.thread_place(self.track, what, object);
        let from = self.clip(from, self.errands.floor(self.track, self.at).unwrap_or(self.start));
        let waited = self.errands.waiter(from, self.at);
        self.charge(rule, cause, place, from, self.track);
        if let Some((waiter, ns)) = waited {
            self.ledger.note(self.ledger.labels.label(waiter), ns, |entry| &mut entry.waiters);
        }
    }

    /// Charges a thread's own activity, which may be a lock's because of the errand.
    fn charge_own(&mut self, rule: RuleId, activity: Activity, (what, object): (What, u32), from: i64) {
        if self.tables.actors[self.track as usize].role == Role::Recorder {
            return self.charge_thread(RuleId::Recorder, Cause::Recorder, (what, object), from);
        }
        if let Some((place, since)) = self.errands.lock_of(self.track, activity, what, object, &self.ledger.labels) {
            self.feed.lanes[self.track as usize].traits.sleeps_holding |= activity == Activity::Think;
            return self.charge(RuleId::LockHeld, Activity::Lock.at(self.end), place, self.clip(from, since), self.track);
        }
        if let Some((place, since)) = self.errands.lock_elsewhere(self.tables, self.track, activity, what, object) {
            return self.charge(RuleId::LockHanded, Activity::Lock.at(End::Client), place, self.clip(from, since), self.track);
        }
        let of_call = if self.in_metadata() { for_metadata(activity) } else { activity };
        let rule = if of_call == activity { rule } else { RuleId::MetadataRpc };
        self.charge_thread(rule, of_call.at(self.end), (what, object), from);
    }

    /// Whether the thread's innermost RPC moves no data.
    fn in_metadata(&self) -> bool {
        let lane = &self.feed.lanes[self.track as usize];
        let rpcs = lane.open.iter().filter(|s| matches!(s.kind, SpanKind::RpcServe | SpanKind::RpcCall));
        let own = lane.innermost().map_or(0, |s| s.request);
        rpcs.filter(|s| own == 0 || s.request == own).max_by_key(|s| s.start).is_some_and(|s| s.bytes() == 0)
    }
}
