//! All threads whose every switch is recorded, and where their switches come from.

use super::exact_thread::{ExactThread, Off};
use crate::Finished;
use crate::proc::calls::Calls;
use crate::proc::wakers::Ends;
use crate::switches::Switches;
use crate::worker::thread_cpu;
use std::collections::BTreeMap;
use std::rc::Rc;
use thalweg_trace::{Counter, CounterName, CounterOf, Event, Mark, MarkKind, Time, TrackId};

/// A wait is looked at once it has lasted this long.
pub(super) const LOOK_AFTER_NS: u64 = 1_000_000;

/// The threads, and where their switches come from.
#[derive(Debug)]
pub(super) struct Exact {
    pub switches: Switches,
    pub threads: BTreeMap<u32, ExactThread>,
    /// Threads that have ended, until their waits are recorded and nobody can have been woken by them any more.
    pub gone: Vec<(u32, ExactThread)>,
    /// Processes that have ended, until it is known how: the track, the process, and when.
    pub exits: Vec<(TrackId, u32, Time)>,
    /// Calls that the preloaded library records.
    pub calls: Calls,
}

/// A parent that waits for its child is told at once; another one may never ask.
const STATUS_NS: i64 = 100_000_000;

impl Exact {
    pub(super) fn new(switches: Switches, calls: Calls) -> Exact {
        Exact { switches, threads: BTreeMap::new(), gone: Vec::new(), exits: Vec::new(), calls }
    }

    /// Records the number of CPUs that threads of a process may run on, where it is new.
    pub(super) fn record_allowed(&mut self, pid: u32, now: Time, out: &mut Vec<Event>) {
        for (tid, thread) in self.threads.iter_mut().filter(|(_, thread)| thread.pid == pid) {
            let tid = i32::try_from(*tid).ok().and_then(rustix::process::Pid::from_raw);
            let Some(allowed) = tid.and_then(|tid| rustix::thread::sched_getaffinity(Some(tid)).ok()).map(|set| set.count()) else {
                continue;
            };
            if thread.allowed.replace(allowed) != Some(allowed) {
                let (of, name) = (CounterOf::Track(thread.track), CounterName::CpuAllowed);
                out.push(Event::Counter(Counter { of, name, at: now, value: allowed.into() }));
            }
        }
    }

    /// Records the ends of processes, with their status as far as their parents were told.
    pub(super) fn record_exits(&mut self, last: bool, out: &mut Vec<Event>) {
        let long_ago = Time::now().plus_ns(-STATUS_NS);
        let calls = &self.calls;
        self.exits.retain(|&(track, pid, at)| {
            let value = calls.status(pid);
            let is_known = last || value.is_some() || at < long_ago;
            out.extend(is_known.then_some(Event::Mark(Mark { track, kind: MarkKind::ThreadExit, at, object: None, value })));
            !is_known
        });
    }

    /// Whether a process has a single thread, and no child.
    pub(super) fn is_alone(&self, pid: u32) -> bool {
        let threads = self.threads.values();
        threads.clone().filter(|thread| thread.pid == pid).nth(1).is_none() && !threads.into_iter().any(|thread| thread.ends.parent == pid)
    }

    /// Returns a thread, also one that has ended.
    pub(super) fn thread(&self, tid: u32) -> Option<&ExactThread> {
        self.threads.get(&tid).or_else(|| self.gone.iter().rev().find(|(gone, _)| *gone == tid).map(|(_, thread)| thread))
    }

    /// Notes what a process has open.
    pub(super) fn has_open(&mut self, pid: u32, ends: &Rc<Ends>) {
        self.threads.values_mut().filter(|thread| thread.pid == pid).for_each(|thread| thread.ends = Rc::clone(ends));
    }

    /// Whether threads of a process that are not known yet are going to be told of: it is followed, or `is_new` and its
    /// parent is followed. (A parent that was followed only after it had made this process announces nothing.)
    pub(super) fn will_announce(&self, pid: u32, parent: u32, is_new: bool) -> bool {
        self.threads.values().any(|thread| thread.pid == pid || is_new && thread.pid == parent)
    }

    /// Whether the library recorded the calls of any process.
    pub(super) fn had_calls(&self) -> bool {
        self.calls.had_any()
    }

    /// The summary of this part.
    pub(super) fn finished(&self) -> Finished {
        let not_seen = format!(
            "Recorded without privilege: when each thread ran and waited is exact. What a wait of less than {} ms was for is known only in \
             calls of the C library. Not recorded: page faults, the requests to devices one by one, processes of other users, and what in \
             the kernel ended a wait.",
            LOOK_AFTER_NS / 1_000_000
        );
        let attributes = [
            ("not_seen", not_seen),
            ("wakers", "inferred".to_owned()),
            ("switches", "recorded".to_owned()),
            ("switches.ring_bytes", self.switches.ring_bytes().to_string()),
            ("recorder.cpu_ns", thread_cpu().as_nanos().to_string()),
        ];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value)).into();
        Finished { dropped_events: 0, attributes, notes: Vec::new() }
    }

    /// Returns the child of a process that ended, or executed another program (which its parent waits for after
    /// vfork), when a wait ended.
    pub(super) fn child(&self, pid: u32, wait: &Off) -> Option<(TrackId, Time)> {
        let (since, until) = (wait.woken_since(wait.most_queued_ns), wait.to);
        let within = |at: Option<Time>| at.filter(|at| *at >= since && *at <= until);
        let children = self.others(pid).filter(|(tid, thread)| **tid == thread.pid && thread.ends.parent == pid);
        let mut ended = children.filter_map(|(_, child)| Some((child.track, within(child.gone).or(within(child.executed))?)));
        let first = ended.next()?;
        ended.next().is_none().then_some(first)
    }

    pub(super) fn others(&self, tid: u32) -> impl Iterator<Item = (&u32, &ExactThread)> {
        let gone = self.gone.iter().map(|(tid, thread)| (tid, thread));
        self.threads.iter().chain(gone).filter(move |(other, _)| **other != tid)
    }
}
