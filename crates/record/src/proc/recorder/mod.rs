//! Watches threads by sampling them every few milliseconds.
//!
//! The goal is what each thread waited for, how long, and who ended it. A sample shows only the current moment; but
//! the kernel counts exactly how long a thread ran and was runnable, so the rest was waiting
//! ([`divide`](super::divide)). What a thread is blocked in follows from its call and that call's descriptor, futex
//! or child ([`blocking`](super::blocking)). The waker is known if only one thread can have ended the wait
//! ([`wakers`](super::wakers)); so processes with the other end of a pipe or local socket, or holding the lock, are
//! sampled too, as far as permitted.
//!
//! Sampling must not become a cause itself: the pause is stretched so that sampling takes at most 2 % of one CPU.

mod connections;
mod discovery;
mod emit;
mod exact;
mod exact_thread;
mod exact_threads;
mod other_ends;
mod sampler;

use super::blocking::{WaitTargets, Waiter};
use super::calls::Calls;
use super::divide::{ThreadSample, Window};
use super::files::Objects;
use super::kernel::InKernel;
use super::moved::{self, MovedBytes};
use super::processes;
use super::quotas::Quotas;
use super::strangers::{Strangers, Tracks};
use super::system::System;
use super::tasks::TaskFiles;
use super::waits::{Ender, Reason};
use super::wakers::{ActiveThread, Ends};
use crate::groups::Groups;
use crate::switches::Switches;
use crate::worker::{Stop, Worker, thread_cpu};
use crate::{Finished, RecordError, Recorder, Watched};
use exact_threads::Exact;
pub(crate) use sampler::Sampler;
use sampler::{LONGEST_PAUSE, Thread, Watch};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use thalweg_base::proc::stat::Stat;
use thalweg_trace::{Event, Mark, MarkKind, Role, SpanKind, Time, TraceHandle, Track, TrackId, TrackKind};

/// Sampling may take one in this many parts of a CPU.
const COST_PART: u32 = 50;

/// The normal pause between two samples of threads.
const PAUSE: Duration = Duration::from_millis(2);

/// How often new processes and threads are searched for, and the machine is polled.
const SLOW_PART: Duration = Duration::from_millis(50);

/// Time that a program may take to load the library.
const LOADING_NS: u64 = 100_000_000;

/// Within this time the kernel has told of a new process, if its parent was followed when it began.
const ANNOUNCED_NS: u64 = 20_000_000;

/// How often bytes and connections are counted, where switches are recorded.
const COUNTED_PART: Duration = Duration::from_millis(10);

/// Maximum interval recorded in one piece for a thread that is running at every sample.
const LONGEST_WINDOW_NS: u64 = 100_000_000;

/// Immediate resamplings of a thread that went to sleep and appears to run.
const MORE_LOOKS: u32 = 3;

/// The recorder `proc`.
#[derive(Debug, Default)]
pub(crate) struct ProcRecorder {
    beside: bool,
    strangers: Option<Strangers>,
    running: Option<Worker>,
}

impl ProcRecorder {
    /// Creates the recorder.
    pub(crate) fn new() -> ProcRecorder {
        ProcRecorder::default()
    }

    /// Creates the recorder for processes besides those another recorder sees; the other one polls the machine.
    pub(crate) fn beside() -> ProcRecorder {
        ProcRecorder { beside: true, strangers: None, running: None }
    }

    /// Creates the recorder for those of the command's processes that another recorder cannot see.
    pub(crate) fn of_strangers(strangers: Strangers) -> ProcRecorder {
        ProcRecorder { beside: true, strangers: Some(strangers), running: None }
    }
}

