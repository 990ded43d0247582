//! Watches threads by looking at them every few milliseconds.
//!
//! What is wanted is what each thread waited for, and how long. Looking tells only what it does at that moment; but `schedstat`
//! tells exactly how long it ran and was runnable between two looks, so what is left was waiting, and only the reason is a
//! guess: the one seen at the end of the interval. So an interval becomes one span of that kind, as long as it, divided by
//! `cpu_ns` and `runqueue_ns`; intervals in which the thread did not run at all are one span together.
//!
//! Bytes come from the positions of descriptors (files) and from the kernel's socket diagnostics (connections). They are spans
//! without length at the end of the interval: when in it they were moved is not known.
//!
//! Looking must not become a cause of its own: the pause is stretched so that it takes at most 2 % of one processor.

use super::diagnostics::{Diagnostics, LISTEN, Socket};
use super::files::{FdInfo, Objects, Opened, Target};
use super::listeners::socket_inode;
use super::processes::{self, Process};
use super::system::{System, bare};
use super::tasks::{Doing, Scheduling, TaskFiles};
use super::waits;
use crate::worker::{Stop, Worker};
use crate::{Finished, RecordError, Recorder, Watched};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use thalweg_trace::{Event, HostId, Mode, ObjectId, Role, Sink, Span, SpanId, SpanKind, Time, Track, TrackId, TrackKind, WakerContext};

/// The part of one processor that looking may take: one in this many.
const COST_PART: u32 = 50;

/// The longest pause it is stretched to.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// How often new processes and threads are looked for, and the machine is looked at.
const SLOW_PART: Duration = Duration::from_millis(50);

/// A shorter wait in an interval is left out.
const WORTH_TELLING_NS: u64 = 20_000;

/// How often a thread that runs is looked at again at once.
const MORE_LOOKS: u32 = 3;

/// Descriptors of one process that are looked at.
const MOST_DESCRIPTORS: usize = 1024;

/// The recorder `proc`.
#[derive(Debug, Default)]
pub(crate) struct ProcRecorder {
    beside: bool,
    running: Option<Worker>,
}

impl ProcRecorder {
    /// Ready to begin.
    pub(crate) fn new() -> ProcRecorder {
        ProcRecorder::default()
    }

    /// The same, for processes besides those that another recorder sees: that one looks at the machine.
    pub(crate) fn beside() -> ProcRecorder {
        ProcRecorder { beside: true, running: None }
    }
}

impl Recorder for ProcRecorder {
    fn name(&self) -> &'static str {
        "proc"
    }

    fn begin(&mut self, watched: Watched) -> Result<(), RecordError> {
        let mut sampler = Sampler::new(&watched, self.beside);
        // What is there before the command is let go must have been seen.
        sampler.look(true);
        let pause = watched.drain.max(Duration::from_millis(1));
        self.running = Some(Worker::start("look", move |stop| sampler.work(stop, pause))?);
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

/// A wait that goes on.
#[derive(Clone, Copy, Debug)]
struct Open {
    kind: SpanKind,
    object: Option<ObjectId>,
    context: Option<WakerContext>,
    start: Time,
}

#[derive(Debug)]
struct Thread {
    track: TrackId,
    files: TaskFiles,
    last: Scheduling,
    at: Time,
    open: Option<Open>,
    /// What it was last seen to wait for.
    reason: Option<Reason>,
}

/// What a thread waits for.
type Reason = (SpanKind, Option<ObjectId>, Option<WakerContext>);

/// A descriptor that is a file, at the last look.
#[derive(Debug)]
struct Position {
    info: FdInfo,
    bytes: u64,
    object: ObjectId,
    opened: Opened,
}

#[derive(Debug)]
struct Watch {
    role: Role,
    started_ticks: u64,
    name: String,
    threads: BTreeMap<u32, Thread>,
    /// Descriptors that are files.
    positions: BTreeMap<u32, Position>,
    /// Inodes of its sockets.
    sockets: BTreeSet<u64>,
}

/// Bytes written and read on a connection, at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    written: u64,
    read: u64,
    retransmits: u32,
}

