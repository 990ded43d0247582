//! A sampling clock for each thread of this user's that is watched, on each CPU, and their records in order of time.

use super::sample;
use crate::perf::{ID, Id, PerfEvent, PerfRecord, PerfRing, SAMPLE_NS, flags, online_processors};
use crate::profile::events::{Happened, OF_PROCESSES, happened};
use crate::recorder::{RecordError, Watched};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use thalweg_trace::Time;

/// Pages of a CPU's ring to begin with: what all rings of a user take is limited, and half as many are tried where they
/// do not fit. A second of samples with twenty frames takes 60.
pub(super) const MOST_PAGES: usize = 64;
/// The same for the few samples beside another recorder, which has rings of its own.
pub(super) const FEW_PAGES: usize = 8;
/// The same with copied stacks.
const MOST_PAGES_OF_COPIES: usize = 512;
/// The smallest rings.
const LEAST_PAGES: usize = 4;
const LEAST_PAGES_OF_COPIES: usize = 16;

/// How often rings are read, and how often if stacks are copied.
const ROUND: Duration = Duration::from_millis(20);
const ROUND_OF_COPIES: Duration = Duration::from_millis(5);

/// Rounds that a ring of copies lasts: with less room, samples are taken at a longer period.
const ROUNDS_IN_RING: u64 = 4;

/// Bytes of a sample beside its copy: a hundred frames.
const SAMPLE_BYTES: u64 = 1 << 10;

/// Maximum bytes that are copied: a record of perf has less than 64 KiB.
const MOST_COPIED: u32 = 63 << 10;

/// Events opened for processes that existed before.
/// Bound: each thread needs one on each CPU, and a process may have a thousand descriptors.
const MOST_EVENTS: usize = 768;

/// A record that begins to be written is complete after this time, whatever its CPU does.
const BEING_WRITTEN: Duration = Duration::from_micros(50);

/// A record that is needed after its round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClockRecord {
    /// `rest`: its stack.
    Sample { id: Id, rest: Box<[u8]> },
    /// A process event.
    Process(Happened),
    /// A thread has this name.
    Named { tid: u32, name: String },
    /// A thread that ended had run this long on a CPU.
    Ran { tid: u32, cpu: u32, ns: u64 },
}

/// The clocks, and a ring for each CPU.
#[derive(Debug)]
pub(super) struct Clocks {
    rings: Vec<(u32, PerfRing)>,
    /// Clocks of further threads, which write into the same rings.
    others: Vec<(u32, OwnedFd)>,
    /// Records too new to be in order.
    waiting: Vec<(Time, ClockRecord)>,
    pub period_ns: u64,
    /// Bytes copied of each stack; 0: none.
    pub stack_bytes: u32,
    pub ring_bytes: u64,
    /// Records for which there was no room.
    pub lost: u64,
    /// Threads of other processes that are not sampled.
    pub left_out: usize,
}

impl Clocks {
    /// Opens clocks for the command, held before `execve`, and for the other processes.
    ///
    /// # Errors
    /// The kernel allows none, or no rings.
    pub(super) fn of(watched: &Watched, (period_ns, stack_bytes): (u64, u32), pages: usize) -> Result<Clocks, RecordError> {
        let stack_bytes = stack_bytes.min(MOST_COPIED).next_multiple_of(8);
        let mut threads: Vec<u32> = watched.command.iter().map(|command| command.pid).collect();
        threads
            .extend(watched.others.iter().flat_map(|process| crate::proc::processes::numbers_in(&format!("/proc/{}/task", process.pid))));
        let mut left_out = 0;
        let mut refused = io::Error::from_raw_os_error(libc::ESRCH);
        for (at, &thread) in threads.iter().enumerate() {
            match Clocks::first(thread, (period_ns, stack_bytes), pages) {
                Ok(mut clocks) => {
                    clocks.left_out = left_out + threads[at + 1..].iter().filter(|thread| !clocks.add(**thread)).count();
                    return Ok(clocks);
                }
                // Another user's process.
                Err(error) => (refused, left_out) = (error, left_out + 1),
            }
        }
        Err(not_allowed(&refused))
    }

