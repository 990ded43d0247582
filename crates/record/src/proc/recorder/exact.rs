//! Threads whose every switch is recorded: when they ran and waited is exact; what for, a look finds once in each wait.

use super::exact_thread::{ExactThread, Off, only};
use super::exact_threads::LOOK_AFTER_NS;
use super::sampler::{Sampler, Watch};
use crate::proc::blocking::Waiter;
use crate::proc::calls::Call;
use crate::proc::tasks::TaskFiles;
use crate::proc::waits::{Ender, Reason};
use crate::proc::wakers::{ActiveThread, Ends, ended_by};
use crate::switches::{Change, What};
use std::rc::Rc;
use thalweg_trace::{Event, Mark, MarkKind, ObjectId, Role, Span, SpanId, SpanKind, Time, Track, TrackId, TrackKind, WakerContext};

/// Waits shorter than this are recorded together with their neighbours of the same reason ...
const SHORT_NS: u64 = 200_000;
/// ... in pieces of at most this length.
const PIECE_NS: u64 = 10_000_000;

/// Minimum time in the run queue that is recorded by itself.
const WORTH_RECORDING_NS: u64 = 20_000;

/// Minimum wait whose waker is searched for, where threads are many.
const WORTH_SEARCHING_NS: u64 = 20_000;
const MANY_THREADS: usize = 64;

/// How long a thread that has ended is remembered as one that may have woken others.
const KEPT_NS: i64 = 1_000_000_000;

impl Sampler {
    /// Begins to follow the switches of a thread that exists; false if that is not possible.
    pub(super) fn follow(&mut self, (pid, tid): (u32, u32), track: TrackId, name: &str, files: &TaskFiles, ends: &Rc<Ends>) -> bool {
        let Some(exact) = &mut self.exact else { return false };
        if tid != exact.switches.first() && !exact.switches.add(tid) {
            return false;
        }
        let runs = files.state().is_some_and(|state| state.letter == 'R');
        let mut thread = ExactThread::new(pid, track, name.to_owned(), Rc::clone(ends), Time::now(), false);
        if runs {
            thread.came_in(Time::now());
        }
        exact.threads.insert(tid, thread);
        true
    }

    /// Takes what has changed since the last time.
    pub(super) fn take_changes(&mut self, all: bool) {
        let Some(exact) = &mut self.exact else { return };
        let changes = exact.switches.take(all);
        let lost = exact.switches.lost();
        if lost > 0 {
            self.lost(lost);
        }
        for change in changes {
            self.change(change);
        }
    }

    /// Marks a loss of records, and forgets what threads were doing.
    fn lost(&mut self, many: u64) {
        let Some(exact) = &mut self.exact else { return };
        exact.threads.values_mut().for_each(ExactThread::lost);
        let Some(track) = exact.threads.values().next().map(|thread| thread.track) else { return };
        let (at, value) = (Time::now(), i64::try_from(many).ok());
        self.batch.push(Event::Mark(Mark { track, kind: MarkKind::Lost, at, object: None, value }));
    }

    fn change(&mut self, change: Change) {
        let Change { pid, tid, at, what } = change;
        match what {
            What::Began { parent, by } => self.began((pid, tid), at, (parent, by)),
            What::Named { name, exec } => self.named((pid, tid), at, name, exec),
            what => {
                let Some(exact) = &mut self.exact else { return };
                let Some(thread) = exact.threads.get_mut(&tid) else { return };
                match what {
                    What::In => thread.came_in(at),
                    What::Out { preempted } => thread.went_out(at, preempted),
                    _ => self.thread_ended(tid, at),
                }
            }
        }
    }

    fn began(&mut self, (pid, tid): (u32, u32), at: Time, (parent, by): (u32, u32)) {
        let Some(exact) = &mut self.exact else { return };
        let Some(track) = TrackId::new(self.trace.fresh()) else { return };
        let maker = exact.threads.get(&by).map(|maker| (maker.track, maker.name.clone()));
        let whole = if tid == pid { maker.as_ref().map(|(_, name)| name.clone()) } else { None };
        let of_process = || exact.threads.get(&pid).map(|main| main.name.clone());
        let name = whole.or_else(of_process).or_else(|| maker.as_ref().map(|(_, name)| name.clone())).unwrap_or_default();
        let ends = match exact.threads.get(&pid) {
            Some(main) if tid != pid => Rc::clone(&main.ends),
            _ => Rc::new(Ends { parent, ..Ends::default() }),
        };
        let role = self.watched.get(&parent).map_or(Role::Client, |watch| watch.role);
        let thread = ExactThread::new(pid, track, name, ends, at, true);
        self.name_track(tid, &thread, role);
        let value = maker.and_then(|(track, _)| i64::try_from(track.number()).ok());
        self.batch.push(Event::Mark(Mark { track, kind: MarkKind::ThreadStart, at, object: None, value }));
        if let Some(exact) = &mut self.exact {
            exact.threads.insert(tid, thread);
        }
        if tid == pid {
            let ours = self.watched.get(&parent).is_none_or(|watch| watch.ours);
            self.adopt(pid, role, ours);
        } else if let Some(mut watch) = self.watched.remove(&pid) {
            self.find_threads(pid, &mut watch, at, false);
            self.watched.insert(pid, watch);
        }
    }