struct Sampler {
    mode: Mode,
    host: HostId,
    sink: Arc<dyn Sink>,
    objects: Objects,
    /// Absent where another recorder looks at the machine.
    system: Option<System>,
    diagnostics: Option<Diagnostics>,
    sockets: BTreeMap<u64, Socket>,
    moved: BTreeMap<u64, Moved>,
    watched: BTreeMap<u32, Watch>,
    slow_at: Time,
    looks: u64,
    first: Time,
    batch: Vec<Event>,
    hidden: BTreeSet<String>,
    command: Option<u32>,
    /// What processes are called instead of by their command's name.
    names: BTreeMap<u32, String>,
}

impl Sampler {
    fn new(watched: &Watched, beside: bool) -> Sampler {
        let mode = Mode::on(Arc::clone(&watched.sink), watched.host, Role::Client, watched.space);
        let mut sampler = Sampler {
            objects: Objects::new(mode.clone(), watched.host),
            system: (!beside).then(|| System::new(mode.clone(), watched.host)),
            host: watched.host,
            sink: Arc::clone(&watched.sink),
            diagnostics: Diagnostics::open().ok(),
            sockets: BTreeMap::new(),
            moved: BTreeMap::new(),
            watched: BTreeMap::new(),
            slow_at: Time::from_monotonic_ns(0),
            looks: 0,
            first: Time::now(),
            batch: Vec::new(),
            hidden: BTreeSet::new(),
            command: watched.command.map(|command| command.pid),
            names: watched.names.clone(),
            mode,
        };
        for process in watched.command.iter().chain(&watched.others) {
            sampler.adopt(process.pid, process.role);
        }
        sampler
    }

    fn work(&mut self, stop: &Stop, pause: Duration) -> Finished {
        self.recorder_track();
        let mut next = pause;
        loop {
            let asked = stop.wait(next);
            let before = thread_cpu();
            self.look(asked);
            let cost = thread_cpu().saturating_sub(before);
            next = pause.max(cost * COST_PART).min(LONGEST_PAUSE);
            if asked {
                return self.end();
            }
        }
    }

    /// Our own thread, so that whoever waited for a processor that it held can be told.
    fn recorder_track(&mut self) {
        let Some(track) = TrackId::new(self.mode.fresh()) else { return };
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (pid, tid, name) = (Some(std::process::id()), Some(tid), "thalweg/look".to_owned());
        self.batch.push(Event::Track(Track { track, host: self.host, kind: TrackKind::Thread, role: Role::Recorder, pid, tid, name }));
    }

    fn adopt(&mut self, pid: u32, role: Role) {
        let Some(process) = Process::read(pid) else { return };
        if self.watched.get(&pid).is_some_and(|known| known.started_ticks == process.started_ticks) {
            return;
        }
        let watch = Watch {
            role,
            started_ticks: process.started_ticks,
            name: process.name,
            threads: BTreeMap::new(),
            positions: BTreeMap::new(),
            sockets: BTreeSet::new(),
        };
        // Somebody else had this number before: their waits have ended.
        if let Some(old) = self.watched.insert(pid, watch) {
            self.close(old, Time::now());
        }
    }

    /// Looks at everything once.
    fn look(&mut self, all: bool) {
        let now = Time::now();
        let slow = all || now.since(self.slow_at) >= SLOW_PART.as_nanos() as u64;
        if slow {
            self.slow_at = now;
            self.find_processes();
            if let Some(system) = &mut self.system {
                system.look(&mut self.batch);
            }
        }
        self.look_at_sockets(now, slow);
        let pids: Vec<u32> = self.watched.keys().copied().collect();
        for pid in pids {
            self.look_at(pid, now, slow);
        }
        self.looks += 1;
        self.sink.take(&mut self.batch);
    }

    /// Children of those who are watched.
    fn find_processes(&mut self) {
        let mut next: Vec<u32> = self.watched.keys().copied().collect();
        while let Some(pid) = next.pop() {
            let Some(role) = self.watched.get(&pid).map(|watch| watch.role) else { continue };
            for tid in processes::numbers_in(&format!("/proc/{pid}/task")) {
                let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
                for child in text.split_ascii_whitespace().filter_map(|word| word.parse().ok()) {
                    if !self.watched.contains_key(&child) {
                        self.adopt(child, role);
                        next.push(child);
                    }
                }
            }
        }
    }