    /// Opens the clocks of one thread with the largest rings that fit.
    fn first(thread: u32, (period_ns, stack_bytes): (u64, u32), pages: usize) -> io::Result<Clocks> {
        let (mut pages, least) = if stack_bytes > 0 { (MOST_PAGES_OF_COPIES, LEAST_PAGES_OF_COPIES) } else { (pages, LEAST_PAGES) };
        loop {
            let ring_bytes = (pages * rustix::param::page_size()) as u64;
            let period_ns = if stack_bytes > 0 { period(ring_bytes, stack_bytes) } else { period_ns };
            match with_rings(thread, pages, (period_ns, stack_bytes)) {
                Ok(rings) if rings.is_empty() => return Err(io::Error::from_raw_os_error(libc::ENODEV)),
                Ok(rings) => {
                    let (others, waiting) = (Vec::new(), Vec::new());
                    return Ok(Clocks { rings, others, waiting, period_ns, stack_bytes, ring_bytes, lost: 0, left_out: 0 });
                }
                Err(error) if pages <= least => return Err(error),
                Err(_) => pages /= 2,
            }
        }
    }

    /// Adds the clocks of another thread; returns whether that is possible.
    fn add(&mut self, thread: u32) -> bool {
        /// PERF_EVENT_IOC_SET_OUTPUT: `_IO('$', 5)`.
        const SET_OUTPUT: libc::Ioctl = 0x2405;
        if self.others.len() + self.rings.len() > MOST_EVENTS {
            return false;
        }
        let mut opened = Vec::new();
        for (cpu, ring) in &self.rings {
            let Ok(fd) = open(thread, *cpu, (self.period_ns, self.stack_bytes)) else { return false };
            // SAFETY: both descriptors are open, and the call takes numbers only.
            if unsafe { libc::ioctl(fd.as_raw_fd(), SET_OUTPUT, ring.event().as_raw_fd()) } != 0 {
                return false;
            }
            opened.push((*cpu, fd));
        }
        self.others.append(&mut opened);
        true
    }

    /// Returns how often the rings are to be read.
    pub(super) fn round(&self) -> Duration {
        if self.stack_bytes > 0 { ROUND_OF_COPIES } else { ROUND }
    }

    /// Returns the records since the last call, in order of time; `all`: also those so new that an older one may still
    /// be on its way.
    pub(super) fn take(&mut self, all: bool) -> Vec<(Time, ClockRecord)> {
        let begun = Time::now();
        let (mut taken, mut lost) = (std::mem::take(&mut self.waiting), 0);
        for (cpu, ring) in &mut self.rings {
            ring.take(|record| see(&record, *cpu, &mut taken, &mut lost));
        }
        self.lost += lost;
        taken.sort_by_key(|(at, _)| *at);
        if !all {
            let until = begun.plus_ns(-(BEING_WRITTEN.as_nanos() as i64));
            let settled = taken.partition_point(|(at, _)| *at <= until);
            self.waiting = taken.split_off(settled);
        }
        taken
    }

    /// Returns how long all threads ran, by CPU.
    pub(super) fn ran(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.rings.iter().map(move |(cpu, ring)| {
            let others = self.others.iter().filter(|(on, _)| on == cpu).map(|(_, fd)| count(fd.as_fd()));
            (*cpu, count(ring.event()) + others.sum::<u64>())
        })
    }
}

/// Keeps what a record reports. A count is that of the ring's CPU, wherever the thread ended.
fn see(record: &PerfRecord<'_>, cpu: u32, into: &mut Vec<(Time, ClockRecord)>, lost: &mut u64) {
    match record {
        PerfRecord::Sample { id, rest, .. } => into.push((id.at, ClockRecord::Sample { id: *id, rest: (*rest).into() })),
        PerfRecord::Ran { id, tid, count } => into.push((id.at, ClockRecord::Ran { tid: *tid, cpu, ns: *count })),
        PerfRecord::Comm { id, name, .. } => into.push((id.at, ClockRecord::Named { tid: id.tid, name: (*name).to_owned() })),
        PerfRecord::Lost(many) => *lost += many,
        _ => {}
    }
    into.extend(happened(record).map(|event| (Time::from_monotonic_ns(event.at_ns.cast_signed()), ClockRecord::Process(event))));
}