    fn named(&mut self, (pid, tid): (u32, u32), at: Time, name: String, exec: bool) {
        let role = self.watched.get(&pid).map_or(Role::Client, |watch| watch.role);
        let called = self.names.get(&pid).cloned();
        let Some(exact) = &mut self.exact else { return };
        let whole = exact.threads.get(&pid).map(|main| main.name.clone()).unwrap_or_default();
        let Some(mut thread) = exact.threads.remove(&tid) else { return };
        thread.executed = exec.then_some(at).or(thread.executed);
        thread.name = match called {
            Some(called) if tid == pid => called,
            _ if tid == pid => name,
            _ => format!("{whole}/{name}"),
        };
        self.name_track(tid, &thread, role);
        if let Some(exact) = &mut self.exact {
            exact.threads.insert(tid, thread);
        }
        if exec {
            // Its files and mappings are other ones.
            self.slow_at = Time::from_monotonic_ns(0);
        }
    }

    /// Emits the row of a thread, for other recorders too.
    fn name_track(&mut self, tid: u32, thread: &ExactThread, role: Role) {
        if let Some(tracks) = &self.tracks {
            tracks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(tid, thread.track);
        }
        let (pid, tid, name, track) = (Some(thread.pid), Some(tid), thread.name.clone(), thread.track);
        self.batch.push(Event::Track(Track { track, host: self.host, kind: TrackKind::Thread, role, pid, tid, name }));
    }

    fn thread_ended(&mut self, tid: u32, at: Time) {
        let Some(exact) = &mut self.exact else { return };
        let Some(mut thread) = exact.threads.remove(&tid) else { return };
        thread.ended(at);
        let (pid, track) = (thread.pid, thread.track);
        match tid == pid && self.library.is_some() {
            // How its process ended, its parent is told soon.
            true => exact.exits.push((track, pid, at)),
            false => self.batch.push(Event::Mark(Mark { track, kind: MarkKind::ThreadExit, at, object: None, value: None })),
        }
        exact.gone.push((tid, thread));
        if tid == pid {
            if let Some(watch) = self.watched.remove(&pid) {
                self.close(pid, watch);
            }
        } else if let Some(watch) = self.watched.get_mut(&pid) {
            watch.threads.remove(&tid);
        }
    }

    /// Looks at what a thread waits for, if it has been waiting for long and nobody has looked yet.
    pub(super) fn look(&mut self, pid: u32, tid: u32, watch: &mut Watch) {
        let Some(thread) = self.exact.as_ref().and_then(|exact| exact.threads.get(&tid)) else { return };
        let from = Time::now();
        if !thread.is_to_be_looked_at(from, LOOK_AFTER_NS) {
            return;
        }
        let Some(seen) = watch.threads.get_mut(&tid) else { return };
        let disk_faults = seen.files.state().map_or(0, |state| state.disk_faults);
        let faulted = disk_faults > std::mem::replace(&mut seen.disk_faults, disk_faults);
        // (Threads and children come and go more often than they are searched for.)
        let alone = watch.alone && self.exact.as_ref().is_some_and(|exact| exact.is_alone(pid));
        let waiter = Waiter { pid, ends: &watch.ends, alone, faulted, often: false };
        let reason = self.targets.reason(&waiter, &seen.files);
        self.targets.slept_ns = None;
        let Some(reason) = reason else { return };
        if self.is_to_be_found(reason.ender, &watch.ends) {
            self.slow_at = Time::from_monotonic_ns(0);
        }
        if let Some(thread) = self.exact.as_mut().and_then(|exact| exact.threads.get_mut(&tid)) {
            thread.looked(from, Time::now(), reason);
        }
    }