    fn look_at_sockets(&mut self, now: Time, slow: bool) {
        if !slow && self.watched.values().all(|watch| watch.sockets.is_empty()) {
            return;
        }
        let Some(diagnostics) = &mut self.diagnostics else { return };
        let Ok(sockets) = diagnostics.sockets() else { return };
        self.objects.listening.extend(sockets.iter().filter(|s| s.state == LISTEN).map(|s| s.local.port()));
        self.sockets = sockets.into_iter().filter(|s| s.inode != 0 && s.state != LISTEN).map(|s| (s.inode, s)).collect();
        let ours: BTreeSet<u64> = self.watched.values().flat_map(|watch| watch.sockets.iter().copied()).collect();
        for inode in ours {
            let Some(socket) = self.sockets.get(&inode).cloned() else { continue };
            let Some(object) = self.objects.socket(&socket) else { continue };
            if let Some(info) = socket.info {
                info.counters(object, now, socket.send_buffer_bytes, Some(socket.unread_bytes), &mut self.batch);
            }
        }
        self.moved.retain(|inode, _| self.sockets.contains_key(inode));
    }

    fn look_at(&mut self, pid: u32, now: Time, slow: bool) {
        let Some(mut watch) = self.watched.remove(&pid) else { return };
        if slow || watch.threads.is_empty() {
            let alive = Process::read(pid).filter(|process| process.started_ticks == watch.started_ticks && process.state != 'Z');
            let Some(process) = alive else { return self.close(watch, now) };
            // A held command becomes another program.
            let renamed = watch.name != process.name;
            watch.name = process.name;
            self.find_threads(pid, &mut watch, now, renamed);
            if renamed {
                // What it waited for before, it waited for as another program.
                watch.threads.values_mut().for_each(|thread| thread.reason = None);
            }
            self.look_at_descriptors(pid, &mut watch);
        }
        let tids: Vec<u32> = watch.threads.keys().copied().collect();
        for tid in tids {
            self.look_at_thread(pid, tid, &mut watch, now);
        }
        let main = watch.threads.get(&pid).or_else(|| watch.threads.values().next()).map(|thread| thread.track);
        if let Some(track) = main {
            self.files_moved(&mut watch, track, now);
            self.connections_moved(&watch, track, now);
        }
        self.watched.insert(pid, watch);
    }

    fn find_threads(&mut self, pid: u32, watch: &mut Watch, now: Time, renamed: bool) {
        for tid in processes::numbers_in(&format!("/proc/{pid}/task")) {
            if let Some(known) = watch.threads.get(&tid) {
                if renamed {
                    self.tell_track(known.track, pid, tid, watch, &known.files);
                }
                continue;
            }
            let Some(files) = TaskFiles::open(pid, tid) else { continue };
            if files.doing().is_none() {
                self.hidden.insert(watch.name.clone());
            }
            let (Some(last), Some(track)) = (files.scheduling(), TrackId::new(self.mode.fresh())) else { continue };
            self.tell_track(track, pid, tid, watch, &files);
            if let Some(system) = self.system.as_mut().filter(|_| Some(tid) == self.command) {
                system.watch_quota(pid, track);
            }
            watch.threads.insert(tid, Thread { track, files, last, at: now, open: None, reason: None });
        }
    }

    fn tell_track(&mut self, track: TrackId, pid: u32, tid: u32, watch: &Watch, files: &TaskFiles) {
        let called = self.names.get(&pid).unwrap_or(&watch.name);
        let name = match files.state() {
            Some((_, name)) if tid != pid => format!("{called}/{name}"),
            _ => called.clone(),
        };
        let (pid, tid, role) = (Some(pid), Some(tid), watch.role);
        self.batch.push(Event::Track(Track { track, host: self.host, kind: TrackKind::Thread, role, pid, tid, name }));
    }