/// Returns the sampling period for which a ring of copies lasts for some rounds.
fn period(ring_bytes: u64, stack_bytes: u32) -> u64 {
    let room = (ring_bytes / (u64::from(stack_bytes) + SAMPLE_BYTES)).max(1);
    let wanted_ns = ROUND_OF_COPIES.as_nanos() as u64 * ROUNDS_IN_RING / room;
    SAMPLE_NS * wanted_ns.div_ceil(SAMPLE_NS).max(1)
}

fn with_rings(thread: u32, pages: usize, of: (u64, u32)) -> io::Result<Vec<(u32, PerfRing)>> {
    let one = |cpu: u32| Ok((cpu, PerfRing::map(open(thread, cpu, of)?, pages)?));
    online_processors().into_iter().map(one).collect()
}

/// Opens a thread's clock on a CPU.
fn open(thread: u32, cpu: u32, (period_ns, stack_bytes): (u64, u32)) -> io::Result<OwnedFd> {
    const CPU_CLOCK: u64 = 0;
    let outside = flags::EXCLUDE_KERNEL | flags::EXCLUDE_KERNEL_STACK | flags::EXCLUDE_HYPERVISOR;
    let flags = outside | OF_PROCESSES | flags::INHERIT | flags::INHERIT_COUNTS;
    let copy = if stack_bytes > 0 { crate::perf::sample::REGISTERS | crate::perf::sample::STACK } else { 0 };
    let open = |more: u64| {
        let mut event = PerfEvent::software(CPU_CLOCK);
        event.period = period_ns;
        event.sample_type = crate::perf::sample::INSTRUCTION | ID | crate::perf::sample::CALL_CHAIN | copy;
        event.flags = flags | more;
        event.user_registers = if stack_bytes > 0 { sample::MASK } else { 0 };
        event.user_stack = stack_bytes;
        event.clock = libc::CLOCK_MONOTONIC;
        event.open_of(thread.cast_signed(), cpu.cast_signed(), None)
    };
    // Kernels since 5.12 report build identifiers.
    open(flags::BUILD_ID).or_else(|error| if error.raw_os_error() == Some(libc::EINVAL) { open(0) } else { Err(error) })
}

/// Returns a clock's count.
fn count(event: BorrowedFd<'_>) -> u64 {
    let mut bytes = [0; 8];
    rustix::io::read(event, &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
}

fn not_allowed(error: &io::Error) -> RecordError {
    RecordError::NotAllowed(match error.raw_os_error() {
        Some(libc::EPERM | libc::ENOMEM) => {
            let least = (LEAST_PAGES * rustix::param::page_size()) >> 10;
            format!(
                "rings of {least} KiB do not fit into what this user may lock (kernel.perf_event_mlock_kb, ulimit -l); another recording \
                 may hold it"
            )
        }
        Some(libc::EACCES) => "the processes belong to another user, or are protected".to_owned(),
        _ => format!("the kernel refuses a sampling clock (perf_event_open: {error})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_lasts_for_some_rounds_of_copies() {
        for pages in [LEAST_PAGES_OF_COPIES, 32, 64, 128, 256, MOST_PAGES_OF_COPIES] {
            for stack_bytes in [8, 8 << 10, 16 << 10, MOST_COPIED] {
                let (ring, each) = (pages as u64 * 4_096, u64::from(stack_bytes) + SAMPLE_BYTES);
                let period_ns = period(ring, stack_bytes);
                let in_rounds = ROUND_OF_COPIES.as_nanos() as u64 * ROUNDS_IN_RING / period_ns;
                assert!(period_ns.is_multiple_of(SAMPLE_NS) && in_rounds * each <= ring, "{pages} pages, {stack_bytes} bytes");
            }
        }
        assert_eq!(period(512 * 4_096, 16 << 10), SAMPLE_NS);
    }
}
