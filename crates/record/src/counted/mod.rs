//! What /proc counts, where nobody may take samples: of each processor how long it was idle, in programs' code, in the kernel for them, in
//! interrupts, or taken away by a hypervisor; of each process how long it ran, in its own code and in the kernel.
//!
//! Nothing here is guessed. Processes are looked at now and then: one that was made and ended between two looks is known only by what its
//! parent was charged when it waited for it, and where nobody waited, not at all: that is what is left of the processors' sum. Both counts are
//! in clock ticks, and are made by different means, so they agree within a few ticks and not exactly.
//!
//! - [`machine`]: the processors; [`processes`]: who ran;
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

/// How often the processes are looked at, at best.
const LOOK: Duration = Duration::from_millis(200);

/// A look may take such a part of the time until the next one: with ten thousand processes there are fewer looks.
const LOOK_PART: u32 = 50;

/// Counts, alone, without any right.
#[derive(Debug)]
pub(crate) struct CountedRecorder {
    /// Why it is not a profile with samples.
    why: String,
    /// What the command is called.
    command: String,
    worker: Option<Worker>,
}

impl CountedRecorder {
    /// A recorder; `why` there are no samples is kept in the recording. `program`: the command's file, if there is one.
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
        // The command is held: what it does from here on is counted.
        let work = Work::begin(watched, self.why.clone(), &self.command);
        self.worker = Some(Worker::start("thalweg-counts", move |stop| work.run(stop))?);
        Ok(())
    }

    fn finish(&mut self) -> Result<Finished, RecordError> {
        Worker::finish_any(&mut self.worker)
    }
}

struct Work {
    watched: Watched,
    why: String,
    processors: Processors,
    processes: Processes,
    ledger: Ledger,
    ids: Ids,
    started: Time,
    looks: u32,
}

/// Identifiers of tracks.
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

impl Work {
    fn begin(watched: Watched, why: String, name: &str) -> Work {
        let roles = watched.command.iter().chain(&watched.others).map(|process| (process.pid, process.role));
        let processes = Processes::new(roles, watched.command.as_ref().map(|command| (command.pid, name.to_owned())));
        let ids = Ids { space: watched.space, next: 0 };
        let started = Time::now();
        let (processors, ledger) = (Processors::default(), Ledger::default());
        let mut work = Work { watched, why, processors, processes, ledger, ids, started, looks: 0 };
        work.look();
        work
    }

    /// Reads all counters once, and hands on what has changed.
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
        // The command has been waited for: its last ticks are known.
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
