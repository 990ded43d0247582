//! Reads call arguments from the memory of a readable process: the descriptors of a poll, the owner of a mutex.

use super::files::{Objects, Opened};
use crate::preload::directory::is_ring;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use thalweg_base::proc::maps::{self, Mapping};
use thalweg_trace::{ObjectId, Time};

/// Maximum entries read of a poll.
const MOST: usize = 1024;

fn read<const N: usize>(pid: u32, address: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

/// Returns a text that ends with a zero byte; `None` if it is empty, too long, or no text.
pub(super) fn text(pid: u32, address: u64) -> Option<String> {
    const MOST_BYTES: usize = 1024;
    let mut bytes = [0; MOST_BYTES];
    // (The bytes after it may not be readable.)
    let n = File::open(format!("/proc/{pid}/mem")).ok()?.read_at(&mut bytes, address).ok()?;
    let end = bytes[..n].iter().position(|byte| *byte == 0).filter(|end| *end > 0)?;
    std::str::from_utf8(&bytes[..end]).ok().map(str::to_owned)
}

/// Whether pages can be read from anything but files.
pub(super) fn has_swap() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1)
}

/// Returns the owner of the mutex at an address, as the C library stores it; the caller checks that it is a mutex.
pub(super) fn mutex_owner(pid: u32, address: u64) -> Option<u32> {
    let mutex: [u8; 12] = read(pid, address)?;
    let word = |at: usize| u32::from_ne_bytes([mutex[at], mutex[at + 1], mutex[at + 2], mutex[at + 3]]);
    // Locked, with a waiter.
    (word(0) == 2).then(|| word(8)).filter(|owner| *owner != 0)
}

/// Returns a sleep's remaining or total duration, whichever the arguments give; never more than its total.
pub(super) fn sleeps_for(pid: u32, number: i64, arguments: &[u64; 6]) -> Option<u64> {
    let (clock, until, address) = match number {
        libc::SYS_clock_nanosleep => (arguments[0] as i32, arguments[1] & libc::TIMER_ABSTIME as u64 != 0, arguments[2]),
        libc::SYS_nanosleep => (libc::CLOCK_MONOTONIC, false, arguments[0]),
        _ => return None,
    };
    let time: [u8; 16] = read(pid, address)?;
    let word = |at: usize| time[at..at + 8].try_into().map(i64::from_ne_bytes).ok();
    let ns = word(0)?.checked_mul(1_000_000_000)?.checked_add(word(8)?)?;
    match clock {
        _ if !until => u64::try_from(ns).ok(),
        libc::CLOCK_MONOTONIC => u64::try_from(ns - Time::now().ns()).ok(),
        _ => None,
    }
}

/// Returns the descriptors of a poll, select or epoll set; `None` if they may not be read.
pub(super) fn waited_for(pid: u32, number: i64, arguments: &[u64; 6]) -> Option<Vec<u32>> {
    match number {
        libc::SYS_ppoll => polled(pid, arguments),
        libc::SYS_pselect6 => selected(pid, arguments),
        libc::SYS_epoll_pwait => in_set(pid, arguments[0]),
        other => old_waited_for(pid, other, arguments),
    }
}

#[cfg(target_arch = "x86_64")]
fn old_waited_for(pid: u32, number: i64, arguments: &[u64; 6]) -> Option<Vec<u32>> {
    match number {
        libc::SYS_poll => polled(pid, arguments),
        libc::SYS_select => selected(pid, arguments),
        libc::SYS_epoll_wait => in_set(pid, arguments[0]),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn old_waited_for(_pid: u32, _number: i64, _arguments: &[u64; 6]) -> Option<Vec<u32>> {
    None
}

fn polled(pid: u32, arguments: &[u64; 6]) -> Option<Vec<u32>> {
    let many = usize::try_from(arguments[1]).ok()?.min(MOST);
    let mut bytes = vec![0; many * 8];
    File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut bytes, arguments[0]).ok()?;
    let fds = bytes.chunks_exact(8).map(|entry| i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]));
    Some(fds.filter_map(|fd| u32::try_from(fd).ok()).collect())
}