impl Recorder for ProcRecorder {
    fn name(&self) -> &'static str {
        "proc"
    }

    fn begin(&mut self, watched: Watched) -> Result<(), RecordError> {
        let (beside, strangers) = (self.beside, self.strangers.take());
        // Existing processes must be seen before the command is released.
        let (seen, is_seen) = std::sync::mpsc::channel();
        let pause = watched.drain.clamp(Duration::from_millis(1), PAUSE);
        self.running = Some(Worker::start("look", move |stop| {
            let mut sampler = Sampler::new(&watched, beside, strangers);
            sampler.sample(true);
            let _ = seen.send(());
            sampler.work(stop, pause)
        })?);
        // It ends without a message only if its thread did, which `finish` reports.
        let _ = is_seen.recv();
        Ok(())
    }

    fn finish(&mut self) -> Result<Finished, RecordError> {
        Worker::finish_any(&mut self.running)
    }
}

impl Drop for ProcRecorder {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Sampler {
    /// Creates the sampler for threads whose switches are recorded. `tracks` gets the tracks; `library` is the one that
    /// records calls, if any, and `calls` are these.
    pub(crate) fn of_switches(
        watched: &Watched,
        switches: Switches,
        tracks: Tracks,
        (library, calls): (Option<PathBuf>, Calls),
    ) -> Sampler {
        let mut sampler = Sampler::empty(watched, false, None);
        sampler.exact = Some(Exact::new(switches, calls));
        sampler.library = library.map(|library| Strangers::without(library, Tracks::clone(&tracks)));
        sampler.tracks = Some(tracks);
        sampler.adopt_first(watched);
        sampler
    }

    fn new(watched: &Watched, beside: bool, strangers: Option<Strangers>) -> Sampler {
        let mut sampler = Sampler::empty(watched, beside, strangers);
        sampler.adopt_first(watched);
        sampler
    }

    fn empty(watched: &Watched, beside: bool, strangers: Option<Strangers>) -> Sampler {
        let trace = TraceHandle::on(Arc::clone(&watched.sink), watched.host, Role::Client, watched.space);
        let now = Time::now();
        Sampler {
            targets: WaitTargets::new(Objects::new(trace.clone(), watched.host)),
            system: (!beside).then(|| System::new(trace.clone(), watched.host)),
            quotas: Quotas::default(),
            groups: Groups::default(),
            strangers,
            exact: None,
            library: None,
            tracks: None,
            counted_at: now,
            came: BTreeMap::new(),
            asked_at: now,
            host: watched.host,
            sink: Arc::clone(&watched.sink),
            moved: BTreeMap::new(),
            asked: sampler::Asked::default(),
            inherited: moved::inherited(),
            ended_moved: (0, 0),
            unfinished: Vec::new(),
            watched: BTreeMap::new(),
            sought: BTreeSet::new(),
            called: BTreeMap::new(),
            fuse_servers: BTreeMap::new(),
            zombies: BTreeMap::new(),
            acted: Vec::new(),
            acted_before: Vec::new(),
            ended: Vec::new(),
            slow_at: Time::from_monotonic_ns(0),
            slow_before: now,
            sampled_at: now,
            samples: 0,
            sampled_somebody: false,
            first: now,
            batch: Vec::new(),
            hidden: BTreeSet::new(),
            command: watched.command.map(|command| command.pid),
            follows: watched.follow,
            names: watched.names.clone(),
            trace,
        }
    }

    fn adopt_first(&mut self, watched: &Watched) {
        let now = Time::now();
        let command = watched.command.iter().filter(|_| self.strangers.is_none()).map(|command| (command, true));
        let all: Vec<_> = command.chain(watched.others.iter().map(|other| (other, false))).map(|(p, ours)| (p.pid, p.role, ours)).collect();
        for (pid, role, ours) in all {
            self.adopt(pid, role, ours);
        }
        self.find_first_threads(now);
        self.targets.read_connections();
        // What existing connections carried earlier is not recorded.
        let sockets = self.targets.sockets.iter();
        self.moved = sockets.filter_map(|(inode, socket)| Some((*inode, MovedBytes::of(socket)?))).collect();
    }

    /// Records existing threads first, and immediately: examining all connections, processes and devices of a busy
    /// machine takes long, and a recording that is killed meanwhile then has the threads.
    fn find_first_threads(&mut self, now: Time) {
        for pid in self.watched.keys().copied().collect::<Vec<_>>() {
            let Some(mut watch) = self.watched.remove(&pid) else { continue };
            self.find_threads(pid, &mut watch, now, false);
            self.watched.insert(pid, watch);
        }
        self.sink.take(&mut self.batch);
    }

