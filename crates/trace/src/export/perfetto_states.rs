//! The states of threads: running, runnable, blocked, stopped, ended.
//!
//! A thread runs where no span says otherwise. `cpu_ns` and `runqueue_ns` divide a span; of a span that is not wholly one of them only the
//! parts' lengths are known, and they are put in the order blocked, runnable, running. A span that consists of others says nothing itself.
//!
//! Perfetto wants the processor of each running thread, which recordings do not have. A thread gets a place that no other running
//! thread has, the one that it had before if that is free: Perfetto's "CPU 0" is a place, not the machine's first processor.

use super::perfetto_messages::{Packet, TaskStateEvent};
use crate::recording::{Key, Sortable, Sorter};
use crate::{HostId, MarkKind, Source, Span, SpanKind, Time, TraceError, TrackKind};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use thalweg_base::temporary::TemporaryDirectory;

/// Most threads shown as running at a time; Perfetto refuses more than 4,096 processors.
const MAX_PLACES: i32 = 4_000;
/// Priority of an ordinary thread. Perfetto takes one below 100 for real-time.
const PRIORITY: i32 = 120;

/// A thread's state, with its number in Perfetto's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum State {
    Runnable = 2,
    Running = 3,
    Sleeping = 4,
    Uninterruptible = 5,
    Stopped = 6,
    /// Perfetto's `DESTROYED`. After a `DEAD` it would take whatever a thread's tracks still get, like its last counters, for another thread's.
    Ended = 8,
}

/// What happens to a thread.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Change {
    Begins {
        track: u64,
        at: i64,
    },
    /// It is in `state` from `from` until `runnable`, then runnable until `until`.
    Off {
        track: u64,
        span: u64,
        from: i64,
        runnable: i64,
        until: i64,
        state: State,
    },
    /// Nothing is known of it from here on, except the state in which it is then, if that is known.
    Ends {
        track: u64,
        at: i64,
        state: Option<State>,
    },
}

impl Sortable for Change {
    fn key(&self) -> Key {
        let (at, rank, number) = match *self {
            Change::Begins { track, at } => (at, 0, track),
            Change::Off { span, from, .. } => (from, 1, span),
            Change::Ends { track, at, .. } => (at, 2, track),
        };
        (0, at, rank << 62 | number & ((1 << 62) - 1))
    }
}

/// The first and the last that is known of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    spans: Option<(i64, i64)>,
    begins: Option<i64>,
    made: bool,
    exits: Option<i64>,
}

/// Gathers states from spans.
pub(super) struct States {
    sorter: Sorter<Change>,
    /// Threads by track; of two tracks of one thread the first.
    threads: HashMap<u64, i64>,
    lives: HashMap<u64, Life>,
    /// Spans that consist of others.
    parents: HashSet<u64>,
}

impl States {
    /// `tid` maps a thread of a machine to its number in the trace.
    pub(super) fn new(source: &dyn Source, directory: &TemporaryDirectory, tid: impl Fn(HostId, u32) -> i32) -> States {
        let mut seen = HashSet::new();
        let threads = source.tracks().iter().filter(|track| track.kind == TrackKind::Thread);
        let threads = threads.filter_map(|t| Some((t.track.number(), t.pid.and(t.tid).map(|number| tid(t.host, number))?)));
        let threads = threads.filter(|(_, tid)| seen.insert(*tid)).map(|(track, tid)| (track, i64::from(tid))).collect();
        let sorter = Sorter::new(directory.path(), "states");
        States { sorter, threads, lives: HashMap::new(), parents: HashSet::new() }
    }

    /// Takes in a span.
    pub(super) fn see(&mut self, span: &Span) -> Result<(), TraceError> {
        let track = span.track.number();
        if !self.threads.contains_key(&track) {
            return Ok(());
        }
        self.parents.extend(span.parent.map(|parent| parent.number()));
        let (from, until) = (span.start.ns(), span.end().ns());
        let life = self.lives.entry(track).or_default();
        life.spans = Some(life.spans.map_or((from, until), |(first, last)| (first.min(from), last.max(until))));
        let Some((blocked_ns, runnable_ns)) = off(span) else { return Ok(()) };
        let runnable = from.saturating_add(blocked_ns);
        let off = Change::Off {
            track,
            span: span.span.number(),
            from,
            runnable,
            until: runnable.saturating_add(runnable_ns),
            state: state(span),
        };
        self.sorter.push(off)
    }

