//! Polls the open files of watched processes.
//!
//! The programs see a file when a thread waits in a call on it, or is sampled in one. A file that a fast program
//! finds only in the page cache may be missed, but /proc/PID/fd shows it. It also shows how a process can be
//! contacted: sockets that listen, and the file system it serves. Polling is bounded, and gets rarer for a process
//! that shows nothing new.

use super::raw::{FdObject, MODE_CHARACTER, MODE_FILE, MODE_KIND, MODE_SOCKET};
use super::translate::facts::Facts;
use super::translate::{OpenFile, Translator};
use crate::proc::serving::{is_fuse, listens_on};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Statx, StatxFlags};
use std::collections::{BTreeSet, HashMap};
use std::os::fd::BorrowedFd;
use std::time::Instant;
use thalweg_trace::called;

/// Maximum processes polled per round.
const MOST_PROCESSES: usize = 32;

/// Maximum new processes polled per round: in a storm of short ones the rest are skipped.
const MOST_FRESH: usize = 4;

/// Maximum descriptors examined per process.
const MOST_DESCRIPTORS: usize = 128;

/// Maximum rounds that a process without news is skipped.
const MOST_ROUNDS: u32 = 10;

/// Minimum interval between reads of the machine's listening sockets, as a multiple of the last one's duration.
const LISTENING_PART: u32 = 50;

#[derive(Debug, Default)]
struct Process {
    /// Access modes of files seen, by device and inode.
    seen: HashMap<(u32, u64), u32>,
    /// How many sockets it had.
    sockets: usize,
    /// How it can be contacted, as far as found.
    called: i64,
    pause: u32,
    left: u32,
}

/// The processes polled.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    processes: HashMap<u32, Process>,
    fresh: Vec<u32>,
    /// When the listening sockets may be read again.
    next_listening: Option<Instant>,
}

/// Results of examining a process's descriptors.
#[derive(Debug, Default)]
struct OpenDescriptors {
    /// Regular files not seen before in this access mode.
    files: Vec<OpenFile>,
    /// All its sockets, by inode.
    sockets: BTreeSet<u64>,
    /// Whether it serves a file system.
    serves_files: bool,
}

/// Returns the status of a name in /proc/PID/fd: of the file behind it, or of the link itself. Does not trigger
/// requests to file servers.
fn about(directory: BorrowedFd<'_>, name: &std::ffi::CStr, of: AtFlags) -> Option<Statx> {
    rustix::fs::statx(directory, name, of | AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::INO).ok()
}

/// Returns how a descriptor was opened: /proc gives its link the same permissions.
fn access_of(link_mode: u16) -> u32 {
    u32::from(link_mode & 0o400 != 0) | u32::from(link_mode & 0o200 != 0) << 1
}

/// Examines a process's descriptors; `None` if it is gone. A file in `seen` costs two system calls, other descriptors
/// one.
fn new_files(pid: u32, seen: &mut HashMap<(u32, u64), u32>) -> Option<OpenDescriptors> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut entries = Dir::new(rustix::fs::open(format!("/proc/{pid}/fd"), flags, Mode::empty()).ok()?).ok()?;
    let mut names = Vec::new();
    while let Some(Ok(entry)) = entries.read() {
        if names.len() == MOST_DESCRIPTORS {
            break;
        }
        if entry.file_name() != c"." && entry.file_name() != c".." {
            names.push(entry.file_name().to_owned());
        }
    }
    let directory = entries.fd().ok()?;
    let mut found = OpenDescriptors::default();
    for name in names {
        let Some(file) = about(directory, &name, AtFlags::empty()) else { continue };
        match u32::from(file.stx_mode) & MODE_KIND {
            MODE_FILE => {}
            MODE_SOCKET => {
                found.sockets.insert(file.stx_ino);
                continue;
            }
            kind => {
                found.serves_files |= kind == MODE_CHARACTER && is_fuse(file.stx_rdev_major, file.stx_rdev_minor);
                continue;
            }
        }
        let Some(link) = about(directory, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let device = file.stx_dev_major << 20 | file.stx_dev_minor;
        let access = access_of(link.stx_mode);
        if seen.get(&(device, file.stx_ino)).is_some_and(|known| known & access == access) {
            continue;
        }
        let Ok(path) = rustix::fs::readlinkat(directory, &name, Vec::new()) else { continue };
        let Some(path) = path.to_str().ok().filter(|path| path.starts_with('/')) else { continue };
        *seen.entry((device, file.stx_ino)).or_default() |= access;
        let number = name.to_str().ok().and_then(|name| name.parse().ok()).unwrap_or(-1);
        let object = FdObject { id: file.stx_ino, device, mode: file.stx_mode.into(), fd: number, access };
        found.files.push(OpenFile { object, path: path.strip_suffix(" (deleted)").unwrap_or(path).to_owned() });
    }
    Some(found)
}

