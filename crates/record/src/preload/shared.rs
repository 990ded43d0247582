//! The layout of `preload/shared.h`, and the mapped file of one process.
//!
//! The data was written by a program that may be broken: every number is checked before use, and all offsets read are
//! within the mapping. Only the same user can shrink the file while it is mapped.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const MAGIC: u64 = 0x3130_4745_5741_4854;
const PAGE: usize = 4096;
pub(super) const SLOTS: usize = 256;
const RING_RECORDS: u64 = 4096;
pub(super) const RECORD_BYTES: usize = 64;
const SLOT_BYTES: usize = PAGE + RING_RECORDS as usize * RECORD_BYTES;
const FILE_BYTES: usize = PAGE + SLOTS * SLOT_BYTES;
const RUNS: usize = 6;
const RUN_BYTES: usize = 40;
const ABSENT: u64 = u64::MAX;

/// Converts `ABSENT` to `None`.
pub(super) fn known(value: u64) -> Option<u64> {
    (value != ABSENT).then_some(value)
}

/// Offsets in the header.
const TICK_SCALE: usize = 24;
const ENDED: usize = 32;
const UNTRACKED: usize = 36;
const UNSEEN: usize = 40;
const STATES: usize = 48;
const PARENT: usize = 12;
const BORN: usize = STATES + 4 * SLOTS;

/// Offsets in a slot.
const HEAD: usize = 0;
const LOST: usize = 8;
const TID: usize = 16;
const NAME: usize = 24;
const NAME_BYTES: usize = 16;
const ATTACHED: usize = 40;
const ANCHOR_TICKS: usize = 48;
const ANCHOR_NS: usize = 56;
const COVERED: usize = 64;
const CALL_KIND: usize = 80;
const CALL_OBJECT: usize = 84;
const CALL_TICKS: usize = 88;
const FIRST_RUN: usize = 96;
const TAIL: usize = 1024;

/// A slot's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Used,
    Ended,
}

/// One record, or 64 bytes that follow one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record(pub [u8; RECORD_BYTES]);

impl Record {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap_or_default())
    }
    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().unwrap_or_default())
    }
    pub(crate) fn kind_of_record(&self) -> u8 {
        self.0[0]
    }
    pub(crate) fn kind(&self) -> u8 {
        self.0[1]
    }
    pub(crate) fn context(&self) -> u8 {
        self.0[2]
    }
    /// Whether the call also read another file.
    pub(crate) fn is_of_both(&self) -> bool {
        self.0[3] != 0
    }
    pub(crate) fn count(&self) -> u32 {
        self.u32(4)
    }
    pub(crate) fn object(&self) -> u32 {
        self.u32(8)
    }
    pub(crate) fn waker(&self) -> u32 {
        self.u32(12)
    }
    pub(crate) fn start_ns(&self) -> u64 {
        self.u64(16)
    }
    pub(crate) fn duration_ns(&self) -> u64 {
        self.u64(24)
    }
    pub(crate) fn offset(&self) -> u64 {
        self.u64(32)
    }
    pub(crate) fn size(&self) -> i64 {
        self.u64(40) as i64
    }
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.u64(48)
    }
    pub(crate) fn runqueue_ns(&self) -> u64 {
        self.u64(56)
    }
    /// Returns how many following records belong to it.
    pub(crate) fn follows(&self) -> u64 {
        match self.kind_of_record() {
            OBJECT | TCP | LOOK => u64::from(self.count()),
            _ => 0,
        }
    }
}

pub(super) const SPAN: u8 = 1;
pub(super) const RUN: u8 = 2;
pub(super) const OBJECT: u8 = 3;
pub(super) const TCP: u8 = 4;
pub(super) const LISTEN: u8 = 5;
pub(super) const LOOK: u8 = 6;
pub(super) const STATUS: u8 = 7;

/// Merged calls not yet passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenRun {
    pub kind: u8,
    pub object: u32,
    pub count: u32,
    pub error: i32,
    pub took_ns: u64,
    pub bytes: u64,
    pub offset: u64,
}

