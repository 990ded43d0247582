//! Watches threads by sampling them every few milliseconds.
//!
//! What is wanted is what each thread waited for, how long, and who ended it. A sample shows only what it does at that moment; but the
//! kernel counts exactly how long it ran and was runnable, so what is left was waiting ([`divide`](super::divide)). What a thread
//! is blocked in is known from its call, and by what that call's descriptor, futex or child is ([`around`](super::around)). Who ended a
//! wait is known where it can have been only one thread ([`wakers`](super::wakers)); so processes at the other side of a pipe or of a
//! socket of this machine, or has the lock, is sampled too, as far as it may be.
//!
//! Sampling must not become a cause of its own: the pause is stretched so that it takes at most 2 % of one processor.

mod emit;
mod found;
mod sampler;

use super::around::{Around, Own};
use super::divide::{Seen, Window};
use super::files::Objects;
use super::kernel::InKernel;
use super::moved::{self, Moved};
use super::processes;
use super::quotas::Quotas;
use super::strangers::Strangers;
use super::system::System;
use super::tasks::TaskFiles;
use super::waits::{Ender, Reason};
use super::wakers::{Acted, Ends};
use crate::worker::{Stop, Worker, thread_cpu};
use crate::{Finished, RecordError, Recorder, Watched};
use sampler::{LONGEST_PAUSE, Sampler, Thread, Watch};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use thalweg_base::proc::stat::Stat;
use thalweg_trace::{Event, Mark, MarkKind, Role, SpanKind, Time, TraceHandle, Track, TrackId, TrackKind};

/// The part of one processor that sampling may take: one in this many.
const COST_PART: u32 = 50;

/// The pause between two samples of threads, where nothing stretches it.
const PAUSE: Duration = Duration::from_millis(2);

/// How often new processes and threads are looked for, and the machine is polled.
const SLOW_PART: Duration = Duration::from_millis(50);

/// A thread that always runs when it is sampled is recorded after this time at the latest.
const LONGEST_WINDOW_NS: u64 = 100_000_000;

/// How often a thread that went to sleep, and runs, is sampled again at once.
const MORE_LOOKS: u32 = 3;

/// The recorder `proc`.
#[derive(Debug, Default)]
pub(crate) struct ProcRecorder {
    beside: bool,
    strangers: Option<Strangers>,
    running: Option<Worker>,
}

impl ProcRecorder {
    /// Ready to begin.
    pub(crate) fn new() -> ProcRecorder {
        ProcRecorder::default()
    }

    /// The same, for processes besides those that another recorder sees: that one polls the machine.
    pub(crate) fn beside() -> ProcRecorder {
        ProcRecorder { beside: true, strangers: None, running: None }
    }

    /// The same, for those of the command's processes that another recorder cannot see.
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
        // What is there before the command is let go must have been seen.
        let (seen, is_seen) = std::sync::mpsc::channel();
        let pause = watched.drain.clamp(Duration::from_millis(1), PAUSE);
        self.running = Some(Worker::start("look", move |stop| {
            let mut sampler = Sampler::new(&watched, beside, strangers);
            sampler.sample(true);
            let _ = seen.send(());
            sampler.work(stop, pause)
        })?);
        // It ends without a word only where its thread did, which `finish` reports.
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
    fn new(watched: &Watched, beside: bool, strangers: Option<Strangers>) -> Sampler {
        let mode = TraceHandle::on(Arc::clone(&watched.sink), watched.host, Role::Client, watched.space);
        let now = Time::now();
        let mut sampler = Sampler {
            around: Around::new(Objects::new(mode.clone(), watched.host)),
            system: (!beside).then(|| System::new(mode.clone(), watched.host)),
            quotas: Quotas::default(),
            strangers,
            host: watched.host,
            sink: Arc::clone(&watched.sink),
            moved: BTreeMap::new(),
            inherited: moved::inherited(),
            ended_moved: (0, 0),
            unfinished: Vec::new(),
            watched: BTreeMap::new(),
            sought: BTreeSet::new(),
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
            names: watched.names.clone(),
            mode,
        };
        let command = watched.command.iter().filter(|_| sampler.strangers.is_none()).map(|command| (command, true));
        let all: Vec<_> = command.chain(watched.others.iter().map(|other| (other, false))).map(|(p, ours)| (p.pid, p.role, ours)).collect();
        for (pid, role, ours) in all {
            sampler.adopt(pid, role, ours);
        }
        sampler.find_first_threads(now);
        sampler.around.read_connections();
        // Of connections that were there before, what they carried before is not recorded.
        let sockets = sampler.around.sockets.iter();
        sampler.moved = sockets.filter_map(|(inode, socket)| Some((*inode, Moved::of(socket)?))).collect();
        sampler
    }

