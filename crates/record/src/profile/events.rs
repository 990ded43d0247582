//! perf's records of executable mappings, forks, execs and exits: complete even for processes that live for a
//! millisecond. Each CPU has a ring, written by the kernel and read here.

use crate::perf::{PerfEvent, online_processors};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fmt::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// The kind of a process event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An executable mapping was made.
    Mapped { start: u64, end: u64, file_offset: u64, path: String, build_id: Option<String> },
    /// A process was forked by another.
    Forked { parent: u32 },
    /// A program was executed: earlier mappings are gone.
    Began,
    /// A thread ended.
    Ended { tid: u32 },
}

/// A process event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    /// Time on the samples' clock.
    pub at_ns: u64,
    pub pid: u32,
    pub what: What,
}

/// Pages of a CPU's ring, a power of two: room for some three thousand mappings.
const RING_PAGES: usize = 64;

/// perf's constants.
const DUMMY: u64 = 9;
const SAMPLE_TIME: u64 = 1 << 2;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const TASK: u64 = 1 << 13;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCKID: u64 = 1 << 25;
const BUILD_ID: u64 = 1 << 34;
const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_EXIT: u32 = 4;
const RECORD_FORK: u32 = 7;
const RECORD_MMAP2: u32 = 10;
const MISC_BUILD_ID: u16 = 1 << 14;
const MISC_COMM_EXEC: u16 = 1 << 13;

/// Offsets of the positions in a ring's first page.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

/// The rings of all CPUs.
#[derive(Debug, Default)]
pub(crate) struct Events {
    rings: Vec<PerfRing>,
    /// Records lost because a ring was full.
    pub lost: u64,
}

#[derive(Debug)]
struct PerfRing {
    base: *mut u8,
    page: usize,
    _event: OwnedFd,
}

// SAFETY: the mapping is the ring's own, and only its owner reads it.
unsafe impl Send for PerfRing {}

fn open(cpu: u32, build_id: u64) -> std::io::Result<OwnedFd> {
    let mut event = PerfEvent::software(DUMMY);
    event.sample_type = SAMPLE_TIME;
    event.flags = MMAP | COMM | TASK | SAMPLE_ID_ALL | MMAP2 | COMM_EXEC | USE_CLOCKID | build_id;
    event.clock = libc::CLOCK_MONOTONIC;
    event.open(cpu)
}

impl Events {
    /// Opens a ring for each CPU. Without them, mappings are known only from /proc.
    ///
    /// # Errors
    /// The kernel's reason.
    pub(crate) fn open() -> std::io::Result<Events> {
        let mut rings = Vec::new();
        for cpu in online_processors() {
            // Kernels since 5.12 report build identifiers.
            let event = open(cpu, BUILD_ID).or_else(|_| open(cpu, 0))?;
            rings.push(PerfRing::map(event)?);
        }
        Ok(Events { rings, lost: 0 })
    }

    /// Takes the events since the last call, in order of time.
    pub(crate) fn take(&mut self, into: &mut Vec<Happened>) {
        for ring in &self.rings {
            self.lost += ring.take(into);
        }
        into.sort_by_key(|happened| happened.at_ns);
    }
}

impl PerfRing {
    fn map(event: OwnedFd) -> std::io::Result<PerfRing> {
        let page = rustix::param::page_size();
        let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping of a descriptor that is ours; nothing else is replaced.
        let base = unsafe { mmap(std::ptr::null_mut(), page * (1 + RING_PAGES), access, shared, event.as_fd(), 0)? };
        Ok(PerfRing { base: base.cast(), page, _event: event })
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: within the mapping's first page, aligned, and written by the kernel as a single number.
        unsafe { &*self.base.add(at).cast::<AtomicU64>() }
    }

