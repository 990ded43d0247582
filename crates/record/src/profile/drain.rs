//! The reader's thread of a profile: empties the ring, makes stacks of addresses, and records how the processors stand.
//!
//! Samples and what happens to processes come from two sources. Each round takes the samples first and then what has happened, so
//! that whatever a sample may need is there, and goes through both in the order of time.

use super::counts::{Counts, Opened};
use super::events::{Events, Happened, What};
use super::load::{Choices, Programs};
use super::modules::Modules;
use super::name::{self, Made};
use super::processors::Processors;
use super::raw::{self, Sample};
use super::spaces::Spaces;
use super::stacks::{Frame, Stacks};
use super::tracks::SharedTracks;
use super::unwind::{End, Unwinder, Walk};
use crate::bpf::NICE;
use crate::kernel::clock::time;
use crate::kernel::cost::Counting;
use crate::kernel::perf::{SAMPLE_NS, online_processors};
use crate::kernel::ring::{Ending, Ring, Woken};
use crate::kernel::tracepoints::Tracepoints;
use crate::recorder::{Finished, RecordError, Watched};
use crate::worker::thread_cpu;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use thalweg_trace::{Event, Role, Track, TrackId, TrackKind, Waited};

/// How often the processors are asked how they stand.
const LOOK: Duration = Duration::from_millis(100);

/// Events are handed on when there are so many.
const BATCH: usize = 1_024;

/// Threads whose names are remembered at most.
const MOST_THREADS: usize = 65_536;

/// Stacks of waits in a recording at most, which has them in memory when it is finished: 64 MB.
const MOST_WAITS: u64 = 1 << 20;

/// `class` of a sample, in the order of their numbers, beginning at [`FIRST_CLASS`].
const CLASSES: [&str; 4] = ["profile.user", "profile.kernel", "profile.softirq", "profile.hardirq"];

const FIRST_CLASS: u16 = thalweg_trace::Sample::FIRST_PROFILE_CLASS;

/// Identifiers of the profile's tracks are of this space.
const SPACE_SHIFT: u32 = 40;

/// A reader at work.
#[derive(Debug)]
pub(crate) struct Reader {
    ending: Arc<Ending>,
    thread: std::thread::JoinHandle<Result<Finished, RecordError>>,
}

impl Reader {
    /// Starts the thread, and waits until samples are taken.
    pub(crate) fn start(
        watched: Watched,
        tracepoints: Tracepoints,
        tracks: Arc<SharedTracks>,
        choices: Choices,
    ) -> Result<Reader, RecordError> {
        let ending = Arc::new(Ending::new()?);
        let (ready, begun) = mpsc::channel();
        let theirs = Arc::clone(&ending);
        let thread = std::thread::Builder::new()
            .name("thalweg-profile".to_owned())
            .spawn(move || Work::begin(watched, (&tracepoints, choices), tracks, &theirs, &ready).and_then(Work::run))
            .map_err(|e| RecordError::Failed(format!("the profile's thread cannot be started: {e}")))?;
        match begun.recv() {
            Ok(()) => Ok(Reader { ending, thread }),
            // It ended before it was ready: its result says why.
            Err(_) => Err(match thread.join() {
                Ok(Err(error)) => error,
                _ => RecordError::Failed("the profile's thread ended before it had begun".to_owned()),
            }),
        }
    }

    /// Has the thread end; it is not waited for.
    pub(crate) fn ask(&self) {
        self.ending.ask();
    }

    /// Has the thread record what is left, and waits for it.
    pub(crate) fn finish(self) -> Result<Finished, RecordError> {
        self.ending.ask();
        self.thread.join().unwrap_or_else(|_| Err(RecordError::Failed("the profile's thread failed".to_owned())))
    }
}

