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
        let work = CountPoller::begin(watched, self.why.clone(), &self.command);
        self.worker = Some(Worker::start("thalweg-counts", move |stop| work.run(stop))?);
        Ok(())
    }

    fn finish(&mut self) -> Result<Finished, RecordError> {
        Worker::finish_any(&mut self.worker)
    }
}

struct CountPoller {
    watched: Watched,
    why: String,
    processors: Processors,
    processes: Processes,
    ledger: Ledger,
    ids: Ids,
    started: Time,
    looks: u32,
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

impl CountPoller {
    fn begin(watched: Watched, why: String, name: &str) -> CountPoller {
        let roles = watched.command.iter().chain(&watched.others).map(|process| (process.pid, process.role));
        let processes = Processes::new(roles, watched.command.as_ref().map(|command| (command.pid, name.to_owned())));
        let ids = Ids { space: watched.space, next: 0 };
        let started = Time::now();
        let (processors, ledger) = (Processors::default(), Ledger::default());
        let mut work = CountPoller { watched, why, processors, processes, ledger, ids, started, looks: 0 };
        work.look();
        work
    }

    /// Reads all counters once, and emits those that changed.
    fn look(&mut self) {
        let mut events: Vec<Event> = Vec::new();
        let (host, ids) = (self.watched.host, &mut self.ids);
        let charges = self.processes.look(processes::read());
        self.processors.look(Time::now(), host, || ids.track(), &mut events);
        self.ledger.enter(charges, Time::now(), host, || ids.track(), &mut events);
        self.looks += 1;
        self.watched.sink.take(&mut events);
    }

    fn run(mut self, stop: &Stop) -> Finished {
        let mut pause = LOOK;
        while !stop.wait(pause) {
            let begun = Instant::now();
            self.look();
            pause = LOOK.max(begun.elapsed() * LOOK_PART);
        }
        // The command has been waited for, so its last ticks are known.
        self.look();
        let ended = Time::now();
        let wall_ns = ended.since(self.started);
        let reader_ns = thread_cpu().as_nanos();
        let attributes = [
            ("profile.counted", "proc".to_owned()),
            ("profile.no_samples", self.why),
            ("profile.tick_ns", tick_ns().to_string()),
            ("profile.look_ns", (wall_ns / u64::from(self.looks.saturating_sub(1).max(1))).to_string()),
            ("profile.start_ns", self.started.ns().to_string()),
            ("profile.end_ns", ended.ns().to_string()),
            ("profile.reader_ns", reader_ns.to_string()),
            ("recorder.cpu_ns", reader_ns.to_string()),
        ];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Finished { dropped_events: 0, attributes, notes: why::hidden_processes() }
    }
}
