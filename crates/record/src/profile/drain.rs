//! The reader thread of a profile: drains the ring, builds stacks of addresses, and records CPU times.
//!
//! Samples and process events come from two sources. Each round takes the samples first and then the events, so that
//! everything a sample may need is known, and merges both in order of time.

use super::counts::{Counts, Opened};
use super::events::{Events, Happened, What};
use super::load::{Choices, Programs, WHO};
use super::processors::Processors;
use super::raw::{self, Sample};
use super::resolve::{Resolved, Resolver};
use super::tracks::SharedTracks;
use crate::kernel::clock::time;
use crate::kernel::cost::Counting;
use crate::kernel::reader::{self, be_prompt};
use crate::kernel::tracepoints::Tracepoints;
use crate::perf::{SAMPLE_NS, online_processors};
use crate::recorder::{Finished, RecordError, Watched};
use crate::symbols::KernelSymbols;
use libbpf_rs::Map;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_trace::{Event, Role, Track, TrackId, TrackKind, Waited};

/// How often CPU times are read.
const LOOK: Duration = Duration::from_millis(100);

/// Events buffered before they are passed on.
const BATCH: usize = 1_024;

/// Maximum threads whose names are remembered.
const MOST_THREADS: usize = 65_536;

/// Maximum stacks of waits in a recording, which are in memory when it is finished: 64 MB.
const MOST_WAITS: u64 = 1 << 20;

/// `class` of a sample, numbered from [`FIRST_CLASS`].
const CLASSES: [&str; 4] = ["profile.user", "profile.kernel", "profile.softirq", "profile.hardirq"];

const FIRST_CLASS: u16 = thalweg_trace::Sample::FIRST_PROFILE_CLASS;

/// Number of identifier bits below the profile's space.
const SPACE_SHIFT: u32 = 40;

/// Records of one round, concatenated, with the end of each.
#[derive(Debug, Default)]
struct Taken {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// The profile's part of the reader thread.
pub(crate) struct ProfileConsumer {
    watched: Watched,
    programs: Programs,
    taken: Taken,
    events: Events,
    happened: Vec<Happened>,
    state: State,
    start_ns: u64,
    looked: Instant,
    /// Each CPU's times at the end of recording.
    times: Vec<(u32, raw::Times)>,
    notes: Vec<String>,
}

/// State for converting samples to events.
struct State {
    resolver: Resolver,
    processors: Processors,
    counts: Counts,
    tracks: Arc<SharedTracks>,
    /// Last recorded name, by process and thread number.
    names: HashMap<(u32, u32), String>,
    output: Vec<Event>,
    own_pid: u32,
    /// No other recorder records threads, so they get their processes' roles.
    alone: bool,
    /// Stacks of waits so far.
    waits: u64,
    host: thalweg_trace::HostId,
    space: u16,
    next: u64,
    refused: u64,
}

impl ProfileConsumer {
    fn hand_on(&mut self) {
        if !self.state.output.is_empty() {
            self.watched.sink.take(&mut self.state.output);
        }
    }
}

impl reader::RingConsumer for ProfileConsumer {
    type Arguments = (Watched, Tracepoints, Arc<SharedTracks>, Choices);
    type Ready = ();

    const WHO: &'static str = WHO;
    const THREAD: &'static str = "thalweg-profile";

    fn begin((watched, tracepoints, tracks, mut choices): Self::Arguments) -> Result<ProfileConsumer, RecordError> {
        be_prompt();
        let mut opened = Opened::open(&choices.events, &online_processors());
        let mut notes: Vec<String> = opened.note.take().into_iter().collect();
        let programs = load(&tracepoints, &mut choices, &opened, &mut notes)?;
        let events = Events::open().unwrap_or_else(|error| {
            notes.push(format!(
                "The kernel does not report mappings to the profile ({error}): stacks of short-lived processes have no names."
            ));
            Events::default()
        });
        let mut state = State::new(&watched, tracks, choices.stack_bytes);
        let Resolver { spaces, modules, .. } = &mut state.resolver;
        spaces.begin(modules);
        state.counts = Counts::begin(&opened);
        Ok(ProfileConsumer {
            watched,
            programs,
            taken: Taken::default(),
            events,
            happened: Vec::new(),
            state,
            start_ns: 0,
            looked: Instant::now(),
            times: Vec::new(),
            notes,
        })
    }

    fn ring(&self) -> Option<Map<'_>> {
        self.programs.ring()
    }

    fn ready(&mut self) {
        // In this order, no sample precedes the start.
        let times = self.programs.settle();
        self.programs.run(true);
        self.start_ns = times.iter().map(|(_, times)| times.last_ns).min().unwrap_or(0);
        self.state.processors(&times);
        self.state.counts.emit_begin(time(self.start_ns), &self.state.processors, &mut self.state.output);
    }