    /// Finds files and sockets that the process has open.
    fn look_at_descriptors(&mut self, pid: u32, watch: &mut Watch) {
        let mut fds = processes::numbers_in(&format!("/proc/{pid}/fd"));
        fds.truncate(MOST_DESCRIPTORS);
        watch.sockets.clear();
        let open: BTreeSet<u32> = fds.iter().copied().collect();
        watch.positions.retain(|fd, _| open.contains(fd));
        for fd in fds {
            let Ok(link) = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")) else { continue };
            let text = link.to_string_lossy();
            if let Some(inode) = socket_inode(&text) {
                watch.sockets.insert(inode);
            } else if text.starts_with('/') && !text.starts_with("/dev/") {
                let Some(Target::File(object)) = self.objects.target(pid, fd, &self.sockets) else { continue };
                if watch.positions.get(&fd).is_some_and(|known| known.object == object) {
                    continue;
                }
                let Some(info) = FdInfo::open(pid, fd) else { continue };
                let Some((position, opened)) = info.read() else { continue };
                // What was read before it was seen was read since it was opened, if the process is ours.
                let bytes = if self.command.is_some() && opened != Opened::Both { 0 } else { position };
                watch.positions.insert(fd, Position { info, bytes, object, opened });
            }
        }
    }

    fn look_at_thread(&mut self, pid: u32, tid: u32, watch: &mut Watch, now: Time) {
        let Some(thread) = watch.threads.get_mut(&tid) else { return };
        let Some(scheduling) = thread.files.scheduling() else {
            if let Some(thread) = watch.threads.remove(&tid) {
                self.end_wait(&thread, now);
            }
            return;
        };
        let idle = scheduling == thread.last;
        if idle && thread.open.is_some() {
            thread.at = now;
            return;
        }
        // One that runs whenever it is looked at waits in between: a few more looks may meet a wait.
        let mut doing = self.doing(pid, thread);
        for _ in 0..MORE_LOOKS {
            doing = doing.or_else(|| self.doing(pid, thread));
        }
        thread.reason = doing.or(thread.reason);
        let (start, before) = (thread.at, std::mem::replace(&mut thread.last, scheduling));
        thread.at = now;
        let length_ns = now.since(start);
        let cpu_ns = (scheduling.run_ns.saturating_sub(before.run_ns)).min(length_ns);
        let runqueue_ns = scheduling.runqueue_ns.saturating_sub(before.runqueue_ns).min(length_ns - cpu_ns);
        let blocked_ns = length_ns - cpu_ns - runqueue_ns;
        let previous = thread.open.take();
        if idle {
            // Blocked since before: the wait goes on until the thread runs again.
            thread.open = doing.map(|(kind, object, context)| Open { kind, object, context, start });
            return;
        }
        let track = thread.track;
        if let Some(open) = previous {
            self.tell_wait(track, open, start, Some(0), Some(0));
        }
        if blocked_ns >= WORTH_TELLING_NS {
            let (kind, object, context) = thread.reason.unwrap_or((SpanKind::WaitOther, None, None));
            self.tell_wait(track, Open { kind, object, context, start }, now, Some(cpu_ns), Some(runqueue_ns));
        } else if runqueue_ns >= WORTH_TELLING_NS {
            let open = Open { kind: SpanKind::WaitRunqueue, object: None, context: None, start: now.plus_ns(-(runqueue_ns as i64)) };
            self.tell_wait(track, open, now, Some(0), Some(runqueue_ns));
        }
    }

    /// What a thread is blocked in; `None` where it runs.
    fn doing(&mut self, pid: u32, thread: &Thread) -> Option<Reason> {
        let doing = match thread.files.doing() {
            Some(Doing::Running) => return None,
            other => other,
        };
        let state = thread.files.state().map(|(state, _)| state)?;
        if let (Some(Doing::Call(number, argument)), 'S' | 'D') = (doing, state) {
            let call = waits::call(number);
            let on_descriptor = !matches!(call, waits::Call::Plain(_));
            let target = on_descriptor.then(|| self.objects.target(pid, argument as u32, &self.sockets)).flatten();
            let object = match target {
                Some(Target::File(object) | Target::Connection(object)) => Some(object),
                _ => None,
            };
            let kind = waits::kind(call, target.as_ref());
            let context = (kind == SpanKind::WaitTimer).then_some(WakerContext::Timer);
            return Some((kind, object, context));
        }
        match state {
            'R' => None,
            'D' => Some((SpanKind::WaitDisk, None, None)),
            _ => Some((SpanKind::WaitOther, None, None)),
        }
    }

    fn span(&self, track: TrackId, kind: SpanKind, start: Time, end: Time) -> Option<Span> {
        Some(bare(SpanId::new(self.mode.fresh())?, track, kind, start, end.since(start)))
    }