fn selected(pid: u32, arguments: &[u64; 6]) -> Option<Vec<u32>> {
    let many = u32::try_from(arguments[0]).ok()?.min(MOST as u32);
    let mut fds = Vec::new();
    for set in &arguments[1..3] {
        if *set == 0 || many == 0 {
            continue;
        }
        let bytes: [u8; MOST / 8] = {
            let mut whole = [0; MOST / 8];
            let length = many.div_ceil(64) as usize * 8;
            File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut whole[..length], *set).ok()?;
            whole
        };
        fds.extend((0..many).filter(|fd| bytes[*fd as usize / 8] & 1 << (fd % 8) != 0));
    }
    Some(fds)
}

/// Returns the descriptors in an epoll set.
fn in_set(pid: u32, set: u64) -> Option<Vec<u32>> {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{set}")).ok()?;
    Some(text.lines().filter_map(|line| line.strip_prefix("tfd:")?.split_ascii_whitespace().next()?.parse().ok()).collect())
}

/// Whether a thread sleeps in this kernel function until a page has been read.
pub(super) fn is_page_wait(function: &str) -> bool {
    ["folio_wait", "__folio_lock", "folio_lock", "wait_on_page", "__lock_page", "filemap_"].iter().any(|start| function.starts_with(start))
}

/// Files mapped by processes, and how much of each was in memory when that was last read.
#[derive(Debug, Default)]
pub(super) struct MappedFiles(BTreeMap<u32, Resident>);

#[derive(Debug)]
struct Resident {
    read_at: Time,
    bytes: BTreeMap<String, u64>,
    growing: Option<String>,
}

/// What of a mapping is in memory is read again if that was as long ago: a process with many mappings makes it expensive.
const RESIDENT_NS: u64 = 20_000_000;
/// Bound: processes remembered.
const MOST_PROCESSES: usize = 256;

impl MappedFiles {
    /// Returns the file whose pages a process reads by touching them: mapped, not code, and at least a megabyte. Of several, the one of
    /// which most has come into memory lately; `None` if none has.
    pub(super) fn read_by(&mut self, pid: u32, objects: &mut Objects) -> Option<ObjectId> {
        let candidates = candidates(pid)?;
        let path = match candidates.as_slice() {
            [] => return None,
            [path] => path.clone(),
            several => self.growing(pid, several)?,
        };
        objects.file(&path, None, Opened::Read, false)
    }

    fn growing(&mut self, pid: u32, candidates: &[String]) -> Option<String> {
        let now = Time::now();
        if let Some(known) = self.0.get(&pid).filter(|known| now.since(known.read_at) < RESIDENT_NS) {
            return known.growing.clone();
        }
        let text = fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?;
        let bytes = resident(&text, candidates);
        let before = self.0.get(&pid);
        let grown = |(path, now): (&String, &u64)| Some((now.saturating_sub(*before?.bytes.get(path)?), path.clone()));
        let most = bytes.iter().filter_map(grown).filter(|(grown, _)| *grown > 0).max();
        let growing = most.map(|(_, path)| path).or_else(|| before?.growing.clone());
        if self.0.len() >= MOST_PROCESSES {
            self.0.clear();
        }
        self.0.insert(pid, Resident { read_at: now, bytes, growing: growing.clone() });
        growing
    }
}