    /// Enders of present waits, so that the other sides can be found.
    pub(super) fn present_enders(&self) -> Vec<Ender> {
        let threads = self.exact.iter().flat_map(|exact| exact.threads.values());
        threads.filter_map(|thread| thread.present_reason()).map(|(reason, _)| reason.ender).collect()
    }

    /// Records what has ended: waits, and the calls that contain them. `last`: there is nothing to wait for any more.
    pub(super) fn record_waits(&mut self, last: bool) {
        let Some(exact) = &mut self.exact else { return };
        exact.record_exits(last, &mut self.batch);
        let settled = if last { Time::from_monotonic_ns(i64::MAX) } else { exact.switches.settled() };
        let mut all = Vec::new();
        let gone = exact.gone.iter_mut().map(|(tid, thread)| (*tid, thread));
        for (tid, thread) in exact.threads.iter_mut().map(|(tid, thread)| (*tid, thread)).chain(gone) {
            let until = if last { settled } else { settled.min(exact.calls.complete_until(thread.track)) };
            let calls = exact.calls.take(thread.track, until);
            if calls.is_empty() && thread.ended_waits.first().is_none_or(|wait| wait.to > until) {
                continue;
            }
            let files = self.watched.get(&thread.pid).and_then(|watch| watch.threads.get(&tid));
            let queued_ns = files.and_then(|thread| thread.files.scheduling()).map(|sums| sums.runqueue_ns);
            let mut waits = thread.take_waits(until, queued_ns);
            let unexplained = waits.iter().any(|wait| is_unexplained(wait, &calls));
            let faults = files.filter(|_| unexplained).and_then(|thread| thread.files.state()).map(|state| state.disk_faults);
            if let Some(faults) = faults.and_then(|faults| thread.faulted(faults)) {
                by_faults(&mut waits, &calls, faults, self.targets.fault(thread.pid));
            }
            all.push(((thread.pid, tid, thread.track), calls, waits));
        }
        for (who, calls, waits) in all {
            self.emit_calls(who, calls, waits);
        }
        let Some(exact) = &mut self.exact else { return };
        let long_ago = Time::now().plus_ns(-KEPT_NS);
        exact.gone.retain(|(_, thread)| !thread.ended_waits.is_empty() || thread.gone.is_some_and(|at| at > long_ago));
    }

    /// Records the waits of a thread, divided among the calls that they lie in.
    fn emit_calls(&mut self, who: (u32, u32, TrackId), calls: Vec<Call>, waits: Vec<Off>) {
        let all: Vec<(Time, Time)> = waits.iter().map(|wait| (wait.from, wait.to)).collect();
        let mut waits = waits.into_iter().peekable();
        let middle = |wait: &Off| wait.from.plus_ns((wait.to.since(wait.from) / 2).cast_signed());
        for call in calls {
            if call.merged {
                self.emit_merged(call.span, &all);
                continue;
            }
            let mut before = Vec::new();
            while let Some(wait) = waits.next_if(|wait| middle(wait) < call.span.start) {
                before.push(wait);
            }
            self.emit_waits(who, &before, None);
            let mut inside = Vec::new();
            while let Some(wait) = waits.next_if(|wait| middle(wait) <= call.span.end()) {
                inside.push(wait);
            }
            match inside.is_empty() {
                true => self.batch.push(Event::Span(call.span)),
                false => self.emit_waits(who, &inside, Some(&call)),
            }
        }
        let rest: Vec<Off> = waits.collect();
        self.emit_waits(who, &rest, None);
    }

    /// Records calls that did not wait: where exactly they lie is not known, but not in a wait.
    fn emit_merged(&mut self, calls: Span, waits: &[(Time, Time)]) {
        let (mut from, mut best) = (calls.start, (calls.end(), 0));
        let end = calls.end();
        for (began, ended) in waits.iter().copied().filter(|(began, ended)| *ended > calls.start && *began < end).chain([(end, end)]) {
            let ran_ns = began.max(from).since(from);
            if ran_ns > best.1 {
                best = (from, ran_ns);
            }
            from = from.max(ended);
        }
        let (start, duration_ns) = best;
        let cpu_ns = calls.cpu_ns.map(|ns| ns.min(duration_ns));
        self.batch.push(Event::Span(Span { start, duration_ns, cpu_ns, ..calls }));
    }

