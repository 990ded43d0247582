//! The critical path: a walk backward in time from the command's exit to its start.
//!
//! The walk stands on one thread at one instant, asks which rule ([`crate::walk::rules`]) holds there, charges
//! the interval the rule speaks of, and moves: earlier on the same thread, or to the thread that was
//! waited for, at that instant. Every move but a jump goes backward, jumps without progress are counted
//! and bounded, and each interval charged ends where the last one began: so every instant is charged exactly once.
//!
//! What a thread does by itself is charged here; [`threads`] follows waits for other threads, [`connections`]
//! those for bytes, [`ranks`] those of an MPI job's ranks for each other.

mod accepting;
mod connections;
mod doubts;
pub(crate) mod ledger;
mod lives;
mod lock_handoff;
mod polling;
mod pool;
mod ranks;
pub(crate) mod rules;
mod threads;
mod timeouts;
pub(crate) mod why;

use crate::ExplainError;
use crate::cause::{Activity, Cause, End};
use crate::limits::walk as limits;
use crate::observe::feed::Feed;
use crate::observe::holes::Holes;
use crate::observe::index::NONE;
use crate::observe::lives::Life;
use crate::observe::span::{LiveSpan, Observer};
use crate::observe::tables::{Actor, Tables};
use crate::observe::wire::WireFacts;
use crate::rule::RuleId;
use ledger::{Ledger, Place, What};
use rules::{Rule, device_activity, for_metadata, grain_ns, in_blocked, is_idle_wait, rule, wait_parts};
use std::collections::{BTreeMap, HashMap};
use thalweg_trace::{Role, SpanKind};

/// A walk under way.
pub(crate) struct Walk<'a, 'o> {
    /// Who is who.
    pub tables: &'o mut Tables,
    /// The spans.
    pub feed: Feed<'a>,
    /// What has been charged.
    pub ledger: Ledger,
    /// What TCP said.
    pub wire: WireFacts,
    /// When each thread lived, as far as the recording says.
    pub lives: Vec<Life>,
    holes: Holes,
    observer: &'o mut dyn Observer,
    start: i64,
    track: u32,
    /// For which end the thread works: its own, or, of a kernel thread, that of whoever waited for it.
    end: End,
    at: i64,
    jumps: usize,
    /// How many threads there are to jump between: those that only woke or held something are never walked on.
    threads: usize,
    /// Down to which instant the walk is where it is because a rule inferred what the recording does not say.
    inferred_floor: i64,
    /// The lock whose holder, or the helper whom, the walk follows, if it does.
    held: Option<Held>,
    /// The thread of the same process whose wait led here: it, this thread, and since when it waits.
    through: Option<(u32, u32, i64)>,
    /// A lock that a server handed on between its clients, as long as the walk is with who had it.
    lock_handoff: Option<lock_handoff::LockHandoff>,
    clients: lock_handoff::Clients,
    /// Calls that were not accepted, as long as the walk is with who was to accept them: innermost last.
    calls: Vec<accepting::Called>,
    /// Who looked at intervals, and for whose end.
    looked_at: Option<(u32, u32)>,
    /// Who looked at intervals for what is not known, when the last pause of it began that the walk has come to, and how long it was.
    looks_for_unknown: Option<(u32, i64, i64)>,
    /// From which thread the walk last came to a thread that had woken it.
    came_from: HashMap<u32, u32>,
    /// Of the call last stood in: whether it is made of parts.
    parts_of: (u64, bool),
    /// The recorder's own threads.
    recorders: Vec<u32>,
    /// The connection and the waiting end, where a far end was waited for of which nothing was recorded.
    pub unrecorded: Option<(End, u32)>,
    /// MPI calls that depended on ranks of which nothing was recorded: which, and for how long.
    pub unrecorded_ranks: BTreeMap<String, i64>,
    /// By track: the MPI call that ended what it looked for in vain before.
    looked_for: HashMap<u32, LiveSpan>,
}

/// What the small tables say before the walk begins.
pub(crate) struct Facts {
    /// What TCP said.
    pub wire: WireFacts,
    /// When threads lived, by actor.
    pub lives: Vec<Life>,
    /// Where nothing is known of threads.
    pub holes: Holes,
}