    /// Writes all states in order of time.
    pub(super) fn write(
        mut self,
        source: &dyn Source,
        mut write: impl FnMut(Time, Packet) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        for mark in source.marks()? {
            let track = mark.track.number();
            if !self.threads.contains_key(&track) {
                continue;
            }
            let life = self.lives.entry(track).or_default();
            match mark.kind {
                MarkKind::ThreadStart | MarkKind::ThreadSeen => {
                    life.begins.get_or_insert(mark.at.ns());
                    life.made |= mark.kind == MarkKind::ThreadStart;
                }
                MarkKind::ThreadExit => life.exits = Some(mark.at.ns()),
                _ => {}
            }
        }
        for (&track, life) in &self.lives {
            let first = life.spans.map(|(first, _)| first);
            // Of a thread without spans only a whole life is known to have been running.
            let Some(begins) = first.or(life.begins.filter(|_| life.made && life.exits.is_some())) else { continue };
            self.sorter.push(Change::Begins { track, at: life.begins.map_or(begins, |at| at.min(begins)) })?;
            let end = match (life.exits, life.spans) {
                (Some(at), _) => Some((at, Some(State::Ended))),
                (None, Some((_, last))) if life.begins.is_none() => Some((last, Some(State::Sleeping))),
                // The recording ended while it waited. Otherwise a thread that a kernel recorder knows runs on.
                (None, Some((_, last))) if source.meta().end.is_some_and(|end| end.ns() <= last) => Some((last, None)),
                _ => None,
            };
            if let Some((at, state)) = end {
                self.sorter.push(Change::Ends { track, at, state })?;
            }
        }
        let threads = self.threads.iter().map(|(&track, &tid)| (track, Thread::new(tid))).collect();
        let mut walk = Walk { threads, ..Walk::default() };
        let parents = self.parents;
        let mut emit = |entered: &mut Vec<(i64, TaskStateEvent)>| {
            entered
                .drain(..)
                .try_for_each(|(at, event)| write(Time::from_monotonic_ns(at), Packet { task_state: Some(event), ..Packet::default() }))
        };
        self.sorter.drain(|change| {
            if !matches!(change, Change::Off { span, .. } if parents.contains(&span)) {
                walk.change(change);
            }
            emit(&mut walk.entered)
        })?;
        walk.until(i64::MAX);
        emit(&mut walk.entered)
    }
}

/// Returns how long the thread was blocked in a span, and then runnable; `None` if it ran all the while, or the span says nothing of that.
fn off(span: &Span) -> Option<(i64, i64)> {
    use SpanKind::{AppChecksum, AppOther, AppRequest, CpuRun, RpcCall, RpcQueue, RpcServe, WaitRunqueue};
    use SpanKind::{MpiCollective, MpiIo, MpiMessage, MpiOther, MpiRead, MpiReceive, MpiSend, MpiWait, MpiWrite};
    let all = span.duration_ns;
    let runs = match span.kind {
        RpcCall | RpcQueue | RpcServe | AppRequest | CpuRun => return None,
        WaitRunqueue => 0,
        // A run of calls that never blocked ran, and so does a program's own work; a single call of unknown division waited. MPI waits by asking.
        AppChecksum | AppOther => span.cpu_ns.unwrap_or(all),
        MpiCollective | MpiIo | MpiMessage | MpiOther | MpiRead | MpiReceive | MpiSend | MpiWait | MpiWrite => span.cpu_ns.unwrap_or(all),
        _ => span.cpu_ns.unwrap_or(if span.count > 1 { all } else { 0 }),
    };
    let off = all - runs.min(all);
    let runnable = if span.kind == WaitRunqueue { off } else { span.runqueue_ns.unwrap_or(0).min(off) };
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    (off > 0).then(|| (signed(off - runnable), signed(runnable)))
}

/// Returns the state in which a thread waits.
fn state(span: &Span) -> State {
    use SpanKind::{DiskFlush, DiskRead, DiskWrite, WaitDisk, WaitMemory, WaitOther};
    match span.kind {
        // The signal that stopped it.
        WaitOther if span.result.is_some_and(|result| result < 0) => State::Stopped,
        WaitOther | WaitDisk | WaitMemory | DiskRead | DiskWrite | DiskFlush => State::Uninterruptible,
        kind if kind.name().starts_with("file.") => State::Uninterruptible,
        _ => State::Sleeping,
    }
}

/// A thread in the walk over all changes.
struct Thread {
    tid: i64,
    state: Option<State>,
    place: i32,
    /// When it runs again: the end of its last wait.
    until: i64,
    has_ended: bool,
}

impl Thread {
    fn new(tid: i64) -> Thread {
        Thread { tid, state: None, place: 0, until: i64::MIN, has_ended: false }
    }
}

/// A state that a thread enters later: time, whether it is running (at one instant, places are given up before they are taken), state, track.
type Later = (i64, bool, State, u64);

/// Walks over changes in order of time.
#[derive(Default)]
struct Walk {
    threads: HashMap<u64, Thread>,
    later: BinaryHeap<Reverse<Later>>,
    free: BTreeSet<i32>,
    places: i32,
    entered: Vec<(i64, TaskStateEvent)>,
}

