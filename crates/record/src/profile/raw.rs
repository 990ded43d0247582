//! Records of the profile's programs, as `bpf/profile.h` describes them. A record that is too short, or claims more
//! than it has, is rejected.

use super::copied::Copied;
use crate::kernel::ring::text;

/// Flags for the state of the CPU.
pub(crate) const USER: u16 = 1;
pub(crate) const SOFTIRQ: u16 = 2;
pub(crate) const HARDIRQ: u16 = 4;
/// Not a sample but the stack of a wait.
pub(crate) const WAIT: u16 = 32;
/// The program's code is 32-bit.
#[cfg(test)]
pub(crate) const BITS_32: u16 = 16;
/// In place of user frames, the record has registers and the top of the stack.
pub(super) const STACK: u16 = 64;

/// The flags above this bit hold the number of event counters.
const EVENTS_SHIFT: u16 = 12;

/// Size of the fixed part, and of each event counter.
const HEAD: usize = 40;
const EVENT: usize = 24;

/// An event counter of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventValue {
    pub counted: u64,
    /// How long it was meant to count, and did: a CPU may have fewer counters than are requested.
    pub enabled_ns: u64,
    pub running_ns: u64,
}

/// One sample, in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<'a> {
    pub at_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub cpu: u16,
    pub flags: u16,
    name: &'a [u8],
    events: &'a [u8],
    kernel: &'a [u8],
    user: &'a [u8],
    copied: Option<Copied<'a>>,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn addresses(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|address| u64::from_ne_bytes(*address))
}

impl EventValue {
    /// Parses the kernel's three words.
    pub(crate) fn parse(bytes: &[u8]) -> Option<EventValue> {
        let word = |index: usize| number(bytes, 8 * index).map(u64::from_ne_bytes);
        Some(EventValue { counted: word(0)?, enabled_ns: word(1)?, running_ns: word(2)? })
    }
}

impl<'a> Sample<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Sample<'a>> {
        let frames = |at| number(bytes, at).map(|count| usize::from(u16::from_ne_bytes(count)));
        let (kernel, user) = (frames(20)?, frames(22)?);
        let flags = u16::from_ne_bytes(number(bytes, 18)?);
        let first = HEAD + EVENT * usize::from(flags >> EVENTS_SHIFT);
        let (middle, end) = (first + 8 * kernel, first + 8 * (kernel + user));
        let copied = if flags & STACK != 0 { Some(Copied::parse(bytes.get(end..)?)?) } else { None };
        Some(Sample {
            at_ns: u64::from_ne_bytes(number(bytes, 0)?),
            pid: u32::from_ne_bytes(number(bytes, 8)?),
            tid: u32::from_ne_bytes(number(bytes, 12)?),
            cpu: u16::from_ne_bytes(number(bytes, 16)?),
            flags,
            name: bytes.get(24..HEAD)?,
            events: bytes.get(HEAD..first)?,
            kernel: bytes.get(first..middle)?,
            user: bytes.get(middle..end)?,
            copied,
        })
    }

    /// Returns the start of the wait whose stack it is; `None` for a sample.
    pub(crate) fn waited_from_ns(&self) -> Option<u64> {
        number(self.name, 0).filter(|_| self.flags & WAIT != 0).map(u64::from_ne_bytes)
    }

    /// Returns the thread's name.
    pub(crate) fn name(&self) -> String {
        text(self.name)
    }

    /// Iterates over the CPU's event counters, in the requested order.
    pub(crate) fn events(&self) -> impl Iterator<Item = EventValue> + 'a {
        self.events.chunks_exact(EVENT).filter_map(EventValue::parse)
    }

    /// Iterates over kernel addresses, innermost first.
    pub(crate) fn kernel(&self) -> impl Iterator<Item = u64> + 'a {
        addresses(self.kernel)
    }

    /// Returns the copied registers and stack, if they replace user frames.
    pub(crate) fn copied(&self) -> Option<Copied<'a>> {
        self.copied
    }

    /// Iterates over user addresses, innermost first.
    pub(crate) fn user(&self) -> impl Iterator<Item = u64> + 'a {
        addresses(self.user)
    }
}

/// Counts of a CPU's wait stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitCounts {
    pub taken: u64,
    /// Skipped because they would have taken too much time.
    pub left_out: u64,
    pub lost: u64,
}

impl WaitCounts {
    pub(crate) fn parse(bytes: &[u8]) -> Option<WaitCounts> {
        let at = |index: usize| number(bytes, 8 * index).map(u64::from_ne_bytes);
        Some(WaitCounts { taken: at(2)?, left_out: at(3)?, lost: at(4)? })
    }
}

