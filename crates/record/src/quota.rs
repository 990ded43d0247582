//! A process's CPU quota and the time it was throttled, from the control groups' own files, in both versions.
//!
//! A group is bound by its own quota and those of all groups above it, so each ancestor is examined: the lowest quota
//! is what the process may use, and the group that throttled it longest says for how long.

use std::fs;
use std::path::{Path, PathBuf};
use thalweg_base::proc::cgroups::{self, CgroupPath};
use thalweg_base::proc::mounts;

/// The quotas that apply to a process.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    groups: Vec<Group>,
    last: u64,
}

/// A control group with a quota.
#[derive(Debug)]
struct Group {
    name: String,
    stat: PathBuf,
    processors: f64,
    before_ns: u64,
}

/// Returns the CPUs a process may use under its control groups; `None` if unlimited.
pub(crate) fn processors(pid: u32) -> Option<f64> {
    Quota::of(pid).processors()
}

impl Quota {
    /// Reads the quotas of a process's groups.
    pub(crate) fn of(pid: u32) -> Quota {
        let groups = cgroups::of(pid).unwrap_or_default();
        let places = cgroups::places(&groups, &mounts::here().unwrap_or_default(), &["cpu"]);
        let groups = places.iter().flat_map(on_the_way_up).collect();
        Quota { groups, last: u64::MAX }
    }

    /// Whether there is any quota.
    #[cfg(feature = "bpf")]
    pub(crate) fn is_some(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Returns the lowest quota, in CPUs.
    pub(crate) fn processors(&self) -> Option<f64> {
        self.groups.iter().map(|group| group.processors).reduce(f64::min)
    }

    /// Returns the throttling group, the one with the lowest quota, as its path in its hierarchy.
    pub(crate) fn group(&self) -> Option<String> {
        let least = self.groups.iter().min_by(|a, b| a.processors.total_cmp(&b.processors))?;
        Some(least.name.clone())
    }

    /// Whether both cover the same groups.
    #[cfg(feature = "bpf")]
    pub(crate) fn is_same(&self, other: &Quota) -> bool {
        self.groups.iter().map(|group| &group.stat).eq(other.groups.iter().map(|group| &group.stat))
    }

    /// Returns the nanoseconds throttled since the groups were created.
    pub(crate) fn stopped_ns(&self) -> u64 {
        self.groups.iter().map(|group| stopped_ns(&group.stat).saturating_sub(group.before_ns)).max().unwrap_or(0)
    }

    /// Returns the throttled time if it has changed; 0 the first time. `None` without a quota.
    pub(crate) fn changed(&mut self) -> Option<u64> {
        let now = Some(self.stopped_ns()).filter(|_| !self.groups.is_empty())?;
        (now != std::mem::replace(&mut self.last, now)).then_some(now)
    }

    /// Reads the quota of one group.
    #[cfg(test)]
    pub(crate) fn at(group: &Path) -> Quota {
        Quota { groups: on_the_way_up(&CgroupPath { mount: group.to_owned(), directory: group.to_owned() }), last: u64::MAX }
    }
}

/// Returns the groups with a quota, from this one up to its hierarchy's mount point.
fn on_the_way_up(place: &CgroupPath) -> Vec<Group> {
    let with_quota = place.on_the_way_up().filter_map(|directory| Some((directory, processors_of(directory)?)));
    let group = |(directory, processors): (&Path, f64)| {
        let stat = directory.join("cpu.stat");
        Group { name: place.name(directory), before_ns: stopped_ns(&stat), stat, processors }
    };
    with_quota.map(group).collect()
}

/// Returns the CPUs one group may use, if it is limited.
fn processors_of(group: &Path) -> Option<f64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<f64>().ok();
    let (quota, period) = match fs::read_to_string(group.join("cpu.max")) {
        Ok(text) => {
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
        }
        Err(_) => (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?),
    };
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// Returns the throttled time in a group's `cpu.stat`; 0 if the group is gone.
fn stopped_ns(stat: &Path) -> u64 {
    stopped_ns_in(&fs::read_to_string(stat).unwrap_or_default())
}

/// Parses `throttled_usec` in version 2, `throttled_time` (nanoseconds) in 1.
fn stopped_ns_in(text: &str) -> u64 {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    field("throttled_usec ").map(|us| us * 1_000).or_else(|| field("throttled_time ")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, name: &str, text: &str) {
        fs::create_dir_all(directory).expect("made");
        fs::write(directory.join(name), text).expect("written");
    }

    #[test]
    fn both_versions_say_how_long() {
        assert_eq!(stopped_ns_in("nr_periods 5\nnr_throttled 3\nthrottled_time 250000000\n"), 250_000_000);
        assert_eq!(stopped_ns_in("usage_usec 1\nthrottled_usec 250000\n"), 250_000_000);
        assert_eq!(stopped_ns_in(""), 0);
    }

    #[test]
    fn both_versions_say_how_many_processors() {
        let directory = tempfile::tempdir().expect("a directory");
        let group = directory.path();
        assert_eq!(processors_of(group), None);
        write(group, "cpu.cfs_quota_us", "-1\n");
        write(group, "cpu.cfs_period_us", "100000\n");
        assert_eq!(processors_of(group), None);
        write(group, "cpu.cfs_quota_us", "150000\n");
        assert_eq!(processors_of(group), Some(1.5));
        write(group, "cpu.max", "max 100000\n");
        assert_eq!(processors_of(group), None);
        write(group, "cpu.max", "50000 100000\n");
        assert_eq!(processors_of(group), Some(0.5));
    }

    #[test]
    fn a_quota_is_the_least_on_the_way_up_and_what_stopped_longest_counts() {
        let directory = tempfile::tempdir().expect("a directory");
        let (top, job) = (directory.path().join("site"), directory.path().join("site/job"));
        write(&top, "cpu.max", "100000 100000\n");
        write(&top, "cpu.stat", "throttled_usec 10\n");
        write(&job, "cpu.max", "200000 100000\n");
        write(&job, "cpu.stat", "throttled_usec 100\n");
        let mut quota =
            Quota { groups: on_the_way_up(&CgroupPath { mount: directory.path().to_owned(), directory: job.clone() }), last: u64::MAX };
        assert_eq!((quota.groups.len(), quota.processors()), (2, Some(1.0)));
        assert_eq!(quota.group().as_deref(), Some("/site"));
        assert_eq!(quota.changed(), Some(0));
        assert_eq!(quota.changed(), None);
        write(&top, "cpu.stat", "throttled_usec 40\n");
        write(&job, "cpu.stat", "throttled_usec 105\n");
        assert_eq!(quota.changed(), Some(30_000));
    }
}
