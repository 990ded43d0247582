//! The critical path: a walk backward in time from the command's exit to its start.
//!
//! The walk stands on one thread at one instant, asks which rule ([`crate::rules`]) holds there, charges
//! the interval the rule speaks of, and moves: earlier on the same thread, or to the thread that was
//! waited for, at that instant. Every move but a jump goes backward, jumps without progress are counted
//! and bounded, and each interval charged ends where the last began: so every instant is charged exactly once.

use crate::ExplainError;
use crate::cast::Cast;
use crate::cause::{Activity, Cause, End};
use crate::feed::{Feed, LiveSpan, Observer};
use crate::index::NONE;
use crate::ledger::{Ledger, Place, What};
use crate::rules::{Rule, STILL_NS, device_activity, for_metadata, grain_ns, is_idle_wait, rule, wait_parts};
use crate::wire::WireFacts;
use thalweg_trace::source::ABSENT;
use thalweg_trace::{Role, SpanKind};

/// A walk under way.
pub struct Walk<'a, 'o> {
    /// Who is who.
    pub cast: &'o mut Cast,
    /// The spans.
    pub feed: Feed<'a>,
    /// What has been charged.
    pub ledger: Ledger,
    wire: WireFacts,
    observer: &'o mut dyn Observer,
    start: i64,
    track: u32,
    at: i64,
    jumps: usize,
    /// Whether a client waited for a server of which nothing was recorded.
    pub met_unrecorded_server: bool,
}

/// A thread's blocked interval that is to be followed elsewhere.
#[derive(Clone, Copy)]
struct Blocked {
    span: LiveSpan,
    /// The walk's instant within it.
    at: i64,
}

impl<'a, 'o> Walk<'a, 'o> {
    /// At the end of the interval from `start` to `end`, on the command's own thread.
    pub fn new(cast: &'o mut Cast, feed: Feed<'a>, wire: WireFacts, observer: &'o mut dyn Observer, start: i64, end: i64) -> Self {
        let ledger = Ledger::new(cast, end - start);
        let track = cast.main;
        Walk { cast, feed, ledger, wire, observer, start, track, at: end, jumps: 0, met_unrecorded_server: false }
    }

