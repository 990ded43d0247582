//! Sleeps by choice: recorded threads' sleeps that a timer ended, and whether they repeat.
//!
//! A polling program sleeps for the same time between polls, or a little longer each time. Which thread sleeps does
//! not matter (a shell has a child sleep for it), and a single long sleep is enough: what follows it costs little in
//! comparison.

use super::syscalls::Call;
use crate::bpf::raw::{self, Off};

/// Minimum sleep by choice; shorter ones are hand-offs or polite spinning.
const LEAST_NS: u64 = 1_000_000;

/// A sleep this long need not repeat.
const LONG_NS: u64 = 50_000_000;

/// Sleeps remembered.
const REMEMBERED: usize = 8;

/// How long after a sleep another one is expected: this multiple of its length, and a little more.
const EXPECTED: u64 = 4;
const EXPECTED_NS: u64 = 200_000_000;
const MOST_EXPECTED_NS: u64 = 120_000_000_000;

/// The recent sleeps.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// Lengths and end times.
    last: [(u64, u64); REMEMBERED],
    next: usize,
    /// Until when a thread is expected to sleep and poll again.
    pub until_ns: u64,
}

impl Pauses {
    /// Notes a wait in this call.
    pub(super) fn note(&mut self, off: &Off, call: Call) {
        let chosen = matches!(call, Call::Sleep | Call::Poll) || i64::from(off.call) == libc::SYS_futex;
        let slept_ns = off.wake_ns.saturating_sub(off.out_ns);
        if !chosen || off.context != raw::CONTEXT_TIMER || slept_ns < LEAST_NS || off.wake_connection != 0 {
            return;
        }
        let expected = |ns: u64| (EXPECTED * ns + EXPECTED_NS).min(MOST_EXPECTED_NS);
        // As long, or up to twice as long: many programs back off.
        let like = |(ns, ended_ns): &(u64, u64)| {
            *ns != 0 && slept_ns <= ns * 5 / 2 && *ns <= slept_ns * 5 / 4 && off.wake_ns <= ended_ns + slept_ns + expected(*ns)
        };
        if slept_ns >= LONG_NS || self.last.iter().any(like) {
            self.until_ns = self.until_ns.max(off.wake_ns + expected(slept_ns));
        }
        self.last[self.next % REMEMBERED] = (slept_ns, off.wake_ns);
        self.next = self.next.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slept(pauses: &mut Pauses, from_ms: u64, ms: u64, context: u32) -> u64 {
        let (out_ns, wake_ns) = (from_ms * 1_000_000, (from_ms + ms) * 1_000_000);
        pauses.note(&Off { out_ns, wake_ns, context, ..Off::default() }, Call::Sleep);
        pauses.until_ns
    }

    #[test]
    fn like_sleeps_or_a_long_one_are_pauses_and_others_are_not() {
        let mut pauses = Pauses::default();
        assert_eq!(slept(&mut pauses, 1_000, 5, raw::CONTEXT_TIMER), 0, "one");
        assert_eq!(slept(&mut pauses, 1_010, 5, raw::CONTEXT_TASK), 0, "ended by somebody");
        assert_eq!(slept(&mut pauses, 1_020, 30, raw::CONTEXT_TIMER), 0, "six times as long");
        assert!(slept(&mut pauses, 1_060, 9, raw::CONTEXT_TIMER) > 1_069_000_000, "a little longer than the first");
        assert!(slept(&mut Pauses::default(), 0, 100, raw::CONTEXT_TIMER) > 100_000_000, "long");
        let mut seldom = Pauses::default();
        slept(&mut seldom, 0, 5, raw::CONTEXT_TIMER);
        assert_eq!(slept(&mut seldom, 10_000, 5, raw::CONTEXT_TIMER), 0, "ten seconds later");
    }
}