/// The mapped file of one process.
#[derive(Debug)]
pub(super) struct Shared {
    start: *mut u8,
}

// SAFETY: shared memory that is accessed through atomics and copies only; the mapping lives as long as this.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps the file.
    pub(crate) fn open(path: &Path) -> io::Result<Shared> {
        let file = File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
        let mut head = [0; PAGE];
        file.read_exact_at(&mut head, 0)?;
        let magic = u64::from_ne_bytes(head[..8].try_into().unwrap_or_default());
        if magic != MAGIC || file.metadata()?.len() != FILE_BYTES as u64 {
            return Err(io::Error::other("is not a ring file"));
        }
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping, where the kernel likes, of a file as long as it.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), FILE_BYTES, protection, flags, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Shared { start: start.cast() }) }
    }

    fn atomic_u32(&self, at: usize) -> &AtomicU32 {
        assert!(at + 4 <= FILE_BYTES && at.is_multiple_of(4), "an offset in the file");
        // SAFETY: within the mapping and aligned; the other side accesses it as an atomic, or rarely enough for a stale value.
        unsafe { &*self.start.add(at).cast::<AtomicU32>() }
    }

    fn atomic_u64(&self, at: usize) -> &AtomicU64 {
        assert!(at + 8 <= FILE_BYTES && at.is_multiple_of(8), "an offset in the file");
        // SAFETY: as above.
        unsafe { &*self.start.add(at).cast::<AtomicU64>() }
    }

    fn u64(&self, at: usize) -> u64 {
        self.atomic_u64(at).load(Ordering::Relaxed)
    }

    /// Copies bytes from the mapping.
    fn copy<const N: usize>(&self, at: usize) -> [u8; N] {
        assert!(at + N <= FILE_BYTES, "an offset in the file");
        let mut bytes = [0; N];
        // SAFETY: within the mapping; what another thread changes meanwhile is bytes all the same.
        unsafe { std::ptr::copy_nonoverlapping(self.start.add(at), bytes.as_mut_ptr(), N) };
        bytes
    }

    /// Whether the process has executed another program.
    pub(crate) fn became_another(&self) -> bool {
        self.atomic_u32(ENDED).load(Ordering::Relaxed) == 2
    }

    /// Returns the number of threads without a slot.
    pub(crate) fn untracked(&self) -> u32 {
        self.atomic_u32(UNTRACKED).load(Ordering::Relaxed)
    }

    /// Returns the bits of features in use that the library cannot see.
    pub(crate) fn unseen(&self) -> u32 {
        self.atomic_u32(UNSEEN).load(Ordering::Relaxed)
    }

    /// Returns the process's creation time in clock ticks since boot, and its parent; `None` if unknown.
    pub(crate) fn born(&self) -> Option<(u64, u32)> {
        let ticks = self.u64(BORN);
        (ticks != 0).then(|| (ticks, self.atomic_u32(PARENT).load(Ordering::Relaxed)))
    }

    /// Returns a slot's state; nothing else of a free slot may be read.
    pub(crate) fn state(&self, slot: usize) -> State {
        match self.atomic_u32(STATES + 4 * slot).load(Ordering::Acquire) {
            1 => State::Used,
            2 => State::Ended,
            _ => State::Free,
        }
    }

    /// Frees a slot whose thread has ended.
    pub(crate) fn free(&self, slot: usize) {
        self.atomic_u32(STATES + 4 * slot).store(0, Ordering::Release);
    }

    fn slot_offset(slot: usize, at: usize) -> usize {
        PAGE + slot * SLOT_BYTES + at
    }

    /// Returns a slot's thread, its start and its name.
    pub(crate) fn thread(&self, slot: usize) -> (u32, u64, String) {
        let name: [u8; NAME_BYTES] = self.copy(Shared::slot_offset(slot, NAME));
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
        let name = String::from_utf8_lossy(&name[..end]).into_owned();
        (self.atomic_u32(Shared::slot_offset(slot, TID)).load(Ordering::Relaxed), self.u64(Shared::slot_offset(slot, ATTACHED)), name)
    }

    /// Returns the total number of records written.
    pub(crate) fn head(&self, slot: usize) -> u64 {
        self.atomic_u64(Shared::slot_offset(slot, HEAD)).load(Ordering::Acquire)
    }

    /// Returns the number of records taken. An impossible value (a fill beyond the ring's size) counts as all taken.
    pub(crate) fn tail(&self, slot: usize, head: u64) -> u64 {
        let tail = self.u64(Shared::slot_offset(slot, TAIL));
        if head.wrapping_sub(tail) > RING_RECORDS { head } else { tail }
    }

    /// Stores the number of records taken.
    pub(crate) fn set_tail(&self, slot: usize, tail: u64) {
        self.atomic_u64(Shared::slot_offset(slot, TAIL)).store(tail, Ordering::Release);
    }

    /// Copies one record.
    pub(crate) fn record(&self, slot: usize, index: u64) -> Record {
        Record(self.copy(Shared::slot_offset(slot, PAGE + (index % RING_RECORDS) as usize * RECORD_BYTES)))
    }

    /// Returns the records that did not fit since the thread got the slot.
    pub(crate) fn lost(&self, slot: usize) -> u64 {
        self.u64(Shared::slot_offset(slot, LOST))
    }

    /// Returns the end of the thread's recorded time.
    pub(crate) fn covered_ns(&self, slot: usize) -> u64 {
        self.u64(Shared::slot_offset(slot, COVERED))
    }

    fn ns_of(&self, ticks: u64) -> u64 {
        let scale = self.u64(TICK_SCALE);
        ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
    }

    /// Returns the thread's current call: kind, object, start.
    pub(crate) fn call(&self, slot: usize) -> Option<(u8, u32, u64)> {
        let kind = self.atomic_u32(Shared::slot_offset(slot, CALL_KIND)).load(Ordering::Acquire);
        let object = self.atomic_u32(Shared::slot_offset(slot, CALL_OBJECT)).load(Ordering::Relaxed);
        let ticks = self.u64(Shared::slot_offset(slot, CALL_TICKS)).checked_sub(self.u64(Shared::slot_offset(slot, ANCHOR_TICKS)))?;
        let since = self.u64(Shared::slot_offset(slot, ANCHOR_NS)).checked_add(self.ns_of(ticks))?;
        Some((u8::try_from(kind).ok().filter(|kind| *kind != 0)?, object, since))
    }

    /// Returns merged calls not yet passed on.
    pub(crate) fn runs(&self, slot: usize) -> Vec<OpenRun> {
        let run = |index: usize| {
            let bytes: [u8; RUN_BYTES] = self.copy(Shared::slot_offset(slot, FIRST_RUN + index * RUN_BYTES));
            let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
            let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
            (bytes[1] == 1).then(|| OpenRun {
                kind: bytes[0],
                object: u32_at(4),
                count: u32_at(8),
                error: u32_at(12) as i32,
                took_ns: self.ns_of(u64_at(16)),
                bytes: u64_at(24),
                offset: u64_at(32),
            })
        };
        (0..RUNS).filter_map(run).collect()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of this length.
        unsafe { libc::munmap(self.start.cast(), FILE_BYTES) };
    }
}

/// Maps a page of a file as code, and unmaps it: `noexec` mounts and security modules forbid that.
pub(super) fn map_as_code(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: a new private mapping of one page, unmapped at once and never run.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), PAGE, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        if at == libc::MAP_FAILED || libc::munmap(at, PAGE) != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Reads the CPU's counter, as the library does.
#[cfg(target_arch = "x86_64")]
pub(super) fn counter() -> u64 {
    // SAFETY: the kernel uses it as its clock, so it is there; programs may read it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Reads the CPU's counter, as the library does.
#[cfg(target_arch = "aarch64")]
pub(super) fn counter() -> u64 {
    let value: u64;
    // SAFETY: reads a register that programs may read.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) value) };
    value
}

/// Returns 0: no counter is known for this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn counter() -> u64 {
    0
}
