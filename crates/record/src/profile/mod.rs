//! A profile of the whole machine: at a fixed period, the stack of what runs on each processor, recorded or not; and how long
//! each processor was idle, in hard and in software interrupts.
//!
//! Samples do not see idle (the clock may stand still with the tick) nor hard interrupts (the clock is one): those come from the
//! scheduler's and the interrupts' tracepoints, charged without a gap (`bpf/profile.bpf.c`). A stack is addresses; what they stand
//! for is decided twice. While recording, an address of a program becomes a file and an offset in it, because the process
//! may be gone later: mappings are followed by perf's own records of them (short-lived processes are never asked anything), and by
//! `/proc/PID/maps` for who was there before. Names are looked up at the end ([`crate::symbols`]), never while recording.
//!
//! Beside another recorder the stacks of its threads' long waits are taken too (`bpf/waits.bpf.h`). That recorder makes the spans; they find their
//! stacks in the recording ([`thalweg_trace::Waited`]).
//!
//! Rejected: `bpf_get_stackid` (it mixes up stacks whose hashes collide, and loses them); build identifiers taken with each stack
//! (4.5 µs each, and no path); a table of raw addresses resolved at the end (two thousand short processes would each keep theirs).
//!
//! - [`raw`], [`load`]: the records, and the programs;
//! - [`events`]: perf's records of mappings, forks and ends of processes;
//! - [`spaces`], [`modules`]: what is mapped where, and the files;
//! - [`stacks`]: each stack once; [`tracks`]: one track for a thread, also where another recorder has it;
//! - [`unwind`], [`tables`]: the programs' frames, where stacks were copied;
//! - [`processors`]: idle, interrupts, steal; [`drain`]: what is done with what was in the ring;
//! - [`counts`]: processors' counters of events beside the samples;
//! - [`name`]: frames become text; [`leaves`]: where another recorder's samples found threads.

mod counts;
mod drain;
mod events;
mod leaves;
mod load;
mod modules;
mod name;
mod processors;
mod raw;
mod spaces;
mod stacks;
mod tables;
mod tracks;
mod unwind;
#[cfg(test)]
mod unwind_tests;

#[cfg(test)]
mod wait_tests;

pub(crate) use leaves::Leaves;
pub(crate) use tracks::SharedTracks;

use crate::kernel::reader::Reader;
use crate::kernel::tracepoints::Tracepoints;
use crate::recorder::{Finished, RecordError, Recorder, Watched};
use crate::run::{Options, UserStacks};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Takes a profile, alone or beside another recorder. Needs root, or CAP_BPF and CAP_PERFMON.
#[derive(Debug)]
pub(crate) struct ProfileRecorder {
    tracepoints: Tracepoints,
    tracks: Arc<SharedTracks>,
    /// The map of threads of the recorder beside.
    threads: Option<OwnedFd>,
    user_stacks: UserStacks,
    events: counts::Asked,
    reader: Reader<()>,
}

impl ProfileRecorder {
    /// A recorder, if this machine and this user allow one. Where another recorder works beside it, that one's events must go
    /// through [`SharedTracks`].
    ///
    /// # Errors
    /// [`RecordError::NotAllowed`] with the reason and what would help; [`RecordError::Usage`]: no event has that name.
    pub(crate) fn new(tracks: Arc<SharedTracks>, options: &Options) -> Result<ProfileRecorder, RecordError> {
        let events = counts::Asked::of(&options.events)?;
        let tracepoints = load::allowed()?;
        Ok(ProfileRecorder { tracepoints, tracks, threads: None, user_stacks: options.user_stacks, events, reader: Reader::default() })
    }
}

impl Recorder for ProfileRecorder {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn begins_beside(&mut self, threads: Option<OwnedFd>) {
        self.threads = threads;
    }

    fn begin(&mut self, watched: Watched) -> Result<(), RecordError> {
        let stack_bytes = match self.user_stacks {
            UserStacks::FramePointers => 0,
            UserStacks::Dwarf { stack_bytes } => stack_bytes.clamp(1, raw::MOST_STACK_BYTES),
        };
        let choices = load::Choices { threads: self.threads.take(), stack_bytes, events: self.events.clone() };
        self.reader.start::<drain::Work>((watched, self.tracepoints.clone(), Arc::clone(&self.tracks), choices))
    }

    fn end_soon(&mut self) {
        self.reader.ask();
    }

    fn finish(&mut self) -> Result<Finished, RecordError> {
        self.reader.finish()
    }
}
