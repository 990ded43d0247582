//! The view of a rule: one thread at one instant, the recording as far as it was read, and the facts of all of it.

use super::answer::{Act, Answer, Charge, Edge, NeedUntil};
use super::memory::Memory;
use super::place::{Labels, Place, What};
use crate::cause::{Activity, Cause, End};
use crate::observe::asked_names::AskedNames;
use crate::observe::ended::Ended;
use crate::observe::feed::{Feed, Lane};
use crate::observe::holes::Holes;
use crate::observe::index::NONE;
use crate::observe::lives::Life;
use crate::observe::span::LiveSpan;
use crate::observe::spins::Spins;
use crate::observe::tables::{Actor, Tables};
use crate::observe::wire::WireFacts;
use crate::rule::RuleId;
use std::collections::HashMap;
use thalweg_trace::{Role, SpanKind};

/// The contents of the small tables.
#[derive(Debug)]
pub(crate) struct Facts {
    /// TCP's marks and counters.
    pub wire: WireFacts,
    /// Lives of threads, by actor.
    pub lives: Vec<Life>,
    /// Stretches in which threads' activity is unknown.
    pub holes: Holes,
    /// Times of name lookups.
    pub asked: AskedNames,
    /// Processes ended by signals.
    pub ended: Vec<Ended>,
    /// The tracks of each process, by machine and number.
    pub processes: HashMap<(u32, u32), Vec<u32>>,
    /// The recorder's own threads.
    pub recorders: Vec<u32>,
    /// Threads that wait by running, if a first walk found any.
    pub spins: Option<Spins>,
}

/// One thread at one instant.
pub(crate) struct View<'v, 'a, 'm> {
    /// Actors and objects.
    pub tables: &'v Tables,
    /// The spans read so far. Rules bring lanes to the instant, and read nothing.
    pub feed: &'v mut Feed<'a>,
    /// The small tables.
    pub facts: &'v Facts,
    /// Names of places.
    pub labels: &'v Labels,
    /// Earlier findings.
    pub memory: &'m mut Memory,
    /// Start of the explained interval.
    pub start: i64,
    /// The thread.
    pub track: u32,
    /// The end it works for.
    pub end: End,
    /// The instant.
    pub at: i64,
    /// Number of the path's moves between threads without progress in time.
    pub jumps: usize,
    /// Whether these moves form a circle.
    pub circling: bool,
    /// Whether this thread is followed for what it held that another waited for; `true` for a helper.
    pub held: Option<bool>,
    /// For a server's thread that passed a lock on: the client (by label) and since when it waits. Waits for a client that it serves are
    /// its holder's.
    pub handing: Option<(u32, i64)>,
    /// Nothing earlier is charged to the thread.
    pub floor: i64,
    /// The answer so far.
    pub acts: Vec<Act>,
}

