//! A profile of the user's own programs, without privilege.
//!
//! An ordinary user may sample the code of the user's own threads where `kernel.perf_event_paranoid` is at most 2: a
//! software clock of each thread, inherited by its children, whose samples are taken outside the kernel only. Samples
//! go where the whole machine's go (`samples`, `stacks`), with the user's part of the stack.
//!
//! What samples do not tell is counted. The clock of a thread runs in the kernel too, but is silent there, and a
//! thread's count tells how often it expired: expirations without a sample are time in the kernel ([`ran`]), of which
//! the functions are unknown. Everything else on the machine comes from /proc ([`crate::counted`]).
//!
//! Rejected: the time in the kernel by `/proc/PID/stat`, which divides by what a tick of 4 or 10 ms found, and has
//! nothing of a process that ends between two looks.
//!
//! - [`clocks`]: opening the events, and their records in order of time; [`sample`]: a sample's stack;
//! - [`ran`]: time outside and in the kernel; [`drain`]: the thread that reads them.

mod clocks;
mod drain;
mod ran;
mod sample;

use super::copied::MOST_STACK_BYTES;
use super::tracks::SharedTracks;
use crate::perf::{SAMPLE_NS, SELDOM_NS};
use crate::recorder::{Finished, RecordError, Recorder, Watched};
use crate::run::{Options, UserStacks};
use crate::switches;
use crate::worker::Worker;
use clocks::Clocks;
use drain::{Drain, Purpose};
use std::path::Path;
use std::sync::Arc;

/// Samples the code of the command and of other processes of this user.
#[derive(Debug)]
pub(crate) struct OwnRecorder {
    tracks: Arc<SharedTracks>,
    stack_bytes: u32,
    purpose: Purpose,
    worker: Option<Worker>,
}

impl OwnRecorder {
    /// Creates a recorder, if the kernel lets this user sample; `why` the whole machine cannot be profiled is stored in
    /// the recording. `program` is the command's file, if any.
    ///
    /// # Errors
    /// [`RecordError::NotAllowed`] with what forbids it, and who can change that.
    pub(crate) fn new(
        tracks: Arc<SharedTracks>,
        options: &Options,
        why: String,
        program: Option<&Path>,
    ) -> Result<OwnRecorder, RecordError> {
        if !options.events.is_empty() {
            return Err(RecordError::NotAllowed("events are counted for whole processors, which needs CAP_PERFMON".to_owned()));
        }
        switches::allowed().map_err(RecordError::NotAllowed)?;
        let stack_bytes = match options.user_stacks {
            UserStacks::FramePointers => 0,
            UserStacks::Dwarf { stack_bytes } => stack_bytes.clamp(1, MOST_STACK_BYTES),
        };
        let command = program.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(OwnRecorder { tracks, stack_bytes, purpose: Purpose { is_asked_for: true, why, command }, worker: None })
    }

    /// Creates a recorder of few samples, which name the functions of what an ordinary recording saw computing; `None`
    /// where the kernel lets this user take none.
    pub(crate) fn of_functions(tracks: Arc<SharedTracks>, why: String) -> Option<OwnRecorder> {
        switches::allowed().ok()?;
        let purpose = Purpose { is_asked_for: false, why, command: String::new() };
        Some(OwnRecorder { tracks, stack_bytes: 0, purpose, worker: None })
    }
}

impl Recorder for OwnRecorder {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn begin(&mut self, watched: Watched) -> Result<(), RecordError> {
        if self.worker.is_some() {
            return Err(RecordError::Usage("this recorder is recording already".to_owned()));
        }
        let is_asked_for = self.purpose.is_asked_for;
        let (period_ns, pages) = if is_asked_for { (SAMPLE_NS, clocks::MOST_PAGES) } else { (SELDOM_NS, clocks::FEW_PAGES) };
        let clocks = match Clocks::of(&watched, (period_ns, self.stack_bytes), pages) {
            // Another recording of this user may have the rings: this one is complete without functions.
            Err(RecordError::NotAllowed(_)) if !is_asked_for => return Ok(()),
            clocks => clocks?,
        };
        let drain = Drain::begin(watched, clocks, Arc::clone(&self.tracks), self.purpose.clone());
        self.worker = Some(Worker::start("thalweg-profile", move |stop| drain.run(stop))?);
        Ok(())
    }

    fn finish(&mut self) -> Result<Finished, RecordError> {
        Worker::finish_any(&mut self.worker)
    }
}
