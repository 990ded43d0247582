//! Disk and memory limits of recorded processes' control groups, and how far they were used up during the recording:
//! otherwise a configured limit looks like a slow disk.
//!
//! A process can join a group after it began, and be gone before the recording ends; so each process is examined when
//! it is new, and all of them periodically. Each group is examined by itself: those above it apply too, and have
//! lines of their own.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use thalweg_base::proc::cgroups;
use thalweg_base::proc::mounts::{self, Mount};

/// Maximum groups examined, and distinct memberships.
const MOST_GROUPS: usize = 64;
const MOST_MEMBERSHIPS: usize = 1_024;

/// More than any machine's memory: what version 1 reports for no limit.
const NO_LIMIT: u64 = 1 << 60;

/// A group, with what it had used up when it was first seen.
#[derive(Debug)]
struct Group {
    directory: PathBuf,
    /// Its memory limit. (A group may vanish with its last process.)
    memory: Option<u64>,
    before: Used,
}

/// Usage of a group against its limits, since it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Used {
    /// Times the memory limit was reached.
    reached: u64,
    /// Processes killed for lack of memory.
    killed: u64,
    /// Evicted file pages that were read again.
    refaults: u64,
    /// Microseconds in which all of its threads waited for disks; for memory.
    stalled_us: [Option<u64>; 2],
    /// By device: bytes and requests, read and written.
    io: BTreeMap<String, [u64; 4]>,
}

/// The groups of recorded processes.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    known: BTreeMap<String, Group>,
    memberships: HashSet<String>,
    mounts: Vec<Mount>,
}

/// Names of a device's four limits in version 1 and in version 2, and in the recording.
const THROTTLES: [(&str, &str, &str); 4] = [
    ("blkio.throttle.read_bps_device", "rbps", "read_bytes"),
    ("blkio.throttle.write_bps_device", "wbps", "write_bytes"),
    ("blkio.throttle.read_iops_device", "riops", "reads"),
    ("blkio.throttle.write_iops_device", "wiops", "writes"),
];

fn text(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap_or_default()
}

/// Parses a number from lines `NAME NUMBER`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Reads a file that holds a single number.
fn number(directory: &Path, name: &str) -> Option<u64> {
    text(directory, name).trim().parse().ok().filter(|number| *number < NO_LIMIT)
}

/// Reads devices' limits, by device number: bytes and requests per second, read and written.
fn throttles(directory: &Path) -> BTreeMap<String, [Option<u64>; 4]> {
    let mut found: BTreeMap<String, [Option<u64>; 4]> = BTreeMap::new();
    for line in text(directory, "io.max").lines() {
        let Some((device, limits)) = line.split_once(' ') else { continue };
        let limit = |name: &str| limits.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        found.insert(device.to_owned(), THROTTLES.map(|(_, name, _)| limit(name)));
    }
    for (at, (file, _, _)) in THROTTLES.iter().enumerate() {
        for line in text(directory, file).lines() {
            if let Some((device, limit)) = line.split_once(' ') {
                found.entry(device.to_owned()).or_default()[at] = limit.trim().parse().ok();
            }
        }
    }
    found.retain(|_, limits| limits.iter().any(Option::is_some));
    found
}

/// Reads what devices did for a group.
fn served(directory: &Path) -> BTreeMap<String, [u64; 4]> {
    let mut found: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for line in text(directory, "io.stat").lines() {
        let Some((device, counts)) = line.split_once(' ') else { continue };
        let count = |name: &str| counts.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok()).unwrap_or(0);
        found.insert(device.to_owned(), ["rbytes", "wbytes", "rios", "wios"].map(count));
    }
    for (first, file) in [(0, "blkio.throttle.io_service_bytes_recursive"), (2, "blkio.throttle.io_serviced_recursive")] {
        for line in text(directory, file).lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [device, what @ ("Read" | "Write"), count] = words[..] else { continue };
            found.entry(device.to_owned()).or_default()[first + usize::from(what == "Write")] = count.parse().unwrap_or(0);
        }
    }
    found
}

fn used(directory: &Path) -> Used {
    let (events, stat) = (text(directory, "memory.events"), text(directory, "memory.stat"));
    let reached =
        ["high", "max"].iter().filter_map(|name| field(&events, name)).sum::<u64>() + number(directory, "memory.failcnt").unwrap_or(0);
    let killed = field(&events, "oom_kill").or_else(|| field(&text(directory, "memory.oom_control"), "oom_kill")).unwrap_or(0);
    let refaults = field(&stat, "total_workingset_refault_file").or_else(|| field(&stat, "workingset_refault_file")).unwrap_or(0);
    let stalled = |name: &str| {
        let text = text(directory, name);
        text.lines().find(|line| line.starts_with("full"))?.split("total=").nth(1)?.trim().parse().ok()
    };
    Used { reached, killed, refaults, stalled_us: [stalled("io.pressure"), stalled("memory.pressure")], io: served(directory) }
}

impl Groups {
    /// Watches a recorded process's groups, and those above them up to the root (which in version 1 can limit disks).
    pub(crate) fn watch(&mut self, pid: u32) {
        let Some(membership) = cgroups::of(pid) else { return };
        if self.memberships.len() >= MOST_MEMBERSHIPS || self.memberships.contains(&membership) {
            return;
        }
        if self.mounts.is_empty() {
            self.mounts = mounts::here().unwrap_or_default().into_iter().filter(|mount| mount.kind.starts_with("cgroup")).collect();
        }
        for place in cgroups::places(&membership, &self.mounts, &["memory", "blkio"]) {
            for directory in place.on_the_way_up() {
                let name = place.name(directory);
                // (Version 1 has a hierarchy per controller; one that limits nothing here is irrelevant.)
                let is_new = self.known.len() < MOST_GROUPS && !self.known.values().any(|group| group.directory == directory);
                if is_new && is_limited(directory) {
                    let key = if self.known.contains_key(&name) { format!("{name} ({})", place.mount.display()) } else { name };
                    let group = Group { directory: directory.to_owned(), memory: memory(directory), before: used(directory) };
                    self.known.insert(key, group);
                }
            }
        }
        self.memberships.insert(membership);
    }