    /// Records waits, outside of any call or inside `call`; between them, the thread ran in the call.
    fn emit_waits(&mut self, who: (u32, u32, TrackId), waits: &[Off], of: Option<&Call>) {
        let call = of.map(|call| &call.span);
        let mut ran_from = call.map(|call| call.start);
        let mut piece: Option<Piece> = None;
        for wait in waits {
            let part = self.part(who, wait, of);
            piece = match piece.take() {
                Some(before) if before.goes_on_in(&part) => Some(before.with(&part)),
                before => {
                    if let Some(before) = before {
                        self.emit_piece(who, before);
                        ran_from = ran_from.map(|_| before.to);
                    }
                    self.emit_ran(call, ran_from, part.from);
                    Some(part)
                }
            };
        }
        if let Some(piece) = piece {
            self.emit_piece(who, piece);
            ran_from = ran_from.map(|_| piece.to);
        }
        if let Some((call, from)) = call.zip(ran_from).filter(|(call, _)| is_work(call.kind)) {
            let (start, end) = (from.min(call.end()), call.end());
            let ran_ns = end.since(start);
            self.batch.push(Event::Span(Span { start, duration_ns: ran_ns, cpu_ns: Some(ran_ns), runqueue_ns: Some(0), ..*call }));
        }
    }

    /// Returns a wait as a piece. Inside a call the library knows what a wait was for, but which of a call's files
    /// only a look tells.
    fn part(&self, who: (u32, u32, TrackId), wait: &Off, of: Option<&Call>) -> Piece {
        let call = of.map(|call| &call.span);
        let child = self
            .exact
            .as_ref()
            .filter(|_| !wait.preempted && call.is_none_or(|call| call.kind == SpanKind::WaitLock))
            .and_then(|exact| exact.child(who.0, wait));
        // A timer, or the caller's own timeout.
        let by_time = call.is_some_and(|call| call.waker_context == Some(WakerContext::Timer));
        let ended_by = child.map(|(track, _)| track).or_else(|| if by_time { None } else { self.ended_exactly(who, wait) });
        let of_call = call.map(|call| Reason {
            kind: call.kind,
            object: call.object,
            context: call.waker_context,
            result: call.result.filter(|result| *result < 0),
            ender: Ender::Unknown,
        });
        let on_files = call.is_none_or(|call| matches!(call.kind, SpanKind::FileRead | SpanKind::FileWrite | SpanKind::FileOther));
        let of_both = of.is_some_and(|call| call.of_both);
        // An object that no longer existed when the library's record was read.
        let seen = wait.reason.and_then(|seen| seen.object).filter(|_| of_call.is_some_and(|reason| reason.object.is_none()));
        let of_call = of_call.map(|reason| Reason { object: reason.object.or(seen), ..reason });
        // A call on objects of its own process that a timeout ended was a sleep; an open may wait for the other end of a FIFO.
        let better = wait.reason.filter(|seen| match (seen.kind, of_call) {
            (SpanKind::WaitTimer, Some(call)) => {
                call.context == Some(WakerContext::Timer) && !call.object.is_some_and(|object| self.targets.objects.is_connection(object))
            }
            (SpanKind::WaitLock, Some(call)) => call.kind == SpanKind::FileOpen,
            _ => false,
        });
        let reason = if on_files || of_both { wait.reason.or(of_call.filter(|_| !of_both)) } else { better.or(of_call) };
        let reason = reason.or(child.map(|_| Reason::of(SpanKind::WaitLock)));
        let (reason, ended_by) = match reason.and_then(|reason| reason.object) {
            // A program that serves a file system waits for its next request.
            Some(object) if self.targets.objects.is_fuse_device(object) => {
                (Some(Reason { object: Some(object), ..Reason::of(SpanKind::WaitLock) }), self.asked_by(who, wait))
            }
            Some(object) => (reason, ended_by.or_else(|| self.served(who.1, object, wait))),
            None => (reason, ended_by),
        };
        let answered = reason.and_then(|reason| self.answered(who.1, reason.object?, wait)).filter(|_| ended_by.is_none());
        let reason = reason.map(|reason| Reason { context: answered.map(|_| WakerContext::Task).or(reason.context), ..reason });
        let ended_by = ended_by.or(answered);
        Piece {
            from: wait.from,
            to: wait.to,
            many: 1,
            waited_ns: wait.to.since(wait.from),
            queued_ns: child.map_or(wait.queued_ns, |(_, at)| wait.to.since(at).min(wait.most_queued_ns)),
            preempted: wait.preempted,
            reason,
            waker: call.and_then(|call| call.waker_track).or(ended_by),
        }
    }

