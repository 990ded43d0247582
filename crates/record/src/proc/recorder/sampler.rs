//! What sampling knows: the processes and threads that are watched, and the waits that have ended.

use crate::proc::around::Around;
use crate::proc::divide::Window;
use crate::proc::kernel::InKernel;
use crate::proc::moved::{Files, Moved, Unfinished};
use crate::proc::quotas::Quotas;
use crate::proc::strangers::Strangers;
use crate::proc::system::System;
use crate::proc::tasks::TaskFiles;
use crate::proc::waits::{Ender, Reason};
use crate::proc::wakers::{Acted, Ends};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use thalweg_trace::{Event, HostId, Role, Sink, Span, Time, TraceHandle, TrackId};

/// The longest pause between two samples that their cost stretches it to.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) track: TrackId,
    pub(super) files: TaskFiles,
    pub(super) window: Window,
    /// Its sums at the last sample.
    pub(super) turns: (u64, u64, u64),
    /// Page faults that waited for a disk, by then.
    pub(super) disk_faults: u64,
    /// The wait that goes on, and since when.
    pub(super) open: Option<(Reason, Time)>,
    /// Its work in the kernel.
    pub(super) kernel: InKernel,
    /// Its sleeps of late last for so long, at least.
    pub(super) sleep_ns: u64,
}

impl Thread {
    pub(super) fn waits_for_sibling(&self) -> bool {
        matches!(self.window.from.reason, Some(Reason { ender: Ender::Sibling | Ender::Holder(_) | Ender::Thread(_), .. }))
    }
}

#[derive(Debug)]
pub(super) struct Watch {
    pub(super) role: Role,
    pub(super) started_ticks: u64,
    pub(super) name: String,
    /// It began while the recording lasted.
    pub(super) ours: bool,
    pub(super) threads: BTreeMap<u32, Thread>,
    /// Of the thread that began first.
    pub(super) track: Option<TrackId>,
    pub(super) files: Files,
    pub(super) ends: Rc<Ends>,
    /// It has one thread, and no children that are watched: nobody but time ends its waits for itself.
    pub(super) alone: bool,
}

pub(super) struct Sampler {
    pub(super) mode: TraceHandle,
    pub(super) host: HostId,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) around: Around,
    /// Absent where another recorder polls the machine.
    pub(super) system: Option<System>,
    pub(super) quotas: Quotas,
    pub(super) strangers: Option<Strangers>,
    pub(super) moved: BTreeMap<u64, Moved>,
    /// What we had inherited of bytes moved when we began; what processes of the command have moved that were seen to end, and what they
    /// were moving.
    pub(super) inherited: Option<(u64, u64)>,
    pub(super) ended_moved: (u64, u64),
    pub(super) unfinished: Vec<Unfinished>,
    pub(super) watched: BTreeMap<u32, Watch>,
    /// Sockets and pipes whose other side was looked for among all processes.
    pub(super) sought: BTreeSet<u64>,
    /// Processes all of whose threads have ended, and when they were started: they are there until their parent asks.
    pub(super) zombies: BTreeMap<u32, u64>,
    pub(super) acted: Vec<Acted>,
    pub(super) acted_before: Vec<Acted>,
    pub(super) ended: Vec<Ended>,
    pub(super) slow_at: Time,
    /// The sample before at which threads were looked for.
    pub(super) slow_before: Time,
    pub(super) sampled_at: Time,
    pub(super) samples: u64,
    pub(super) sampled_somebody: bool,
    pub(super) first: Time,
    pub(super) batch: Vec<Event>,
    pub(super) hidden: BTreeSet<String>,
    pub(super) command: Option<u32>,
    /// What processes are called instead of by their command's name.
    pub(super) names: BTreeMap<u32, String>,
}

/// A wait that has ended; who ended it is found when all have been sampled.
pub(super) struct Ended {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) ender: Ender,
    pub(super) span: Span,
    /// Who ended it was looked for once.
    pub(super) again: bool,
}
