//! Time that processor quotas took: what a thread was runnable and may not have run.
//!
//! The kernel counts how long a thread was runnable and did not run, whatever kept it from that, and for each control group how long its quota
//! stopped it. So of a thread's queueing in an interval as much is the quota's as the group was stopped meanwhile, and no time twice. Groups
//! are polled now and then, and whenever a thread of theirs has queued: what was read last before an interval is where it begins.

use super::files::Objects;
use crate::quota::Quota;
use std::collections::{BTreeMap, VecDeque};
use thalweg_base::proc::cgroups;
use thalweg_trace::{Counter, CounterName, CounterOf, Event, ObjectId, ObjectKind, Time, TrackId};

/// Readings of one group that are kept.
const READINGS: usize = 256;

/// A shorter time in the queue is not worth asking who it was.
const WORTH_ASKING_NS: u64 = 200_000;

/// A control group with a quota.
#[derive(Debug)]
struct Group {
    quota: Quota,
    object: ObjectId,
    /// Of the first process found in it.
    track: TrackId,
    /// How long it had been stopped, and when that was read; later ones last.
    readings: VecDeque<(Time, u64)>,
}

impl Group {
    fn read(&mut self, now: Time) -> u64 {
        let stopped_ns = self.quota.stopped_ns();
        if self.readings.len() == READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back((now, stopped_ns));
        stopped_ns
    }

    /// How long it had been stopped at an instant, at least.
    fn stopped_ns_at(&self, at: Time) -> u64 {
        let before = self.readings.iter().rev().find(|(when, _)| *when <= at);
        before.or(self.readings.front()).map_or(0, |(_, stopped_ns)| *stopped_ns)
    }
}

/// The quotas of the processes that are watched.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    groups: Vec<Group>,
    /// By what /proc says of a process' groups: the one that stops it.
    known: BTreeMap<String, Option<usize>>,
    /// By process.
    of: BTreeMap<u32, usize>,
    /// Up to which of its group's stopped time a thread's queueing is recorded.
    recorded: BTreeMap<TrackId, u64>,
}

impl Quotas {
    /// Finds which group a process is in: it may have joined another.
    pub(crate) fn poll(&mut self, pid: u32, track: TrackId, objects: &mut Objects) {
        let Some(text) = cgroups::of(pid) else { return };
        let group = match self.known.get(&text) {
            Some(known) => *known,
            None => {
                let found = self.add(pid, track, objects);
                self.known.insert(text, found);
                found
            }
        };
        match group {
            Some(group) => drop(self.of.insert(pid, group)),
            None => drop(self.of.remove(&pid)),
        }
    }

    fn add(&mut self, pid: u32, track: TrackId, objects: &mut Objects) -> Option<usize> {
        let quota = Quota::of(pid);
        let object = objects.other(ObjectKind::Cgroup, &quota.group()?)?;
        let mut group = Group { quota, object, track, readings: VecDeque::new() };
        group.read(Time::now());
        self.groups.push(group);
        Some(self.groups.len() - 1)
    }

    /// Reads how long each group has been stopped.
    pub(crate) fn read(&mut self, out: &mut Vec<Event>) {
        for group in &mut self.groups {
            let now = Time::now();
            group.read(now);
            if let Some(value) = group.quota.changed().and_then(|ns| i64::try_from(ns).ok()) {
                out.push(Event::Counter(Counter { of: CounterOf::Track(group.track), name: CounterName::CpuThrottledNs, at: now, value }));
            }
        }
    }

    /// Of the time that a thread of a process was runnable and did not run since an instant: how much its quota took, and which group's that is.
    pub(crate) fn took(&mut self, pid: u32, track: TrackId, since: Time, queued_ns: u64) -> Option<(ObjectId, u64)> {
        let group = self.of.get(&pid).filter(|_| queued_ns >= WORTH_ASKING_NS).and_then(|group| self.groups.get_mut(*group))?;
        let stopped_ns = group.read(Time::now());
        let recorded = self.recorded.entry(track).or_default();
        let from_ns = group.stopped_ns_at(since).max(*recorded);
        let took_ns = stopped_ns.saturating_sub(from_ns).min(queued_ns);
        *recorded = from_ns + took_ns;
        (took_ns > 0).then_some((group.object, took_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::Arc;
    use thalweg_trace::{HostId, IdSpace, Memory, Role, TraceHandle};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_quota_took_no_more_than_it_stopped_its_group_for_and_nothing_twice() {
        let directory = tempfile::tempdir().expect("a directory");
        let stopped = |ms: u64| fs::write(directory.path().join("cpu.stat"), format!("throttled_usec {}\n", ms * 1_000)).expect("written");
        fs::write(directory.path().join("cpu.max"), "10000 20000\n").expect("written");
        stopped(0);
        let mode = TraceHandle::on(Arc::new(Memory::new(10)), HostId(0), Role::Client, IdSpace(1));
        let mut objects = Objects::new(mode, HostId(0));
        let object = objects.other(ObjectKind::Cgroup, "/job").expect("on");
        let track = |number: u64| TrackId::new(number).expect("not zero");
        let begin = Time::now();
        let quota = Quota::at(directory.path());
        let mut group = Group { quota, object, track: track(1), readings: VecDeque::new() };
        group.read(begin);
        let mut quotas = Quotas { groups: vec![group], of: BTreeMap::from([(7, 0)]), ..Quotas::default() };
        stopped(40);
        assert_eq!(quotas.took(7, track(1), begin, 30 * MS), Some((object, 30 * MS)));
        assert_eq!(quotas.took(7, track(1), begin, 30 * MS), Some((object, 10 * MS)), "the rest was others'");
        assert_eq!(quotas.took(7, track(1), begin, 30 * MS), None);
        assert_eq!(quotas.took(7, track(2), begin, 30 * MS), Some((object, 30 * MS)), "another thread was stopped as well");
        assert_eq!(quotas.took(8, track(3), begin, 30 * MS), None, "a process without a quota");
        let later = Time::now();
        stopped(45);
        assert_eq!(quotas.took(7, track(2), later, 30 * MS), Some((object, 5 * MS)), "what came before does not count");
    }
}