/// Records of one round, one after the other, each with where it ends.
#[derive(Debug, Default)]
struct Taken {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

struct Work {
    watched: Watched,
    programs: Programs,
    ring: Ring,
    taken: Rc<RefCell<Taken>>,
    events: Events,
    happened: Vec<Happened>,
    state: State,
    counting: Counting,
    cpu_before: Duration,
    start_ns: u64,
    takes_waits: bool,
    notes: Vec<String>,
}

/// What samples become events with.
struct State {
    spaces: Spaces,
    modules: Modules,
    stacks: Stacks,
    made: Made,
    processors: Processors,
    counts: Counts,
    tracks: Arc<SharedTracks>,
    /// By process and thread number: the name that was last recorded.
    names: HashMap<(u32, u32), String>,
    frames: Vec<Frame>,
    /// Of copied stacks.
    unwinder: Option<Unwinder>,
    output: Vec<Event>,
    own_pid: u32,
    /// Threads have the roles of their processes: nobody else records them.
    alone: bool,
    /// Stacks of waits so far.
    waits: u64,
    host: thalweg_trace::HostId,
    space: u16,
    next: u64,
    refused: u64,
}

impl Work {
    fn begin(
        watched: Watched,
        (tracepoints, mut choices): (&Tracepoints, Choices),
        tracks: Arc<SharedTracks>,
        ending: &Ending,
        ready: &mpsc::Sender<()>,
    ) -> Result<Work, RecordError> {
        // By its number a thread alone is meant, not its process.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
        let mut opened = Opened::open(&choices.events, &online_processors());
        let mut notes: Vec<String> = opened.note.take().into_iter().collect();
        let programs = load(tracepoints, &mut choices, &opened, &mut notes)?;
        let events = Events::open().unwrap_or_else(|error| {
            notes.push(format!(
                "The kernel does not report mappings to the profile ({error}): stacks of short processes stay without names."
            ));
            Events::default()
        });
        let taken = Rc::new(RefCell::new(Taken::default()));
        let into = Rc::clone(&taken);
        let ring = Ring::open(programs.ring(), ending, move |bytes: &[u8]| {
            let taken = &mut *into.borrow_mut();
            taken.bytes.extend_from_slice(bytes);
            taken.ends.push(taken.bytes.len());
            0
        })?;
        let mut state = State::new(&watched, tracks, choices.stack_bytes);
        let takes_waits = programs.takes_waits();
        state.spaces.begin(&mut state.modules);
        state.counts = Counts::begin(&opened);
        // In this order no sample is from before the beginning.
        let times = programs.settle();
        programs.run(true);
        let cpu_before = thread_cpu();
        let start_ns = times.iter().map(|(_, times)| times.last_ns).min().unwrap_or(0);
        state.processors(&times);
        state.counts.emit_begin(time(start_ns), &state.processors, &mut state.output);
        let counting = Counting::begin();
        let _ = ready.send(());
        Ok(Work { watched, programs, ring, taken, events, happened: Vec::new(), state, counting, cpu_before, start_ns, takes_waits, notes })
    }

    fn run(mut self) -> Result<Finished, RecordError> {
        let mut looked = Instant::now();
        let mut ending = false;
        loop {
            let mut more = self.drain()?;
            let now = Instant::now();
            if ending {
                // In this order no sample is taken that is not counted: settling waits for what runs on each processor.
                self.programs.run(false);
                let times = self.programs.settle();
                while more {
                    more = self.drain()?;
                }
                self.drain()?;
                self.state.processors(&times);
                self.hand_on();
                return self.finish(&times);
            }
            if now - looked >= LOOK {
                looked = now;
                let times = self.programs.settle();
                self.state.processors(&times);
            }
            self.counting.tick(now);
            self.hand_on();
            let pause = LOOK.saturating_sub(looked.elapsed());
            ending = self.ring.wait(if more { Duration::ZERO } else { pause }) == Woken::Ending;
        }
    }

    fn hand_on(&mut self) {
        if !self.state.output.is_empty() {
            self.watched.sink.take(&mut self.state.output);
        }
    }

    /// What is in the ring becomes events; whether there may be more.
    fn drain(&mut self) -> Result<bool, RecordError> {
        let more = self.ring.take()?;
        self.events.take(&mut self.happened);
        let taken = std::mem::take(&mut *self.taken.borrow_mut());
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
        // Without a sample to come before them, they are in order too.
        happened.for_each(|event| self.state.happened(event));
        let mut kept = taken;
        kept.bytes.clear();
        kept.ends.clear();
        *self.taken.borrow_mut() = kept;
        Ok(more)
    }

