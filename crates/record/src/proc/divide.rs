//! Divides a thread's time between two samples, as far as the samples allow.
//!
//! Sums are exact: how long the thread ran, how long it was runnable (the rest it was blocked), and how often it went
//! to sleep. What it was blocked in is known only at single instants. So a thread's time is divided between
//! consecutive samples that found it blocked: its sums are then current (the kernel updates a running thread's only
//! at its ticks), and samples in between that found it running bound the end of the first wait and the start of the
//! last.
//!
//! Invariants: no piece is longer than the sums allow; an unseen wait has an unknown reason; a thread that did not go
//! to sleep did not wait.

use super::waits::Reason;
use thalweg_trace::Time;

/// Maximum lag of a running thread's sums: the kernel updates them at its own tick, the slowest of which is this long
/// (`CONFIG_HZ` 100; /proc's tick is another).
const SLOWEST_UPDATE_NS: u64 = 10_000_000;

/// Minimum piece that is recorded.
const WORTH_RECORDING_NS: u64 = 20_000;

/// One sample of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ThreadSample {
    pub at: Time,
    pub run_ns: u64,
    pub runqueue_ns: u64,
    /// How often it has gone to sleep, if known.
    pub sleeps: Option<u64>,
    /// Reason of its current wait; `None` if it is running or runnable.
    pub reason: Option<Reason>,
}

/// An interval from one sample on. `running`: the first and last instant at which the thread was seen running, if
/// any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub from: ThreadSample,
    pub running: Option<(Time, Time)>,
}

/// The result of dividing a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Division {
    /// Remaining duration of the wait that the thread was in at the start.
    pub first_ns: u64,
    /// Whether that wait ended within the window.
    pub ended: bool,
    /// Next: waits that no sample saw.
    pub unseen_ns: u64,
    /// Next: the time it was runnable. Then it ran, for the rest.
    pub runqueue_ns: u64,
    /// Last: the time it was blocked in what the final sample saw.
    pub last_ns: u64,
}

impl Window {
    /// Starts a window at this sample.
    pub(super) fn new(from: ThreadSample) -> Window {
        Window { from, running: None }
    }

    /// Notes a sample that found the thread running.
    pub(super) fn saw_running(&mut self, at: Time) {
        let first = self.running.map_or(at, |(first, _)| first);
        self.running = Some((first, at));
    }

    /// Divides the time up to `to`.
    pub(super) fn divide(&self, to: &ThreadSample) -> Division {
        let from = &self.from;
        let length_ns = to.at.since(from.at);
        let cpu_ns = to.run_ns.saturating_sub(from.run_ns).min(length_ns);
        let runqueue_ns = to.runqueue_ns.saturating_sub(from.runqueue_ns).min(length_ns - cpu_ns);
        let blocked_ns = length_ns - cpu_ns - runqueue_ns;
        let slept = from.sleeps.zip(to.sleeps).map(|(before, after)| after.saturating_sub(before));
        let (most_first_ns, most_last_ns) = match self.running {
            Some((first, last)) => (first.since(from.at), to.at.since(last)),
            None => (length_ns, length_ns),
        };
        let worth = |ns: u64| if ns >= WORTH_RECORDING_NS { ns } else { 0 };
        // A running thread's sums lag; what is missing is running time.
        let unseen = |ns: u64| worth(if to.reason.is_none() { ns.saturating_sub(SLOWEST_UPDATE_NS) } else { ns });
        let runqueue_ns = worth(runqueue_ns);
        match (from.reason.is_some(), to.reason.is_some()) {
            (true, true) if slept == Some(0) => Division { first_ns: length_ns - cpu_ns, ..Division::default() },
            (true, true) => {
                let half_ns = most_first_ns.min(blocked_ns / 2);
                let last_ns = most_last_ns.min(blocked_ns - half_ns);
                let first_ns = most_first_ns.min(blocked_ns - last_ns);
                Division { first_ns, ended: true, unseen_ns: unseen(blocked_ns - first_ns - last_ns), runqueue_ns, last_ns }
            }
            (true, false) => {
                let first_ns = most_first_ns.min(blocked_ns);
                let unseen_ns = if slept == Some(0) { 0 } else { unseen(blocked_ns - first_ns) };
                Division { first_ns, ended: true, unseen_ns, runqueue_ns, last_ns: 0 }
            }
            (false, true) => {
                let last_ns = most_last_ns.min(blocked_ns);
                Division { unseen_ns: unseen(blocked_ns - last_ns), runqueue_ns, last_ns, ..Division::default() }
            }
            (false, false) => {
                let unseen_ns = if slept == Some(0) { 0 } else { unseen(blocked_ns) };
                Division { unseen_ns, runqueue_ns, ..Division::default() }
            }
        }
    }

