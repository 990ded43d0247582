//! Counts from /proc, for users who may not take samples: for each CPU, how long it was idle, in user code, in system
//! calls, in interrupts, or taken by the hypervisor; for each process, its user and system time.
//!
//! Nothing here is estimated. Processes are polled: one that begins and ends between two polls is known only by the
//! time its parent was charged when it waited for it, and if it was not waited for, not at all; it remains as the
//! difference from the CPUs' sum. Both counts are in clock ticks but made by different means, so they agree within a
//! few ticks, not exactly.
//!
//! - [`machine`]: the CPUs; [`processes`]: the processes;
//! - [`why`]: which right or setting is missing for samples.

mod machine;
mod processes;
pub(crate) mod why;

use crate::recorder::{Finished, RecordError, Recorder, Watched};
use crate::worker::{Stop, Worker, thread_cpu};
use machine::Processors;
use processes::{Ledger, Processes};
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_base::proc::stat::tick_ns;
use thalweg_trace::{Event, IdSpace, Time};

/// Shortest interval between polls of the processes.
const LOOK: Duration = Duration::from_millis(200);

/// A poll may take up to one in this many parts of the interval: with ten thousand processes, polls are rarer.
const LOOK_PART: u32 = 50;

/// Records counts alone; needs no privilege.
#[derive(Debug)]
pub(crate) struct CountedRecorder {
    /// Why it is not a profile with samples.
    why: String,
    /// The command's name.
    command: String,
    worker: Option<Worker>,
}

impl CountedRecorder {
    /// Creates a recorder; `why` there are no samples is stored in the recording. `program` is the command's file, if
    /// any.
    pub(crate) fn new(why: String, program: Option<&Path>) -> CountedRecorder {
        let command = program.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        CountedRecorder { why, command, worker: None }
    }
}

impl Recorder for CountedRecorder {
    fn name(&self) -> &'static str {
        "counts"
    }

    fn begin(&mut self, watched: Watched) -> Result<(), RecordError> {
        if self.worker.is_some() {
            return Err(RecordError::Usage("this recorder is recording already".to_owned()));
        }
        // The command is held: counts begin here.
        let counts = Counts::begin(watched, self.why.clone(), &self.command, true);
        self.worker = Some(Worker::start("thalweg-counts", move |stop| run(counts, stop))?);
        Ok(())
    }

    fn finish(&mut self) -> Result<Finished, RecordError> {
        Worker::finish_any(&mut self.worker)
    }
}

/// The counts of a recording so far.
pub(crate) struct Counts {
    watched: Watched,
    why: String,
    processors: Processors,
    /// `None`: another recorder has the processes.
    processes: Option<(Processes, Ledger)>,
    ids: Ids,
    started: Time,
    looks: u32,
    /// How long the last poll took.
    took: Duration,
}

/// Identifiers for tracks.
#[derive(Debug)]
struct Ids {
    space: IdSpace,
    next: u64,
}

impl Ids {
    fn track(&mut self) -> thalweg_trace::TrackId {
        const SPACE_SHIFT: u32 = 40;
        loop {
            self.next += 1;
            if let Some(id) = thalweg_trace::TrackId::new(u64::from(self.space.0) << SPACE_SHIFT | self.next) {
                return id;
            }
        }
    }
}

impl Counts {
    /// Begins counting processors, and processes too if `of_processes`. `why` there are no samples of everything is
    /// stored in the recording; `name` is the command's.
    pub(crate) fn begin(watched: Watched, why: String, name: &str, of_processes: bool) -> Counts {
        let roles = watched.command.iter().chain(&watched.others).map(|process| (process.pid, process.role));
        let command = watched.command.as_ref().map(|command| (command.pid, name.to_owned()));
        let processes = of_processes.then(|| (Processes::new(roles, command), Ledger::default()));
        let ids = Ids { space: watched.space, next: 0 };
        let (started, processors, took) = (Time::now(), Processors::default(), Duration::ZERO);
        let mut counts = Counts { watched, why, processors, processes, ids, started, looks: 0, took };
        counts.look();
        counts
    }

    /// Reads all counters once, and emits those that changed.
    pub(crate) fn look(&mut self) {
        let begun = Instant::now();
        let mut events: Vec<Event> = Vec::new();
        let (host, ids) = (self.watched.host, &mut self.ids);
        let charges = self.processes.as_mut().map(|(processes, _)| processes.look(processes::read()));
        self.processors.look(Time::now(), host, || ids.track(), &mut events);
        if let (Some((_, ledger)), Some(charges)) = (&mut self.processes, charges) {
            ledger.enter(charges, Time::now(), host, || ids.track(), &mut events);
        }
        self.looks += 1;
        self.watched.sink.take(&mut events);
        self.took = begun.elapsed();
    }

    /// Returns how long to wait before the next poll.
    pub(crate) fn pause(&self) -> Duration {
        LOOK.max(self.took * LOOK_PART)
    }

    /// Polls for the last time, and returns attributes of the recording. The command has been waited for, so its last
    /// ticks are known.
    pub(crate) fn finish(mut self) -> Vec<(String, String)> {
        self.look();
        let ended = Time::now();
        let wall_ns = ended.since(self.started);
        let attributes = [
            ("profile.counted", "proc".to_owned()),
            ("profile.no_samples", self.why),
            ("profile.tick_ns", tick_ns().to_string()),
            ("profile.look_ns", (wall_ns / u64::from(self.looks.saturating_sub(1).max(1))).to_string()),
            ("profile.start_ns", self.started.ns().to_string()),
            ("profile.end_ns", ended.ns().to_string()),
        ];
        attributes.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}

/// Polls until asked to end.
fn run(mut counts: Counts, stop: &Stop) -> Finished {
    while !stop.wait(counts.pause()) {
        counts.look();
    }
    let mut attributes = counts.finish();
    let reader_ns = thread_cpu().as_nanos().to_string();
    attributes.extend(["profile.reader_ns", "recorder.cpu_ns"].map(|name| (name.to_owned(), reader_ns.clone())));
    Finished { dropped_events: 0, attributes, notes: why::hidden_processes() }
}
