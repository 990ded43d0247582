//! The ring of a perf event: pages that the kernel fills and this process reads.
//!
//! The layout is that of `struct perf_event_mmap_page` (`perf_event_open(2)`): a page with the positions of both sides,
//! then the records. The kernel writes whole records and never overwrites what has not been read: what does not fit is
//! counted in a record of its own.

use super::records::{Header, PerfRecord};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Offsets in the first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// Most bytes of a record: its size has 16 bits.
const MOST_BYTES: usize = 1 << 16;

/// A perf event with its ring.
#[derive(Debug)]
pub(crate) struct PerfRing {
    event: OwnedFd,
    start: NonNull<u8>,
    page_bytes: usize,
    /// A power of two.
    ring_bytes: usize,
    /// A record that crosses the end of the ring.
    whole: Vec<u8>,
}

// SAFETY: the mapping is this structure's alone, and its address is valid in every thread.
unsafe impl Send for PerfRing {}

impl PerfRing {
    /// Maps the ring of an event, of this many pages (a power of two).
    ///
    /// # Errors
    /// The user's share of locked memory is used up (EPERM), or the kernel has no memory.
    pub(crate) fn map(event: OwnedFd, pages: usize) -> io::Result<PerfRing> {
        let page_bytes = rustix::param::page_size();
        let ring_bytes = pages.next_power_of_two() * page_bytes;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), page_bytes + ring_bytes, protection, libc::MAP_SHARED, event.as_raw_fd(), 0) };
        match NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(PerfRing { event, start, page_bytes, ring_bytes, whole: Vec::new() }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// The event.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both positions are aligned and within the first page, which lives as long as `self`.
        unsafe { &*self.start.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Calls `each` with every record that is in the ring now, oldest first.
    pub(crate) fn take(&mut self, mut each: impl FnMut(PerfRecord<'_>)) {
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        let mut whole = std::mem::take(&mut self.whole);
        while tail < head {
            let Some(header) = self.bytes(tail, Header::BYTES, &mut whole).and_then(Header::parse) else { break };
            let size = usize::from(header.size);
            if size < Header::BYTES || tail + size as u64 > head {
                break;
            }
            if let Some(record) = self.bytes(tail, size, &mut whole).and_then(|bytes| PerfRecord::parse(header, &bytes[Header::BYTES..])) {
                each(record);
            }
            tail += size as u64;
        }
        self.whole = whole;
        // What cannot be understood is skipped: the next record begins at the head.
        self.position(TAIL).store(head, Ordering::Release);
    }

    /// Returns `size` bytes at a position; copied if they cross the end of the ring.
    fn bytes<'a>(&'a self, at: u64, size: usize, whole: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        if size > self.ring_bytes.min(MOST_BYTES) {
            return None;
        }
        let from = (at & (self.ring_bytes as u64 - 1)) as usize;
        let first = size.min(self.ring_bytes - from);
        // SAFETY: within the mapping; the kernel does not write between the tail and the head.
        let part = |from: usize, size: usize| unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().add(self.page_bytes + from).cast_const(), size)
        };
        if first == size {
            return Some(part(from, size));
        }
        whole.clear();
        whole.extend_from_slice(part(from, first));
        whole.extend_from_slice(part(0, size - first));
        Some(whole)
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.page_bytes + self.ring_bytes) };
    }
}
