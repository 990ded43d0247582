//! The thread that reads the samples of the user's own programs.

use super::clocks::{ClockRecord, Clocks};
use super::ran::Ran;
use super::sample::SampledStack;
use crate::counted::Counts;
use crate::counted::why::hidden_processes;
use crate::perf::Id;
use crate::profile::events::{Happened, What};
use crate::profile::resolve::Resolver;
use crate::profile::tracks::SharedTracks;
use crate::recorder::{Finished, Watched};
use crate::symbols::KernelSymbols;
use crate::worker::{Stop, thread_cpu};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use thalweg_trace::{Event, Sample, Track, TrackId, TrackKind};

/// The class of these samples, numbered from [`Sample::FIRST_PROFILE_CLASS`].
const CLASS: &str = "profile.user";

/// First number of a track: those below are the counts'.
const FIRST_TRACK: u64 = 1 << 32;

/// Number of identifier bits below the profile's space.
const SPACE_SHIFT: u32 = 40;

/// Events passed on together.
const BATCH: usize = 1_024;

/// Maximum threads whose names are remembered.
const MOST_THREADS: usize = 65_536;

/// Sampled time from which on functions beside an ordinary recording are named: below it, parts could not be
/// distinguished, and reading a file's symbols takes milliseconds.
const ENOUGH_NS: u64 = 30_000_000;

/// Samples of a thread that is not known by name run under this.
const UNNAMED: &str = "unknown";

/// What the profile is for.
#[derive(Clone, Debug)]
pub(super) struct Purpose {
    /// It was asked for. Otherwise it is there to name functions in an ordinary recording: samples are few, and what is
    /// missing is not said.
    pub is_asked_for: bool,
    /// Why it is not a profile of the whole machine.
    pub why: String,
    /// The command's name.
    pub command: String,
}

/// The state of the reader.
pub(super) struct Drain {
    watched: Watched,
    clocks: Clocks,
    is_asked_for: bool,
    counts: Counts,
    resolver: Resolver,
    tracks: Arc<SharedTracks>,
    ran: Ran,
    /// Names of threads.
    names: HashMap<u32, String>,
    /// The name with which a thread was last recorded.
    recorded: HashMap<(u32, u32), String>,
    output: Vec<Event>,
    next: u64,
    samples: u64,
    refused: u64,
}

impl Drain {
    /// Begins: the command is held.
    pub(super) fn begin(watched: Watched, clocks: Clocks, tracks: Arc<SharedTracks>, purpose: Purpose) -> Drain {
        let mut resolver = Resolver::new(clocks.stack_bytes);
        for process in watched.command.iter().chain(&watched.others) {
            resolver.spaces.has_role(process.pid, process.role);
        }
        // Beside another recorder, that one has the processes.
        let Purpose { is_asked_for, why, command } = purpose;
        let counts = Counts::begin(watched.clone(), why, &command, watched.profile_alone);
        let ran = Ran::new(clocks.period_ns);
        let (names, recorded, output) = (HashMap::new(), HashMap::new(), Vec::new());
        let (next, samples, refused) = (FIRST_TRACK, 0, 0);
        Drain { watched, clocks, is_asked_for, counts, resolver, tracks, ran, names, recorded, output, next, samples, refused }
    }

    /// Reads the rings until asked to end, then once more.
    pub(super) fn run(mut self, stop: &Stop) -> Finished {
        let mut looked = Instant::now();
        loop {
            let is_last = stop.wait(self.clocks.round());
            self.round(is_last);
            if is_last {
                return self.finish();
            }
            if looked.elapsed() >= self.counts.pause() {
                self.counts.look();
                looked = Instant::now();
            }
        }
    }

    fn round(&mut self, is_last: bool) {
        for (_, seen) in self.clocks.take(is_last) {
            match seen {
                ClockRecord::Sample { id, rest } => self.sample(id, &rest),
                ClockRecord::Process(event) => self.happened(event),
                ClockRecord::Named { tid, name } => self.named(tid, name),
                ClockRecord::Ran { tid, cpu, ns } => self.ran.ended(tid, cpu, ns),
            }
            if self.output.len() >= BATCH {
                self.watched.sink.take(&mut self.output);
            }
        }
        if !self.output.is_empty() {
            self.watched.sink.take(&mut self.output);
        }
    }

    fn happened(&mut self, event: Happened) {
        match event.what {
            What::Forked { parent } => {
                if let Some(name) = self.names.get(&parent).cloned() {
                    self.named(event.pid, name);
                }
            }
            What::Ended { tid } => {
                self.tracks.ended(event.pid, tid);
                self.names.remove(&tid);
                self.recorded.remove(&(event.pid, tid));
            }
            What::Began | What::Mapped { .. } => {}
        }
        self.resolver.happened(event);
    }

    fn named(&mut self, tid: u32, name: String) {
        if self.names.len() >= MOST_THREADS {
            self.names.clear();
        }
        self.names.insert(tid, name);
    }

