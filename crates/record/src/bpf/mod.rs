//! The kernel recorder: BTF tracepoints, through BPF.
//!
//! The default tier traces no system calls. At each switch out, the programs take the blocked call from the thread's
//! registers, what its descriptor refers to from its file table, and the bytes it has read and written from its I/O
//! accounting; at the wake-up, the waker, its context, and the connection or device concerned. When the thread runs
//! again all of it becomes one record. A clock samples what runs a thousand times a second. That is enough to give
//! every off-CPU interval a reason, at negligible cost; see `bpf/` for the programs.
//!
//! - [`raw`]: the records as the kernel writes them;
//! - [`translate`]: records in, events out, independent of a kernel;
//! - [`load`]: loads the programs ([`crate::kernel`] has the means, and the ring's reader);
//! - [`file_counts`]: which of them count files;
//! - [`drain`]: handles the ring's records;
//! - [`peers`], [`unanswered`]: other processes to record; [`looks`]: when polling calls are recorded; [`task_locks`]: attaches to Go programs;
//! - [`symbols`]: names of kernel functions;
//! - [`system`], [`snapshot`]: information from /proc and /sys.

mod drain;
mod file_counts;
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
    /// Creates a recorder, if this machine and user allow one.
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
        self.reader.start::<drain::BpfConsumer>((watched, self.tracepoints.clone()))
    }

    fn finish(&mut self) -> Result<Finished, RecordError> {
        self.reader.finish()
    }
}