    /// Returns the recording's attributes for these groups.
    pub(crate) fn attributes(&self, mut disk_name: impl FnMut(&str) -> Option<String>) -> Vec<(String, String)> {
        let mut said = Vec::new();
        let mut say = |name: String, value: String| said.push((name, value));
        for (name, Group { directory, memory: limit_before, before }) in &self.known {
            let now = used(directory);
            let is_gone = !directory.exists();
            let limit = memory(directory).or(limit_before.filter(|_| is_gone));
            let high = number(directory, "memory.high");
            limit.into_iter().for_each(|bytes| say(format!("cgroup.memory.limit.{name}"), bytes.to_string()));
            high.into_iter().for_each(|bytes| say(format!("cgroup.memory.high.{name}"), bytes.to_string()));
            if limit.or(high).is_some() {
                say(format!("cgroup.memory.reached.{name}"), now.reached.saturating_sub(before.reached).to_string());
                say(format!("cgroup.memory.refaults.{name}"), now.refaults.saturating_sub(before.refaults).to_string());
            }
            match now.killed.saturating_sub(before.killed) {
                0 if is_gone && limit.is_some() => say(format!("cgroup.memory.gone.{name}"), "yes".to_owned()),
                0 => {}
                killed => say(format!("cgroup.memory.killed.{name}"), killed.to_string()),
            }
            for (device, limits) in throttles(directory) {
                let words = |values: [Option<u64>; 4]| {
                    let word = |(value, (_, _, what)): (Option<u64>, &(&str, &str, &str))| value.map(|value| format!("{what}={value}"));
                    values.into_iter().zip(&THROTTLES).filter_map(word).collect::<Vec<_>>().join(" ")
                };
                let zero = [0; 4];
                let (after, start) = (now.io.get(&device).unwrap_or(&zero), before.io.get(&device).unwrap_or(&zero));
                let done = std::array::from_fn(|at| Some(after[at].saturating_sub(start[at])));
                let disk = disk_name(&device).unwrap_or_else(|| device.clone());
                say(format!("cgroup.io.limit.{disk}.{name}"), words(limits));
                say(format!("cgroup.io.done.{disk}.{name}"), words(done));
            }
            for (what, at) in [("io", 0), ("memory", 1)] {
                if let (Some(after), Some(start)) = (now.stalled_us[at], before.stalled_us[at]) {
                    say(format!("cgroup.{what}.stalled_us.{name}"), after.saturating_sub(start).to_string());
                }
            }
        }
        said
    }
}

/// Returns a group's memory limit.
fn memory(directory: &Path) -> Option<u64> {
    number(directory, "memory.max").or_else(|| number(directory, "memory.limit_in_bytes"))
}

/// Returns how many processes this machine's OOM killer has killed.
pub(crate) fn killed_of_machine() -> u64 {
    field(&fs::read_to_string("/proc/vmstat").unwrap_or_default(), "oom_kill").unwrap_or(0)
}

/// Whether a group limits memory or a device.
fn is_limited(directory: &Path) -> bool {
    ["memory.max", "memory.high", "memory.limit_in_bytes"].iter().any(|name| number(directory, name).is_some())
        || !throttles(directory).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            fs::write(directory.join(name), text).expect("written");
        }
    }

    #[test]
    fn both_versions_say_what_is_allowed_and_what_was_used() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        write(
            second.path(),
            &[
                ("io.max", "8:0 rbps=1048576 wbps=max riops=max wiops=100\n"),
                ("io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n"),
                ("io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"),
                ("memory.max", "1000\n"),
                ("memory.high", "max\n"),
                ("memory.events", "low 0\nhigh 2\nmax 3\noom 0\noom_kill 2\n"),
                ("memory.stat", "anon 1\nworkingset_refault_file 5\n"),
            ],
        );
        write(
            first.path(),
            &[
                ("blkio.throttle.read_bps_device", "8:0 1048576\n"),
                ("blkio.throttle.write_iops_device", "8:0 100\n"),
                ("blkio.throttle.io_service_bytes_recursive", "8:0 Read 10\n8:0 Write 20\n8:0 Total 30\nTotal 30\n"),
                ("blkio.throttle.io_serviced_recursive", "8:0 Read 1\n8:0 Write 2\n"),
                ("memory.limit_in_bytes", "1000\n"),
                ("memory.failcnt", "5\n"),
                ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
                ("memory.stat", "workingset_refault_file 1\ntotal_workingset_refault_file 5\n"),
            ],
        );
        for directory in [first.path(), second.path()] {
            assert!(is_limited(directory));
            assert_eq!(throttles(directory)["8:0"], [Some(1_048_576), None, None, Some(100)]);
            let found = used(directory);
            assert_eq!((found.reached, found.killed, found.refaults, found.io["8:0"]), (5, 2, 5, [10, 20, 1, 2]));
        }
        assert_eq!(used(second.path()).stalled_us, [Some(7), None]);
        write(first.path(), &[("memory.limit_in_bytes", "9223372036854771712\n"), ("blkio.throttle.read_bps_device", "")]);
        write(first.path(), &[("blkio.throttle.write_iops_device", "")]);
        assert!(!is_limited(first.path()), "as large as there are numbers is no limit");
    }
}