    fn sample(&mut self, id: Id, rest: &[u8]) {
        let Some(sampled) = SampledStack::parse(rest, self.clocks.stack_bytes > 0) else {
            self.refused += 1;
            return;
        };
        self.ran.sampled(id.tid, id.cpu);
        self.samples += 1;
        // A copied stack is followed by its tables; the kernel's frames would be the same ones again.
        let by_pointers = sampled.addresses().take(if sampled.copied.is_some() { 0 } else { usize::MAX });
        let stack = self.resolver.number(id.pid, std::iter::empty(), by_pointers, sampled.copied);
        let track = self.track(id.pid, id.tid);
        self.output.push(Event::Sample(Sample {
            at: id.at,
            host: self.watched.host,
            cpu: id.cpu,
            track: Some(track),
            class: Sample::FIRST_PROFILE_CLASS,
            stack: Some(stack),
            weight_ns: self.clocks.period_ns,
        }));
    }

    /// Returns the track of a thread; emits it if no other recorder does.
    fn track(&mut self, pid: u32, tid: u32) -> TrackId {
        let (space, next) = (self.watched.space.0, &mut self.next);
        let (track, is_ours) = self.tracks.of(pid, tid, || track_id(space, next));
        if !is_ours {
            return track;
        }
        let program = self.name(pid);
        let own = self.names.get(&tid).filter(|own| tid != pid && **own != program);
        let name = own.map_or_else(|| program.clone(), |own| format!("{program}/{own}"));
        if self.recorded.get(&(pid, tid)) != Some(&name) {
            if self.recorded.len() >= MOST_THREADS {
                self.recorded.clear();
            }
            self.recorded.insert((pid, tid), name.clone());
            let (kind, role, host) = (TrackKind::Thread, self.resolver.spaces.role(pid), self.watched.host);
            self.output.push(Event::Track(Track { track, host, kind, role, pid: Some(pid), tid: Some(tid), name }));
        }
        track
    }

    /// Returns a process's name: perf reports it from its exec on, and for older ones /proc has it.
    fn name(&mut self, pid: u32) -> String {
        if let Some(name) = self.watched.names.get(&pid).or_else(|| self.names.get(&pid)) {
            return name.clone();
        }
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = Some(name.trim_end()).filter(|name| !name.is_empty()).unwrap_or(UNNAMED).to_owned();
        self.named(pid, name.clone());
        name
    }

    fn finish(mut self) -> Finished {
        let reader_ns = thread_cpu().as_nanos().to_string();
        let is_enough = self.is_asked_for || self.samples * self.clocks.period_ns >= ENOUGH_NS;
        let resolved = self.resolver.finish(KernelSymbols::default(), is_enough, |batch| self.watched.sink.take(batch));
        let mut attributes = self.counts.finish();
        let sums = self.ran.finish(self.clocks.ran());
        let unwound = resolved.unwound;
        let more = [
            ("profile.period_ns", self.clocks.period_ns.to_string()),
            ("profile.samples", self.samples.to_string()),
            ("profile.lost", self.clocks.lost.to_string()),
            ("profile.reader_ns", reader_ns.clone()),
            ("recorder.cpu_ns", reader_ns),
            ("profile.own_run_ns", sums.run_ns.to_string()),
            ("profile.own_user_ns", sums.user_ns.to_string()),
            ("profile.own_kernel_ns", sums.kernel_ns.to_string()),
            ("profile.own_short_ns", sums.short_ns.to_string()),
            ("profile.user_stacks", if unwound.is_some() { "dwarf" } else { "fp" }.to_owned()),
        ];
        attributes.extend(more.map(|(name, value)| (name.to_owned(), value)));
        attributes.push((format!("class.{}", Sample::FIRST_PROFILE_CLASS), CLASS.to_owned()));
        let mut notes = if self.is_asked_for { notes(&self.clocks, resolved.cut) } else { Vec::new() };
        if let Some((more, note)) = unwound {
            attributes.extend(more);
            notes.extend(note);
        }
        if self.watched.profile_alone {
            notes.extend(hidden_processes());
        }
        Finished { dropped_events: self.refused, attributes, notes }
    }
}

/// Returns notes on what is missing, a sentence each.
fn notes(clocks: &Clocks, cut: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if clocks.lost > 0 {
        notes.push(format!(
            "{} records of the profile were lost because its rings of {} KiB were full (what a user may lock is limited: \
             kernel.perf_event_mlock_kb).",
            clocks.lost,
            clocks.ring_bytes >> 10
        ));
    }
    if clocks.left_out > 0 {
        let left_out = clocks.left_out;
        notes.push(format!(
            "{left_out} threads of processes other than the command are not in the profile: they are another user's, or too many."
        ));
    }
    if cut > 0 {
        notes.push(format!("The profile has more distinct stacks than can be kept: {cut} samples have only their innermost frames."));
    }
    notes
}

fn track_id(space: u16, next: &mut u64) -> TrackId {
    loop {
        *next += 1;
        if let Some(id) = TrackId::new(u64::from(space) << SPACE_SHIFT | *next) {
            return id;
        }
    }
}
