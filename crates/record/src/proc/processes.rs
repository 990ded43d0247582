//! The process table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use thalweg_base::proc::stat::{Stat, tick_ns};
use thalweg_trace::Time;

/// Returns the names of a process: its own (15 bytes), its file's, and its first word's.
pub(crate) fn names(of: &Stat) -> BTreeSet<String> {
    let mut names = BTreeSet::from([of.name.clone()]);
    let base = |path: &Path| path.file_name().map(|name| name.to_string_lossy().trim_end_matches(" (deleted)").to_owned());
    if let Ok(path) = fs::read_link(format!("/proc/{}/exe", of.pid)) {
        names.extend(base(&path));
    }
    if let Ok(line) = fs::read(format!("/proc/{}/cmdline", of.pid)) {
        let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
        names.extend(base(Path::new(String::from_utf8_lossy(first).as_ref())));
    }
    names
}

/// Converts clock ticks since boot to an instant, at the kernel's resolution of a hundredth of a second.
pub(crate) fn started_at(ticks: u64) -> Time {
    // Read first: any time between the two clock readings makes the result earlier, never later than what followed
    // it.
    let now = Time::now();
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now_ns = since_boot.tv_sec.saturating_mul(1_000_000_000).saturating_add(since_boot.tv_nsec);
    let started_ns = i64::try_from(ticks.saturating_mul(tick_ns())).unwrap_or(i64::MAX);
    now.plus_ns(started_ns.saturating_sub(now_ns)).min(now)
}

/// Returns all processes, by number.
pub(crate) fn all() -> BTreeMap<u32, Stat> {
    numbers_in("/proc").into_iter().filter_map(Stat::of).map(|process| (process.pid, process)).collect()
}

/// Returns a directory's numeric entries: processes, threads, descriptors.
pub(crate) fn numbers_in(directory: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns a process's current children.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let threads = numbers_in(&format!("/proc/{pid}/task")).into_iter();
    let lists = threads.map(|tid| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default());
    lists.flat_map(|list| list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// Returns `process` and its descendants, per the table.
pub(crate) fn with_descendants(table: &BTreeMap<u32, Stat>, process: u32) -> Vec<u32> {
    let mut family = vec![process];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(table.values().filter(|child| child.parent == parent && child.pid != parent).map(|child| child.pid));
        next += 1;
    }
    family
}