/// A CPU's accumulated times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// Up to when; 0: never settled.
    pub last_ns: u64,
    pub idle_ns: u64,
    pub hardirq_ns: u64,
    pub busy_ns: u64,
    pub sampler_ns: u64,
    pub taken: u64,
    pub lost: u64,
}

impl Times {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Times> {
        let at = |index: usize| number(bytes, 8 * index).map(u64::from_ne_bytes);
        Some(Times {
            last_ns: at(0)?,
            idle_ns: at(1)?,
            hardirq_ns: at(2)?,
            busy_ns: at(3)?,
            sampler_ns: at(4)?,
            taken: at(5)?,
            lost: at(6)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(kernel: u16, user: u16, frames: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(77_u64.to_ne_bytes());
        bytes.extend([4_u32, 5].map(u32::to_ne_bytes).concat());
        bytes.extend([1_u16, USER | BITS_32, kernel, user].map(u16::to_ne_bytes).concat());
        bytes.extend(b"worker\0garbage\0\0");
        bytes.extend(frames.iter().flat_map(|frame| frame.to_ne_bytes()));
        bytes
    }

    #[test]
    fn a_sample_has_the_kernel_s_frames_and_then_the_program_s() {
        let bytes = sample(2, 1, &[10, 11, 12]);
        let read = Sample::parse(&bytes).expect("whole");
        assert_eq!((read.at_ns, read.pid, read.tid, read.cpu, read.flags), (77, 4, 5, 1, USER | BITS_32));
        assert_eq!(read.name(), "worker");
        assert_eq!((read.kernel().collect::<Vec<_>>(), read.user().collect::<Vec<_>>()), (vec![10, 11], vec![12]));
    }

    #[test]
    fn a_stack_of_a_wait_says_since_when_and_a_sample_does_not() {
        let mut bytes = sample(1, 0, &[10]);
        assert_eq!(Sample::parse(&bytes).expect("whole").waited_from_ns(), None);
        bytes[18..20].copy_from_slice(&WAIT.to_ne_bytes());
        bytes[24..32].copy_from_slice(&76_u64.to_ne_bytes());
        assert_eq!(Sample::parse(&bytes).expect("whole").waited_from_ns(), Some(76));
    }

    #[test]
    fn a_copied_stack_reaches_to_the_end_of_its_sample() {
        let mut bytes = sample(1, 0, &[10, 0x40_1000, 0x7000, 0x7010, 3]);
        bytes[18] |= STACK as u8;
        bytes.extend([21_u64, 22].map(u64::to_ne_bytes).concat());
        let copied = Sample::parse(&bytes).and_then(|sample| sample.copied()).expect("a copy");
        assert_eq!((copied.ip, copied.sp, copied.fp, copied.lr), (0x40_1000, 0x7000, 0x7010, 3));
        assert_eq!([0x7000, 0x7008, 0x7009, 0x6fff, u64::MAX].map(|address| copied.word(address)), [Some(21), Some(22), None, None, None]);
        // Its registers are four words.
        for length in 0..HEAD + 8 + 32 {
            assert!(Sample::parse(&bytes[..length]).is_none());
        }
    }

    #[test]
    fn counters_of_events_stand_before_the_frames() {
        let mut bytes = sample(1, 1, &[100, 200, 150, 7, 8]);
        bytes[18..20].copy_from_slice(&(USER | 1 << EVENTS_SHIFT).to_ne_bytes());
        let read = Sample::parse(&bytes).expect("whole");
        assert_eq!(read.events().collect::<Vec<_>>(), [EventValue { counted: 100, enabled_ns: 200, running_ns: 150 }]);
        assert_eq!((read.kernel().collect::<Vec<_>>(), read.user().collect::<Vec<_>>()), (vec![7], vec![8]));
        bytes[18..20].copy_from_slice(&(USER | 2 << EVENTS_SHIFT).to_ne_bytes());
        assert!(Sample::parse(&bytes).is_none());
    }

    #[test]
    fn a_sample_that_claims_more_than_it_has_is_refused() {
        assert!(Sample::parse(&sample(2, 2, &[10, 11, 12])).is_none());
        assert!(Sample::parse(&sample(u16::MAX, u16::MAX, &[])).is_none());
        for length in 0..HEAD {
            assert!(Sample::parse(&sample(0, 0, &[])[..length]).is_none());
        }
    }
}