    /// The threads that are there come first, and go to the recording at once: to look at all connections, processes and devices of a busy machine
    /// takes long, and a recording that is killed meanwhile has the threads.
    fn find_first_threads(&mut self, now: Time) {
        for pid in self.watched.keys().copied().collect::<Vec<_>>() {
            let Some(mut watch) = self.watched.remove(&pid) else { continue };
            self.find_threads(pid, &mut watch, now, false);
            self.watched.insert(pid, watch);
        }
        self.sink.take(&mut self.batch);
    }

    fn work(&mut self, stop: &Stop, pause: Duration) -> Finished {
        self.recorder_track();
        let (mut next, mut cost) = (pause, Duration::ZERO);
        loop {
            let asked = stop.wait(next);
            let before = thread_cpu();
            self.sample(asked);
            // A sample that finds much new is rare: it stretches several pauses a little, and none so much that a wait is missed.
            cost = (cost * 7 + thread_cpu().saturating_sub(before)) / 8;
            let least = if self.watched.is_empty() { SLOW_PART / 2 } else { pause };
            next = least.max(cost * COST_PART).min(LONGEST_PAUSE);
            if asked {
                return self.end();
            }
        }
    }

    /// Our own thread, so that it can be named as the holder of a processor that others waited for.
    fn recorder_track(&mut self) {
        let Some(track) = TrackId::new(self.mode.fresh()) else { return };
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (pid, tid, name) = (Some(std::process::id()), Some(tid), "thalweg/look".to_owned());
        self.batch.push(Event::Track(Track { track, host: self.host, kind: TrackKind::Thread, role: Role::Recorder, pid, tid, name }));
    }

    /// Samples everything once.
    fn sample(&mut self, all: bool) {
        let now = Time::now();
        let slow = all || now.since(self.slow_at) >= SLOW_PART.as_nanos() as u64;
        if slow {
            self.slow_at = now;
            self.around.forget_sockets();
            self.find_processes();
            if let Some(system) = &mut self.system {
                system.poll(&mut self.batch);
                self.quotas.read(&mut self.batch);
            }
        }
        self.sample_sockets(now, slow);
        let pids: Vec<u32> = self.watched.keys().copied().collect();
        for pid in pids {
            self.sample_process(pid, now, slow);
        }
        self.emit_ended();
        if slow {
            self.find_other_sides();
            self.slow_before = now;
        }
        self.acted_before = std::mem::take(&mut self.acted);
        self.sampled_at = now;
        self.samples += 1;
        self.sink.take(&mut self.batch);
    }

    fn sample_sockets(&mut self, now: Time, slow: bool) {
        if self.watched.is_empty() || !slow && self.watched.values().all(|watch| watch.ends.sockets.is_empty()) {
            return;
        }
        self.around.read_connections();
        let ours: BTreeSet<u64> = self.watched.values().flat_map(|watch| watch.ends.sockets.iter().copied()).collect();
        for inode in ours {
            let Some(socket) = self.around.sockets.get(&inode).cloned() else { continue };
            let Some(object) = self.around.objects.socket(&socket) else { continue };
            if let Some(info) = socket.info {
                info.counters(object, now, socket.send_buffer_bytes, Some(socket.unread_bytes), &mut self.batch);
            }
        }
        self.moved.retain(|inode, _| self.around.sockets.contains_key(inode));
    }