    /// Returns the thread that served a wait for a file on a FUSE mount: the only one of the mount's process that ran
    /// when the wait ended.
    fn served(&self, tid: u32, file: ObjectId, wait: &Off) -> Option<TrackId> {
        let exact = self.exact.as_ref().filter(|_| !wait.preempted)?;
        let server = (*self.fuse_servers.get(&self.targets.objects.served(file)?)?)?;
        let since = wait.woken_since(wait.queued_ns);
        only(exact.others(tid).filter(|(_, thread)| thread.pid == server && thread.ran_between(since, wait.to)))
            .map(|(_, thread)| thread.track)
    }

    /// Returns the thread that ended a wait on a connection: the only one that ran then of the processes that listen at
    /// the address that the connection was made to.
    fn answered(&self, tid: u32, connection: ObjectId, wait: &Off) -> Option<TrackId> {
        let exact = self.exact.as_ref().filter(|_| !wait.preempted)?;
        let listening = self.called.get(&self.targets.objects.callee(connection)?)?;
        let since = wait.woken_since(wait.queued_ns);
        only(exact.others(tid).filter(|(_, thread)| listening.contains(&thread.pid) && thread.ran_between(since, wait.to)))
            .map(|(_, thread)| thread.track)
    }

    /// Returns the thread whose call a program that serves a file system waited for: the only one of another process that ran when the
    /// wait ended.
    fn asked_by(&self, (pid, tid, _): (u32, u32, TrackId), wait: &Off) -> Option<TrackId> {
        let exact = self.exact.as_ref().filter(|_| !wait.preempted)?;
        let since = wait.woken_since(wait.queued_ns);
        only(exact.others(tid).filter(|(_, thread)| thread.pid != pid && thread.ran_between(since, wait.to)))
            .map(|(_, thread)| thread.track)
    }

    /// Records that a thread ran in a call.
    fn emit_ran(&mut self, call: Option<&Span>, from: Option<Time>, to: Time) {
        let Some((call, from)) = call.zip(from).filter(|(call, from)| is_work(call.kind) && to > *from) else { return };
        let Some(id) = SpanId::new(self.trace.fresh()) else { return };
        let ran_ns = to.since(from);
        let span = Span::bare(id, call.track, call.kind, from, ran_ns);
        self.batch.push(Event::Span(Span { object: call.object, cpu_ns: Some(ran_ns), runqueue_ns: Some(0), ..span }));
    }

    /// Returns who ended a wait: one who could, and ran when it ended.
    fn ended_exactly(&self, (pid, tid, _): (u32, u32, TrackId), wait: &Off) -> Option<TrackId> {
        let exact = self.exact.as_ref()?;
        let reason = wait.reason.filter(|reason| reason.ender != Ender::Unknown)?;
        if wait.to.since(wait.from) < WORTH_SEARCHING_NS && exact.threads.len() > MANY_THREADS {
            return None;
        }
        let since = wait.woken_since(wait.queued_ns);
        let ran = exact.others(tid).filter(|(_, thread)| thread.ran_between(since, wait.to)).map(|(other, thread)| ActiveThread {
            pid: thread.pid,
            tid: *other,
            track: thread.track,
            gone: thread.gone.is_some_and(|at| at >= wait.from && at <= wait.to),
            waited_for_sibling: false,
            ends: Rc::clone(&thread.ends),
        });
        let candidates: Vec<ActiveThread> = ran.collect();
        let ended = ended_by(reason.ender, pid, tid, &candidates).or_else(|| ended_by(reason.ender, pid, tid, &self.acted_before));
        ended.or_else(|| {
            // Of several threads of the process, the one that was awake woke the others too.
            let is_awake = |other: u32| exact.thread(other).is_some_and(|thread| thread.was_awake_between(since, wait.to));
            let awake: Vec<ActiveThread> =
                candidates.into_iter().filter(|other| other.pid != pid || other.tid == tid || is_awake(other.tid)).collect();
            ended_by(reason.ender, pid, tid, &awake)
        })
    }

