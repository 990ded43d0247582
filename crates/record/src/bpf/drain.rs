//! The reader's thread: takes hold of whom to watch, empties the ring by the clock or when it fills, and hands events on.
//!
//! It is one thread because the ring has one reader. Everything of libbpf lives and dies in it.

use super::groups::{Groups, killed_of_machine};
use super::load::Programs;
use super::looks::Looks;
use super::peers::Peers;
use super::raw::{self, Settings};
use super::snapshot::Snapshots;
use super::symbols::Symbols;
use super::system::System;
use super::translate::facts::Facts;
use super::translate::{Calls, Class, Translator};
use crate::kernel::clock::now_ns;
use crate::kernel::cost::Counting;
use crate::kernel::perf::online_processors;
use crate::kernel::ring::{self, Ending, Ring, Woken};
use crate::kernel::tracepoints::Tracepoints;
use crate::quota::Quota;
use crate::recorder::{Finished, RecordError, Tier, Watched};
use crate::worker::thread_cpu;
use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use thalweg_trace::{CounterOf, MarkKind, Role, Sink, TrackId, TrackKind};

/// Between two records of TCP's state of one connection.
const TCP_GAP_NS: u32 = 1_000_000;

/// The longest run of sends or receives in one record.
const MERGE_NS: u32 = 1_000_000;

/// How often files that are open are polled; quotas where there are any.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_AT_QUOTAS: Duration = Duration::from_millis(50);

/// How often what is listened on is asked anew, where it is asked at all.
const REFRESH: Duration = Duration::from_secs(1);

/// Events are handed on when there are so many, or when the oldest is as old as [`LOOK`].
const BATCH: usize = 1_024;

/// The reader takes little time, but it must have it at once where many threads want the processors: the ring fills meanwhile.
pub(crate) const NICE: i32 = -19;

/// The pause between two rounds doubles up to so many times the least while no process is new: new ones are looked at when the ring is
/// emptied, and nothing else is urgent.
const SELDOM: u32 = 10;

/// A reader at work.
#[derive(Debug)]
pub(crate) struct Reader {
    ending: Arc<Ending>,
    threads: Option<OwnedFd>,
    finished: mpsc::Receiver<Result<Finished, RecordError>>,
}

impl Reader {
    /// Starts the thread, and waits until everybody to watch is watched.
    pub(crate) fn start(watched: Watched, tracepoints: Tracepoints) -> Result<Reader, RecordError> {
        let ending = Arc::new(Ending::new()?);
        let (ready, begun) = mpsc::channel();
        let (done, finished) = mpsc::channel();
        let theirs = Arc::clone(&ending);
        std::thread::Builder::new()
            .name("thalweg-reader".to_owned())
            .spawn(move || match Work::begin(watched, &tracepoints, &theirs, &ready) {
                Err(error) => drop(done.send(Err(error))),
                Ok(mut work) => {
                    let _ = done.send(work.run());
                    // Nothing is recorded any longer. To take the programs out of the kernel takes long, and nobody has to wait for it.
                    drop(work);
                }
            })
            .map_err(|e| RecordError::Failed(format!("the recorder's thread cannot be started: {e}")))?;
        match begun.recv() {
            Ok(threads) => Ok(Reader { ending, threads, finished }),
            // It ended before it was ready: its result says why.
            Err(_) => Err(match finished.recv() {
                Ok(Err(error)) => error,
                _ => RecordError::Failed("the recorder's thread ended before it had begun".to_owned()),
            }),
        }
    }

    /// The map in which the programs keep threads.
    pub(crate) fn threads(&self) -> Option<OwnedFd> {
        self.threads.as_ref().and_then(|threads| threads.try_clone().ok())
    }

    /// Has the thread record what is left, and waits for it.
    pub(crate) fn finish(self) -> Result<Finished, RecordError> {
        self.ending.ask();
        self.finished.recv().unwrap_or_else(|_| Err(RecordError::Failed("the recorder's thread failed".to_owned())))
    }
}