    fn finish(mut self, times: &[(u32, raw::Times)]) -> Result<Finished, RecordError> {
        let end_ns = times.iter().map(|(_, times)| times.last_ns).max().unwrap_or(self.start_ns);
        let cost = self.programs.cost();
        let sampler_ns: u64 = times.iter().map(|(_, times)| times.sampler_ns).sum();
        let bpf_ns = self.counting.end(cost).unwrap_or(0).max(sampler_ns);
        let reader_ns = u64::try_from(thread_cpu().saturating_sub(self.cpu_before).as_nanos()).unwrap_or(u64::MAX);
        let lost: u64 = times.iter().map(|(_, times)| times.lost).sum();
        let taken: u64 = times.iter().map(|(_, times)| times.taken).sum();
        let waits = self.programs.waits();
        // The programs are there until their own names have been looked up.
        let sink = Arc::clone(&self.watched.sink);
        let State { stacks, modules, made, counts, unwinder, waits: kept_waits, .. } = self.state;
        let cut = stacks.cut;
        let unwound = unwinder.map(|unwinder| unwinder.said(&modules));
        let is_hidden = name::emit(&stacks.into_sorted(), modules, made, |batch| sink.take(batch));
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
        if self.takes_waits {
            attributes.push(("profile.waits".to_owned(), waits.taken.to_string()));
            attributes.push((
                "profile.waits_left_out".to_owned(),
                (waits.left_out + waits.lost + waits.taken.saturating_sub(kept_waits)).to_string(),
            ));
        }
        attributes.push(("profile.user_stacks".to_owned(), if unwound.is_some() { "dwarf" } else { "fp" }.to_owned()));
        attributes.extend(counts.attributes());
        attributes.extend((FIRST_CLASS..).zip(CLASSES).map(|(number, name)| (format!("class.{number}"), name.to_owned())));
        let mut notes = self.notes;
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
            notes.push(format!("{lost} samples of the profile were lost: the ring was full."));
        }
        if cut > 0 {
            notes.push(format!("The profile has more different stacks than are kept: of {cut} samples only where they were is known."));
        }
        Ok(Finished { dropped_events: self.state.refused, attributes, notes })
    }
}

/// The programs; where the kernel refuses those that copy stacks, the others, with a note.
fn load(tracepoints: &Tracepoints, choices: &mut Choices, opened: &Opened, notes: &mut Vec<String>) -> Result<Programs, RecordError> {
    match Programs::load(tracepoints, choices, opened) {
        Err(RecordError::Failed(error)) if choices.stack_bytes > 0 => {
            choices.stack_bytes = 0;
            let programs = Programs::load(tracepoints, choices, opened)?;
            notes.push(format!("The kernel lets no stack be copied ({error}): programs' frame pointers were followed instead."));
            Ok(programs)
        }
        loaded => loaded,
    }
}

impl State {
    fn new(watched: &Watched, tracks: Arc<SharedTracks>, stack_bytes: u32) -> State {
        let mut spaces = Spaces::default();
        let own_pid = std::process::id();
        let others = watched.others.iter().filter(|_| watched.profile_alone);
        for process in watched.command.iter().filter(|_| watched.profile_alone).chain(others) {
            spaces.has_role(process.pid, process.role);
        }
        State {
            spaces,
            modules: Modules::default(),
            stacks: Stacks::default(),
            made: Made::default(),
            processors: Processors::default(),
            counts: Counts::default(),
            tracks,
            names: HashMap::new(),
            frames: Vec::new(),
            unwinder: (stack_bytes > 0).then(|| Unwinder::new(stack_bytes)),
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
            if tid == event.pid {
                self.made.ended(tid);
            }
        }
        self.spaces.happened(event, &mut self.modules);
    }

    /// Where a thread waited that the other recorder records. Nobody else has a track of it: that recorder says when it waited.
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

    /// The number of a stack.
    fn stack(&mut self, sample: &Sample<'_>) -> u32 {
        self.frames.clear();
        self.frames.extend(sample.kernel().map(Frame::Kernel));
        for address in sample.user() {
            let frame = self.frame(sample.pid, address);
            self.frames.push(frame);
        }
        if let Some(copied) = sample.copied() {
            self.unwind(sample.pid, Walk::new(copied), copied.ip);
        }
        if self.frames.is_empty() {
            self.frames.push(Frame::Unknown);
        }
        self.stacks.number(&self.frames)
    }

    /// What an address of a process is.
    fn frame(&mut self, pid: u32, address: u64) -> Frame {
        self.spaces.frame(pid, address, &mut self.modules, &mut self.made)
    }

    /// Follows a stack that was copied, from the frame where the program was.
    fn unwind(&mut self, pid: u32, mut walk: Walk<'_>, ip: u64) {
        let mut frame = self.frame(pid, ip);
        self.frames.push(frame);
        let end = loop {
            let Some(unwinder) = &mut self.unwinder else { return };
            let caller = match unwinder.caller(frame, &self.modules, &mut walk) {
                Ok(caller) => caller,
                Err(end) => break end,
            };
            frame = self.frame(pid, caller);
            if frame == Frame::Unknown {
                // Nobody can have called from there.
                break End::Broken;
            }
            self.frames.push(frame);
        };
        if end != End::Whole {
            self.frames.push(Frame::Truncated);
        }
        if let Some(unwinder) = &mut self.unwinder {
            unwinder.ends().count(end);
        }
    }

    /// The track of the thread that ran; recorded where nobody else does.
    fn track(&mut self, sample: &Sample<'_>) -> TrackId {
        let (space, next) = (self.space, &mut self.next);
        // The idle task of each processor is a thread without a number.
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
            Some(pid) if self.alone => self.spaces.role(pid),
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

/// The name of a process.
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