/// A thread's blocked interval that is to be followed elsewhere.
#[derive(Clone, Copy)]
struct Blocked {
    span: LiveSpan,
    /// Whether for room to send into, and not for bytes.
    for_room: bool,
    /// The walk's instant within it.
    at: i64,
}

/// What another thread had that this one waited for, from `since` on.
#[derive(Clone, Copy)]
struct Held {
    waiter: u32,
    holder: u32,
    since: i64,
    /// Whether the holder is a thread of the kernel's or the recorder's: what it did before has nothing to do with the waiter.
    helper: bool,
    /// Whether the holder was seen to sleep while it had it.
    slept: bool,
}

impl<'a, 'o> Walk<'a, 'o> {
    /// At the end of the interval from `start` to `end`, on the command's own thread.
    pub(crate) fn new(tables: &'o mut Tables, feed: Feed<'a>, facts: Facts, observer: &'o mut dyn Observer, start: i64, end: i64) -> Self {
        let Facts { wire, lives, holes } = facts;
        let ledger = Ledger::new(tables, end - start);
        let track = tables.main;
        let is_walked = |a: &&Actor| a.thread && matches!(a.role, Role::Client | Role::Server | Role::Kernel);
        let threads = tables.actors.iter().filter(is_walked).count();
        let recorders = tables.actors.iter().enumerate().filter(|(_, a)| a.thread && a.role == Role::Recorder).map(|(i, _)| i as u32);
        Walk {
            recorders: recorders.collect(),
            end: tables.actors.get(track as usize).map_or(End::Client, |a| a.end),
            tables,
            feed,
            ledger,
            wire,
            lives,
            holes,
            observer,
            start,
            track,
            at: end,
            jumps: 0,
            threads,
            inferred_floor: i64::MAX,
            held: None,
            through: None,
            lock_handoff: None,
            clients: lock_handoff::Clients::default(),
            calls: Vec::new(),
            looked_at: None,
            looks_for_unknown: None,
            came_from: HashMap::new(),
            parts_of: (0, false),
            unrecorded: None,
            unrecorded_ranks: BTreeMap::new(),
            looked_for: HashMap::new(),
        }
    }