/// The translator and what it asks, together: the ring's callback needs both.
struct Both {
    translator: Translator,
    system: System,
}

struct Work {
    watched: Watched,
    programs: Programs,
    both: Rc<RefCell<Both>>,
    ring: Ring,
    snapshots: Snapshots,
    peers: Peers,
    looks: Looks,
    words: Looks,
    groups: Groups,
    /// How many processes the machine had killed for want of memory before.
    killed_before: u64,
    /// Of each process watched: the group of processes that a quota holds together is one of them.
    quotas: Vec<(u32, Quota)>,
    /// The reader's own track, where losses are marked.
    track: TrackId,
    lost: u64,
    /// For how long the reader sleeps next, if nothing wakes it.
    pause: Duration,
    counting: Counting,
}

/// The kernel's tick: the coarse clock's resolution.
fn tick_us() -> u64 {
    let resolution = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    u64::try_from(resolution.tv_nsec / 1_000).unwrap_or(4_000).max(1)
}

fn role_number(role: Role) -> u32 {
    if role == Role::Server { raw::ROLE_SERVER } else { raw::ROLE_CLIENT }
}

/// The programs' settings, before they are verified; nobody is followed.
pub(super) fn settings(calls: bool, ring_bytes: u32) -> Settings {
    Settings {
        trace_calls: calls.into(),
        tcp_gap_ns: TCP_GAP_NS,
        merge_ns: MERGE_NS,
        follow: 0,
        command_pid: 0,
        wake_shift: ring::wake_shift(ring_bytes),
        call_sendto: i32::try_from(libc::SYS_sendto).unwrap_or(-1),
        call_flags: Calls::default().all_flags(),
    }
}

/// The ring, with the translator behind it.
fn open_ring(programs: &Programs, ending: &Ending, both: &Rc<RefCell<Both>>, sink: &Arc<dyn Sink>) -> Result<Ring, RecordError> {
    let (both, sink) = (Rc::clone(both), Arc::clone(sink));
    Ring::open(programs.map("ring"), ending, move |bytes: &[u8]| {
        let Both { translator, system } = &mut *both.borrow_mut();
        translator.record(bytes, system);
        if translator.output.events.len() >= BATCH {
            sink.take(&mut translator.output.events);
        }
        0
    })
}