    fn record(&mut self, bytes: &[u8]) {
        self.taken.bytes.extend_from_slice(bytes);
        self.taken.ends.push(self.taken.bytes.len());
    }

    fn taken(&mut self) -> Result<(), RecordError> {
        self.events.take(&mut self.happened);
        let mut taken = std::mem::take(&mut self.taken);
        let mut happened = std::mem::take(&mut self.happened).into_iter().peekable();
        let mut from = 0;
        for end in &taken.ends {
            let sample = taken.bytes.get(from..*end).and_then(Sample::parse);
            from = *end;
            let Some(sample) = sample else {
                self.state.refused += 1;
                continue;
            };
            while let Some(event) = happened.next_if(|event| event.at_ns <= sample.at_ns) {
                self.state.happened(event);
            }
            match sample.waited_from_ns() {
                Some(from_ns) => self.state.waited(&sample, from_ns),
                None => self.state.sample(&sample),
            }
            if self.state.output.len() >= BATCH {
                self.watched.sink.take(&mut self.state.output);
            }
        }
        // With no samples left, the events alone are in order.
        happened.for_each(|event| self.state.happened(event));
        taken.bytes.clear();
        taken.ends.clear();
        self.taken = taken;
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Duration {
        if now - self.looked >= LOOK {
            self.looked = now;
            let times = self.programs.settle();
            self.state.processors(&times);
        }
        self.hand_on();
        LOOK.saturating_sub(self.looked.elapsed())
    }

    fn stop(&mut self) -> Result<(), RecordError> {
        // In this order, every sample is counted: settling waits for what runs on each CPU.
        self.programs.run(false);
        self.times = self.programs.settle();
        Ok(())
    }

    fn finish(&mut self, counting: Counting) -> Result<Finished, RecordError> {
        let times = std::mem::take(&mut self.times);
        self.state.processors(&times);
        self.hand_on();
        let end_ns = times.iter().map(|(_, times)| times.last_ns).max().unwrap_or(self.start_ns);
        let spent = counting.end(self.programs.cost());
        let sampler_ns: u64 = times.iter().map(|(_, times)| times.sampler_ns).sum();
        let bpf_ns = spent.programs_ns.unwrap_or(0).max(sampler_ns);
        let reader_ns = spent.reader_ns;
        let lost: u64 = times.iter().map(|(_, times)| times.lost).sum();
        let taken: u64 = times.iter().map(|(_, times)| times.taken).sum();
        let waits = self.programs.waits();
        // The programs are loaded until their own names have been looked up.
        let kept_waits = self.state.waits;
        let resolved = self.state.resolver.finish(KernelSymbols::here(), true, |batch| self.watched.sink.take(batch));
        let Resolved { cut, is_hidden, unwound } = resolved;
        let on_clock = |ns| time(ns).ns().to_string();
        let mut attributes = vec![
            ("profile.period_ns".to_owned(), SAMPLE_NS.to_string()),
            ("profile.start_ns".to_owned(), on_clock(self.start_ns)),
            ("profile.end_ns".to_owned(), on_clock(end_ns)),
            ("profile.bpf_ns".to_owned(), bpf_ns.to_string()),
            ("profile.reader_ns".to_owned(), reader_ns.to_string()),
            ("profile.samples".to_owned(), taken.to_string()),
            ("profile.lost".to_owned(), lost.to_string()),
            ("recorder.cpu_ns".to_owned(), (bpf_ns + reader_ns).to_string()),
        ];
        if self.programs.takes_waits() {
            attributes.push(("profile.waits".to_owned(), waits.taken.to_string()));
            attributes.push((
                "profile.waits_left_out".to_owned(),
                (waits.left_out + waits.lost + waits.taken.saturating_sub(kept_waits)).to_string(),
            ));
        }
        attributes.push(("profile.user_stacks".to_owned(), if unwound.is_some() { "dwarf" } else { "fp" }.to_owned()));
        attributes.extend(self.state.counts.attributes());
        attributes.extend((FIRST_CLASS..).zip(CLASSES).map(|(number, name)| (format!("class.{number}"), name.to_owned())));
        let mut notes = std::mem::take(&mut self.notes);
        if let Some((more, note)) = unwound {
            attributes.extend(more);
            notes.extend(note);
        }
        if is_hidden {
            notes.push(
                "The kernel hides its addresses (kernel.kptr_restrict): functions of the kernel have no names in this profile.".to_owned(),
            );
        }
        if lost > 0 {
            notes.push(format!("{lost} samples of the profile were lost because the ring was full."));
        }
        if cut > 0 {
            notes.push(format!("The profile has more distinct stacks than can be kept: {cut} samples have only their innermost frames."));
        }
        Ok(Finished { dropped_events: self.state.refused, attributes, notes })
    }
}

/// Loads the programs; if the kernel rejects those that copy stacks, loads the others and adds a note.
fn load(tracepoints: &Tracepoints, choices: &mut Choices, opened: &Opened, notes: &mut Vec<String>) -> Result<Programs, RecordError> {
    match Programs::load(tracepoints, choices, opened) {
        Err(RecordError::Failed(error)) if choices.stack_bytes > 0 => {
            choices.stack_bytes = 0;
            let programs = Programs::load(tracepoints, choices, opened)?;
            notes.push(format!("The kernel does not allow copying stacks ({error}); frame pointers were followed instead."));
            Ok(programs)
        }
        loaded => loaded,
    }
}

impl State {
    fn new(watched: &Watched, tracks: Arc<SharedTracks>, stack_bytes: u32) -> State {
        let mut resolver = Resolver::new(stack_bytes);
        let own_pid = std::process::id();
        let others = watched.others.iter().filter(|_| watched.profile_alone);
        for process in watched.command.iter().filter(|_| watched.profile_alone).chain(others) {
            resolver.spaces.has_role(process.pid, process.role);
        }
        State {
            resolver,
            processors: Processors::default(),
            counts: Counts::default(),
            tracks,
            names: HashMap::new(),
            output: Vec::new(),
            own_pid,
            alone: watched.profile_alone,
            waits: 0,
            host: watched.host,
            space: watched.space.0,
            next: 0,
            refused: 0,
        }
    }