impl View<'_, '_, '_> {
    // ---- looking

    /// Requires all spans that cover an instant to be read.
    pub(super) fn ensure(&self, instant: i64) -> Answer<()> {
        if self.feed.position >= instant && !self.feed.exhausted() { Err(NeedUntil(instant)) } else { Ok(()) }
    }

    /// Requires more of the recording, however little.
    pub(super) fn more<T>(&self) -> Answer<T> {
        Err(NeedUntil(self.feed.position))
    }

    /// Whether reading further back cannot help.
    pub(super) fn cannot_look_further(&self) -> bool {
        self.feed.exhausted() || self.feed.full()
    }

    pub(super) fn settle(&mut self, track: u32) {
        self.feed.lanes[track as usize].settle(self.at);
    }

    /// The innermost span of another thread at the walk's instant.
    pub(super) fn innermost_of(&mut self, track: u32) -> Option<LiveSpan> {
        self.settle(track);
        self.feed.lanes[track as usize].innermost().copied()
    }

    /// The threads at one side of a connection, most recently seen first.
    pub(super) fn parties(&self, connection: u32, side: End) -> &[u32] {
        self.feed.parties.get(connection as usize).map_or(&[], |parties| &parties[side as usize])
    }

    /// The first of them that can be charged at the walk's instant.
    pub(super) fn living_party(&self, connection: u32, side: End) -> Option<u32> {
        self.parties(connection, side).iter().copied().find(|&party| !self.is_outside_its_life(party))
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.feed.lanes[self.track as usize]
    }

    pub(super) fn actor(&self) -> &Actor {
        &self.tables.actors[self.track as usize]
    }

    /// Start of the piece in which the thread was in this span alone, as far as has been read.
    pub(super) fn piece_start(&self, span: &LiveSpan) -> i64 {
        let before = self.lane().previous().map_or(self.feed.position, |p| p.end);
        before.max(span.start).min(self.at - 1)
    }

    /// The object of a device's track, for naming a place.
    pub(super) fn device_thing(&self, device: u32) -> u32 {
        self.tables.device_objects.get(&device).copied().unwrap_or(NONE)
    }

    // ---- answering

    /// Marks charges from here down to `since` as inferred.
    pub(super) fn infer(&mut self, since: i64) {
        self.acts.push(Act::Infer(since));
    }

    /// Continues on another thread. A kernel thread works for the end that waits for it.
    pub(super) fn go(&mut self, edge: Edge) {
        let Some(track) = edge.track() else { return };
        let actor = &self.tables.actors[track as usize];
        if matches!(actor.role, Role::Client | Role::Server) {
            self.end = actor.end;
        }
        self.acts.push(Act::Go(edge));
        (self.track, self.floor) = (track, self.start);
    }

    pub(super) fn jump(&mut self, track: u32) {
        self.go(Edge::Thread(track));
    }

    /// Continues on a thread that this one waits for, and that works for this one.
    pub(super) fn wait_for(&mut self, track: u32) {
        self.memory.came_from.insert(track, self.track);
        self.jump(track);
    }

    pub(super) fn charge(&mut self, rule: RuleId, charge: Charge, from: i64) {
        self.acts.push(Act::Charge(rule, charge, from));
        self.at = from;
    }

    /// Charges a thread's activity within its life.
    fn charge_within_life(&mut self, rule: RuleId, charge: Charge, from: i64) {
        let from = self.within_life(from.max(self.floor)).min(self.at);
        self.charge(rule, charge, from);
    }

    pub(super) fn charge_thread_as(&mut self, rule: RuleId, cause: Cause, what: What, object: u32, from: i64) {
        self.charge_within_life(rule, Charge::As(cause, what, object), from);
    }

    pub(super) fn charge_thread(&mut self, rule: RuleId, activity: Activity, what: What, object: u32, from: i64) {
        self.charge_within_life(rule, Charge::Own(activity, what, object), from);
    }

    /// Charges a thread for the piece in this span alone.
    pub(super) fn charge_piece(&mut self, rule: RuleId, charge: Charge, span: &LiveSpan) {
        self.charge_within_life(rule, charge, self.piece_start(span));
    }

    /// Charges a place, on this thread's account or on none.
    pub(super) fn charge_at(&mut self, rule: RuleId, (cause, place): (Cause, Place), own: bool, from: i64) {
        let from = from.max(self.start).min(self.at);
        self.charge(rule, Charge::At(cause, place, own), from);
    }

    /// Charges a place on this thread's account.
    pub(super) fn charge_at_own(&mut self, rule: RuleId, cause: Cause, place: Place, from: i64) {
        self.charge_at(rule, (cause, place), true, from);
    }

    /// Charges the wire between this thread and `peer` (or an unknown one), from this thread if it sends.
    pub(super) fn charge_wire(&mut self, rule: RuleId, cause: Cause, (connection, peer): (u32, u32), sending: bool, from: i64) {
        if self.charge_doubted_wire(cause, (connection, peer), sending, from) {
            return;
        }
        let (own, other) = (self.labels.label(self.track), self.labels.label(peer));
        let place = if sending { Place::Wire(own, other) } else { Place::Wire(other, own) };
        self.charge_at(rule, (cause, place), false, from);
    }

    /// Charges a thread that for long neither ran, nor was runnable, nor was in a call that can wait: by inference it stood still. If stops
    /// are recorded as spans, the cause is unknown.
    pub(super) fn charge_still(&mut self, kind: SpanKind, from: i64) {
        if self.tables.wakers_inferred {
            return self.charge_thread_as(RuleId::StillUnknown, Cause::Unknown, What::Blocked(kind), NONE, from);
        }
        self.infer(from);
        self.charge_thread(RuleId::Still, Activity::Think, What::Still(kind), NONE, from);
    }
}
