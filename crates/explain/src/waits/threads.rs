//! Waits for other threads: to the thread that ended the wait, or started the thread; and to whom time is charged while a lock is held.

use super::*;
use crate::limits::waits as limits;
use crate::observe::feed::{NextActions, Traffic};
use crate::observe::span::EAGAIN;
use crate::observe::spins::Awaited;
use thalweg_trace::{ABSENT, ABSENT_CONTEXT, ObjectKind};

impl View<'_, '_, '_> {
    /// Between spans a thread runs; before its first it did not exist, and the walk goes to the thread it works for.
    pub(super) fn uncovered(&mut self) -> Answer<()> {
        let is_there = self.track == self.tables.main || self.was_made() || self.has_begun(self.track)?;
        if !is_there && !self.circling {
            // A server's thread that starts with its connection: its first bytes were in transit, or unread.
            if let Some(waiting) = self.awaits(self.start)
                && let Some(send) = self.find_send(&waiting)?
                && send.end < self.at
            {
                return self.follow_sender(waiting);
            }
            return self.go_to_starter();
        }
        let from = self.lane().previous().map_or(self.feed.position, |p| p.end).max(self.start).max(self.last_received_at());
        if let Some(waiting) = self.unrecorded_wait(from)
            && self.find_send(&waiting)?.is_some_and(|send| send.end > from)
        {
            self.infer(from);
            return self.follow_sender(waiting);
        }
        if let Some(from) = self.outside_holes(from) {
            if self.is_unrecorded(from) {
                self.infer(from);
            }
            self.charge_thread(RuleId::Running, Activity::Cpu, What::OwnWork, NONE, from);
        }
        Ok(())
    }

    /// To the thread that started this one. If that one already waits for it, this thread ran since the start of that wait.
    ///
    /// Only briefly: a thread with no earlier activity did not run for long. Beyond that, another running thread of its process started it.
    fn go_to_starter(&mut self) -> Answer<()> {
        let starter = self.starter();
        self.ensure(self.at)?;
        if let Some(wait) = self.innermost_of(starter)
            && wait.waker == self.track
            && wait.ending_seen()
            && rule(wait.kind) == Rule::Thread
        {
            if self.at - wait.start > limits::STARTED_LONG_NS
                && let Some(running) = self.running_sibling(self.track, starter)
            {
                self.jump(running);
                return Ok(());
            }
            self.charge_thread(RuleId::RunningStarted, Activity::Cpu, What::OwnWork, NONE, wait.start.max(self.feed.position));
            if self.at > wait.start {
                return Ok(());
            }
        }
        self.jump(starter);
        Ok(())
    }

    /// A thread of the process of `of`, other than that, this one and `waiting`, that was running or runnable at the walk's instant: of
    /// several, the one that last did something else.
    pub(super) fn running_sibling(&mut self, of: u32, waiting: u32) -> Option<u32> {
        let is_sibling = |&track: &u32| {
            let own_process = self.tables.actors[track as usize].thread && self.tables.process(track) == self.tables.process(of);
            own_process && ![of, self.track, waiting].contains(&track) && !self.is_outside_its_life(track)
        };
        let siblings: Vec<u32> = (0..self.tables.actors.len() as u32).filter(is_sibling).collect();
        let mut best = None;
        for track in siblings {
            self.settle(track);
            let lane = &self.feed.lanes[track as usize];
            let runs = lane.innermost().is_none_or(|s| s.kind == SpanKind::WaitRunqueue || s.cpu_ns > 0 && s.cpu_ns != ABSENT);
            let last = lane.previous().map(|p| p.end).filter(|_| runs && lane.passed.last_end > self.at);
            best = best.max(last.map(|end| (end, track)));
        }
        best.map(|(_, track)| track)
    }

    /// Whether a thread has done anything before the walk's instant.
    pub(super) fn has_begun(&mut self, track: u32) -> Answer<bool> {
        self.settle(track);
        if self.feed.lanes[track as usize].previous().is_none() && !self.cannot_look_further() {
            return self.more();
        }
        Ok(self.feed.lanes[track as usize].previous().is_some())
    }

    /// A server's thread that did nothing for long outside its traced requests waited for the next one, even if that was not recorded (the
    /// recording of its first request began with the request).
    fn unrecorded_wait(&self, from: i64) -> Option<LiveSpan> {
        if !self.lane().traits.traces_requests || self.at - from < limits::SERVED_LONG_NS || self.circling {
            return None;
        }
        self.awaits(from)
    }

    /// The connection that a thread was called on, if any.
    fn served(&self, track: u32) -> Option<u32> {
        let called = |parties: &[Vec<u32>; 2]| parties[End::Server as usize].contains(&track);
        self.feed.parties.iter().position(called).map(|connection| connection as u32)
    }

    /// The assumed wait of a server's thread until the walk's instant: for bytes over its connection.
    fn awaits(&self, from: i64) -> Option<LiveSpan> {
        let connection = self.served(self.track)?;
        Some(self.unseen_receive(from, self.at, connection, End::Server))
    }

    /// The wait of the walk's thread by running, or by queueing for a processor to run on.
    pub(super) fn waits_by_running(&self, innermost: Option<&LiveSpan>) -> Option<LiveSpan> {
        let quiet = self.facts.spins.as_ref()?.at(self.track, self.at)?;
        let runs = innermost.is_none_or(|span| span.kind == SpanKind::WaitRunqueue || span.is_fruitless() || span.kind == SpanKind::CpuRun);
        let connection = match quiet.of {
            Awaited::Answer(connection) => connection,
            Awaited::Device(..) | Awaited::Lock(_) | Awaited::Child(_) => NONE,
        };
        let receive = self.unseen_receive(quiet.start, quiet.end, connection, End::Client);
        let waiting = match quiet.of {
            Awaited::Answer(_) => LiveSpan { result: -EAGAIN, ..receive },
            Awaited::Device(device, writes) => {
                LiveSpan { device, kind: if writes { SpanKind::DiskWrite } else { SpanKind::DiskRead }, ..receive }
            }
            Awaited::Lock(waker) | Awaited::Child(waker) => LiveSpan { waker, kind: SpanKind::WaitLock, ..receive },
        };
        (runs && !self.circling).then_some(waiting)
    }

    /// When the walk's thread last received what it waits for by running; `i64::MIN` if it does not wait.
    pub(super) fn last_received_at(&self) -> i64 {
        self.facts.spins.as_ref().and_then(|spins| spins.had(self.track, self.at)).unwrap_or(i64::MIN)
    }

    /// An unrecorded receive.
    fn unseen_receive(&self, start: i64, end: i64, connection: u32, side: End) -> LiveSpan {
        LiveSpan {
            start,
            end,
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
            side,
            waker: NONE,
            device: NONE,
            result: 0,
            count: 1,
            kind: SpanKind::NetReceive,
            context: ABSENT_CONTEXT,
        }
    }

    /// The thread that this one was started for: the other end of its connection, or the thread that waited for it, or the command's own.
    /// If a thread that it made itself waited for it, that thread's client.
    pub(super) fn starter(&self) -> u32 {
        let made_by_it = |track: u32| self.facts.lives[track as usize].made().is_some_and(|(_, by)| by == self.track);
        let mut track = self.track;
        for _ in 0..limits::LONGEST_CHAIN {
            let caller = self.served(track).and_then(|connection| self.parties(connection, End::Client).first());
            let waiter = caller.or_else(|| self.memory.came_from.get(&track)).copied().filter(|&t| t != self.track);
            match waiter {
                Some(waiter) if made_by_it(waiter) => track = waiter,
                waiter => return waiter.unwrap_or(self.tables.main),
            }
        }
        self.tables.main
    }

    /// Handles a wait: its running end, its runnable middle, and its blocked part, which is followed.
    pub(super) fn wait(&mut self, span: &LiveSpan) -> Answer<()> {
        let (blocked_until, runnable_until) = wait_parts(span);
        let woken = self.woken_from(span, blocked_until)?.unwrap_or(blocked_until);
        let (blocked_until, runnable_until) = (blocked_until.max(woken), runnable_until.max(woken));
        let earliest = self.piece_start(span);
        if span.cpu_ns != 0 && (self.at > runnable_until || earliest > span.start) && self.has_parts(span)? {
            let earliest = self.piece_start(span);
            self.charge_thread(RuleId::RunningBetweenWaits, Activity::Cpu, What::Running(span.kind), span.object, earliest);
            return Ok(());
        }
        if self.at > runnable_until {
            self.charge_thread(RuleId::RunningAfterWait, Activity::Cpu, What::Running(span.kind), NONE, runnable_until.max(earliest));
            return Ok(());
        }
        if self.at > blocked_until {
            self.charge_thread(RuleId::RunnableInSpan, Activity::Runqueue, What::Runnable, NONE, blocked_until.max(earliest));
            return Ok(());
        }
        let mut span = *span;
        if span.connection != NONE && span.ending_seen() && self.is_walkable(span.waker) {
            self.note_carrier(span.waker, span.connection);
        }
        let passed = self.lane().passed;
        let datagram = self.is_addressed(span.object);
        if span.timed_out() && span.kind == SpanKind::WaitNetwork {
            let given_up =
                self.gave_up_connecting().filter(|&(connection, _)| matches!(span.connection, NONE) || span.connection == connection);
            if let Some((connection, side)) = given_up {
                return self.far_end_unknown(&Blocked { span: LiveSpan { connection, side, ..span }, for_room: false });
            }
        }
        if span.may_be_in_vain() && self.waited_for_acceptance(&span)? {
            return Ok(());
        }
        // A blocking receive that a timer ended had its own timeout: SO_RCVTIMEO.
        let may_have_limit = matches!(span.kind, SpanKind::WaitNetwork | SpanKind::NetReceive | SpanKind::WaitLock) && span.bytes() == 0;
        if span.timed_out() && may_have_limit && self.ended_by_its_limit(&span, &passed)? {
            return Ok(());
        }
        if span.may_be_in_vain() && self.stopped_another(&span)? || self.ended_with_its_child(&span) {
            return Ok(());
        }
        if span.may_be_in_vain() && !datagram {
            let Some(looked_for) = self.until_its_limit(&span, &passed)? else { return Ok(()) };
            span = looked_for;
        }
        if span.kind == SpanKind::WaitLock && span.ending_seen() && !span.timed_out() {
            let by_carrier = if self.is_walkable(span.waker) { self.was_carried(&span, &passed) } else { self.was_relayed(&span, &passed) };
            if let Some((connection, offset_bytes)) = by_carrier {
                span = LiveSpan { kind: SpanKind::WaitNetwork, offset_bytes, ..self.on_connection(span, connection) };
            }
        }
        // A packet that led only to the next wait was a datagram.
        let datagram = datagram || span.is_by_packet() && passed.receive.0 > passed.wait.0;
        if span.kind == SpanKind::WaitNetwork && span.connection == NONE && !datagram {
            // This wait polled for what the thread took next, or else for what ended its next wait.
            let took = passed.receive.0 <= passed.wait.0 || passed.wait.1 == NONE;
            span = self.on_connection(span, if took && passed.receive.1 != NONE { passed.receive.1 } else { passed.wait.1 });
            span.waker = if span.connection == NONE { passed.wait.2 } else { NONE };
        }
        if span.offset_bytes == ABSENT && span.ending_seen() && passed.receive.1 == span.connection && passed.receive.0 <= passed.wait.0 {
            // What it took next is what it had waited for.
            span.offset_bytes = passed.receive.2;
        }
        match rule(span.kind) {
            Rule::Thread => self.follow_waker(span),
            Rule::Send => self.follow_connection(Blocked { span, for_room: true }),
            _ if span.kind == SpanKind::WaitNetwork && span.connection == NONE => self.follow_waker(span),
            _ if span.kind == SpanKind::WaitNetwork && waited_for_room(&passed, span.connection) => {
                self.follow_connection(Blocked { span, for_room: true })
            }
            _ => self.follow_sender(span),
        }
    }

    /// For a wait ended by a process that only carries a connection from which bytes were taken next: that connection and offset. A known
    /// carrier of bytes also carries the acknowledgements that make room.
    fn was_carried(&mut self, span: &LiveSpan, passed: &NextActions) -> Option<(u32, u64)> {
        let took_first = passed.receive.0 <= passed.wait.0.min(passed.send.0);
        let carrier = self.tables.process(span.waker)?;
        let made_room = || passed.send.0 <= passed.wait.0 && self.memory.carriers.contains(&carrier);
        let next = next_connection(passed).filter(|_| span.object == NONE && (took_first || made_room()))?;
        if !self.carries(span.waker, next.0) {
            return None;
        }
        self.memory.carriers.insert(carrier);
        self.note_carrier(span.waker, next.0);
        Some(next)
    }

    /// Whether a waker's process takes no part in the connection whose bytes it brought: it only carries them (it writes to a TUN device,
    /// for example), and is part of the path.
    pub(super) fn carries(&self, waker: u32, connection: u32) -> bool {
        let process = |track: u32| self.tables.process(track);
        let Some(carrier) = process(waker).filter(|&(_, pid)| pid != 0 && process(self.track) != process(waker)) else { return false };
        let parties = self.feed.parties.get(connection as usize);
        parties.is_some_and(|parties| !parties.iter().flatten().any(|&party| process(party) == Some(carrier)))
    }

    /// Whether the waker answers in the far end's name: it takes no part in the connection, and took bytes during the wait over its own
    /// connection to the same address. (A user-space network terminates the connections within it, and makes its own.)
    pub(super) fn was_answered_for(&mut self, span: &LiveSpan) -> bool {
        let may_be = span.side == End::Client && span.ending_seen() && !span.timed_out() && !self.circling;
        if !may_be || !self.is_walkable(span.waker) || !self.carries(span.waker, span.connection) {
            return false;
        }
        self.settle(span.waker);
        let lane = &self.feed.lanes[span.waker as usize];
        let meanwhile = lane.open.iter().chain(lane.ahead.iter().take_while(|before| before.end >= span.start));
        let took = meanwhile.filter(|before| before.kind == SpanKind::NetReceive && before.bytes() > 0);
        took.map(|before| before.connection).any(|own| own != span.connection && self.tables.is_same_server(own, span.connection))
    }

    /// For a wait ended by an unknown program, after which bytes were taken or sent, here or by the thread woken next: that program had
    /// brought them, or room for them (a relay, a tunnel).
    fn was_relayed(&mut self, span: &LiveSpan, passed: &NextActions) -> Option<(u32, u64)> {
        let handed_on = self.memory.came_from.get(&self.track).map(|&t| self.feed.lanes[t as usize].passed);
        let next = next_connection(passed).or_else(|| next_connection(&handed_on?));
        // A server woken from outside was woken by a client: the next one that sent.
        let spoke = [Some(*passed), handed_on].into_iter().flatten().map(|p| p.receive).filter(|r| r.1 != NONE).min_by_key(|r| r.0);
        let next = next.or(spoke.filter(|_| self.end == End::Server).map(|r| (r.1, r.2)))?;
        self.infer(span.start);
        Some(next)
    }

    /// The earliest instant from `from` on at which the waker can have ended the wait: when one of its actions ended. A thread can queue
    /// for a processor before it blocks as well as after it is woken; only totals are known, and queueing before this instant lay at the
    /// wait's start.
    fn woken_from(&mut self, span: &LiveSpan, from: i64) -> Answer<Option<i64>> {
        let waker = span.waker;
        if rule(span.kind) == Rule::Receive && !span.ending_seen() && from < self.at {
            return self.sent_from(span, from);
        }
        if rule(span.kind) != Rule::Thread
            || waker == NONE
            || waker == self.track
            || from >= span.end
            || span.cpu_ns == 0 && !self.tables.wakers_inferred
        {
            return Ok(None);
        }
        self.ensure(from)?;
        self.settle(waker);
        let lane = &self.feed.lanes[waker as usize];
        let ended = lane.open.iter().chain(lane.ahead.iter().take_while(|s| s.end >= from));
        Ok(ended.filter(|s| s.is_activity() && s.end >= from && s.end <= span.end).map(|s| s.end).min())
    }

    /// The earliest instant for bytes sent by the same clock: they wake no thread before they are sent.
    fn sent_from(&mut self, span: &LiveSpan, from: i64) -> Answer<Option<i64>> {
        let machine = |track: u32| self.tables.actors.get(track as usize).map(|actor| actor.machine);
        let here = machine(self.track);
        let send = self.find_send(span)?.filter(|send| send.start > from && machine(send.track) == here);
        Ok(send.map(|send| if send.end < self.at { send.end } else { send.start + 1 }))
    }

    /// Whether the walk can go to a thread: it is recorded, or a kernel or recorder thread with any record.
    pub(super) fn is_walkable(&self, track: u32) -> bool {
        let Some(actor) = self.tables.actors.get(track as usize).filter(|a| a.thread && track != self.track) else { return false };
        match actor.role {
            Role::Client | Role::Server | Role::Recorder => true,
            Role::Kernel if self.is_before_its_life(track) => false,
            Role::Kernel => {
                let lane = &self.feed.lanes[track as usize];
                !lane.open.is_empty() || !lane.ahead.is_empty()
            }
            Role::None => false,
        }
    }

    /// Whether a thread's program is otherwise unrelated: it was reached, or named for recording, and works for itself.
    fn is_another_program(&self, track: u32) -> bool {
        let other = self.tables.actors.get(track as usize);
        other.is_some_and(|a| a.reached && a.end == End::Client && !a.mount && a.role == Role::Client && !self.actor().reached)
    }

    /// Whether an object is a socket without a connection through which another process can be asked. A nameless one of this machine is an
    /// end of a pair: a thread that waits at it until a timeout has asked nothing (a program that wakes itself through it, as event loops
    /// do, pauses).
    pub(super) fn is_addressed(&self, object: u32) -> bool {
        let object = self.tables.objects.get(object as usize);
        object.is_some_and(|object| object.kind == ObjectKind::Socket && !object.name.starts_with("unix:["))
    }

    /// Whether an object is a lock on a file.
    pub(super) fn is_file_lock(&self, object: u32) -> bool {
        self.tables.objects.get(object as usize).is_some_and(|object| object.kind == ObjectKind::Lock && object.name.starts_with("flock "))
    }

    /// Whether an object is a lock of programs, not of threads: a semaphore, or what a program calls a lock.
    fn is_semaphore(&self, object: u32) -> bool {
        let object = self.tables.objects.get(object as usize).filter(|object| object.kind == ObjectKind::Lock);
        object.is_some_and(|object| ["semaphore ", "lock of "].iter().any(|start| object.name.starts_with(start)))
    }

    /// Whether a waker was not recorded at the time: its activity until now is unknown.
    fn is_stranger(&self, waker: u32) -> bool {
        let user = |a: &crate::observe::tables::Actor| a.thread && matches!(a.role, Role::Client | Role::Server | Role::None);
        self.tables.actors.get(waker as usize).filter(|a| user(a)).is_some_and(|a| a.role == Role::None || self.is_before_its_life(waker))
    }

    /// Blocked on another thread: to the thread that ended the wait, at that instant. A wait ended by a timer was fruitless, and is
    /// attributed to the thread that ended the next wait.
    pub(super) fn follow_waker(&mut self, span: LiveSpan) -> Answer<()> {
        let (in_vain, waker) = (span.timed_out(), span.waker);
        let stranger = self.is_stranger(waker);
        if self.is_file_lock(span.object) && (stranger || self.is_another_program(waker)) {
            // Whatever its holder did, the lock is what was waited for.
            let (from, until) = (self.piece_start(&span), self.at);
            self.charge_thread(RuleId::LockFile, Activity::Lock, What::Blocked(span.kind), span.object, from);
            self.acts.push(Act::Holder(waker, until - self.at));
            return Ok(());
        }
        if stranger {
            self.charge_given(&span, waker);
            return Ok(());
        }
        if !self.is_walkable(waker) || self.circling {
            if span.ending_seen() && self.end == End::Server && self.circling && !self.jumps.is_multiple_of(8) {
                // Pool threads that only woke each other wait for those they serve.
                let starter = self.starter();
                if starter != self.track && starter != NONE {
                    self.jump(starter);
                    return Ok(());
                }
            }
            if waker == NONE && !span.ending_seen() && self.is_server_alone() {
                // No thread ended it during the recording: no client had work for it.
                let served = self.lane().passed.send.1;
                let connection = if served == NONE { self.last_served() } else { served };
                return self.far_end_unknown(&Blocked { span: self.on_connection(span, connection), for_room: false });
            }
            self.charge_without_waker(&span);
            return Ok(());
        }
        self.settle(waker);
        if self.wait_for_each_other(&span, waker) {
            return Ok(());
        }
        let woken_at = if in_vain || self.ended_about_now(waker) { self.at } else { self.last_act(waker, &span) };
        let woken_at = self.end_of_life(waker, span.start).map_or(woken_at, |ended| ended.min(woken_at));
        let lag = (self.at - woken_at) as u64;
        if lag >= limits::STILL_NS {
            self.charge_still(span.kind, woken_at);
        } else {
            if self.tables.wakers_inferred && lag >= limits::UNCOUNTED_QUEUE_NS {
                self.infer(woken_at);
            }
            self.charge_thread(RuleId::RunnableWoken, Activity::Runqueue, What::Runnable, NONE, woken_at);
        }
        // A mount waits for its users, none of which was started for it.
        if !self.actor().mount || self.tables.actors[waker as usize].mount {
            self.memory.came_from.insert(waker, self.track);
        }
        self.go(Edge::Woke(waker));
        self.acts.push(Act::Ended(span));
        Ok(())
    }

    /// For a wait ended by an unrecorded thread: the object of the wait is known. If it is a lock, a semaphore, or the other end of a FIFO
    /// to be opened, that is what was waited for, whatever its holder did.
    fn charge_given(&mut self, span: &LiveSpan, by: u32) {
        let from = self.piece_start(span);
        // A reader of a FIFO has a recorded process at its other end: it is open.
        let is_lock =
            self.is_fifo(span.object) || self.tables.objects.get(span.object as usize).is_some_and(|on| on.kind == ObjectKind::Lock);
        let place = Place::Given { label: self.labels.label(self.track), by, kind: span.kind, object: span.object };
        if is_lock || span.kind == SpanKind::FileOpen {
            self.charge_at_own(RuleId::LockGiven, Activity::Lock.at(self.end), place, self.within_life(from));
            return;
        }
        self.charge_at_own(RuleId::Unseen, self.unknown_of(by), place, from);
    }

    /// For a wait whose waker is unknown: the object of the wait decides, if known.
    fn charge_without_waker(&mut self, span: &LiveSpan) {
        let (what, in_vain, inferred) = (What::Blocked(span.kind), span.timed_out(), self.tables.wakers_inferred);
        let (for_bytes, for_thread) = (span.kind == SpanKind::WaitNetwork, rule(span.kind) == Rule::Thread);
        let own = |activity| Charge::Own(activity, what, span.object);
        let by_cause = |cause| Charge::As(cause, what, span.object);
        let (by, charge) = match self.tables.objects.get(span.object as usize).map(|object| object.kind) {
            _ if self.is_file_lock(span.object) || self.is_semaphore(span.object) => (RuleId::LockFileUnknown, own(Activity::Lock)),
            // A person types or changes a file, or does not.
            Some(ObjectKind::Terminal) => (RuleId::NoWakerTerminal, own(Activity::Think)),
            Some(_) if self.is_for_changes(span.object) => (RuleId::NoWakerTerminal, own(Activity::Think)),
            // A datagram was not answered, or answered by an unknown process.
            Some(ObjectKind::Socket) if !in_vain || self.is_addressed(span.object) => {
                (RuleId::NoWakerSocket, by_cause(Cause::ServerUnknown))
            }
            _ if for_bytes && span.is_by_packet() => (RuleId::NoWakerDatagram, by_cause(Cause::ServerUnknown)),
            Some(ObjectKind::Pipe) if span.waker == NONE && self.is_fifo(span.object) => (RuleId::NoWakerPipe, own(Activity::Lock)),
            Some(ObjectKind::Pipe | ObjectKind::Process) if !in_vain => (RuleId::NoWakerPipe, by_cause(Cause::Unknown)),
            // A lock, a queue of work, a child: the holder was not recorded, so what was waited for is unknown.
            _ if for_thread && span.waker == NONE && (self.tables.sampled || inferred) => {
                (RuleId::NoWakerInferred, by_cause(Cause::Unknown))
            }
            _ if for_bytes && inferred && !in_vain => (RuleId::NoWakerInferred, by_cause(Cause::Unknown)),
            // A wait for a lock, a child or a queue of work has an object.
            None if span.kind == SpanKind::WaitLock && span.waker == NONE && span.is_by_task() => {
                (RuleId::NoWaker, by_cause(Cause::Unknown))
            }
            _ => {
                let activity = match rule(span.kind) {
                    _ if in_vain || for_bytes => Activity::Think,
                    Rule::Work { blocked, .. } => blocked,
                    _ => Activity::Lock,
                };
                (RuleId::NoWaker, own(activity))
            }
        };
        if by == RuleId::NoWaker && self.circling {
            self.infer(self.piece_start(span));
        }
        self.charge_piece(by, charge, span);
    }

    /// Whether an object is a pipe with a path.
    fn is_fifo(&self, object: u32) -> bool {
        self.tables.objects.get(object as usize).is_some_and(|object| object.kind == ObjectKind::Pipe && object.name.starts_with('/'))
    }

    /// Whether an object is a queue of file changes (inotify).
    fn is_for_changes(&self, object: u32) -> bool {
        self.tables.objects.get(object as usize).is_some_and(|object| object.kind == ObjectKind::Lock && object.name == "inotify")
    }

    /// Whether this is a server's thread, and no client was recorded.
    fn is_server_alone(&self) -> bool {
        self.end == End::Server && !self.tables.actors.iter().any(|a| a.thread && a.role == Role::Client)
    }

    /// The connection over which the server last sent, as far as has been read.
    fn last_served(&self) -> u32 {
        let last = |t: &[Traffic; 2]| t[End::Server as usize].sends.front().map(|s| s.end);
        let served = self.feed.traffic.iter().enumerate().filter_map(|(c, t)| last(t).map(|end| (end, c as u32)));
        served.max().map_or(NONE, |(_, connection)| connection)
    }

    /// When `other` last acted during a wait: if at the walk's instant it is itself in a wait that began after ours, it acted for us before
    /// that.
    pub(super) fn last_act(&self, other: u32, wait: &LiveSpan) -> i64 {
        match self.feed.lanes[other as usize].innermost() {
            Some(i) if is_idle_wait(i) && i.start > wait.start && i.end > self.at => i.start.max(self.start),
            _ => self.at,
        }
    }
}

/// The connection a thread took bytes from (with the offset), or else sent to, before it blocked again.
fn next_connection(passed: &NextActions) -> Option<(u32, u64)> {
    let (receive, send) = (passed.receive, passed.send);
    match passed.wait.0 {
        until if receive.0 <= until && receive.1 != NONE => Some((receive.1, receive.2)),
        until if send.0 <= until && send.1 != NONE => Some((send.1, ABSENT)),
        _ => None,
    }
}

/// Whether a wait for a connection was for room: the thread sent before it blocked again, and took nothing.
pub(super) fn waited_for_room(passed: &NextActions, connection: u32) -> bool {
    let until = passed.wait.0;
    // (A receive that blocks is the next wait itself.)
    let took = passed.receive.1 == connection && passed.receive.0 < until;
    !took && passed.send.1 == connection && passed.send.0 <= until
}
