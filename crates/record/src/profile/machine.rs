//! A profile of the whole machine: at a fixed period, the stack of whatever runs on each CPU, recorded or not; and
//! how long each CPU was idle, in hard and in software interrupts.
//!
//! Samples see neither idle time (the clock may stop with the tick) nor hard interrupts (the clock is one): these
//! come from tracepoints of the scheduler and interrupts, charged without gaps (`bpf/profile.bpf.c`).
//!
//! Beside another recorder, stacks of its threads' long waits are taken too (`bpf/waits.bpf.h`). That recorder makes
//! the spans, which are matched with their stacks in the recording ([`thalweg_trace::Waited`]).
//!
//! Rejected: `bpf_get_stackid` (it confuses stacks whose hashes collide, and loses them).

use super::copied::MOST_STACK_BYTES;
use super::tracks::SharedTracks;
use super::{counts, drain, load};
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
    /// The thread map of the other recorder.
    threads: Option<OwnedFd>,
    user_stacks: UserStacks,
    events: counts::RequestedEvents,
    reader: Reader<()>,
}

impl ProfileRecorder {
    /// Creates a recorder, if this machine and user allow one. If another recorder works beside it, that one's events
    /// must pass through [`SharedTracks`].
    ///
    /// # Errors
    /// [`RecordError::NotAllowed`] with the reason and what would help; [`RecordError::Usage`] for an unknown event
    /// name.
    pub(crate) fn new(tracks: Arc<SharedTracks>, options: &Options) -> Result<ProfileRecorder, RecordError> {
        let events = counts::RequestedEvents::of(&options.events)?;
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
            UserStacks::Dwarf { stack_bytes } => stack_bytes.clamp(1, MOST_STACK_BYTES),
        };
        let choices = load::Choices { threads: self.threads.take(), stack_bytes, events: self.events.clone() };
        self.reader.start::<drain::ProfileConsumer>((watched, self.tracepoints.clone(), Arc::clone(&self.tracks), choices))
    }

    fn end_soon(&mut self) {
        self.reader.ask();
    }

    fn finish(&mut self) -> Result<Finished, RecordError> {
        self.reader.finish()
    }
}