    /// The objects, which another recorder may share.
    pub(crate) fn objects(&mut self) -> &mut Objects {
        &mut self.targets.objects
    }

    /// Sees what exists.
    pub(crate) fn begin(&mut self) {
        self.recorder_track();
        self.sample(true);
    }

    fn work(&mut self, stop: &Stop, pause: Duration) -> Finished {
        self.recorder_track();
        let (mut next, mut cost) = (pause, Duration::ZERO);
        loop {
            let asked = stop.wait(next);
            let before = thread_cpu();
            self.sample(asked);
            // An expensive sample is rare: its cost is spread over several pauses, so that none is long enough to
            // miss a wait.
            cost = (cost * 7 + thread_cpu().saturating_sub(before)) / 8;
            let least = if self.watched.is_empty() { SLOW_PART / 2 } else { pause };
            next = least.max(cost * COST_PART).min(LONGEST_PAUSE);
            if asked {
                return self.end();
            }
        }
    }

    /// Records our own thread, so that it can be named as the holder of a CPU that others waited for.
    fn recorder_track(&mut self) {
        let Some(track) = TrackId::new(self.trace.fresh()) else { return };
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (pid, tid, name) = (Some(std::process::id()), Some(tid), "thalweg/look".to_owned());
        self.batch.push(Event::Track(Track { track, host: self.host, kind: TrackKind::Thread, role: Role::Recorder, pid, tid, name }));
    }

    /// Takes one sample of everything.
    pub(crate) fn sample(&mut self, all: bool) {
        self.take_changes(all);
        let now = Time::now();
        // Where switches are recorded, nothing is missed meanwhile.
        let rested = self.exact.is_none() || now.since(self.slow_before) >= COUNTED_PART.as_nanos() as u64;
        let slow = all || rested && now.since(self.slow_at) >= SLOW_PART.as_nanos() as u64;
        if slow {
            self.slow_at = now;
            self.targets.forget_sockets();
            self.find_processes();
            if let Some(system) = &mut self.system {
                system.poll(&mut self.batch);
                self.quotas.read(&mut self.batch);
            }
        }
        self.find_what_came(now);
        let counted = slow || self.exact.is_none() || now.since(self.counted_at) >= COUNTED_PART.as_nanos() as u64;
        if counted {
            self.sample_sockets(now, slow);
        }
        let pids: Vec<u32> = self.watched.keys().copied().collect();
        for pid in pids {
            self.sample_process(pid, now, (slow, counted));
        }
        if counted {
            self.record_waits(false);
            self.counted_at = now;
        }
        self.emit_ended();
        if self.exact.is_some() {
            self.find_called();
        }
        if slow {
            self.find_other_sides();
            self.find_fuse_servers();
            self.find_datagram_servers();
            self.slow_before = now;
        }
        self.acted_before = std::mem::take(&mut self.acted);
        self.sampled_at = now;
        self.samples += 1;
        self.sink.take(&mut self.batch);
    }