    /// Walks to the start, and reads what is left of the recording, for the observer's sake.
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
            Place::FarEnd { seen_by: NONE, connection: NONE },
            (self.start, self.at),
            NONE,
        );
        self.at = self.start;
        self.ledger.finish_run();
        while !self.feed.exhausted() {
            self.feed.read(self.tables, self.start, self.observer)?;
        }
        let lanes = &self.feed.lanes;
        self.ledger.settle_locks(self.tables, |holder, asleep| lanes[holder as usize].known.serves_itself(asleep));
        Ok(())
    }

    /// Where only servers were recorded there is no command: the walk begins with the last reply.
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
        self.ensure(self.at)?;
        self.settle(self.track);
        self.ledger.within = self.stands_in();
        if self.at <= self.inferred_floor {
            self.inferred_floor = i64::MAX;
        }
        self.ledger.inferred = self.inferred_floor != i64::MAX;
        if self.held.is_some_and(|h| self.at <= h.since) && self.back_from_lock() {
            return Ok(());
        }
        if self.back_from_handing() || self.back_to_caller() {
            return Ok(());
        }
        if self.is_outside_its_life(self.track) {
            return self.outside_life();
        }
        let Some(span) = self.lane().innermost().copied() else { return self.uncovered() };
        if self.actor().role == Role::Recorder {
            let from = self.piece_start(&span);
            self.charge_thread_as(RuleId::Recorder, Cause::Recorder, What::Running(span.kind), span.object, from);
            return Ok(());
        }
        if self.in_rank(&span)? {
            return Ok(());
        }
        match rule(span.kind) {
            Rule::Work { running, blocked } => self.work(&span, running, blocked)?,
            Rule::Container => self.container(&span),
            Rule::Wait(Activity::Runqueue) => self.queued(&span)?,
            Rule::Wait(_) if span.kind == SpanKind::WaitTimer && self.idle_in_pool(&span)? => {}
            // A sleep that another thread cut short (it was to end) lasted as long as that thread let it.
            Rule::Wait(_) if span.kind == SpanKind::WaitTimer && self.is_walkable(span.waker) && !self.circling() => {
                self.follow_waker(Blocked { span, for_room: false, at: self.at })?;
            }
            Rule::Wait(_) if span.kind == SpanKind::WaitTimer && self.polled(&span)? => {}
            Rule::Wait(_) if span.kind == SpanKind::WaitTimer && self.seems_to_look(&span)? => {
                self.charge_looking(&span);
            }
            Rule::Wait(activity) => self.charge_wait(&span, activity),
            Rule::Device => {
                let around = self.lane().open.iter().filter(|s| matches!(s.kind, SpanKind::FileWrite | SpanKind::FileSync)).map(|s| s.kind);
                let activity = device_activity(around.max_by_key(|k| *k == SpanKind::FileSync), span.kind);
                let from = self.piece_start(&span);
                let object = if span.object == NONE { self.device_thing(span.device) } else { span.object };
                self.charge_thread(RuleId::Device, activity, What::Blocked(span.kind), object, from);
            }
            Rule::Thread | Rule::Receive | Rule::Send if self.held.is_some_and(|h| h.helper) => {
                let from = self.piece_start(&span);
                self.charge_thread(RuleId::HelperWaits, Activity::Lock, What::Blocked(span.kind), span.object, from);
            }
            Rule::Thread | Rule::Receive | Rule::Send => return self.wait(&span),
            Rule::RoundTrip => self.connect(&span)?,
            // Stopped by a signal.
            Rule::Unknown if span.result < 0 => {
                let from = self.piece_start(&span);
                self.charge_thread(RuleId::Stopped, Activity::Think, What::Stopped, NONE, from);
            }
            Rule::Unknown => {
                let from = self.piece_start(&span);
                self.charge_thread_as(RuleId::UnknownWait, Cause::Unknown, What::Blocked(span.kind), span.object, from);
            }
        }
        Ok(())
    }

    // ---- moving and looking

    fn ensure(&mut self, instant: i64) -> Result<(), ExplainError> {
        self.feed.ensure(self.tables, instant, self.at, self.observer)
    }

    fn settle(&mut self, track: u32) {
        self.feed.lanes[track as usize].settle(self.at);
    }

    fn lane(&self) -> &crate::observe::feed::Lane {
        &self.feed.lanes[self.track as usize]
    }

    fn actor(&self) -> &crate::observe::tables::Actor {
        &self.tables.actors[self.track as usize]
    }

    /// Whether looking further back for something is of no use.
    fn cannot_look_further(&self) -> bool {
        self.feed.exhausted() || self.feed.full()
    }

    /// To another thread. A kernel thread works for the end that waits for it.
    fn jump(&mut self, track: u32) {
        self.note_client(track);
        let actor = &self.tables.actors[track as usize];
        if matches!(actor.role, Role::Client | Role::Server) {
            self.end = actor.end;
        }
        if self.held.is_some_and(|h| h.holder != track) {
            self.held = None;
        }
        if self.through.is_some_and(|(_, waited_for, _)| waited_for != track) {
            self.through = None;
        }
        self.track = track;
    }

    /// Whether jumps have gone round in a circle without any progress.
    fn circling(&self) -> bool {
        self.jumps > (2 * self.threads + 16).min(limits::MOST_JUMPS)
    }

    /// From where on the thread was in nothing but this span, as far as has been read.
    fn piece_start(&self, span: &LiveSpan) -> i64 {
        let before = self.lane().previous().map_or(self.feed.position, |p| p.end);
        before.max(span.start).min(self.at - 1)
    }

    /// The object of a device's track, so that a place can name it.
    fn device_thing(&self, device: u32) -> u32 {
        self.tables.device_objects.get(&device).copied().unwrap_or(NONE)
    }

    /// What is charged from here down to `since` rests on an inference.
    fn infer(&mut self, since: i64) {
        // No further than this thread can be charged.
        let since = self.within_life(since.max(self.start));
        self.inferred_floor = self.inferred_floor.min(since);
        self.ledger.inferred = true;
    }

    // ---- charging

    fn charge_thread_as(&mut self, rule: RuleId, cause: Cause, what: What, object: u32, from: i64) {
        let place = self.ledger.thread_place(self.track, what, object);
        let floor = self.held.filter(|h| h.holder == self.track).map_or(self.start, |h| h.since.max(self.start));
        let floor = self.handed_since().into_iter().chain(self.called_since()).fold(floor, i64::max);
        let from = self.within_life(from.max(floor)).min(self.at);
        self.ledger.charge(rule, cause, place, (from, self.at), self.track);
        if let Some((waiter, _, since)) = self.through
            && self.at > since
            && from < self.at
        {
            self.ledger.note_waiter(waiter, self.at - from.max(since));
        }
        self.at = from;
    }

    fn charge_thread(&mut self, rule: RuleId, activity: Activity, what: What, object: u32, from: i64) {
        if self.actor().role == Role::Recorder {
            return self.charge_thread_as(RuleId::Recorder, Cause::Recorder, what, object, from);
        }
        // Who waits for whatever comes, for so long at most, has no lock meanwhile.
        let in_vain = activity == Activity::Think && matches!(what, What::Blocked(SpanKind::WaitLock | SpanKind::WaitNetwork));
        let of_lock = |h: &Held| h.holder == self.track && !h.helper && !in_vain && matches!(activity, Activity::Cpu | Activity::Think);
        if let Some(held) = self.held.filter(of_lock) {
            let from = self.within_life(from.max(self.start).max(held.since)).min(self.at);
            let waiter = self.ledger.label(held.waiter);
            let place = Place::Held { waiter, holder: held.holder, what, object };
            if activity == Activity::Think {
                self.held = Some(Held { slept: true, ..held });
                self.feed.lanes[held.holder as usize].known.sleeps_holding = true;
            }
            self.ledger.charge(RuleId::LockHeld, Activity::Lock.at(self.end), place, (from, self.at), self.track);
            self.at = from;
            return;
        }
        if let Some((place, since)) = self.holds_for_another(activity, what, object) {
            let from = self.within_life(from.max(self.start).max(since)).min(self.at);
            self.ledger.charge(RuleId::LockHanded, Activity::Lock.at(End::Client), place, (from, self.at), self.track);
            self.at = from;
            return;
        }
        let of_call = if self.in_metadata() { for_metadata(activity) } else { activity };
        let rule = if of_call == activity { rule } else { RuleId::MetadataRpc };
        let cause = of_call.at(self.end);
        self.charge_thread_as(rule, cause, what, object, from);
    }

    /// Charges the wire between this thread and `peer` (or an unknown one), from this thread when it sends.
    fn charge_wire(&mut self, rule: RuleId, cause: Cause, (connection, peer): (u32, u32), sending: bool, from: i64) {
        if self.doubted_wire(cause, (connection, peer), sending, from) {
            return;
        }
        let (own, other) = (self.ledger.label(self.track), self.ledger.label(peer));
        let place = if sending { Place::Wire(own, other) } else { Place::Wire(other, own) };
        let from = from.max(self.start).min(self.at);
        self.ledger.charge(rule, cause, place, (from, self.at), NONE);
        self.at = from;
    }

    /// Whether the innermost RPC the thread is in moves no data.
    fn in_metadata(&self) -> bool {
        let rpcs = self.lane().open.iter().filter(|s| matches!(s.kind, SpanKind::RpcServe | SpanKind::RpcCall));
        let own = self.lane().innermost().map_or(0, |s| s.request);
        rpcs.filter(|s| own == 0 || s.request == own).max_by_key(|s| s.start).is_some_and(|s| s.bytes() == 0)
    }

    // ---- what a thread does by itself

    /// Work: running, runnable and blocked in proportion to the span's own totals.
    fn work(&mut self, span: &LiveSpan, running: Activity, blocked: Activity) -> Result<(), ExplainError> {
        let from = self.piece_start(span).max(self.start);
        let ran = span.division().is_some_and(|(_, runqueue, waited)| runqueue + waited == 0);
        let Some(from) = (if ran { self.outside_holes(from) } else { Some(from) }) else { return Ok(()) };
        let Some((cpu, runqueue, waited)) = span.division() else {
            // Merged calls that never blocked ran; of a single call nothing is known but that it took time.
            let ran = span.count > 1 || running == blocked;
            if ran || blocked == Activity::Memory {
                let in_call = if ran { RuleId::Running } else { in_blocked(blocked) };
                self.charge_thread(in_call, running, What::Running(span.kind), span.object, from);
                return Ok(());
            }
            return self.charge_blocked(blocked, span, from);
        };
        if cpu > 0 && waited + runqueue > 0 && self.has_parts(span)? {
            let from = self.piece_start(span).max(self.start);
            self.charge_thread(RuleId::RunningBetweenWaits, running, What::Running(span.kind), span.object, from);
            return Ok(());
        }
        // A lock of the kernel's that another thread had. A thread of the kernel's own did the call's work.
        let of_kernel = |waker: u32| self.tables.actors[waker as usize].role == Role::Kernel;
        if cpu == 0 && self.is_walkable(span.waker) && !of_kernel(span.waker) && !self.circling() {
            return self.follow_waker(Blocked { span: *span, for_room: false, at: self.at });
        }
        if blocked == Activity::Write && cpu == 0 && span.device != NONE && self.device_read(span.device, span.end) {
            // What was to be written had to be read first (from a mapped file, or another that the call copies from).
            let object = self.device_thing(span.device);
            self.charge_thread(RuleId::FileReadForWrite, Activity::Read, What::Blocked(SpanKind::FileRead), object, from);
            return Ok(());
        }
        let still =
            blocked == Activity::Memory && waited >= limits::STILL_NS && !span.ending_seen() || self.frozen_in_file_call(span, waited)?;
        let (cpu, waited) = if waited <= grain_ns(span) && !span.ending_seen() { (cpu + waited, 0) } else { (cpu, waited) };
        let part = |ns: u64| (i128::from(self.at - from) * i128::from(ns) / i128::from(span.duration_ns().max(1))) as i64;
        let (cpu_part, runqueue_part) = (part(cpu), part(runqueue));
        let blocked_from = if waited == 0 { from } else { self.at - cpu_part - runqueue_part };
        let runqueue_from = if runqueue == 0 { blocked_from } else { self.at - cpu_part };
        self.charge_running(running, span, if runqueue + waited == 0 { from } else { runqueue_from });
        self.charge_thread(RuleId::RunnableInSpan, Activity::Runqueue, What::Runnable, NONE, blocked_from);
        if still {
            self.charge_still(span.kind, from);
            return Ok(());
        }
        self.charge_blocked(blocked, span, from)
    }

    /// Whether what a device completed at an instant was a read.
    fn device_read(&mut self, device: u32, at: i64) -> bool {
        self.settle(device);
        let lane = &self.feed.lanes[device as usize];
        let near = lane.open.iter().chain(lane.ahead.iter().take(16)).filter(|s| s.end.abs_diff(at) <= limits::COMPLETION_NEAR_NS as u64);
        near.min_by_key(|s| s.end.abs_diff(at)).is_some_and(|s| s.kind == SpanKind::DiskRead)
    }

    /// Whether a call's waits are spans of their own, so that what they leave over is running.
    fn has_parts(&mut self, span: &LiveSpan) -> Result<bool, ExplainError> {
        if self.parts_of.0 == span.id {
            return Ok(self.parts_of.1);
        }
        let has = loop {
            let part = self.lane().ahead.iter().take_while(|s| s.end > span.start).any(|s| s.parent == span.id && s.is_activity());
            if part || self.feed.position < span.start || self.cannot_look_further() {
                break part;
            }
            self.feed.read(self.tables, self.at, self.observer)?;
        };
        self.parts_of = (span.id, has);
        Ok(has)
    }

    /// Whether a read or write was blocked not by its device but with its whole process: so long that no
    /// device takes it for one call, and meanwhile no thread of the process began or ended anything.
    fn frozen_in_file_call(&mut self, span: &LiveSpan, waited: u64) -> Result<bool, ExplainError> {
        let pid = self.actor().pid;
        let one_call = matches!(span.kind, SpanKind::FileRead | SpanKind::FileWrite) && span.bytes() <= limits::ONE_CALL_BYTES;
        if waited < limits::FROZEN_NS || !one_call || pid == 0 || span.ending_seen() {
            return Ok(false);
        }
        self.ensure(span.start)?;
        let within = (span.start + limits::FROZEN_EDGE_NS)..(self.at - limits::FROZEN_EDGE_NS);
        let others = self.tables.actors.iter().zip(&self.feed.lanes).enumerate();
        let others = others.filter(|(track, (actor, _))| *track != self.track as usize && actor.pid == pid);
        let mut alive = false;
        let mut acted = false;
        for (_, (_, lane)) in others {
            let mut spans = lane.open.iter().chain(&lane.ahead);
            alive |= spans.clone().next().is_some();
            acted |= spans.any(|s| within.contains(&s.start) || within.contains(&s.end));
        }
        Ok(alive && !acted)
    }

    /// Of a stretch from `from` on that is in no wait: since when the thread was found running, up to the walk's instant. `None`: it was not; that
    /// is not known, and charged so.
    fn outside_holes(&mut self, from: i64) -> Option<i64> {
        let machine = self.actor().machine;
        let from = self.within_life(from.max(self.start));
        match self.holes.last(self.track, machine, from, self.at) {
            Ok(since) => Some(since),
            Err(since) => {
                let hole = Place::Hole { label: self.ledger.label(self.track) };
                self.ledger.charge(RuleId::Unsampled, Cause::Unknown, hole, (since, self.at), self.track);
                self.at = since;
                None
            }
        }
    }

    /// What a container's parts leave over is running, but not longer than the container ran at all.
    fn container(&mut self, span: &LiveSpan) {
        let from = self.piece_start(span).max(self.start);
        let most = span.division().map_or(i64::MAX, |(cpu, _, _)| cpu as i64);
        if self.at - from > most.saturating_add(limits::STILL_NS as i64) {
            self.charge_thread(RuleId::RunningContainer, Activity::Cpu, What::Running(span.kind), NONE, self.at - most);
            self.charge_still(span.kind, from);
        } else {
            self.charge_thread(RuleId::RunningContainer, Activity::Cpu, What::Running(span.kind), NONE, from);
        }
    }

    /// A thread that for long neither ran, nor was runnable, nor was in a call that can wait: it stood still, as far as can be inferred. Where
    /// stops are told by spans of their own, it is not known what that was.
    fn charge_still(&mut self, kind: SpanKind, from: i64) {
        if self.tables.wakers_inferred {
            return self.charge_thread_as(RuleId::StillUnknown, Cause::Unknown, What::Blocked(kind), NONE, from);
        }
        self.infer(from);
        self.charge_thread(RuleId::Still, Activity::Think, What::Still(kind), NONE, from);
    }

    /// Runnable, while another held the processor. While a thread of the recorder's held one of the machine's processors, it
    /// was that one which was missing.
    fn queued(&mut self, span: &LiveSpan) -> Result<(), ExplainError> {
        let from = self.piece_start(span).max(self.start);
        let by_recorder = self.tables.actors.get(span.waker as usize).is_some_and(|a| a.role == Role::Recorder);
        let (recording, from) = if by_recorder { (true, from) } else { self.recorder_ran(from) };
        let length = self.at - from;
        if recording {
            self.charge_thread_as(RuleId::RecorderQueue, Cause::Recorder, What::Runnable, NONE, from);
        } else {
            // By other threads, or by the quota of a control group.
            self.charge_thread(RuleId::Runnable, Activity::Runqueue, What::Runnable, span.object, from);
        }
        if span.waker != NONE {
            self.ledger.note_holder(span.waker, length);
        }
        Ok(())
    }

    /// Whether the recorder ran on this thread's machine just before the walk's instant, and since when, at most since
    /// `from`, that has been so or not so.
    fn recorder_ran(&mut self, from: i64) -> (bool, i64) {
        let (machine, mut since, mut ran) = (self.actor().machine, from, false);
        for i in 0..self.recorders.len() {
            let recorder = self.recorders[i];
            if self.tables.actors[recorder as usize].machine != machine {
                continue;
            }
            self.settle(recorder);
            let lane = &self.feed.lanes[recorder as usize];
            if lane.passed.last_end < self.at && lane.open.is_empty() {
                // Nothing is known of it from here on.
                continue;
            }
            let position = self.feed.position;
            let (running, begun) = match lane.innermost() {
                Some(span) => (span.cpu_ns > 0 && !is_idle_wait(span), span.start),
                None => (lane.previous().is_some(), lane.previous().map_or(position, |p| p.end)),
            };
            since = since.max(begun.max(lane.previous().map_or(position, |p| p.end))).min(self.at - 1);
            ran |= running;
        }
        (ran, since)
    }
}
