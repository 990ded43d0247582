//! The table of processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;
use thalweg_trace::Time;

/// One process, as /proc shows it. What could not be read is empty or absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its number.
    pub pid: u32,
    /// Who started it, or adopted it.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// When it was started, in clock ticks since boot: with the number, it names a process for good.
    pub started_ticks: u64,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Running, sleeping, ... : one letter.
    pub state: char,
    /// It is a thread of the kernel.
    pub is_kernel: bool,
}

/// The fields of `/proc/PID/stat` after the name, which is in parentheses and may contain anything.
pub(crate) fn split_stat(text: &str) -> Option<(&str, &str, Vec<&str>)> {
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    Some((text.get(..open)?.trim(), text.get(open + 1..close)?, text.get(close + 1..)?.split_ascii_whitespace().collect()))
}

impl Process {
    /// Reads one; `None` where there is none of this number. The line is read at once: a table has hundreds of them.
    pub(crate) fn read(pid: u32) -> Option<Process> {
        let mut line = [0; 1024];
        let length = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
        Process::parse(std::str::from_utf8(line.get(..length)?).ok()?)
    }

    /// Parses `/proc/PID/stat`.
    pub(crate) fn parse(text: &str) -> Option<Process> {
        let (pid, name, fields) = split_stat(text)?;
        let number = |index: usize| fields.get(index).and_then(|field| field.parse().ok());
        let flags: u64 = number(6)?;
        Some(Process {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: number(1)? as u32,
            group: number(2)? as u32,
            session: number(3)? as u32,
            started_ticks: number(19)?,
            is_kernel: flags & 0x0020_0000 != 0,
        })
    }

    /// The names it goes by: its own (15 bytes), its file's, and its first word's.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::from([self.name.clone()]);
        let base = |path: &Path| path.file_name().map(|name| name.to_string_lossy().trim_end_matches(" (deleted)").to_owned());
        if let Ok(path) = fs::read_link(format!("/proc/{}/exe", self.pid)) {
            names.extend(base(&path));
        }
        if let Ok(line) = fs::read(format!("/proc/{}/cmdline", self.pid)) {
            let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
            names.extend(base(Path::new(String::from_utf8_lossy(first).as_ref())));
        }
        names
    }
}

/// The moment of a clock tick since boot; the kernel gives it to a hundredth of a second.
pub(crate) fn started_at(ticks: u64) -> Time {
    const TICK_NS: u64 = 10_000_000;
    // Asked first: what passes between the two clocks makes the moment earlier, and not later than what was done after it.
    let now = Time::now();
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now_ns = since_boot.tv_sec.saturating_mul(1_000_000_000).saturating_add(since_boot.tv_nsec);
    let started_ns = i64::try_from(ticks.saturating_mul(TICK_NS)).unwrap_or(i64::MAX);
    now.plus_ns(started_ns.saturating_sub(now_ns)).min(now)
}

/// All processes, by number.
pub(crate) fn all() -> BTreeMap<u32, Process> {
    numbers_in("/proc").into_iter().filter_map(Process::read).map(|process| (process.pid, process)).collect()
}

/// Entries of a directory that are numbers: processes, threads, descriptors.
pub(crate) fn numbers_in(directory: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The processes that a process has made and that are still its own.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let threads = numbers_in(&format!("/proc/{pid}/task")).into_iter();
    let lists = threads.map(|tid| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default());
    lists.flat_map(|list| list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// `process` and everything that descends from it, as the table shows it now.
pub(crate) fn with_descendants(table: &BTreeMap<u32, Process>, process: u32) -> Vec<u32> {
    let mut family = vec![process];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(table.values().filter(|child| child.parent == parent && child.pid != parent).map(|child| child.pid));
        next += 1;
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read_whole() {
        let text = "42 (a) b (c)) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 8 9";
        let process = Process::parse(text).expect("parsed");
        assert_eq!((process.pid, process.name.as_str(), process.state), (42, "a) b (c)", 'S'));
        assert_eq!((process.parent, process.group, process.session, process.started_ticks), (7, 8, 9, 777));
        assert!(!process.is_kernel);
        assert_eq!(Process::parse("42 (short) S 1"), None);
    }
}