impl Snapshots {
    /// Watches a process from now on.
    pub(crate) fn watch(&mut self, pid: u32) {
        self.processes.entry(pid).or_default();
        self.fresh.push(pid);
    }

    /// Polls the new processes.
    pub(crate) fn fresh(&mut self, translator: &mut Translator, facts: &mut dyn Facts) {
        for pid in std::mem::take(&mut self.fresh).into_iter().rev().take(MOST_FRESH) {
            self.one(pid, translator, facts);
        }
    }

    /// Polls the processes that are due, and returns them.
    pub(crate) fn poll(&mut self, translator: &mut Translator, facts: &mut dyn Facts) -> Vec<u32> {
        let mut turn = Vec::new();
        for (pid, process) in &mut self.processes {
            process.left = process.left.saturating_sub(1);
            if process.left == 0 && turn.len() < MOST_PROCESSES {
                turn.push(*pid);
            }
        }
        turn.iter().for_each(|pid| self.one(*pid, translator, facts));
        turn
    }

    fn one(&mut self, pid: u32, translator: &mut Translator, facts: &mut dyn Facts) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.seen.len() > 4 * MOST_DESCRIPTORS {
            process.seen.clear();
        }
        let Some(OpenDescriptors { files, sockets, serves_files }) = new_files(pid, &mut process.seen) else {
            self.processes.remove(&pid);
            return;
        };
        let mut by = if serves_files { called::FILE_SYSTEM } else { 0 };
        let listens = called::PORT | called::UNIX_SOCKET;
        let begun = Instant::now();
        if !sockets.is_empty() && process.called & listens != listens && self.next_listening.is_none_or(|at| begun >= at) {
            by |= listens_on(pid, &sockets);
            self.next_listening = Some(begun + begun.elapsed() * LISTENING_PART);
        }
        if by & !process.called != 0 {
            process.called |= by;
            translator.can_be_called(pid, by);
        }
        files.iter().for_each(|file| translator.open_file(pid, file, facts));
        let news = !files.is_empty() || sockets.len() > process.sockets;
        process.sockets = sockets.len();
        process.pause = if !news { (process.pause * 2).clamp(1, MOST_ROUNDS) } else { 1 };
        process.left = process.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_is_news_once_for_each_way_that_it_is_opened() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("data");
        let _written = std::fs::File::create(&path).expect("created");
        let mut seen = HashMap::new();
        let news = |seen: &mut _| {
            let files = new_files(std::process::id(), seen).expect("we are there").files;
            files.into_iter().filter(|file| file.path == path.to_str().unwrap()).map(|file| file.object.access).collect::<Vec<_>>()
        };
        assert_eq!(news(&mut seen), [2]);
        assert!(news(&mut seen).is_empty());
        let _read = std::fs::File::open(&path).expect("opened");
        assert_eq!(news(&mut seen), [1]);
        assert!(news(&mut seen).is_empty(), "both ways are known");
    }

    #[test]
    fn a_process_that_is_gone_has_no_files() {
        assert!(new_files(u32::MAX >> 1, &mut HashMap::new()).is_none());
    }
}
