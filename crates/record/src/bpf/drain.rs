//! The kernel recorder's part of the reader thread: attaches to the processes to watch, translates records, reads
//! /proc, and passes events on.

use super::load::{Programs, WHO};
use super::looks::Looks;
use super::peers::Peers;
use super::raw::{self, Settings};
use super::snapshot::Snapshots;
use super::symbols::Symbols;
use super::system::System;
use super::task_locks::TaskLocks;
use super::translate::facts::Facts;
use super::translate::{Calls, Class, Translator};
use crate::groups::{Groups, killed_of_machine};
use crate::kernel::clock::now_ns;
use crate::kernel::cost::{Counting, Spent};
use crate::kernel::reader::{self, be_prompt};
use crate::kernel::ring;
use crate::kernel::tracepoints::Tracepoints;
use crate::perf::online_processors;
use crate::quota::Quota;
use crate::recorder::{Finished, RecordError, Tier, Watched};
use libbpf_rs::Map;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use thalweg_trace::{CounterOf, MarkKind, Role, TrackId, TrackKind};

/// Minimum interval between two records of a connection's TCP state.
const TCP_GAP_NS: u32 = 1_000_000;

/// Maximum length of a run of sends or receives in one record.
const MERGE_NS: u32 = 1_000_000;

/// Polling interval for open files, and for quotas if there are any.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_AT_QUOTAS: Duration = Duration::from_millis(50);

/// Refresh interval for listening ports, where they are queried at all.
const REFRESH: Duration = Duration::from_secs(1);

/// Events are passed on when there are this many, or when the oldest is [`LOOK`] old.
const BATCH: usize = 1_024;

/// Maximum polling back-off, as a multiple of the shortest pause. The pause doubles while no process is new: new ones
/// are examined when the ring is drained, and nothing else is urgent.
const SELDOM: u32 = 10;

/// The kernel recorder's part of the reader thread.
pub(crate) struct BpfConsumer {
    watched: Watched,
    programs: Programs,
    translator: Translator,
    system: System,
    snapshots: Snapshots,
    peers: Peers,
    looks: Looks,
    words: Looks,
    task_locks: TaskLocks,
    groups: Groups,
    /// Processes killed by the machine's OOM killer before the recording.
    killed_before: u64,
    /// Quotas of watched processes, one process per group of processes under the same quota.
    quotas: Vec<(u32, Quota)>,
    /// The reader's own track, where losses are marked.
    track: TrackId,
    lost: u64,
    /// The reader's next pause, unless it is woken.
    pause: Duration,
    polled: Instant,
    refreshed: Instant,
}

/// Returns the kernel's tick, the resolution of its coarse clock.
fn tick_us() -> u64 {
    let resolution = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    u64::try_from(resolution.tv_nsec / 1_000).unwrap_or(4_000).max(1)
}

fn role_number(role: Role) -> u32 {
    if role == Role::Server { raw::ROLE_SERVER } else { raw::ROLE_CLIENT }
}

/// Returns the programs' settings, which must be set before verification; no process is followed.
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

/// Returns the polling interval.
fn poll_every(quotas: &[(u32, Quota)]) -> Duration {
    if quotas.is_empty() { LOOK } else { LOOK_AT_QUOTAS }
}

impl BpfConsumer {
    /// Marks losses, and passes events to the sink.
    fn hand_on(&mut self) {
        let output = &mut self.translator.output;
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

    /// Polls what only /proc shows: open files, throttled time.
    fn poll(&mut self) {
        let BpfConsumer { translator, system, .. } = self;
        self.snapshots.poll(translator, system).into_iter().for_each(|pid| self.groups.watch(pid));
        for (pid, quota) in &mut self.quotas {
            let Some(throttled_ns) = quota.changed() else { continue };
            let now = now_ns();
            if let Some(track) = translator.threads.main_track(*pid, &mut translator.output) {
                translator.output.counter(CounterOf::Track(track), thalweg_trace::CounterName::CpuThrottledNs, now, throttled_ns);
            }
        }
    }
}

impl reader::RingConsumer for BpfConsumer {
    type Arguments = (Watched, Tracepoints);
    /// The map in which the programs keep threads.
    type Ready = Option<OwnedFd>;

    const WHO: &'static str = WHO;
    const THREAD: &'static str = "thalweg-reader";