    /// Walks to the start, and reads what is left of the recording, for the observer's sake.
    pub fn run(&mut self) -> Result<(), ExplainError> {
        while self.at > self.start && self.track != NONE {
            let before = self.at;
            self.step()?;
            self.jumps = if self.at < before { 0 } else { self.jumps + 1 };
        }
        self.ledger.charge(Cause::Unknown, Place::FarEnd(NONE), self.start, self.at, NONE);
        self.at = self.start;
        self.ledger.finish_run();
        while !self.feed.exhausted() {
            self.feed.read(self.cast, self.start, self.observer)?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), ExplainError> {
        self.ensure(self.at)?;
        self.settle(self.track);
        let Some(span) = self.lane().innermost().copied() else { return self.uncovered() };
        if self.cast.actors[self.track as usize].role == Role::Recorder {
            let from = self.piece_start(&span);
            self.charge_thread_as(Cause::Recorder, What::Running(span.kind), span.object, from);
            return Ok(());
        }
        match rule(span.kind) {
            Rule::Work { running, blocked } => self.work(&span, running, blocked)?,
            Rule::Container => self.container(&span),
            Rule::Wait(activity) => {
                let what = if activity == Activity::Runqueue { What::Runnable } else { What::Blocked(span.kind) };
                let from = self.piece_start(&span);
                self.charge_thread(activity, what, span.object, from);
            }
            Rule::Device => {
                let around = self.lane().open.iter().filter(|s| matches!(s.kind, SpanKind::FileWrite | SpanKind::FileSync)).map(|s| s.kind);
                let activity = device_activity(around.max_by_key(|k| *k == SpanKind::FileSync), span.kind);
                let from = self.piece_start(&span);
                self.charge_thread(activity, What::Blocked(span.kind), span.object, from);
            }
            Rule::Thread | Rule::Receive | Rule::Send => return self.wait(&span),
            Rule::RoundTrip => {
                let from = self.piece_start(&span);
                self.charge_wire(Cause::NetworkLatency, NONE, from);
            }
            Rule::Unknown => {
                let from = self.piece_start(&span);
                self.charge_thread_as(Cause::Unknown, What::Blocked(span.kind), span.object, from);
            }
        }
        Ok(())
    }

    // ---- moving and looking

    fn ensure(&mut self, instant: i64) -> Result<(), ExplainError> {
        self.feed.ensure(self.cast, instant, self.at, self.observer)
    }

    fn settle(&mut self, track: u32) {
        self.feed.lanes[track as usize].settle(self.at);
    }

    fn lane(&self) -> &crate::feed::Lane {
        &self.feed.lanes[self.track as usize]
    }

    fn jump(&mut self, track: u32) {
        self.track = track;
    }

    /// Whether jumps have gone round in a circle without any progress.
    fn circling(&self) -> bool {
        self.jumps > 2 * self.cast.actors.len() + 16
    }

    /// From where on the thread was in nothing but this span, as far as has been read.
    fn piece_start(&self, span: &LiveSpan) -> i64 {
        let before = self.lane().previous().map_or(self.feed.position, |p| p.end);
        before.max(span.start).min(self.at - 1)
    }

    // ---- charging

    fn charge_thread_as(&mut self, cause: Cause, what: What, object: u32, from: i64) {
        let place = self.ledger.thread_place(self.track, what, object);
        let from = from.max(self.start).min(self.at);
        self.ledger.charge(cause, place, from, self.at, self.track);
        self.at = from;
    }

    fn charge_thread(&mut self, activity: Activity, what: What, object: u32, from: i64) {
        let actor = &self.cast.actors[self.track as usize];
        if actor.role == Role::Recorder {
            return self.charge_thread_as(Cause::Recorder, what, object, from);
        }
        let activity = if self.in_metadata() { for_metadata(activity) } else { activity };
        let cause = activity.at(actor.end);
        self.charge_thread_as(cause, what, object, from);
    }

    /// Charges the wire between this thread and `peer` (or an unknown one), carrying away from this
    /// thread when it sends.
    fn charge_wire(&mut self, cause: Cause, peer: u32, from: i64) {
        let (own, other) = (self.ledger.label(self.track), self.ledger.label(peer));
        let sending = self.lane().innermost().is_some_and(|s| s.kind == SpanKind::NetSend);
        let place = if sending { Place::Wire(own, other) } else { Place::Wire(other, own) };
        let from = from.max(self.start).min(self.at);
        self.ledger.charge(cause, place, from, self.at, NONE);
        self.at = from;
    }

    /// Whether the innermost RPC the thread is in moves no data.
    fn in_metadata(&self) -> bool {
        let rpcs = self.lane().open.iter().filter(|s| matches!(s.kind, SpanKind::RpcServe | SpanKind::RpcCall));
        let own = self.lane().innermost().map_or(0, |s| s.request);
        rpcs.filter(|s| own == 0 || s.request == own).max_by_key(|s| s.start).is_some_and(|s| s.bytes() == 0)
    }

    // ---- rules

    /// Between spans a thread runs; before its first it was not there, and whoever it works for is asked.
    fn uncovered(&mut self) -> Result<(), ExplainError> {
        while self.lane().previous().is_none() && !self.feed.exhausted() && self.track != self.cast.main && !self.feed.full() {
            self.feed.read(self.cast, self.at, self.observer)?;
        }
        let before = self.lane().previous().map(|p| p.end);
        if before.is_none() && self.track != self.cast.main && !self.circling() {
            let starter = self.starter();
            self.jump(starter);
            return Ok(());
        }
        let from = before.unwrap_or(self.feed.position).max(self.start);
        if let Some(waiting) = self.untold_wait(from)
            && self.find_send(&waiting)?.is_some_and(|send| send.end > from)
        {
            return self.follow_sender(Blocked { span: waiting, at: self.at });
        }
        self.charge_thread(Activity::Cpu, What::OwnWork, NONE, from);
        Ok(())
    }

    /// A server's thread that did nothing for long outside of any request waited for the next one, even
    /// where that was not recorded (the recording of its first request began with the request).
    fn untold_wait(&self, from: i64) -> Option<LiveSpan> {
        const LONG_NS: i64 = 200_000;
        let end = self.cast.actors[self.track as usize].end;
        if end != End::Server || self.at - from < LONG_NS || self.circling() {
            return None;
        }
        let connection = self.feed.parties.iter().position(|p| p[end as usize].contains(&self.track))? as u32;
        Some(LiveSpan {
            start: from,
            end: self.at,
            id: 0,
            parent: 0,
            request: 0,
            cpu_ns: 0,
            runqueue_ns: 0,
            offset_bytes: ABSENT,
            size_bytes: ABSENT,
            track: self.track,
            object: NONE,
            connection,
            waker: NONE,
            count: 1,
            kind: SpanKind::NetReceive,
        })
    }

    /// Who this thread was started for: the other end of a connection it took part in, or the command's own thread.
    fn starter(&self) -> u32 {
        let end = self.cast.actors[self.track as usize].end as usize;
        let other_end = self.feed.parties.iter().find(|p| p[end].contains(&self.track)).and_then(|p| p[1 - end].first());
        match other_end {
            Some(&peer) if end == End::Server as usize => peer,
            _ => self.cast.main,
        }
    }

    /// Work: running, runnable and blocked in proportion to the span's own totals.
    fn work(&mut self, span: &LiveSpan, running: Activity, blocked: Activity) -> Result<(), ExplainError> {
        let from = self.piece_start(span).max(self.start);
        let Some((cpu, runqueue, waited)) = span.division() else {
            // Merged calls that never blocked ran; of a single call nothing is known but that it took time.
            let ran = span.count > 1 || running == blocked;
            let (activity, what) = if ran { (running, What::Running(span.kind)) } else { (blocked, What::Blocked(span.kind)) };
            let (activity, what) = if activity == Activity::Memory { (running, What::Running(span.kind)) } else { (activity, what) };
            self.charge_thread(activity, what, span.object, from);
            return Ok(());
        };
        let still = blocked == Activity::Memory && waited >= STILL_NS || self.frozen_in_file_call(span, waited)?;
        let (cpu, waited) = if waited <= grain_ns(span) { (cpu + waited, 0) } else { (cpu, waited) };
        let part = |ns: u64| (i128::from(self.at - from) * i128::from(ns) / i128::from(span.duration_ns().max(1))) as i64;
        let (cpu_part, runqueue_part) = (part(cpu), part(runqueue));
        let blocked_from = if waited == 0 { from } else { self.at - cpu_part - runqueue_part };
        let runqueue_from = if runqueue == 0 { blocked_from } else { self.at - cpu_part };
        self.charge_thread(running, What::Running(span.kind), span.object, if runqueue + waited == 0 { from } else { runqueue_from });
        self.charge_thread(Activity::Runqueue, What::Runnable, NONE, blocked_from);
        if still {
            self.charge_thread(Activity::Think, What::Still(span.kind), NONE, from);
        } else {
            self.charge_thread(blocked, What::Blocked(span.kind), span.object, from);
        }
        Ok(())
    }

    /// Whether a read or write was blocked not by its device but with its whole process: so long that no
    /// device takes it for one call, and meanwhile no thread of the process began or ended anything.
    fn frozen_in_file_call(&mut self, span: &LiveSpan, waited: u64) -> Result<bool, ExplainError> {
        const LEAST_NS: u64 = 10 * STILL_NS;
        const EDGE_NS: i64 = 5_000_000;
        let pid = self.cast.actors[self.track as usize].pid;
        let one_call = matches!(span.kind, SpanKind::FileRead | SpanKind::FileWrite) && span.bytes() <= 16 << 20;
        if waited < LEAST_NS || !one_call || pid == 0 {
            return Ok(false);
        }
        self.ensure(span.start)?;
        let within = (span.start + EDGE_NS)..(self.at - EDGE_NS);
        let others = self.cast.actors.iter().zip(&self.feed.lanes).enumerate();
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

    /// What a container's parts leave over is running, but not longer than the container ran at all.
    fn container(&mut self, span: &LiveSpan) {
        let from = self.piece_start(span).max(self.start);
        let most = span.division().map_or(i64::MAX, |(cpu, _, _)| cpu as i64);
        if self.at - from > most.saturating_add(STILL_NS as i64) {
            self.charge_thread(Activity::Cpu, What::Running(span.kind), NONE, self.at - most);
            self.charge_thread(Activity::Think, What::Still(span.kind), NONE, from);
        } else {
            self.charge_thread(Activity::Cpu, What::Running(span.kind), NONE, from);
        }
    }

    /// A wait: its running end, its runnable middle, and the blocked part, which is followed.
    fn wait(&mut self, span: &LiveSpan) -> Result<(), ExplainError> {
        let (blocked_until, runnable_until) = wait_parts(span);
        let woken = self.woken_from(span, blocked_until)?.unwrap_or(blocked_until);
        let (blocked_until, runnable_until) = (blocked_until.max(woken), runnable_until.max(woken));
        let earliest = self.piece_start(span);
        if self.at > runnable_until {
            self.charge_thread(Activity::Cpu, What::Running(span.kind), NONE, runnable_until.max(earliest));
            return Ok(());
        }
        if self.at > blocked_until {
            self.charge_thread(Activity::Runqueue, What::Runnable, NONE, blocked_until.max(earliest));
            return Ok(());
        }
        let blocked = Blocked { span: *span, at: self.at };
        match rule(span.kind) {
            Rule::Thread => self.follow_waker(blocked),
            Rule::Send => self.follow_connection(blocked),
            _ => self.follow_sender(blocked),
        }
    }

    /// The earliest instant from `from` on at which a wait's waker can have ended it: when something the waker did
    /// ended. A thread can queue for a processor before it blocks as well as after it is woken; only totals are known, and
    /// what would lie before this instant lay at the wait's beginning.
    fn woken_from(&mut self, span: &LiveSpan, from: i64) -> Result<Option<i64>, ExplainError> {
        let waker = span.waker;
        if rule(span.kind) != Rule::Thread || waker == NONE || waker == self.track || from >= span.end {
            return Ok(None);
        }
        self.ensure(from)?;
        self.settle(waker);
        let lane = &self.feed.lanes[waker as usize];
        let ended = lane.open.iter().chain(lane.ahead.iter().take_while(|s| s.end >= from));
        Ok(ended.filter(|s| s.is_activity() && s.end >= from && s.end <= span.end).map(|s| s.end).min())
    }

    /// Blocked on another thread: to whoever ended the wait, when it did.
    fn follow_waker(&mut self, blocked: Blocked) -> Result<(), ExplainError> {
        let waker = blocked.span.waker;
        let known = waker != NONE && waker != self.track && self.cast.actors[waker as usize].thread;
        if !known || self.circling() {
            let from = self.piece_start(&blocked.span);
            self.charge_thread(Activity::Lock, What::Blocked(blocked.span.kind), blocked.span.object, from);
            return Ok(());
        }
        self.settle(waker);
        let woken_at = self.last_act(waker, &blocked);
        let lag = (self.at - woken_at) as u64;
        if lag >= STILL_NS {
            self.charge_thread(Activity::Think, What::Still(blocked.span.kind), NONE, woken_at);
        } else {
            self.charge_thread(Activity::Runqueue, What::Runnable, NONE, woken_at);
        }
        self.jump(waker);
        Ok(())
    }

    /// When `other` last did anything during a wait: if at the walk's instant it is itself in a wait that
    /// began after ours, what it did for us came before that.
    fn last_act(&self, other: u32, blocked: &Blocked) -> i64 {
        match self.feed.lanes[other as usize].innermost() {
            Some(i) if is_idle_wait(i) && i.start > blocked.span.start && i.end > blocked.at => i.start.max(self.start),
            _ => blocked.at,
        }
    }

    /// Blocked until bytes come: to the send that brought them, where it was recorded.
    fn follow_sender(&mut self, blocked: Blocked) -> Result<(), ExplainError> {
        let connection = blocked.span.connection;
        let Some(send) = self.find_send(&blocked.span)? else { return self.follow_connection(blocked) };
        let sender = send.track;
        if send.end >= self.at {
            return self.meet(blocked, sender);
        }
        // Sent before the wait began: it was under way, or lay there, for all of it.
        let from = send.end.max(blocked.span.start).max(self.start);
        let same_machine = self.same_machine(sender);
        let lag = (self.at - from) as u64;
        let bytes = under_way(&send, &blocked.span);
        if self.wire.is_stall(connection, same_machine, lag, bytes, from, self.at) {
            self.charge_thread(Activity::Think, What::Still(blocked.span.kind), NONE, from);
        } else {
            let cause = self.wire.cause(connection, from, self.at, bytes);
            self.charge_wire(cause, sender, from);
        }
        if send.end >= blocked.span.start {
            self.jump(sender);
        }
        Ok(())
    }

    /// The latest send over the span's connection from its other end that began before the walk's
    /// instant: of the same request where both say which, and not so early that it cannot matter.
    fn find_send(&mut self, receive: &LiveSpan) -> Result<Option<LiveSpan>, ExplainError> {
        if receive.connection == NONE {
            return Ok(None);
        }
        let other = 1 - self.cast.actors[self.track as usize].end as usize;
        loop {
            let parties = &self.feed.parties[receive.connection as usize][other];
            let mut best: Option<LiveSpan> = None;
            for &party in parties {
                let lane = &mut self.feed.lanes[party as usize];
                lane.settle(self.at);
                let carried = |s: &&LiveSpan| {
                    s.kind == SpanKind::NetSend
                        && s.connection == receive.connection
                        && (s.request == receive.request || s.request == 0 || receive.request == 0)
                };
                let candidate =
                    lane.open.iter().filter(carried).max_by_key(|s| s.end).or_else(|| lane.latest_since(receive.start, carried));
                best = candidate.copied().into_iter().chain(best).max_by_key(|s| s.end);
            }
            if best.is_some() || self.feed.position < receive.start || self.feed.exhausted() || self.feed.full() {
                return Ok(best);
            }
            self.feed.read(self.cast, self.at, self.observer)?;
        }
    }

    fn same_machine(&self, other: u32) -> bool {
        self.cast.actors[other as usize].machine == self.cast.actors[self.track as usize].machine
    }

    /// Blocked on a connection: to whoever is at its other end, whatever that is doing now.
    fn follow_connection(&mut self, blocked: Blocked) -> Result<(), ExplainError> {
        let end = self.cast.actors[self.track as usize].end;
        let peer = match self.feed.parties.get(blocked.span.connection as usize) {
            Some(parties) => parties[1 - end as usize].first().copied(),
            None => None,
        };
        let Some(peer) = peer else {
            if blocked.span.connection != NONE && self.feed.position >= blocked.span.start && !self.feed.exhausted() && !self.feed.full() {
                self.feed.read(self.cast, self.at, self.observer)?;
                return Ok(());
            }
            return self.far_end_unknown(&blocked.span);
        };
        self.settle(peer);
        self.meet(blocked, peer)
    }

    /// This thread is blocked on a connection, and `peer` is at its other end: if that is blocked on the
    /// connection too, the bytes are on the wire; else what it does is what is waited for.
    fn meet(&mut self, blocked: Blocked, peer: u32) -> Result<(), ExplainError> {
        let connection = blocked.span.connection;
        let Some(theirs) = self.feed.lanes[peer as usize].innermost().copied() else {
            return self.meet_elsewhere(blocked, peer, self.at);
        };
        let on_connection = theirs.connection == connection && matches!(rule(theirs.kind), Rule::Send | Rule::Receive);
        if !on_connection {
            let acted_at = self.last_act(peer, &blocked);
            return self.meet_elsewhere(blocked, peer, acted_at);
        }
        let (blocked_until, _) = wait_parts(&theirs);
        if self.at > blocked_until && !self.circling() {
            self.jump(peer);
            return Ok(());
        }
        let from = theirs.start.max(blocked.span.start).max(self.start).min(self.at - 1);
        let bytes = under_way(&theirs, &blocked.span);
        let lag = (self.at - from) as u64;
        if self.wire.is_stall(connection, self.same_machine(peer), lag, bytes, from, self.at) {
            let own_end = self.cast.actors[self.track as usize].end;
            if own_end != End::Server && self.cast.actors[peer as usize].end == End::Server {
                self.jump(peer);
            }
            self.charge_thread(Activity::Think, What::Still(theirs.kind), NONE, from);
        } else {
            let cause = self.wire.cause(connection, from, self.at, bytes);
            self.charge_wire(cause, peer, from);
        }
        // Whoever came to the connection later is who was waited for.
        self.jump(if theirs.start > blocked.span.start { peer } else { blocked.span.track });
        Ok(())
    }

    fn meet_elsewhere(&mut self, blocked: Blocked, peer: u32, acted_at: i64) -> Result<(), ExplainError> {
        if self.circling() {
            let from = self.piece_start(&blocked.span);
            let cause = self.wire.cause(blocked.span.connection, from, self.at, blocked.span.bytes());
            self.charge_wire(cause, peer, from);
            return Ok(());
        }
        if acted_at < self.at {
            self.charge_wire(Cause::NetworkLatency, peer, acted_at);
        }
        self.jump(peer);
        Ok(())
    }

    fn far_end_unknown(&mut self, span: &LiveSpan) -> Result<(), ExplainError> {
        let from = self.piece_start(span).max(self.start);
        let cause = if self.cast.actors[self.track as usize].end == End::Client { Cause::ServerUnknown } else { Cause::Unknown };
        self.met_unrecorded_server |= cause == Cause::ServerUnknown;
        let place = Place::FarEnd(self.ledger.label(self.track));
        self.ledger.charge(cause, place, from, self.at, self.track);
        self.at = from;
        Ok(())
    }
}

/// How many bytes were waited for: of a large send and the small receive of its header, the header's.
fn under_way(one: &LiveSpan, other: &LiveSpan) -> u64 {
    [one.bytes(), other.bytes()].into_iter().filter(|&b| b > 0).min().unwrap_or(0)
}