    fn sample_process(&mut self, pid: u32, now: Time, (slow, counted): (bool, bool)) {
        let Some(mut watch) = self.watched.remove(&pid) else { return };
        if slow || watch.threads.is_empty() {
            let alive = Stat::of(pid).filter(|process| process.started_ticks == watch.started_ticks);
            let Some(process) = alive else { return self.close(pid, watch) };
            // A held command becomes another program.
            let renamed = watch.name != process.name;
            watch.name = process.name;
            if renamed {
                watch.program_at = now;
            }
            // A program loads the library some time after its start. What it moves meanwhile is counted later.
            let loads = now.since(watch.program_at) < LOADING_NS;
            watch.has_calls = self.library.as_ref().is_some_and(|library| loads || !library.is_one(pid));
            self.find_threads(pid, &mut watch, now, renamed);
            let mut ends = watch.files.sample(pid, &mut self.targets, watch.ours);
            if ends.pipes.is_empty() && ends.sockets.is_empty() {
                // It is ending, and had these open when its last waits ended.
                ends = (*watch.ends).clone();
            }
            watch.ends = Rc::new(Ends { parent: process.parent, ..ends });
            if let Some(exact) = &mut self.exact {
                exact.has_open(pid, &watch.ends);
                exact.record_allowed(pid, now, &mut self.batch);
            }
            watch.alone = watch.threads.len() == 1 && !self.watched.values().any(|other| other.ends.parent == pid);
        }
        let tids: Vec<u32> = watch.threads.keys().copied().collect();
        for tid in tids {
            self.sample_thread(pid, tid, &mut watch);
        }
        let main = watch.threads.get(&pid).or_else(|| watch.threads.values().next()).map(|thread| thread.track);
        let Some(main) = main else {
            let is_zombie = self.exact.is_none() || Stat::of(pid).is_none_or(|process| process.state == 'Z');
            if !is_zombie && now.since(watch.program_at) < LOADING_NS {
                // Its start has not been told yet.
                self.watched.insert(pid, watch);
                return;
            }
            self.zombies.insert(pid, watch.started_ticks);
            return self.close(pid, watch);
        };
        watch.track = Some(main);
        if slow {
            self.quotas.poll(pid, main, &mut self.targets.objects);
            if self.system.is_some() {
                self.groups.watch(pid);
            }
        }
        // The thread that ran moved it; with several, which one is unknown.
        let mover = self
            .acted
            .iter()
            .filter(|acted| acted.pid == pid)
            .map(|acted| acted.track)
            .reduce(|one, other| if one == other { one } else { main });
        let track = mover.unwrap_or(main);
        if counted && !watch.has_calls {
            watch.files.emit(&self.trace, track, now, &mut self.batch);
            if self.exact.is_none() {
                self.connections_moved(&watch, track, now);
            }
        }
        self.watched.insert(pid, watch);
    }

    fn find_threads(&mut self, pid: u32, watch: &mut Watch, now: Time, renamed: bool) {
        let is_new = now.since(watch.program_at) < ANNOUNCED_NS;
        let announced = self.exact.as_ref().is_some_and(|exact| exact.will_announce(pid, watch.ends.parent, is_new));
        for tid in processes::numbers_in(&format!("/proc/{pid}/task")) {
            if let Some(known) = watch.threads.get(&tid) {
                if renamed && !known.followed {
                    self.emit_track(known.track, pid, tid, watch, &known.files);
                }
                continue;
            }
            let Some(files) = TaskFiles::open(pid, tid) else { continue };
            if files.doing().is_none() {
                self.hidden.insert(watch.name.clone());
            }
            let followed = self.exact.as_mut().and_then(|exact| exact.threads.get_mut(&tid)).map(|thread| {
                thread.ends = Rc::clone(&watch.ends);
                thread.track
            });
            if followed.is_none() && announced {
                // The kernel is going to tell of its start.
                continue;
            }
            let Some(track) = followed.or_else(|| TrackId::new(self.trace.fresh())) else { continue };
            let Some(sums) = files.scheduling() else { continue };
            let is_new = followed.is_none();
            if is_new {
                self.emit_track(track, pid, tid, watch, &files);
            }
            let followed = !is_new || self.follow((pid, tid), track, &watch.name, &files, &watch.ends);
            let born = if is_new && self.samples > 0 && watch.ours { files.started_ticks().map(|ticks| self.started(ticks)) } else { None };
            let seen = match born {
                Some(at) => {
                    let value = self.maker(pid, tid, watch).and_then(|by| i64::try_from(by.number()).ok());
                    self.batch.push(Event::Mark(Mark { track, kind: MarkKind::ThreadStart, at, object: None, value }));
                    ThreadSample { at, run_ns: 0, runqueue_ns: 0, sleeps: Some(0), reason: None }
                }
                None => ThreadSample { at: now, run_ns: sums.run_ns, runqueue_ns: sums.runqueue_ns, sleeps: files.sleeps(), reason: None },
            };
            if is_new && self.samples > 0 && !watch.ours {
                // It was not sampled before.
                self.batch.push(Event::Mark(Mark { track, kind: MarkKind::ThreadSeen, at: now, object: None, value: None }));
            }
            let (turns, kernel, disk_faults) = ((0, 0, 0), InKernel::default(), files.state().map_or(0, |state| state.disk_faults));
            watch.threads.insert(
                tid,
                Thread { track, files, followed, window: Window::new(seen), turns, disk_faults, open: None, kernel, sleep_ns: 0 },
            );
        }
    }