impl Walk {
    fn change(&mut self, change: Change) {
        let (at, track) = match change {
            Change::Begins { at, track } | Change::Off { from: at, track, .. } | Change::Ends { at, track, .. } => (at, track),
        };
        self.until(at);
        let Some(thread) = self.threads.get_mut(&track).filter(|thread| !thread.has_ended) else { return };
        let mut enters_later = |at: i64, state: State| self.later.push(Reverse((at, state == State::Running, state, track)));
        match change {
            Change::Begins { at, .. } => {
                thread.until = at;
                enters_later(at, State::Running);
            }
            Change::Off { from, runnable, until, state, .. } if until > thread.until => {
                // Where waits overlap, the later one follows the earlier one.
                let from = from.max(thread.until);
                let runnable = runnable.max(from);
                thread.until = until;
                if from < runnable {
                    enters_later(from, state);
                }
                if runnable < until {
                    enters_later(runnable, State::Runnable);
                }
                enters_later(until, State::Running);
            }
            Change::Off { .. } => {}
            Change::Ends { at, state, .. } => {
                thread.has_ended = true;
                if let Some(state) = state {
                    self.enter(at, state, track);
                }
            }
        }
    }

    /// Enters the states that are due before this instant.
    fn until(&mut self, at: i64) {
        while let Some(&Reverse((due, runs, state, track))) = self.later.peek().filter(|later| later.0.0 < at) {
            self.later.pop();
            // It does not run where its next wait follows at once.
            if self.threads.get(&track).is_some_and(|thread| !thread.has_ended && (!runs || thread.until == due)) {
                self.enter(due, state, track);
            }
        }
    }

    fn enter(&mut self, at: i64, state: State, track: u64) {
        let Some(thread) = self.threads.get_mut(&track).filter(|thread| thread.state != Some(state)) else { return };
        if state == State::Running {
            let place = Some(thread.place).filter(|place| self.free.contains(place)).or_else(|| self.free.first().copied());
            thread.place = place.unwrap_or(self.places);
            if thread.place >= MAX_PLACES {
                return;
            }
            self.places = self.places.max(thread.place + 1);
            self.free.remove(&thread.place);
        } else if thread.state == Some(State::Running) {
            self.free.insert(thread.place);
        }
        thread.state = Some(state);
        let (cpu, tid) = (Some(thread.place), Some(thread.tid));
        self.entered.push((at, TaskStateEvent { cpu, tid, state: Some(state as i32), priority: Some(PRIORITY) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states of threads, as (time, thread, state, place).
    fn walked(changes: &[Change]) -> Vec<(i64, i64, i32, i32)> {
        let mut changes = changes.to_vec();
        changes.sort_by_key(Sortable::key);
        let mut walk = Walk { threads: (1..=3).map(|n| (n, Thread::new(n as i64))).collect(), ..Walk::default() };
        changes.into_iter().for_each(|change| walk.change(change));
        walk.until(i64::MAX);
        let told = |(at, event): (i64, TaskStateEvent)| (at, event.tid.unwrap_or(0), event.state.unwrap_or(0), event.cpu.unwrap_or(-1));
        walk.entered.drain(..).map(told).collect()
    }

    fn off(track: u64, from: i64, runnable: i64, until: i64) -> Change {
        Change::Off { track, span: from as u64, from, runnable, until, state: State::Sleeping }
    }

    #[test]
    fn a_thread_runs_between_its_waits_and_waits_at_once_after_one_another() {
        let begins = Change::Begins { track: 1, at: 0 };
        let ends = Change::Ends { track: 1, at: 100, state: Some(State::Ended) };
        let waits = [off(1, 10, 20, 20), off(1, 20, 20, 30), off(1, 50, 60, 65)];
        let expected =
            [(0, 1, 3, 0), (10, 1, 4, 0), (20, 1, 2, 0), (30, 1, 3, 0), (50, 1, 4, 0), (60, 1, 2, 0), (65, 1, 3, 0), (100, 1, 8, 0)];
        assert_eq!(walked(&[&[begins, ends], &waits[..]].concat()), expected);
    }

    #[test]
    fn overlapping_waits_follow_one_another_and_a_first_wait_is_not_preceded_by_running() {
        let begins = Change::Begins { track: 1, at: 0 };
        let waits = [off(1, 0, 10, 10), off(1, 5, 8, 8), off(1, 5, 15, 15)];
        assert_eq!(walked(&[&[begins], &waits[..]].concat()), [(0, 1, 4, 0), (15, 1, 3, 0)]);
    }

    #[test]
    fn a_thread_that_still_waits_when_the_recording_ends_does_not_run_then() {
        let changes = [Change::Begins { track: 1, at: 0 }, off(1, 10, 50, 50), Change::Ends { track: 1, at: 50, state: None }];
        assert_eq!(walked(&changes), [(0, 1, 3, 0), (10, 1, 4, 0)]);
    }

    #[test]
    fn two_threads_that_run_at_a_time_have_two_places_and_each_keeps_its_own() {
        let begin = |track| Change::Begins { track, at: 0 };
        let changes = [begin(1), begin(2), off(1, 10, 30, 30), off(2, 20, 40, 40), Change::Begins { track: 3, at: 20 }, off(3, 25, 90, 90)];
        let told = walked(&changes);
        let ran: Vec<_> = told.iter().filter(|(_, _, state, _)| *state == 3).map(|&(at, tid, _, place)| (at, tid, place)).collect();
        assert_eq!(ran, [(0, 1, 0), (0, 2, 1), (20, 3, 0), (30, 1, 0), (40, 2, 1), (90, 3, 2)]);
    }
}