impl Work {
    fn begin(
        watched: Watched,
        tracepoints: &Tracepoints,
        ending: &Ending,
        ready: &mpsc::Sender<Option<OwnedFd>>,
    ) -> Result<Work, RecordError> {
        let calls = watched.tier != Tier::Lean;
        let own_pid = std::process::id();
        // By its number a thread alone is meant, not its process. A reader that never pauses would leave a program on its processor next to nothing.
        let prompt = !watched.drain.is_zero() && rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE).is_ok();
        let ring_bytes = ring::size_bytes(std::thread::available_parallelism().map_or(1, usize::from), calls, prompt);
        let (follow, command_pid) = (u32::from(watched.follow), watched.command.as_ref().map_or(0, |command| command.pid));
        let settings = Settings { follow, command_pid, ..settings(calls, ring_bytes) };
        let programs = Programs::load(&settings, tracepoints, ring_bytes)?;
        let counting = Counting::begin();
        let mut system = System::default();
        system.symbols = Symbols::of(&programs);
        let mut translator = Translator::new(watched.host, watched.space, tick_us(), calls);
        translator.threads.names = watched.names.clone();
        translator.threads.processors = u32::try_from(online_processors().len()).unwrap_or(0);
        programs.watch(own_pid, raw::ROLE_RECORDER)?;
        let mut quotas: Vec<(u32, Quota)> = Vec::new();
        for process in watched.command.iter().chain(&watched.others) {
            programs.watch(process.pid, role_number(process.role))?;
            system.watching(process.pid);
            let quota = Quota::of(process.pid);
            if quota.is_some() && !quotas.iter().any(|(_, known)| known.is_same(&quota)) {
                quotas.push((process.pid, quota));
            }
        }
        let track = translator.output.track_id();
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        translator.threads.reader = Some((tid, track));
        translator.output.track(track, TrackKind::Thread, Role::Recorder, Some((own_pid, tid)), "thalweg reader");
        programs.walk("seed")?;
        let mut peers = Peers::default();
        if watched.follow && command_pid != 0 {
            peers.begin(&programs)?;
        }
        let both = Rc::new(RefCell::new(Both { translator, system }));
        let ring = open_ring(&programs, ending, &both, &watched.sink)?;
        let _ = ready.send(programs.map("threads").and_then(|map| map.as_fd().try_clone_to_owned().ok()));
        let pause = watched.drain;
        let snapshots = Snapshots::default();
        let (looks, mut words, groups) = (Looks::of_pauses(), Looks::of_words(), Groups::default());
        words.round(&programs, true);
        Ok(Work {
            watched,
            programs,
            both,
            ring,
            snapshots,
            peers,
            looks,
            words,
            groups,
            killed_before: killed_of_machine(),
            quotas,
            track,
            lost: 0,
            pause,
            counting,
        })
    }

    fn run(&mut self) -> Result<Finished, RecordError> {
        let cpu_before = thread_cpu();
        let (mut polled, mut refreshed) = (Instant::now(), Instant::now());
        let mut ending = false;
        loop {
            if ending {
                self.programs.walk("sweep")?;
                self.programs.stop();
            }
            let mut more = self.drain()?;
            while ending && more {
                more = self.drain()?;
            }
            if ending {
                let Both { translator, system } = &mut *self.both.borrow_mut();
                translator.end(system);
            }
            let now = Instant::now();
            if ending || now - polled >= self.poll_every() {
                polled = now;
                self.poll();
                self.hand_on();
            }
            if ending {
                break;
            }
            if now - refreshed >= REFRESH {
                refreshed = now;
                self.both.borrow_mut().system.refresh();
            }
            self.counting.tick(now);
            self.programs.weigh_reads(now);
            self.programs.pace_samples(now, self.both.borrow().translator.samples);
            ending = self.ring.wait(if more { Duration::ZERO } else { self.pause }) == Woken::Ending;
        }
        self.finish(cpu_before)
    }

    fn poll_every(&self) -> Duration {
        if self.quotas.is_empty() { LOOK } else { LOOK_AT_QUOTAS }
    }

    /// What is in the ring becomes events, and these go to the sink; whether there may be more.
    fn drain(&mut self) -> Result<bool, RecordError> {
        let more = self.ring.take()?;
        let both = Rc::clone(&self.both);
        let Both { translator, system } = &mut *both.borrow_mut();
        let longest = self.watched.drain.saturating_mul(SELDOM).min(self.poll_every()).max(self.watched.drain);
        self.pause = self.pause.saturating_mul(2).min(longest);
        for pid in std::mem::take(&mut translator.threads.fresh) {
            self.pause = self.watched.drain;
            system.watching(pid);
            self.snapshots.watch(pid);
            self.groups.watch(pid);
        }
        for disk in std::mem::take(&mut translator.files.new_disks) {
            self.programs.watch_disk(disk);
        }
        self.snapshots.fresh(translator, system);
        self.looks.round(&self.programs, translator.pauses.until_ns > now_ns());
        self.words.round(&self.programs, self.watched.command.is_some());
        if self.watched.follow {
            self.peers.round(&self.programs, translator)?;
            if self.peers.is_busy(translator) {
                self.pause = self.watched.drain;
            }
        }
        Ok(more)
    }

    /// What was lost is marked, and what was made goes to the sink.
    fn hand_on(&mut self) {
        let output = &mut self.both.borrow_mut().translator.output;
        let lost = self.programs.lost();
        if lost > self.lost {
            let value = i64::try_from(lost - self.lost).unwrap_or(i64::MAX);
            let now = now_ns();
            output.mark(self.track, MarkKind::Lost, now, None, Some(value));
            self.lost = lost;
        }
        if !output.events.is_empty() {
            self.watched.sink.take(&mut output.events);
        }
    }

    /// What is only known from /proc: files that are open, processor time that a quota took.
    fn poll(&mut self) {
        let both = Rc::clone(&self.both);
        let Both { translator, system } = &mut *both.borrow_mut();
        self.snapshots.poll(translator, system).into_iter().for_each(|pid| self.groups.watch(pid));
        for (pid, quota) in &mut self.quotas {
            let Some(throttled_ns) = quota.changed() else { continue };
            let now = now_ns();
            if let Some(track) = translator.threads.main_track(*pid, &mut translator.output) {
                translator.output.counter(CounterOf::Track(track), thalweg_trace::CounterName::CpuThrottledNs, now, throttled_ns);
            }
        }
    }

    fn finish(&mut self, cpu_before: Duration) -> Result<Finished, RecordError> {
        let cost = self.programs.cost();
        let programs_ns = self.counting.end(cost);
        let reader_ns = u64::try_from(thread_cpu().saturating_sub(cpu_before).as_nanos()).unwrap_or(u64::MAX);
        let Both { translator, system } = &mut *self.both.borrow_mut();
        let (leaves, symbols) = (std::mem::take(&mut system.leaves), &mut system.symbols);
        leaves.finish(&mut |address| symbols.name(address).to_owned(), |batch| self.watched.sink.take(batch));
        let mut finished = Finished { dropped_events: translator.refused, ..Finished::default() };
        let mut say = |name: &str, value: String| finished.attributes.push((name.to_owned(), value));
        say("tier", if self.watched.tier == Tier::Lean { "lean" } else { "syscall" }.to_owned());
        say("recorder.cpu_ns", (reader_ns + programs_ns.unwrap_or(0)).to_string());
        say("recorder.reader_cpu_ns", reader_ns.to_string());
        if let Some(ns) = programs_ns {
            say("recorder.programs_cpu_ns", ns.to_string());
            say("recorder.program_runs_counted", cost.runs.to_string());
        }
        for (name, value) in self.groups.attributes(|number| system.disk_of(number)) {
            say(&name, value);
        }
        let killed = killed_of_machine().saturating_sub(self.killed_before);
        if killed > 0 {
            say("memory.killed", killed.to_string());
        }
        for (number, name) in Class::NAMES.iter().enumerate() {
            say(&format!("class.{number}"), (*name).to_owned());
        }
        if !self.looks.recorded().is_zero() {
            say("looks.recorded_ns", self.looks.recorded().as_nanos().to_string());
            say("looks.count", translator.looks.to_string());
            say("looks.in_part", self.looks.in_part.to_string());
        }
        for (name, value) in translator.asks.attributes().into_iter().chain(translator.words.attributes()) {
            say(&name, value);
        }
        let mut not_seen = Vec::new();
        if self.programs.gave_up_reads {
            say("file.reads", "in part".to_owned());
            not_seen.push(
                "How many files were read was not counted to the end: much was read of each, and to count would have slowed it down."
                    .to_owned(),
            );
        }
        not_seen.extend(self.peers.not_followed(&self.programs.control()));
        if !self.programs.missing.is_empty() {
            not_seen.push(format!("This kernel does not report {}.", self.programs.missing.join(", ")));
        }
        if translator.used_uring {
            not_seen.push("What io_uring reads and writes is known by its waits and its devices only.".to_owned());
        }
        if translator.spliced_in {
            not_seen.push("What is spliced from a connection is known by its waits and its other end only.".to_owned());
        }
        if !not_seen.is_empty() {
            say("not_seen", not_seen.join(" "));
        }
        if self.lost > 0 {
            finished.notes.push(format!("{} events were lost: the ring was full.", self.lost));
        }
        Ok(finished)
    }
}