    /// Returns the main thread of a thread's creator.
    fn maker(&self, pid: u32, tid: u32, watch: &Watch) -> Option<TrackId> {
        if tid != pid {
            return watch.threads.get(&pid).map(|main| main.track);
        }
        let parent = self.watched.get(&watch.ends.parent)?;
        parent.threads.get(&watch.ends.parent).map(|main| main.track)
    }

    /// Returns when a new thread began, no earlier than the last search for threads.
    fn started(&self, ticks: u64) -> Time {
        processes::started_at(ticks).max(self.slow_before)
    }

    fn emit_track(&mut self, track: TrackId, pid: u32, tid: u32, watch: &Watch, files: &TaskFiles) {
        let called = self.names.get(&pid).unwrap_or(&watch.name);
        let name = match files.state() {
            Some(state) if tid != pid => format!("{called}/{}", state.name),
            _ => called.clone(),
        };
        if let Some(strangers) = &self.strangers {
            strangers.name(tid, track);
        }
        if let Some(tracks) = &self.tracks {
            tracks.lock().unwrap_or_else(PoisonError::into_inner).insert(tid, track);
        }
        let (pid, tid, role) = (Some(pid), Some(tid), watch.role);
        self.batch.push(Event::Track(Track { track, host: self.host, kind: TrackKind::Thread, role, pid, tid, name }));
    }

    fn sample_thread(&mut self, pid: u32, tid: u32, watch: &mut Watch) {
        let Some(thread) = watch.threads.get_mut(&tid) else { return };
        if thread.followed {
            return self.look(pid, tid, watch);
        }
        let Some(sums) = thread.files.scheduling() else { return self.thread_gone(pid, tid, watch) };
        let turns = (sums.run_ns, sums.runqueue_ns, sums.turns);
        let now = Time::now();
        if turns == thread.turns && thread.window.from.reason.is_some() {
            thread.window.from.at = now;
            return;
        }
        thread.turns = turns;
        let acted = ActiveThread {
            pid,
            tid,
            track: thread.track,
            gone: false,
            waited_for_sibling: thread.waits_for_sibling(),
            ends: Rc::clone(&watch.ends),
        };
        let (state, disk_faults) = thread.files.state().map_or(('X', 0), |state| (state.letter, state.disk_faults));
        let faulted = disk_faults > std::mem::replace(&mut thread.disk_faults, disk_faults);
        self.acted.push(ActiveThread { gone: matches!(state, 'Z' | 'X'), ..acted });
        let sleeps = thread.files.sleeps();
        let often = sleeps.zip(thread.window.from.sleeps).is_some_and(|(now, before)| now.saturating_sub(before) > 1);
        let waiter = Waiter { pid, ends: &watch.ends, alone: watch.alone, faulted, often };
        let mut reason = if matches!(state, 'Z' | 'X') { None } else { self.targets.reason(&waiter, &thread.files) };
        let slept = sleeps != thread.window.from.sleeps;
        for _ in 0..if slept && !matches!(state, 'Z' | 'X') { MORE_LOOKS } else { 0 } {
            reason = reason.or_else(|| self.targets.reason(&waiter, &thread.files));
        }
        if let Some(ns) = self.targets.slept_ns.take() {
            thread.sleep_ns = ns.max(thread.sleep_ns - thread.sleep_ns / 16);
        }
        let seen = ThreadSample { at: now, run_ns: sums.run_ns, runqueue_ns: sums.runqueue_ns, sleeps, reason };
        if matches!(state, 'Z' | 'X') {
            self.divided(pid, tid, thread, seen);
            return self.thread_gone(pid, tid, watch);
        }
        if thread.window.from.reason != reason && reason.is_some_and(|reason| self.is_to_be_found(reason.ender, &watch.ends)) {
            // Samples the object of its wait immediately.
            self.slow_at = Time::from_monotonic_ns(0);
        }
        if reason.is_none() {
            thread.window.saw_running(now);
            if now.since(thread.window.from.at) < LONGEST_WINDOW_NS {
                return;
            }
        }
        let work = thread.files.work().zip(watch.files.calls());
        thread.kernel.note(work, sleeps.unwrap_or(0), !watch.ends.sockets.is_empty());
        self.divided(pid, tid, thread, seen);
    }