    fn sample_process(&mut self, pid: u32, now: Time, slow: bool) {
        let Some(mut watch) = self.watched.remove(&pid) else { return };
        if slow || watch.threads.is_empty() {
            let alive = Stat::of(pid).filter(|process| process.started_ticks == watch.started_ticks);
            let Some(process) = alive else { return self.close(pid, watch) };
            // A held command becomes another program.
            let renamed = watch.name != process.name;
            watch.name = process.name;
            self.find_threads(pid, &mut watch, now, renamed);
            let ends = watch.files.sample(pid, &mut self.around, watch.ours);
            watch.ends = Rc::new(Ends { parent: process.parent, ..ends });
            watch.alone = watch.threads.len() == 1 && !self.watched.values().any(|other| other.ends.parent == pid);
        }
        let tids: Vec<u32> = watch.threads.keys().copied().collect();
        for tid in tids {
            self.sample_thread(pid, tid, &mut watch);
        }
        let main = watch.threads.get(&pid).or_else(|| watch.threads.values().next()).map(|thread| thread.track);
        let Some(main) = main else {
            self.zombies.insert(pid, watch.started_ticks);
            return self.close(pid, watch);
        };
        watch.track = Some(main);
        if slow {
            self.quotas.poll(pid, main, &mut self.around.objects);
        }
        // The one that ran moved it; of several it is not known which.
        let mover = self
            .acted
            .iter()
            .filter(|acted| acted.pid == pid)
            .map(|acted| acted.track)
            .reduce(|one, other| if one == other { one } else { main });
        let track = mover.unwrap_or(main);
        watch.files.emit(&self.mode, track, now, &mut self.batch);
        self.connections_moved(&watch, track, now);
        self.watched.insert(pid, watch);
    }

    fn find_threads(&mut self, pid: u32, watch: &mut Watch, now: Time, renamed: bool) {
        for tid in processes::numbers_in(&format!("/proc/{pid}/task")) {
            if let Some(known) = watch.threads.get(&tid) {
                if renamed {
                    self.emit_track(known.track, pid, tid, watch, &known.files);
                }
                continue;
            }
            let Some(files) = TaskFiles::open(pid, tid) else { continue };
            if files.doing().is_none() {
                self.hidden.insert(watch.name.clone());
            }
            let (Some(sums), Some(track)) = (files.scheduling(), TrackId::new(self.mode.fresh())) else { continue };
            self.emit_track(track, pid, tid, watch, &files);
            let born = if self.samples > 0 && watch.ours { files.started_ticks().map(|ticks| self.started(ticks)) } else { None };
            let seen = match born {
                Some(at) => {
                    let value = self.maker(pid, tid, watch).and_then(|by| i64::try_from(by.number()).ok());
                    self.batch.push(Event::Mark(Mark { track, kind: MarkKind::ThreadStart, at, object: None, value }));
                    Seen { at, run_ns: 0, runqueue_ns: 0, sleeps: Some(0), reason: None }
                }
                None => Seen { at: now, run_ns: sums.run_ns, runqueue_ns: sums.runqueue_ns, sleeps: files.sleeps(), reason: None },
            };
            if self.samples > 0 && !watch.ours {
                // It was not sampled before.
                self.batch.push(Event::Mark(Mark { track, kind: MarkKind::ThreadSeen, at: now, object: None, value: None }));
            }
            let (turns, kernel, disk_faults) = ((0, 0, 0), InKernel::default(), files.state().map_or(0, |state| state.disk_faults));
            watch
                .threads
                .insert(tid, Thread { track, files, window: Window::new(seen), turns, disk_faults, open: None, kernel, sleep_ns: 0 });
        }
    }

    /// The main thread of who made a thread.
    fn maker(&self, pid: u32, tid: u32, watch: &Watch) -> Option<TrackId> {
        if tid != pid {
            return watch.threads.get(&pid).map(|main| main.track);
        }
        let parent = self.watched.get(&watch.ends.parent)?;
        parent.threads.get(&watch.ends.parent).map(|main| main.track)
    }