fn candidates(pid: u32) -> Option<Vec<String>> {
    const LEAST_BYTES: u64 = 1 << 20;
    let maps = maps::of(pid).ok()?;
    let all: Vec<_> = maps.iter().filter(|mapping| mapping.path.has_root()).collect();
    let is_ours = |path: &Path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_ring);
    let has_code = |path: &Path| all.iter().any(|other| other.is_executable && other.path == path);
    let large = |mapping: &&Mapping<'_>| mapping.end - mapping.start >= LEAST_BYTES && !has_code(mapping.path) && !is_ours(mapping.path);
    let mut paths: Vec<String> = all.iter().filter(large).map(|mapping| mapping.path.to_string_lossy().into_owned()).collect();
    paths.sort_unstable();
    paths.dedup();
    Some(paths)
}

/// Sums the bytes in memory of these files' mappings, from `smaps`.
fn resident(text: &str, candidates: &[String]) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = candidates.iter().map(|path| (path.clone(), 0)).collect();
    let mut present: Option<&str> = None;
    for line in text.lines() {
        if let Some(kib) = line.strip_prefix("Rss:").and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()) {
            if let Some(sum) = present.and_then(|path| sums.get_mut(path)) {
                *sum += kib * 1024;
            }
        } else if line.as_bytes().first().is_some_and(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte)) {
            present = line.find('/').map(|at| &line[at..]);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptors_of_a_poll_are_read_from_its_memory() {
        let fds = [(3_i32, 1_i16, 0_i16), (-1, 1, 0), (7, 4, 0)];
        let bytes: Vec<u8> =
            fds.iter().flat_map(|(fd, a, b)| [&fd.to_ne_bytes()[..], &a.to_ne_bytes()[..], &b.to_ne_bytes()[..]].concat()).collect();
        let arguments = [bytes.as_ptr() as u64, 3, 0, 0, 0, 0];
        assert_eq!(polled(std::process::id(), &arguments), Some(vec![3, 7]));
        let mut set = [0_u8; 128];
        set[1] = 0b101;
        assert_eq!(selected(std::process::id(), &[20, set.as_ptr() as u64, 0, 0, 0, 0]), Some(vec![8, 10]));
        assert_eq!(polled(std::process::id(), &[8, 1, 0, 0, 0, 0]), None);
    }

    #[test]
    fn how_long_a_sleep_lasts_is_read_from_its_arguments() {
        let soon = Time::now().plus_ns(3_000_000_000).ns();
        let (length, until) = ([2_i64, 500], [soon / 1_000_000_000, soon % 1_000_000_000]);
        let asked = |clock: i32, flags: i32, time: &[i64; 2]| {
            let arguments = [clock as u64, flags as u64, std::ptr::from_ref(time) as u64, 0, 0, 0];
            sleeps_for(std::process::id(), libc::SYS_clock_nanosleep, &arguments)
        };
        assert_eq!(asked(libc::CLOCK_REALTIME, 0, &length), Some(2_000_000_500));
        let left = asked(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &until).expect("it goes on");
        assert!(left > 0 && left <= 3_000_000_000, "{left}");
        assert_eq!(asked(libc::CLOCK_REALTIME, libc::TIMER_ABSTIME, &until), None);
    }

    #[test]
    fn what_of_a_mapped_file_is_in_memory_is_summed() {
        let text = "7f00-7f10 r--p 00000000 fe:00 42   /data/big\nSize: 64 kB\nRss:   12 kB\n7f10-7f20 r--s 0 fe:00 42 /data/big\nRss: 4 kB\n\
                    7f20-7f30 rw-p 0 00:00 0\nRss: 100 kB\n7f30-7f40 r--p 0 fe:00 43   /usr/other\nRss: 8 kB\n";
        let sums = resident(text, &["/data/big".to_owned()]);
        assert_eq!(sums, BTreeMap::from([("/data/big".to_owned(), 16 << 10)]));
    }

    #[test]
    fn only_a_locked_mutex_that_is_waited_for_has_an_owner() {
        let owner = |lock: u32| mutex_owner(std::process::id(), std::ptr::from_ref(&[lock, 1, 4711_u32]) as u64);
        assert_eq!((owner(2), owner(1)), (Some(4711), None));
    }
}
