//! The kernel recorder: tracepoints with types, read through BPF.
//!
//! The default tier traces no system call. At each switch away the programs take the blocked call from the thread's
//! registers, what its descriptor stands for from its file table, and the bytes it has read and written from its I/O
//! accounting; at the wake-up, who ended the wait, in which context, for which connection or device. When the thread runs
//! again all of it becomes one record. A clock samples what runs a thousand times a second. That is enough to give every
//! interval off the processor a reason, at a cost that nobody notices; see `bpf/` for the programs.
//!
//! - [`raw`]: the records as the kernel writes them;
//! - [`translate`]: records in, events out, without a kernel;
//! - [`load`]: the programs (how they get into the kernel, what it has, and who empties the ring that they fill: [`crate::kernel`]);
//! - [`file_counts`]: which of them count files;
//! - [`drain`]: what is done with what was in the ring;
//! - [`peers`], [`unanswered`]: who else is recorded; [`looks`]: when calls that fail are; [`task_locks`]: where mutexes of Go are;
//! - [`symbols`]: names of the kernel's functions;
//! - [`system`], [`snapshot`], [`groups`]: what /proc and /sys say.

mod drain;
mod file_counts;
mod groups;
mod load;
mod looks;
mod peers;
mod probe;
mod raw;
mod sampling;
mod snapshot;
mod symbols;
mod system;
mod task_locks;
mod translate;
mod unanswered;

#[cfg(test)]
mod cost_tests;

pub(crate) use probe::probe;

use crate::kernel::reader::Reader;
use crate::kernel::tracepoints::Tracepoints;
use crate::recorder::{Finished, RecordError, Recorder, Watched};
use std::os::fd::OwnedFd;

/// Records through the kernel's tracepoints. Needs root, or CAP_BPF and CAP_PERFMON.
#[derive(Debug)]
pub(crate) struct BpfRecorder {
    tracepoints: Tracepoints,
    reader: Reader<Option<OwnedFd>>,
}

impl BpfRecorder {
    /// A recorder, if this machine and this user allow one.
    ///
    /// # Errors
    /// [`RecordError::NotAllowed`] with the reason and what would help.
    pub(crate) fn new() -> Result<BpfRecorder, RecordError> {
        Ok(BpfRecorder { tracepoints: probe::allowed()?, reader: Reader::default() })
    }
}

impl Recorder for BpfRecorder {
    fn name(&self) -> &'static str {
        "bpf"
    }

    fn threads(&self) -> Option<OwnedFd> {
        self.reader.ready()?.as_ref()?.try_clone().ok()
    }

    fn begin(&mut self, watched: Watched) -> Result<(), RecordError> {
        self.reader.start::<drain::Work>((watched, self.tracepoints.clone()))
    }

    fn finish(&mut self) -> Result<Finished, RecordError> {
        self.reader.finish()
    }
}
