//! The sampler's state: watched processes and threads, and ended waits.

use super::exact_threads::Exact;
use crate::groups::Groups;
use crate::proc::blocking::WaitTargets;
use crate::proc::divide::Window;
use crate::proc::kernel::InKernel;
use crate::proc::moved::{Files, MovedBytes, Unfinished};
use crate::proc::quotas::Quotas;
use crate::proc::strangers::{Strangers, Tracks};
use crate::proc::system::System;
use crate::proc::tasks::TaskFiles;
use crate::proc::waits::{Ender, Reason};
use crate::proc::wakers::{ActiveThread, Ends};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use thalweg_trace::{Event, HostId, ObjectId, Role, Sink, Span, Time, TraceHandle, TrackId};

/// Maximum pause that the cost of sampling can lead to.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// What connections had received, and had had acknowledged, by inode.
pub(super) type Came = BTreeMap<u64, (u64, u64)>;

/// Connections that are not established yet, by inode: when they were first seen, and how often they were asked for
/// again since. Expirations of the other ends' timers, by object.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) again: BTreeMap<u64, (Time, u32)>,
    pub(super) timeouts: BTreeMap<ObjectId, u32>,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) track: TrackId,
    pub(super) files: TaskFiles,
    /// Its switches are recorded.
    pub(super) followed: bool,
    pub(super) window: Window,
    /// Its sums at the last sample.
    pub(super) turns: (u64, u64, u64),
    /// Page faults that waited for a disk, at the last sample.
    pub(super) disk_faults: u64,
    /// The current wait, and its start.
    pub(super) open: Option<(Reason, Time)>,
    /// Its system time.
    pub(super) kernel: InKernel,
    /// Minimum duration of its recent sleeps.
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
    /// It began during the recording.
    pub(super) ours: bool,
    pub(super) threads: BTreeMap<u32, Thread>,
    /// Track of its oldest thread.
    pub(super) track: Option<TrackId>,
    pub(super) files: Files,
    pub(super) ends: Rc<Ends>,
    /// It has one thread and no watched children: only time ends waits on its own objects.
    pub(super) alone: bool,
    /// Another recorder tells of its calls, and of the bytes that they move.
    pub(super) has_calls: bool,
    /// When it was first seen, or executed another program.
    pub(super) program_at: Time,
}

pub(crate) struct Sampler {
    pub(super) trace: TraceHandle,
    pub(super) host: HostId,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) targets: WaitTargets,
    /// Absent if another recorder polls the machine.
    pub(super) system: Option<System>,
    pub(super) quotas: Quotas,
    /// Limits of control groups.
    pub(super) groups: Groups,
    pub(super) strangers: Option<Strangers>,
    /// Threads whose every switch is recorded.
    pub(super) exact: Option<Exact>,
    /// Tells which processes have loaded the library that records calls.
    pub(super) library: Option<Strangers>,
    /// Where another recorder finds the tracks of threads.
    pub(super) tracks: Option<Tracks>,
    /// Time of the last sample of bytes and connections.
    pub(super) counted_at: Time,
    /// What each connection had received and had acknowledged when the kernel was last asked.
    pub(super) came: Came,
    /// When the kernel was last asked for connections.
    pub(super) asked_at: Time,
    pub(super) moved: BTreeMap<u64, MovedBytes>,
    pub(super) asked: Asked,
    /// Bytes moved that this process had inherited at the start; bytes moved by ended processes of the command, and
    /// the files they were moving.
    pub(super) inherited: Option<(u64, u64)>,
    pub(super) ended_moved: (u64, u64),
    pub(super) unfinished: Vec<Unfinished>,
    pub(super) watched: BTreeMap<u32, Watch>,
    /// Sockets and pipes whose other end was searched for among all processes.
    pub(super) sought: BTreeSet<u64>,
    /// The processes of the user that listen at addresses that were connected to.
    pub(super) called: BTreeMap<SocketAddr, BTreeSet<u32>>,
    /// The processes that serve FUSE mounts, by the minor number of the mount's device; `None`: searched for, and not
    /// found.
    pub(super) fuse_servers: BTreeMap<u32, Option<u32>>,
    /// Zombies, with their start times: they exist until their parent collects them.
    pub(super) zombies: BTreeMap<u32, u64>,
    pub(super) acted: Vec<ActiveThread>,
    pub(super) acted_before: Vec<ActiveThread>,
    pub(super) ended: Vec<EndedWait>,
    pub(super) slow_at: Time,
    /// Time of the last sample that searched for threads.
    pub(super) slow_before: Time,
    pub(super) sampled_at: Time,
    pub(super) samples: u64,
    pub(super) sampled_somebody: bool,
    pub(super) first: Time,
    pub(super) batch: Vec<Event>,
    pub(super) hidden: BTreeSet<String>,
    pub(super) command: Option<u32>,
    /// Whether the other sides of what is waited for are recorded too.
    pub(super) follows: bool,
    /// Display names of processes, replacing their command names.
    pub(super) names: BTreeMap<u32, String>,
}

/// An ended wait; its waker is determined when all threads have been sampled.
pub(super) struct EndedWait {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) ender: Ender,
    pub(super) span: Span,
    /// Its waker was searched for once.
    pub(super) again: bool,
}