    /// Returns the window after this one, which was recorded as `division`: time still missing from its sums is
    /// already recorded as running.
    pub(super) fn next(&self, to: ThreadSample, division: &Division) -> Window {
        let waited_ns = division.first_ns + division.unseen_ns + division.runqueue_ns + division.last_ns;
        let emitted_ns = to.at.since(self.from.at).saturating_sub(waited_ns);
        let run_ns = if to.reason.is_none() { to.run_ns.max(self.from.run_ns + emitted_ns) } else { to.run_ns };
        Window::new(ThreadSample { run_ns, ..to })
    }
}

#[cfg(test)]
mod tests {
    use super::super::waits::{Ender, Reason};
    use super::*;
    use proptest::prelude::*;
    use thalweg_trace::SpanKind;

    const MS: u64 = 1_000_000;

    fn reason(kind: SpanKind) -> Option<Reason> {
        Some(Reason { kind, object: None, context: None, result: None, ender: Ender::Unknown })
    }

    fn seen(at_ms: u64, run_ms: u64, runqueue_ms: u64, sleeps: u64, reason: Option<Reason>) -> ThreadSample {
        let at = Time::from_monotonic_ns((at_ms * MS) as i64);
        ThreadSample { at, run_ns: run_ms * MS, runqueue_ns: runqueue_ms * MS, sleeps: Some(sleeps), reason }
    }

    #[test]
    fn a_thread_that_did_not_go_to_sleep_did_not_wait() {
        // Its running time lags by 8 ms.
        let window = Window::new(seen(0, 0, 0, 5, None));
        assert_eq!(window.divide(&seen(100, 92, 0, 5, None)), Division::default());
    }

    #[test]
    fn what_a_running_threads_sums_lack_is_not_recorded_twice() {
        let window = Window::new(seen(0, 0, 0, 5, None));
        let to = seen(100, 92, 0, 5, None);
        let next = window.next(to, &window.divide(&to));
        // It ran for another 2 ms and then slept: its sums now include the 8 ms.
        let end = next.divide(&seen(150, 102, 0, 6, reason(SpanKind::WaitTimer)));
        assert_eq!((end.last_ns, end.unseen_ns, end.ended), (48 * MS, 0, false));
    }

    #[test]
    fn two_waits_with_a_run_between_are_two() {
        let mut window = Window::new(seen(0, 0, 0, 1, reason(SpanKind::FileRead)));
        window.saw_running(Time::from_monotonic_ns(3 * MS as i64));
        window.saw_running(Time::from_monotonic_ns(7 * MS as i64));
        let division = window.divide(&seen(10, 5, 1, 2, reason(SpanKind::WaitTimer)));
        // Blocked for 4 ms, of which the first wait had at most 3, the last at most 3.
        assert_eq!(division, Division { first_ns: 2 * MS, ended: true, unseen_ns: 0, runqueue_ns: MS, last_ns: 2 * MS });
    }

    #[test]
    fn waits_that_nobody_saw_have_no_reason() {
        let mut window = Window::new(seen(0, 0, 0, 1, reason(SpanKind::FileRead)));
        window.saw_running(Time::from_monotonic_ns(MS as i64));
        window.saw_running(Time::from_monotonic_ns(49 * MS as i64));
        let division = window.divide(&seen(50, 10, 0, 9, reason(SpanKind::FileRead)));
        assert_eq!((division.first_ns, division.last_ns, division.unseen_ns), (MS, MS, 38 * MS));
    }

    proptest! {
        #[test]
        fn waiting_is_never_more_than_the_wall_time_without_what_it_ran(
            steps in prop::collection::vec((1..50_u64, 0..50_u64, 0..20_u64, 0..3_u64, any::<bool>()), 1..40),
        ) {
            let (mut at, mut run, mut queued, mut sleeps) = (0, 0, 0, 0);
            let mut window = Window::new(seen(0, 0, 0, 0, None));
            let mut waited_ns = 0;
            for (length, ran, waited, slept, blocked) in steps {
                let ran = ran.min(length);
                (at, run, queued, sleeps) = (at + length, run + ran, queued + waited.min(length - ran), sleeps + slept);
                let to = seen(at, run, queued, sleeps, reason(SpanKind::FileRead).filter(|_| blocked));
                let division = window.divide(&to);
                let whole = division.first_ns + division.unseen_ns + division.runqueue_ns + division.last_ns;
                prop_assert!(whole <= to.at.since(window.from.at));
                waited_ns += whole;
                window = window.next(to, &division);
            }
            prop_assert!(waited_ns <= (at - run) * MS, "{waited_ns} ns of {} ms", at - run);
        }
    }
}
