//! One direction at work: a thread that reads packets from one device, holds them, and writes them to the other in time.
//!
//! Each direction has its own thread and shares nothing with the other but the moment of the first TCP segment. The thread sleeps
//! in `ppoll` until a packet comes or the next is due; its timer slack is one nanosecond, so that it wakes when it asked to. How
//! late packets left is measured and reported: it is what the relay adds to the delay that was asked for.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::line::{Counts, Line};
use crate::segment::{PREFIX_BYTES, Shape};

/// Largest packet a device hands over, its prefix included.
const PACKET_MAX_BYTES: usize = PREFIX_BYTES + 65_535;
/// Packets read before those that are due are looked after again.
const READ_BATCH: usize = 32;

/// What one direction saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What the line counted.
    pub counts: Counts,
    /// Packets written, each perhaps a super-segment.
    pub written: u64,
    /// Packets that the other device refused.
    pub write_errors: u64,
    /// How late packets were written after the moment they were due, summed up.
    pub late_sum_ns: u64,
    /// The latest of them.
    pub late_max_ns: u64,
    /// Those more than a millisecond late.
    pub late_1ms: u64,
    /// Whether the thread ran before ordinary ones (real-time scheduling).
    pub preferred: bool,
}

/// The moment of the first TCP segment in either direction, for both.
#[derive(Default)]
pub struct Origin(AtomicU64);

impl Origin {
    fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|at_ns| *at_ns > 0)
    }

    fn set_once(&self, at_ns: u64) {
        let _ = self.0.compare_exchange(0, at_ns.max(1), Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Carries packets from `from` to `to` until `stop` can be read. Both descriptors do not block.
pub fn carry(from: RawFd, to: RawFd, stop: RawFd, mut line: Line, origin: &Origin) -> io::Result<Seen> {
    // SAFETY: sets this thread's timer slack; no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let mut seen = Seen::default();
    let mut buffer = vec![0; PACKET_MAX_BYTES];
    let mut begun = false;
    loop {
        deliver(&mut line, to, &mut seen)?;
        if !fill(from, &mut line, &mut buffer, origin, &mut begun)? && wait(from, stop, &line)? {
            seen.counts = line.counts().clone();
            return Ok(seen);
        }
    }
}

/// Writes what is due.
fn deliver(line: &mut Line, to: RawFd, seen: &mut Seen) -> io::Result<()> {
    let mut now_ns = now_ns();
    while let Some((due_ns, packet)) = line.take_due(now_ns) {
        write(to, &packet, seen)?;
        let late_ns = now_ns.saturating_sub(due_ns);
        seen.late_sum_ns += late_ns;
        seen.late_max_ns = seen.late_max_ns.max(late_ns);
        seen.late_1ms += u64::from(late_ns > 1_000_000);
        now_ns = self::now_ns();
    }
    Ok(())
}

/// Reads a batch of packets into the line. True: there may be more.
fn fill(from: RawFd, line: &mut Line, buffer: &mut [u8], origin: &Origin, begun: &mut bool) -> io::Result<bool> {
    for _ in 0..READ_BATCH {
        // SAFETY: the kernel writes at most the buffer's length into it.
        let read = unsafe { libc::read(from, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Ok(bytes) = usize::try_from(read) else {
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(error),
            }
        };
        let now_ns = now_ns();
        let shape = Shape::of(&buffer[..bytes]);
        if !*begun {
            if shape.is_tcp() {
                origin.set_once(now_ns);
            }
            if let Some(at_ns) = origin.get() {
                line.begin(at_ns);
                *begun = true;
            }
        }
        let mut packet = buffer[..bytes].to_vec();
        line.admit(now_ns, &mut packet, &shape);
    }
    Ok(true)
}

/// Sleeps until a packet comes, the next is due, or it is time to stop (true).
fn wait(from: RawFd, stop: RawFd, line: &Line) -> io::Result<bool> {
    let mut polled = [from, stop].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let timeout = line.next_due_ns().map(|due_ns| {
        let left = Duration::from_nanos(due_ns.saturating_sub(now_ns()));
        libc::timespec { tv_sec: left.as_secs() as libc::time_t, tv_nsec: left.subsec_nanos().into() }
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the array and the time outlive the call.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), 2, timeout, std::ptr::null()) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
    }
    Ok(polled[1].revents != 0)
}

/// Hands a packet to a device. One the device refuses is counted, and lost; TCP's own recovery then shows in the counts.
fn write(to: RawFd, packet: &[u8], seen: &mut Seen) -> io::Result<()> {
    // SAFETY: the kernel reads the packet, which outlives the call.
    let written = unsafe { libc::write(to, packet.as_ptr().cast(), packet.len()) };
    if written >= 0 {
        seen.written += 1;
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EBADFD) {
        return Err(error);
    }
    seen.write_errors += 1;
    Ok(())
}

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