    fn tell_wait(&mut self, track: TrackId, open: Open, end: Time, cpu_ns: Option<u64>, runqueue_ns: Option<u64>) {
        let Some(span) = self.span(track, open.kind, open.start, end) else { return };
        self.batch.push(Event::Span(Span { object: open.object, waker_context: open.context, cpu_ns, runqueue_ns, ..span }));
    }

    fn end_wait(&mut self, thread: &Thread, now: Time) {
        if let Some(open) = thread.open {
            self.tell_wait(thread.track, open, now, Some(0), Some(0));
        }
    }

    fn files_moved(&mut self, watch: &mut Watch, track: TrackId, now: Time) {
        for position in watch.positions.values_mut() {
            let Some((current, _)) = position.info.read() else { continue };
            let before = std::mem::replace(&mut position.bytes, current);
            let kind = match position.opened {
                Opened::Read => SpanKind::FileRead,
                Opened::Write => SpanKind::FileWrite,
                _ => continue,
            };
            if current > before {
                let Some(span) = self.span(track, kind, now, now) else { continue };
                let (object, size_bytes) = (Some(position.object), Some(current - before));
                self.batch.push(Event::Span(Span { object, offset_bytes: Some(before), size_bytes, cpu_ns: Some(0), ..span }));
            }
        }
    }

    fn connections_moved(&mut self, watch: &Watch, track: TrackId, now: Time) {
        for inode in &watch.sockets {
            let Some(socket) = self.sockets.get(inode) else { continue };
            let (Some(written), Some(read)) = (socket.written_bytes(), socket.read_bytes()) else { continue };
            let retransmits = socket.info.map_or(0, |info| info.total_retransmits);
            let Some(object) = self.objects.connection(socket.local, socket.peer, None) else { continue };
            // The first look at a connection of somebody who was there before us only tells where it stands.
            let fresh = Moved { written: 0, read: 0, retransmits: 0 };
            let start = if self.command.is_some() { fresh } else { Moved { written, read, retransmits } };
            let before = *self.moved.entry(*inode).or_insert(start);
            self.moved.insert(*inode, Moved { written, read, retransmits });
            for (kind, from, to) in [(SpanKind::NetSend, before.written, written), (SpanKind::NetReceive, before.read, read)] {
                if let Some(span) = self.span(track, kind, now, now).filter(|_| to > from) {
                    let part =
                        Span { object: Some(object), offset_bytes: Some(from), size_bytes: Some(to - from), cpu_ns: Some(0), ..span };
                    self.batch.push(Event::Span(part));
                }
            }
            if retransmits > before.retransmits {
                let bytes = i64::from(retransmits - before.retransmits) * i64::from(socket.info.map_or(0, |info| info.segment_bytes));
                let kind = thalweg_trace::MarkKind::TcpRetransmit;
                self.batch.push(Event::Mark(thalweg_trace::Mark { track, kind, at: now, object: Some(object), value: Some(bytes) }));
            }
        }
    }

    fn close(&mut self, watch: Watch, now: Time) {
        for thread in watch.threads.values() {
            self.end_wait(thread, now);
        }
    }

    fn end(&mut self) -> Finished {
        let now = Time::now();
        for (_, watch) in std::mem::take(&mut self.watched) {
            self.close(watch, now);
        }
        self.sink.take(&mut self.batch);
        let resolution_ns = now.since(self.first).checked_div(self.looks).unwrap_or(0);
        let ms = resolution_ns as f64 / 1e6;
        let mut notes = Vec::new();
        if !self.hidden.is_empty() {
            let names = self.hidden.iter().cloned().collect::<Vec<_>>().join(", ");
            notes.push(format!(
                "What {names} waited for could not be seen, because its calls may not be looked at: record as root or as its user."
            ));
        }
        let not_seen = format!(
            "Threads were looked at every {ms:.1} ms: what they waited for is exact in length and guessed in kind; who woke them, \
             single requests of devices, memory-mapped files and processes shorter than {} ms were not seen.",
            SLOW_PART.as_millis()
        );
        let attributes = vec![
            ("not_seen".to_owned(), not_seen),
            ("resolution_ns".to_owned(), resolution_ns.to_string()),
            ("recorder.cpu_ns".to_owned(), thread_cpu().as_nanos().to_string()),
        ];
        Finished { dropped_events: 0, attributes, notes }
    }
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