    /// Copies from the ring, wrapping at its end.
    fn copy(&self, position: u64, into: &mut [u8]) {
        let size = self.page * RING_PAGES;
        let at = usize::try_from(position).unwrap_or(0) & (size - 1);
        let first = into.len().min(size - at);
        // SAFETY: both pieces lie within the ring's pages, and the kernel does not write between tail and head.
        unsafe {
            std::ptr::copy_nonoverlapping(self.base.add(self.page + at), into.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(self.base.add(self.page), into.as_mut_ptr().add(first), into.len() - first);
        }
    }

    fn take(&self, into: &mut Vec<Happened>) -> u64 {
        let head = self.position(HEAD_AT).load(Ordering::Acquire);
        let mut tail = self.position(TAIL_AT).load(Ordering::Relaxed);
        let mut lost = 0;
        let mut record = Vec::new();
        while head.saturating_sub(tail) >= 8 {
            let mut header = [0; 8];
            self.copy(tail, &mut header);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if size < 8 || (size as u64) > head - tail {
                break;
            }
            record.resize(size, 0);
            self.copy(tail, &mut record);
            lost += lost_of(&record);
            into.extend(parse(&record));
            tail += size as u64;
        }
        // Skips what could not be read, so that it does not block the ring.
        self.position(TAIL_AT).store(head, Ordering::Release);
        lost
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing of it is borrowed any longer.
        let _ = unsafe { munmap(self.base.cast(), self.page * (1 + RING_PAGES)) };
    }
}

fn u32_at(record: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(record: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?))
}

fn lost_of(record: &[u8]) -> u64 {
    let is_lost = u32_at(record, 0) == Some(RECORD_LOST);
    if is_lost { u64_at(record, 16).unwrap_or(0) } else { 0 }
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Parses a record; `None` if it is irrelevant.
fn parse(record: &[u8]) -> Option<Happened> {
    let (kind, misc) = (u32_at(record, 0)?, u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?));
    let (pid, second) = (u32_at(record, 8)?, u32_at(record, 12)?);
    // Each record ends with its time.
    let at_ns = u64_at(record, record.len().checked_sub(8)?)?;
    let what = match kind {
        RECORD_FORK if pid != second => What::Forked { parent: second },
        RECORD_EXIT => What::Ended { tid: u32_at(record, 16)? },
        RECORD_COMM if misc & MISC_COMM_EXEC != 0 => What::Began,
        RECORD_MMAP2 => {
            let (start, length) = (u64_at(record, 16)?, u64_at(record, 24)?);
            let name = record.get(72..record.len() - 8)?;
            let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())];
            let build_id = (misc & MISC_BUILD_ID != 0).then(|| {
                let size = usize::from(record[40]).min(20);
                hexadecimal(&record[44..44 + size])
            });
            What::Mapped {
                start,
                end: start.saturating_add(length),
                file_offset: u64_at(record, 32)?,
                path: String::from_utf8_lossy(name).into_owned(),
                build_id: build_id.filter(|id| !id.is_empty()),
            }
        }
        _ => return None,
    };
    Some(Happened { at_ns, pid, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, words: &[u32], tail: &[u8], at_ns: u64) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(0_u16.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(tail);
        bytes.extend(at_ns.to_ne_bytes());
        bytes
    }

    #[test]
    fn forks_programs_and_ends_are_told_apart() {
        let fork = parse(&record(RECORD_FORK, 0, &[7, 3, 7, 3, 0, 0], &[], 99)).expect("a fork");
        assert_eq!((fork.at_ns, fork.pid, fork.what), (99, 7, What::Forked { parent: 3 }));
        assert!(parse(&record(RECORD_FORK, 0, &[7, 7, 8, 7, 0, 0], &[], 99)).is_none(), "a thread is no process");
        assert_eq!(parse(&record(RECORD_COMM, MISC_COMM_EXEC, &[7, 7], b"sleep\0\0\0", 5)).map(|h| h.what), Some(What::Began));
        assert!(parse(&record(RECORD_COMM, 0, &[7, 7], b"sleep\0\0\0", 5)).is_none(), "only a name");
        assert_eq!(parse(&record(RECORD_EXIT, 0, &[7, 3, 8, 3, 0, 0], &[], 6)).map(|h| h.what), Some(What::Ended { tid: 8 }));
    }

    #[test]
    fn a_mapping_has_its_path_and_its_build_identifier() {
        let words = [7, 7, 0x1000, 0, 0x2000, 0, 0x3000, 0, 2, 0x0201, 0, 0, 0, 0, 5, 2];
        let mapped = parse(&record(RECORD_MMAP2, MISC_BUILD_ID, &words, b"/bin/x\0\0", 9)).expect("a mapping");
        let expected =
            What::Mapped { start: 0x1000, end: 0x3000, file_offset: 0x3000, path: "/bin/x".into(), build_id: Some("0102".into()) };
        assert_eq!(mapped.what, expected);
        for length in 0..60 {
            let _ = parse(&record(RECORD_MMAP2, MISC_BUILD_ID, &words, b"/bin/x\0\0", 9)[..length]);
        }
    }
}
