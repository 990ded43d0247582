//! Decides when polling calls are recorded: while recorded threads pause, and within a cost budget.
//!
//! Every system call on the machine takes about 0.2 µs longer while a program is attached to the end of all calls. So
//! it is attached only while it can show something, the calls are counted, and if there are many it is soon detached,
//! for long enough that the cost stays a small part of the time.

use super::load::Programs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Approximate cost of a call (measured in docs/RECORDING.md).
const CALL_NS: u64 = 220;

/// Maximum share of all CPUs' time while a recorded thread pauses: a thirtieth; for the command's last output, at any
/// time: a hundredth.
const LOOKS_PART: u64 = 30;
const WORDS_PART: u64 = 100;

/// Minimum interval over which calls are counted.
const WINDOW: Duration = Duration::from_millis(20);

/// Attaches a program.
type Attach = fn(&Programs) -> Option<OwnedFd>;

/// Records polling calls, or the command's last output.
#[derive(Debug)]
pub(crate) struct Looks {
    attach: Attach,
    part: u64,
    link: Option<Attached>,
    not_before: Option<Instant>,
    /// Total time recorded.
    recorded: Duration,
    /// It was suspended at times.
    pub in_part: bool,
}

#[derive(Debug)]
struct Attached {
    /// Detaches when closed.
    _link: OwnedFd,
    since: Instant,
    window: Instant,
    window_calls: u64,
}

/// Returns the minimum time in which this many calls may end on this many CPUs.
fn time_of(calls: u64, processors: u64, part: u64) -> Duration {
    Duration::from_nanos(calls.saturating_mul(CALL_NS).saturating_mul(part) / processors.max(1))
}

impl Looks {
    /// Records polling calls during pauses.
    pub(crate) fn of_pauses() -> Looks {
        Looks::new(Programs::record_looks, LOOKS_PART)
    }

    /// Records the command's last output.
    pub(crate) fn of_words() -> Looks {
        Looks::new(Programs::record_words, WORDS_PART)
    }

    fn new(attach: Attach, part: u64) -> Looks {
        Looks { attach, part, link: None, not_before: None, recorded: Duration::ZERO, in_part: false }
    }

    /// Runs once per round of the reader; `pausing` says whether a recorded thread repeatedly sleeps by choice.
    pub(crate) fn round(&mut self, programs: &Programs, pausing: bool) {
        let now = Instant::now();
        let Some(attached) = &mut self.link else {
            if pausing && self.not_before.is_none_or(|at| now >= at) {
                let calls = programs.calls_ended();
                let attached = |link| Attached { _link: link, since: now, window: now, window_calls: calls };
                self.link = (self.attach)(programs).map(attached);
            }
            return;
        };
        let window = now - attached.window;
        if pausing && window < WINDOW {
            return;
        }
        let ended = programs.calls_ended();
        let calls = ended - attached.window_calls;
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let worth = time_of(calls, processors, self.part);
        let too_many = worth > window.max(WINDOW);
        (attached.window, attached.window_calls) = (now, ended);
        if !pausing || too_many {
            self.recorded += now - attached.since;
            self.in_part |= too_many;
            self.not_before = Some(now + worth.saturating_sub(window));
            self.link = None;
        }
    }

    /// Returns how long calls were recorded.
    pub(crate) fn recorded(&self) -> Duration {
        self.recorded + self.link.as_ref().map_or(Duration::ZERO, |attached| attached.since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_calls_may_cost_is_a_part_of_all_processors_time() {
        assert_eq!(time_of(50_000, 1, 30), Duration::from_nanos(50_000 * CALL_NS * 30));
        assert_eq!(time_of(1_000_000, 4, 30), time_of(250_000, 1, 30));
        assert_eq!(time_of(0, 0, 200), Duration::ZERO);
    }
}