    fn thread_gone(&mut self, pid: u32, tid: u32, watch: &mut Watch) {
        let Some(mut thread) = watch.threads.remove(&tid) else { return };
        if let Some((reason, since)) = thread.open.take() {
            // It was last seen in this wait and not since. A sleep lasts no longer than requested; the time after
            // that is unknown.
            let now = Time::now();
            let asleep = reason.kind == SpanKind::WaitTimer && thread.sleep_ns > 0;
            let until = if asleep { now.min(thread.window.from.at.plus_ns(thread.sleep_ns as i64)) } else { now };
            self.wait_ended(pid, tid, thread.track, (reason, since, until));
            if until < now {
                self.wait_ended(pid, tid, thread.track, (Reason::of(SpanKind::WaitOther), until, now));
            }
        }
        let waited_for_sibling = thread.waits_for_sibling();
        let ends = Rc::clone(&watch.ends);
        self.acted.push(ActiveThread { pid, tid, track: thread.track, gone: true, waited_for_sibling, ends });
        if thread.followed {
            return;
        }
        let mark = Mark { track: thread.track, kind: MarkKind::ThreadExit, at: Time::now(), object: None, value: None };
        self.batch.push(Event::Mark(mark));
    }

    /// Stops watching a process.
    fn close(&mut self, pid: u32, mut watch: Watch) {
        if let Some(track) = watch.track.filter(|_| watch.ours) {
            let (moved, unfinished) = watch.files.unfinished(track, self.sampled_at);
            self.ended_moved = (self.ended_moved.0.saturating_add(moved.0), self.ended_moved.1.saturating_add(moved.1));
            self.unfinished.extend(unfinished);
        }
        for tid in watch.threads.keys().copied().collect::<Vec<_>>() {
            self.thread_gone(pid, tid, &mut watch);
        }
    }

    /// Records what the command's processes moved after their last sample: all have ended, so this process has
    /// inherited their counts.
    fn emit_rest(&mut self) {
        let ours_go_on = self.watched.values().any(|watch| watch.ours);
        let counted_elsewhere = self.strangers.is_some() || self.exact.as_ref().is_some_and(Exact::had_calls);
        let (Some(before), Some(now), false) = (self.inherited, moved::inherited(), ours_go_on || counted_elsewhere) else { return };
        let read = now.0.saturating_sub(before.0).saturating_sub(self.ended_moved.0);
        let written = now.1.saturating_sub(before.1).saturating_sub(self.ended_moved.1);
        moved::emit_rest(&self.trace, (read, written), &self.unfinished, &mut self.batch);
    }

    /// Ends the recording; current waits end with it.
    pub(crate) fn end(&mut self) -> Finished {
        let now = Time::now();
        self.emit_rest();
        self.end_exactly(now);
        for (pid, mut watch) in std::mem::take(&mut self.watched) {
            for (tid, thread) in &mut watch.threads {
                if let Some((reason, since)) = thread.open.take() {
                    self.wait_ended(pid, *tid, thread.track, (Reason { ender: Ender::Unknown, ..reason }, since, now));
                }
            }
        }
        self.emit_ended();
        self.emit_ended();
        self.sink.take(&mut self.batch);
        self.finished(now)
    }
}