    fn begin((watched, tracepoints): (Watched, Tracepoints)) -> Result<BpfConsumer, RecordError> {
        let calls = watched.tier != Tier::Lean;
        let own_pid = std::process::id();
        // A reader that never pauses would leave programs on its CPU hardly any time.
        let prompt = !watched.drain.is_zero() && be_prompt();
        let ring_bytes = ring::size_bytes(std::thread::available_parallelism().map_or(1, usize::from), calls, prompt);
        let (follow, command_pid) = (u32::from(watched.follow), watched.command.as_ref().map_or(0, |command| command.pid));
        let settings = Settings { follow, command_pid, ..settings(calls, ring_bytes) };
        let programs = Programs::load(&settings, &tracepoints, ring_bytes)?;
        let mut system = System::default();
        system.symbols = Symbols::of(&programs);
        let mut translator = Translator::new(watched.host, watched.space, tick_us(), calls);
        translator.threads.names = watched.names.clone();
        translator.threads.processors = u32::try_from(online_processors().len()).unwrap_or(0);
        programs.watch(own_pid, raw::ROLE_RECORDER)?;
        let mut quotas: Vec<(u32, Quota)> = Vec::new();
        let mut task_locks = TaskLocks::new();
        if let Some((command, executable)) = watched.command.as_ref().zip(watched.executable.as_ref()) {
            task_locks.watch_program(command.pid, executable, &programs);
        }
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
        Ok(BpfConsumer {
            pause: watched.drain,
            watched,
            programs,
            translator,
            system,
            snapshots: Snapshots::default(),
            peers,
            looks: Looks::of_pauses(),
            words: Looks::of_words(),
            task_locks,
            groups: Groups::default(),
            killed_before: 0,
            quotas,
            track,
            lost: 0,
            polled: Instant::now(),
            refreshed: Instant::now(),
        })
    }

    fn ring(&self) -> Option<Map<'_>> {
        self.programs.map("ring")
    }

    fn ready(&mut self) -> Option<OwnedFd> {
        self.programs.map("threads").and_then(|map| map.as_fd().try_clone_to_owned().ok())
    }

    fn begun(&mut self) {
        self.words.round(&self.programs, true);
        self.killed_before = killed_of_machine();
    }

    fn record(&mut self, bytes: &[u8]) {
        self.translator.record(bytes, &mut self.system);
        if self.translator.output.events.len() >= BATCH {
            self.watched.sink.take(&mut self.translator.output.events);
        }
    }

    fn taken(&mut self) -> Result<(), RecordError> {
        let BpfConsumer { translator, system, .. } = self;
        let longest = self.watched.drain.saturating_mul(SELDOM).min(poll_every(&self.quotas)).max(self.watched.drain);
        self.pause = self.pause.saturating_mul(2).min(longest);
        for pid in std::mem::take(&mut translator.threads.fresh) {
            self.pause = self.watched.drain;
            system.watching(pid);
            self.snapshots.watch(pid);
            self.groups.watch(pid);
            self.task_locks.watch(pid, &self.programs);
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
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Duration {
        if now - self.polled >= poll_every(&self.quotas) {
            self.polled = now;
            self.poll();
            self.hand_on();
        }
        if now - self.refreshed >= REFRESH {
            self.refreshed = now;
            self.system.refresh();
        }
        self.task_locks.round(now, self.translator.task_locks.recorded);
        self.programs.weigh_reads(now);
        self.programs.pace_samples(now, self.translator.samples);
        self.pause
    }

    fn stop(&mut self) -> Result<(), RecordError> {
        self.programs.walk("sweep")?;
        self.programs.stop();
        Ok(())
    }

    fn finish(&mut self, counting: Counting) -> Result<Finished, RecordError> {
        self.translator.end(&mut self.system);
        self.poll();
        self.hand_on();
        let cost = self.programs.cost();
        let Spent { reader_ns, programs_ns } = counting.end(cost);
        let BpfConsumer { translator, system, .. } = self;
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
            not_seen.push("File reads were counted for part of the run only: counting would have slowed it down.".to_owned());
        }
        if self.task_locks.in_part {
            not_seen.push("Waits for mutexes of Go were recorded for part of the run only: there were too many.".to_owned());
        }
        not_seen.extend(self.peers.not_followed(&self.programs.control()));
        if !self.programs.missing.is_empty() {
            not_seen.push(format!("This kernel does not report {}.", self.programs.missing.join(", ")));
        }
        if translator.used_uring {
            not_seen.push("Reads and writes of io_uring show only as waits and device requests.".to_owned());
        }
        if translator.spliced_in {
            not_seen.push("Data spliced from a connection shows only as waits and at its other end.".to_owned());
        }
        if !not_seen.is_empty() {
            say("not_seen", not_seen.join(" "));
        }
        if self.lost > 0 {
            finished.notes.push(format!("{} events were lost because the ring was full.", self.lost));
        }
        Ok(finished)
    }
}
