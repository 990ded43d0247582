//! Time lost to CPU quotas: when a thread was runnable but not allowed to run.
//!
//! The kernel counts how long a thread was runnable and did not run, for whatever reason, and for each control group
//! how long its quota throttled it. So of a thread's queueing in an interval, up to the group's throttled time is
//! attributed to the quota, and no time twice. Groups are polled periodically, and whenever one of their threads has
//! queued: an interval begins at the last reading before it.

use super::files::Objects;
use crate::quota::Quota;
use std::collections::{BTreeMap, VecDeque};
use thalweg_base::proc::cgroups;
use thalweg_trace::{Counter, CounterName, CounterOf, Event, ObjectId, ObjectKind, Time, TrackId};

/// Maximum readings kept of one group.
const READINGS: usize = 256;

/// Minimum time in the run queue that is investigated.
const WORTH_ASKING_NS: u64 = 200_000;

/// A control group with a quota.
#[derive(Debug)]
struct Group {
    quota: Quota,
    object: ObjectId,
    /// Track of the first process found in it.
    track: TrackId,
    /// Throttled time and when it was read; later readings last.
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

    /// Returns a lower bound of the throttled time at an instant.
    fn stopped_ns_at(&self, at: Time) -> u64 {
        let before = self.readings.iter().rev().find(|(when, _)| *when <= at);
        before.or(self.readings.front()).map_or(0, |(_, stopped_ns)| *stopped_ns)
    }
}

/// The quotas of watched processes.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    groups: Vec<Group>,
    /// The throttling group, by a process's line in /proc/PID/cgroup.
    known: BTreeMap<String, Option<usize>>,
    /// The group of each process.
    of: BTreeMap<u32, usize>,
    /// Throttled time of its group up to which a thread's queueing is recorded.
    recorded: BTreeMap<TrackId, u64>,
}

impl Quotas {
    /// Finds the group of a process, which may have changed.
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

    /// Reads how long each group has been throttled.
    pub(crate) fn read(&mut self, out: &mut Vec<Event>) {
        for group in &mut self.groups {
            let now = Time::now();
            group.read(now);
            if let Some(value) = group.quota.changed().and_then(|ns| i64::try_from(ns).ok()) {
                out.push(Event::Counter(Counter { of: CounterOf::Track(group.track), name: CounterName::CpuThrottledNs, at: now, value }));
            }
        }
    }

    /// Returns the group that throttled a thread, and the quota's part of the time that the thread was runnable but did
    /// not run since an instant.
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
        let trace = TraceHandle::on(Arc::new(Memory::new(10)), HostId(0), Role::Client, IdSpace(1));
        let mut objects = Objects::new(trace, HostId(0));
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