    fn processors(&mut self, times: &[(u32, raw::Times)]) {
        let (space, next) = (self.space, &mut self.next);
        self.processors.emit(times, self.host, || track_id(space, next), &mut self.output);
    }

    fn happened(&mut self, event: Happened) {
        if let What::Ended { tid } = event.what {
            self.tracks.ended(event.pid, tid);
            self.names.remove(&(event.pid, tid));
        }
        self.resolver.happened(event);
    }

    /// Records the stack of a wait. Only the other recorder's threads have such stacks; it records when the thread
    /// waited.
    fn waited(&mut self, sample: &Sample<'_>, from_ns: u64) {
        if self.waits >= MOST_WAITS {
            return;
        }
        self.waits += 1;
        let stack = self.stack(sample);
        let (space, next) = (self.space, &mut self.next);
        let (track, _) = self.tracks.of(sample.pid, sample.tid, || track_id(space, next));
        self.output.push(Event::Waited(Waited { track, from: time(from_ns), until: time(sample.at_ns), stack }));
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let stack = self.stack(sample);
        let track = self.track(sample);
        let class = FIRST_CLASS
            + match sample.flags {
                flags if flags & raw::HARDIRQ != 0 => 3,
                flags if flags & raw::SOFTIRQ != 0 => 2,
                flags if flags & raw::USER != 0 => 0,
                _ => 1,
            };
        self.counts.emit(sample, time(sample.at_ns), &self.processors, &mut self.output);
        self.output.push(Event::Sample(thalweg_trace::Sample {
            at: time(sample.at_ns),
            host: self.host,
            cpu: sample.cpu.into(),
            track: Some(track),
            class,
            stack: Some(stack),
            weight_ns: SAMPLE_NS,
        }));
    }

    /// Returns the number of a sample's stack.
    fn stack(&mut self, sample: &Sample<'_>) -> u32 {
        self.resolver.number(sample.pid, sample.kernel(), sample.user(), sample.copied())
    }

    /// Returns the track of the thread that ran; emits it if no other recorder does.
    fn track(&mut self, sample: &Sample<'_>) -> TrackId {
        let (space, next) = (self.space, &mut self.next);
        // Each CPU's idle task is a thread without a number.
        let key = if sample.tid == 0 { (0, u32::from(sample.cpu)) } else { (sample.pid, sample.tid) };
        let (track, is_ours) = self.tracks.of(key.0, key.1, || track_id(space, next));
        if !is_ours {
            return track;
        }
        let name = sample.name();
        if self.names.get(&key) == Some(&name) {
            return track;
        }
        if self.names.len() >= MOST_THREADS {
            self.names.clear();
        }
        let process = Some(key.0).filter(|pid| *pid != 0);
        let role = match process {
            Some(pid) if pid == self.own_pid => Role::Recorder,
            Some(pid) if self.alone => self.resolver.spaces.role(pid),
            _ => Role::None,
        };
        let full = match process.filter(|pid| *pid != sample.tid).and_then(command) {
            Some(command) if command != name => format!("{command}/{name}"),
            _ => name.clone(),
        };
        self.names.insert(key, name);
        let (kind, host) = (TrackKind::Thread, self.host);
        self.output.push(Event::Track(Track { track, host, kind, role, pid: process, tid: process.map(|_| sample.tid), name: full }));
        track
    }
}

/// Returns a process's name.
fn command(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned()).filter(|name| !name.is_empty())
}

fn track_id(space: u16, next: &mut u64) -> TrackId {
    loop {
        *next += 1;
        if let Some(id) = TrackId::new(u64::from(space) << SPACE_SHIFT | *next) {
            return id;
        }
    }
}