    fn emit_piece(&mut self, (pid, _, track): (u32, u32, TrackId), piece: Piece) {
        let length_ns = piece.to.since(piece.from);
        if piece.preempted {
            return self.emit_queued(pid, track, (piece.from, length_ns));
        }
        let apart = piece.many == 1 && piece.queued_ns >= WORTH_RECORDING_NS;
        let blocked_ns = if apart { length_ns - piece.queued_ns } else { length_ns };
        let reason = piece.reason.unwrap_or(Reason::of(SpanKind::WaitOther));
        if let Some(id) = SpanId::new(self.trace.fresh()).filter(|_| blocked_ns > 0) {
            let came = reason.object.filter(|_| reason.ender == Ender::Connection).map(|_| WakerContext::Softirq);
            let context = reason.context.or(came).or(piece.waker.map(|_| WakerContext::Task));
            self.batch.push(Event::Span(Span {
                count: piece.many,
                object: reason.object,
                result: reason.result,
                waker_track: piece.waker,
                waker_context: context,
                cpu_ns: Some(length_ns - piece.waited_ns),
                runqueue_ns: Some(if apart { 0 } else { piece.queued_ns }),
                ..Span::bare(id, track, reason.kind, piece.from, blocked_ns)
            }));
        }
        if apart {
            self.emit_queued(pid, track, (piece.from.plus_ns(blocked_ns as i64), piece.queued_ns));
        }
    }

    /// Records a time in the run queue; the part that a quota took, first.
    fn emit_queued(&mut self, pid: u32, track: TrackId, (from, queued_ns): (Time, u64)) {
        let quota = self.quotas.took(pid, track, from, queued_ns);
        let (group, took_ns) = quota.map_or((None, 0), |(group, ns)| (Some(group), ns));
        for (object, at, ns) in [(group, from, took_ns), (None, from.plus_ns(took_ns as i64), queued_ns - took_ns)] {
            let Some(id) = SpanId::new(self.trace.fresh()).filter(|_| ns > 0) else { continue };
            let span = Span::bare(id, track, SpanKind::WaitRunqueue, at, ns);
            self.batch.push(Event::Span(Span { object, cpu_ns: Some(0), runqueue_ns: Some(ns), ..span }));
        }
    }

    /// Ends the waits that go on at the end of the recording.
    pub(super) fn end_exactly(&mut self, now: Time) {
        self.take_changes(true);
        let Some(exact) = &mut self.exact else { return };
        for thread in exact.threads.values_mut() {
            thread.came_in(now);
        }
        self.record_waits(true);
    }
}

/// Whether nothing explains a wait: no look, and no call that contains it.
fn is_unexplained(wait: &Off, calls: &[Call]) -> bool {
    let middle = wait.from.plus_ns((wait.to.since(wait.from) / 2).cast_signed());
    let mut around = calls.iter().filter(|call| !call.merged && call.span.start <= middle && call.span.end() >= middle);
    !wait.preempted && !wait.doubted && wait.reason.is_none() && around.next().is_none()
}

/// Takes waits that nothing explains for page faults that read a disk, if the thread had about as many of these.
fn by_faults(waits: &mut [Off], calls: &[Call], faults: u64, reason: Reason) {
    let unexplained: Vec<&mut Off> = waits.iter_mut().filter(|wait| is_unexplained(wait, calls)).collect();
    if faults >= unexplained.len() as u64 * 9 / 10 && faults > 0 {
        unexplained.into_iter().for_each(|wait| wait.reason = Some(reason));
    }
}

/// Waits of one thread that are recorded together.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: Time,
    to: Time,
    many: u32,
    waited_ns: u64,
    queued_ns: u64,
    preempted: bool,
    reason: Option<Reason>,
    waker: Option<TrackId>,
}

impl Piece {
    /// Whether the next wait belongs to it: both are short, and for the same.
    fn goes_on_in(&self, next: &Piece) -> bool {
        let short = self.waited_ns / u64::from(self.many) < SHORT_NS && next.waited_ns < SHORT_NS;
        let near = next.from.since(self.to) < SHORT_NS && next.to.since(self.from) <= PIECE_NS;
        let same = self.reason == next.reason && self.waker == next.waker;
        short && near && same && !self.preempted && !next.preempted
    }

    fn with(self, next: &Piece) -> Piece {
        let (waited_ns, queued_ns) = (self.waited_ns + next.waited_ns, self.queued_ns + next.queued_ns);
        Piece { to: next.to, many: self.many + 1, waited_ns, queued_ns, ..self }
    }
}

/// Whether a thread that runs in a call of this kind does the call's work: a wait is nothing but waiting.
fn is_work(kind: SpanKind) -> bool {
    use SpanKind::{FileClose, FileList, FileOpen, FileOther, FileRead, FileStat, FileSync, FileWrite, NetConnect, NetReceive, NetSend};
    let on_files = matches!(kind, FileOpen | FileRead | FileWrite | FileSync | FileStat | FileList | FileClose | FileOther);
    on_files || matches!(kind, NetConnect | NetSend | NetReceive)
}