    /// When a thread began that was not there when threads were last looked for.
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
        let (pid, tid, role) = (Some(pid), Some(tid), watch.role);
        self.batch.push(Event::Track(Track { track, host: self.host, kind: TrackKind::Thread, role, pid, tid, name }));
    }

    fn sample_thread(&mut self, pid: u32, tid: u32, watch: &mut Watch) {
        let Some(thread) = watch.threads.get_mut(&tid) else { return };
        let Some(sums) = thread.files.scheduling() else { return self.thread_gone(pid, tid, watch) };
        let turns = (sums.run_ns, sums.runqueue_ns, sums.turns);
        let now = Time::now();
        if turns == thread.turns && thread.window.from.reason.is_some() {
            thread.window.from.at = now;
            return;
        }
        thread.turns = turns;
        let acted = Acted {
            pid,
            tid,
            track: thread.track,
            gone: false,
            waited_for_sibling: thread.waits_for_sibling(),
            ends: Rc::clone(&watch.ends),
        };
        let (state, disk_faults) = thread.files.state().map_or(('X', 0), |state| (state.letter, state.disk_faults));
        let faulted = disk_faults > std::mem::replace(&mut thread.disk_faults, disk_faults);
        self.acted.push(Acted { gone: matches!(state, 'Z' | 'X'), ..acted });
        let sleeps = thread.files.sleeps();
        let often = sleeps.zip(thread.window.from.sleeps).is_some_and(|(now, before)| now.saturating_sub(before) > 1);
        let own = Own { pid, ends: &watch.ends, alone: watch.alone, faulted, often };
        let mut reason = if matches!(state, 'Z' | 'X') { None } else { self.around.reason(&own, &thread.files) };
        let slept = sleeps != thread.window.from.sleeps;
        for _ in 0..if slept && !matches!(state, 'Z' | 'X') { MORE_LOOKS } else { 0 } {
            reason = reason.or_else(|| self.around.reason(&own, &thread.files));
        }
        if let Some(ns) = self.around.slept_ns.take() {
            thread.sleep_ns = ns.max(thread.sleep_ns - thread.sleep_ns / 16);
        }
        let seen = Seen { at: now, run_ns: sums.run_ns, runqueue_ns: sums.runqueue_ns, sleeps, reason };
        if matches!(state, 'Z' | 'X') {
            self.divided(pid, tid, thread, seen);
            return self.thread_gone(pid, tid, watch);
        }
        if thread.window.from.reason != reason && reason.is_some_and(|reason| self.is_to_be_found(reason.ender, &watch.ends)) {
            // What it waits for is to be sampled at once.
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
            // It was last seen in this wait; nobody saw it run. A sleep lasts no longer than it was to, and after that nothing is known.
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
        self.acted.push(Acted { pid, tid, track: thread.track, gone: true, waited_for_sibling, ends });
        let mark = Mark { track: thread.track, kind: MarkKind::ThreadExit, at: Time::now(), object: None, value: None };
        self.batch.push(Event::Mark(mark));
    }

    fn connections_moved(&mut self, watch: &Watch, track: TrackId, now: Time) {
        for inode in &watch.ends.sockets {
            let Some(socket) = self.around.sockets.get(inode) else { continue };
            let Some(object) = self.around.objects.socket(socket) else { continue };
            let before = self.moved.get(inode).copied().unwrap_or_default();
            let current = moved::emit_connection((&self.mode, track, self.sampled_at, now), (object, socket), before, &mut self.batch);
            self.moved.insert(*inode, current);
        }
    }

    /// A process that is not looked at any more.
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

    /// What the command's processes moved after they were last looked at: all have ended, so we have inherited it.
    fn emit_rest(&mut self) {
        let ours_go_on = self.watched.values().any(|watch| watch.ours);
        let (Some(before), Some(now), false) = (self.inherited, moved::inherited(), ours_go_on || self.strangers.is_some()) else { return };
        let read = now.0.saturating_sub(before.0).saturating_sub(self.ended_moved.0);
        let written = now.1.saturating_sub(before.1).saturating_sub(self.ended_moved.1);
        moved::emit_rest(&self.mode, (read, written), &self.unfinished, &mut self.batch);
    }

    /// The recording ends: waits go on.
    fn end(&mut self) -> Finished {
        let now = Time::now();
        self.emit_rest();
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

    fn finished(&self, now: Time) -> Finished {
        if self.strangers.is_some() && !self.sampled_somebody {
            let cost = vec![("recorder.cpu_ns".to_owned(), thread_cpu().as_nanos().to_string())];
            return Finished { attributes: cost, ..Finished::default() };
        }
        let resolution_ns = now.since(self.first).checked_div(self.samples).unwrap_or(0);
        let ms = resolution_ns as f64 / 1e6;
        let mut notes = Vec::new();
        if !self.hidden.is_empty() {
            let names = self.hidden.iter().cloned().collect::<Vec<_>>().join(", ");
            notes.push(format!(
                "What {names} waited for could not be seen, because its calls may not be read: record as root or as its user."
            ));
        }
        let not_seen = format!(
            "Threads were sampled every {ms:.1} ms: how long they waited is exact, what for is what they were seen in, and who ended it is recorded \
             only where nobody else can have. Single requests of devices and processes shorter than {} ms were not seen.",
            SLOW_PART.as_millis()
        );
        let attributes = vec![
            ("not_seen".to_owned(), not_seen),
            ("wakers".to_owned(), "inferred".to_owned()),
            ("resolution_ns".to_owned(), resolution_ns.to_string()),
            ("recorder.cpu_ns".to_owned(), thread_cpu().as_nanos().to_string()),
        ];
        Finished { dropped_events: 0, attributes, notes }
    }
}
