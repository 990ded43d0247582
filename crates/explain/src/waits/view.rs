//! Where a rule stands: one thread at one instant, with the recording as far as it was read, and what is known of all of it.

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

/// What the small tables say.
#[derive(Debug)]
pub(crate) struct Facts {
    /// What TCP said.
    pub wire: WireFacts,
    /// When threads lived, by actor.
    pub lives: Vec<Life>,
    /// Where nothing is known of threads.
    pub holes: Holes,
    /// When names were asked for.
    pub asked: AskedNames,
    /// Processes that signals ended.
    pub ended: Vec<Ended>,
    /// The tracks of each process, by its machine and number.
    pub processes: HashMap<(u32, u32), Vec<u32>>,
    /// The recorder's own threads.
    pub recorders: Vec<u32>,
    /// Threads that wait by running, where a first walk found any.
    pub spins: Option<Spins>,
}

/// One thread at one instant.
pub(crate) struct View<'v, 'a, 'm> {
    /// Who is who.
    pub tables: &'v Tables,
    /// The spans, as far as they were read. Rules bring lanes to the instant, and read nothing.
    pub feed: &'v mut Feed<'a>,
    /// The small tables.
    pub facts: &'v Facts,
    /// What places are called by.
    pub labels: &'v Labels,
    /// What was found before.
    pub memory: &'m mut Memory,
    /// The beginning of what is explained.
    pub start: i64,
    /// The thread.
    pub track: u32,
    /// For which end it works.
    pub end: End,
    /// The instant.
    pub at: i64,
    /// How often the path has gone from thread to thread without getting any earlier, and whether that is a circle.
    pub jumps: usize,
    /// Whether that is a circle.
    pub circling: bool,
    /// Whether this thread is followed for what it had that another waited for; `true`: as a helper.
    pub held: Option<bool>,
    /// Whether this is a server's thread that gave a lock on, and for which client (by label): waits for a client it serves are its holder's.
    pub handing: Option<(u32, i64)>,
    /// No earlier than this is anything charged to the thread.
    pub floor: i64,
    /// The answer so far.
    pub acts: Vec<Act>,
}

impl View<'_, '_, '_> {
    // ---- looking

    /// All that covers an instant must have been read.
    pub(super) fn ensure(&self, instant: i64) -> Answer<()> {
        if self.feed.position >= instant && !self.feed.exhausted() { Err(NeedUntil(instant)) } else { Ok(()) }
    }

    /// More must have been read, however little.
    pub(super) fn more<T>(&self) -> Answer<T> {
        Err(NeedUntil(self.feed.position))
    }

    /// Whether looking further back for something is of no use.
    pub(super) fn cannot_look_further(&self) -> bool {
        self.feed.exhausted() || self.feed.full()
    }

    pub(super) fn settle(&mut self, track: u32) {
        self.feed.lanes[track as usize].settle(self.at);
    }

    /// What another thread was in at the walk's instant.
    pub(super) fn innermost_of(&mut self, track: u32) -> Option<LiveSpan> {
        self.settle(track);
        self.feed.lanes[track as usize].innermost().copied()
    }

    /// Who took part at one side of a connection, last seen first.
    pub(super) fn parties(&self, connection: u32, side: End) -> &[u32] {
        self.feed.parties.get(connection as usize).map_or(&[], |parties| &parties[side as usize])
    }

    /// The first of them that something can be charged to at the walk's instant.
    pub(super) fn living_party(&self, connection: u32, side: End) -> Option<u32> {
        self.parties(connection, side).iter().copied().find(|&party| !self.is_outside_its_life(party))
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.feed.lanes[self.track as usize]
    }

    pub(super) fn actor(&self) -> &Actor {
        &self.tables.actors[self.track as usize]
    }

    /// From where on the thread was in nothing but this span, as far as has been read.
    pub(super) fn piece_start(&self, span: &LiveSpan) -> i64 {
        let before = self.lane().previous().map_or(self.feed.position, |p| p.end);
        before.max(span.start).min(self.at - 1)
    }

    /// The object of a device's track, so that a place can name it.
    pub(super) fn device_thing(&self, device: u32) -> u32 {
        self.tables.device_objects.get(&device).copied().unwrap_or(NONE)
    }

    // ---- answering

    /// What is charged from here down to `since` rests on an inference.
    pub(super) fn infer(&mut self, since: i64) {
        self.acts.push(Act::Infer(since));
    }

    /// On to another thread. A kernel thread works for the end that waits for it.
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

    /// On to a thread that this one waits for: it works for this one.
    pub(super) fn wait_for(&mut self, track: u32) {
        self.memory.came_from.insert(track, self.track);
        self.jump(track);
    }

    pub(super) fn charge(&mut self, rule: RuleId, charge: Charge, from: i64) {
        self.acts.push(Act::Charge(rule, charge, from));
        self.at = from;
    }

    /// Charges what a thread did within its life.
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

    /// Charges a thread with what lies in nothing but this span.
    pub(super) fn charge_piece(&mut self, rule: RuleId, charge: Charge, span: &LiveSpan) {
        self.charge_within_life(rule, charge, self.piece_start(span));
    }

    /// Charges a place, on this thread's account or on nobody's.
    pub(super) fn charge_at(&mut self, rule: RuleId, (cause, place): (Cause, Place), own: bool, from: i64) {
        let from = from.max(self.start).min(self.at);
        self.charge(rule, Charge::At(cause, place, own), from);
    }

    /// The same on this thread's account.
    pub(super) fn charge_at_own(&mut self, rule: RuleId, cause: Cause, place: Place, from: i64) {
        self.charge_at(rule, (cause, place), true, from);
    }

    /// Charges the wire between this thread and `peer` (or an unknown one), from this thread when it sends.
    pub(super) fn charge_wire(&mut self, rule: RuleId, cause: Cause, (connection, peer): (u32, u32), sending: bool, from: i64) {
        if self.doubted_wire(cause, (connection, peer), sending, from) {
            return;
        }
        let (own, other) = (self.labels.label(self.track), self.labels.label(peer));
        let place = if sending { Place::Wire(own, other) } else { Place::Wire(other, own) };
        self.charge_at(rule, (cause, place), false, from);
    }

    /// A thread that for long neither ran, nor was runnable, nor was in a call that can wait: it stood still, as far as can be inferred. Where
    /// stops are recorded as spans of their own, it is not known what that was.
    pub(super) fn charge_still(&mut self, kind: SpanKind, from: i64) {
        if self.tables.wakers_inferred {
            return self.charge_thread_as(RuleId::StillUnknown, Cause::Unknown, What::Blocked(kind), NONE, from);
        }
        self.infer(from);
        self.charge_thread(RuleId::Still, Activity::Think, What::Still(kind), NONE, from);
    }
}
