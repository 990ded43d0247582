//! Calls that the preloaded library recorded, for the recorder of switches: it divides each into running and waiting.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_trace::{Span, Time, TrackId};

/// A call that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub span: Span,
    /// It read one file and wrote another: which of them it waited for is not known.
    pub of_both: bool,
    /// Calls that did not wait, in an interval of about the length that they took.
    pub merged: bool,
}

#[derive(Debug, Default)]
struct State {
    had_any: bool,
    /// Recorded calls of each thread.
    calls: BTreeMap<TrackId, VecDeque<Call>>,
    /// Since when threads have been in a call.
    in_call: BTreeMap<TrackId, Time>,
    /// How processes ended that somebody waited for, as the kernel tells it.
    statuses: BTreeMap<u32, i32>,
    /// Until when the calls of all other threads are complete.
    drained: Option<Time>,
    /// Somebody records calls.
    expected: bool,
}

/// Calls recorded by the preloaded library.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<State>>);

impl Calls {
    /// Creates an empty list for a recorder that is going to fill it.
    pub(crate) fn expected() -> Calls {
        Calls(Arc::new(Mutex::new(State { expected: true, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the calls of a process are recorded.
    pub(crate) fn begins(&self) {
        self.state().had_any = true;
    }

    /// Whether the calls of any process were ever recorded.
    pub(crate) fn had_any(&self) -> bool {
        self.state().had_any
    }

    /// Adds a call that has ended.
    pub(crate) fn add(&self, call: Call) {
        self.state().calls.entry(call.span.track).or_default().push_back(call);
    }

    /// Notes how a process ended.
    pub(crate) fn ended(&self, pid: u32, status: i32) {
        self.state().statuses.insert(pid, status);
    }

    /// Takes the exit status of a process that has ended, in a shell's form, if somebody waited for it.
    pub(crate) fn status(&self, pid: u32) -> Option<i64> {
        let code = self.state().statuses.remove(&pid)?;
        let (status, signal) = (code >> 8 & 0xff, code & 0x7f);
        Some(i64::from(if signal == 0 { status } else { 128 + signal }))
    }

    /// Notes since when a thread has been in a call, if it is in one.
    pub(crate) fn is_in(&self, track: TrackId, since: Option<Time>) {
        match since {
            Some(since) => drop(self.state().in_call.insert(track, since)),
            None => drop(self.state().in_call.remove(&track)),
        }
    }

    /// Notes that all calls that ended by then have been added.
    pub(crate) fn drained(&self, until: Time) {
        self.state().drained = Some(until);
    }

    /// Returns until when the calls of a thread are known: the one that it is in is not.
    pub(crate) fn complete_until(&self, track: TrackId) -> Time {
        let state = self.state();
        if !state.expected {
            return Time::from_monotonic_ns(i64::MAX);
        }
        let drained = state.drained.unwrap_or(Time::from_monotonic_ns(i64::MIN));
        state.in_call.get(&track).map_or(drained, |since| (*since).min(drained))
    }

    /// Takes the calls of a thread that ended by then.
    pub(crate) fn take(&self, track: TrackId, until: Time) -> Vec<Call> {
        let mut state = self.state();
        let Some(calls) = state.calls.get_mut(&track) else { return Vec::new() };
        // (Merged calls are told in no order.)
        let (mut ended, rest): (Vec<Call>, Vec<Call>) = calls.drain(..).partition(|call| call.span.end() <= until);
        *calls = rest.into();
        ended.sort_by_key(|call| call.span.start);
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::{SpanId, SpanKind};

    #[test]
    fn a_status_is_told_once_as_a_shell_tells_it() {
        let calls = Calls::expected();
        calls.ended(7, 3 << 8);
        calls.ended(8, libc::SIGKILL);
        assert_eq!((calls.status(7), calls.status(7), calls.status(8)), (Some(3), None, Some(128 + 9)));
    }

    #[test]
    fn a_threads_calls_are_known_up_to_the_one_it_is_in() {
        let at = Time::from_monotonic_ns;
        let track = TrackId::new(1).expect("not zero");
        let span = |from, ns| Span::bare(SpanId::new(7).expect("not zero"), track, SpanKind::FileRead, at(from), ns);
        let call = |from, ns| Call { span: span(from, ns), of_both: false, merged: false };
        assert_eq!(Calls::default().complete_until(track), at(i64::MAX), "nobody records calls");
        let calls = Calls::expected();
        assert_eq!(calls.complete_until(track), at(i64::MIN));
        calls.add(call(10, 10));
        calls.add(call(30, 60));
        calls.drained(at(100));
        assert_eq!(calls.complete_until(track), at(100));
        calls.is_in(track, Some(at(95)));
        assert_eq!(calls.complete_until(track), at(95));
        assert_eq!(calls.take(track, at(50)), [call(10, 10)]);
        assert_eq!(calls.take(track, at(90)), [call(30, 60)]);
        calls.is_in(track, None);
        assert_eq!(calls.complete_until(track), at(100));
    }
}
