//! The ring between the programs and the reader: its size, and when the reader wakes.
//!
//! A ring is kernel memory mapped twice into the reader, so it is small. Overflow is prevented not by its size but by
//! waking the reader each time another quarter fills, and by the reader's high priority. Otherwise the reader sleeps
//! for as long as it likes, and a quiet recording costs next to nothing. The wake-up uses an edge-triggered epoll:
//! the ring is rarely empty, and a level-triggered one would never sleep.

use crate::RecordError;
use libbpf_rs::{Map, RingBuffer, RingBufferBuilder};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Ring size on a machine with up to [`FEW_PROCESSORS`] CPUs; it doubles with them. Eight threads with every system
/// call recorded fill 120 MB/s, thirty pairs waking each other 100 MB/s; half this size sufficed, the rest is for a
/// reader waiting for a disk.
const LEAN_BYTES: u64 = 8 << 20;
const CALLS_BYTES: u64 = 16 << 20;
const FEW_PROCESSORS: u64 = 4;
const MOST_BYTES: u64 = 64 << 20;

/// Factor for a reader without the high priority.
const PATIENT: u64 = 4;

/// Maximum records taken from the ring before the reader does anything else.
const ROUND: usize = 65_536;

/// Returns the ring size for this many CPUs, with or without every system call recorded, and for a reader with or
/// without the high priority. A power of two, as the kernel requires.
pub(crate) fn size_bytes(processors: usize, calls: bool, prompt: bool) -> u32 {
    let least = if calls { CALLS_BYTES } else { LEAN_BYTES } * if prompt { 1 } else { PATIENT };
    let wanted = least * (processors as u64).div_ceil(FEW_PROCESSORS).next_power_of_two();
    u32::try_from(wanted.min(MOST_BYTES)).unwrap_or(u32::MAX)
}

/// Returns log2 of a quarter of a ring of this size.
pub(crate) fn wake_shift(size_bytes: u32) -> u32 {
    size_bytes.ilog2() - 2
}

/// Ends the reader's sleep permanently.
#[derive(Debug)]
pub(crate) struct Ending(OwnedFd);

impl Ending {
    pub(crate) fn new() -> Result<Ending, RecordError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        eventfd(0, flags).map(Ending).map_err(|error| RecordError::Failed(format!("the kernel gives no eventfd: {error}")))
    }

    /// Makes [`Ring::wait`] report the end from now on.
    pub(crate) fn ask(&self) {
        // It cannot fail: the count is far from full.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// Why the reader woke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Filled,
    Ending,
    Time,
}

/// The reader's side of the ring.
pub(crate) struct Ring {
    records: RingBuffer<'static>,
    events: OwnedFd,
    who: &'static str,
}

/// Epoll tags of the descriptors.
const OF_RING: u64 = 1;
const OF_ENDING: u64 = 2;

impl Ring {
    /// Opens the ring of `who` in this map; `each` receives every record.
    pub(crate) fn open(
        map: Option<Map<'_>>,
        ending: &Ending,
        who: &'static str,
        mut each: impl FnMut(&[u8]) + 'static,
    ) -> Result<Ring, RecordError> {
        let failed = |error: &dyn std::fmt::Display| RecordError::Failed(format!("{who} cannot open its ring: {error}"));
        let map = map.ok_or_else(|| failed(&"it has none"))?;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| failed(&error))?;
        let on_edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&events, map.as_fd(), epoll::EventData::new_u64(OF_RING), on_edge).map_err(|error| failed(&error))?;
        epoll::add(&events, &ending.0, epoll::EventData::new_u64(OF_ENDING), epoll::EventFlags::IN).map_err(|error| failed(&error))?;
        let mut builder = RingBufferBuilder::new();
        let each = move |bytes: &[u8]| {
            each(bytes);
            0
        };
        builder.add(&map, each).map_err(|error| failed(&format!("{error:#}")))?;
        let records = builder.build().map_err(|error| failed(&format!("{error:#}")))?;
        Ok(Ring { records, events, who })
    }

    /// Sleeps until another quarter of the ring has filled, the end is requested, or the time is over.
    pub(crate) fn wait(&self, most: Duration) -> Woken {
        let timeout = Timespec { tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX), tv_nsec: most.subsec_nanos().into() };
        let mut happened = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 2];
        match epoll::wait(&self.events, &mut happened, Some(&timeout)) {
            Ok((happened, _)) if happened.iter().any(|event| event.data.u64() == OF_ENDING) => Woken::Ending,
            Ok((happened, _)) if !happened.is_empty() => Woken::Filled,
            // Interrupted by a signal handler: nothing has happened either.
            _ => Woken::Time,
        }
    }

    /// Handles at most one round of records; returns whether there may be more.
    pub(crate) fn take(&self) -> Result<bool, RecordError> {
        let taken = self.records.consume_raw_n(ROUND);
        match usize::try_from(taken) {
            Ok(taken) => Ok(taken >= ROUND),
            Err(_) => {
                let error = std::io::Error::from_raw_os_error(-taken);
                Err(RecordError::Failed(format!("{} cannot read its ring: {error}", self.who)))
            }
        }
    }
}

/// Returns the text of a fixed-size field: up to the first 0.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_grows_with_the_machine_within_bounds_and_is_a_power_of_two() {
        let size = |processors, calls, prompt| u64::from(size_bytes(processors, calls, prompt));
        assert_eq!(size(1, false, true), LEAN_BYTES);
        assert_eq!(size(4, true, true), CALLS_BYTES);
        assert_eq!(size(4, true, false), PATIENT * CALLS_BYTES);
        assert_eq!(size(5, false, true), 2 * LEAN_BYTES);
        assert_eq!(size(1_000, false, false), MOST_BYTES);
        for processors in 1..300 {
            let size = size_bytes(processors, processors % 2 == 0, processors % 3 == 0);
            assert!(size.is_power_of_two() && u64::from(size) <= MOST_BYTES);
            assert_eq!(1 << wake_shift(size), size / 4);
        }
    }
}
