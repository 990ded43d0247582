//! One thread whose every switch is recorded: its runs and waits, and what a look in the middle of a wait found.

use crate::proc::waits::{Ender, Reason};
use crate::proc::wakers::Ends;
use std::collections::VecDeque;
use std::rc::Rc;
use thalweg_trace::{ObjectId, Time, TrackId};

/// Runs of a thread that are kept, to find who ended a wait.
const RUNS: usize = 32;

/// A wait that no look has seen waits for what the looks before and after it found, if these agree and are no farther
/// apart than this.
const BETWEEN_LOOKS_NS: u64 = 100_000_000;

/// Who ended a wait ran at most this long before the waiter was runnable again.
const WAKING_NS: i64 = 300_000;

/// An interval off the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Off {
    pub from: Time,
    pub to: Time,
    /// It was runnable all the time.
    pub preempted: bool,
    /// How long it was runnable at the end, if known.
    pub queued_ns: u64,
    /// How long it can have been, at most.
    pub most_queued_ns: u64,
    /// What it waited for.
    pub reason: Option<Reason>,
    /// The connection on which something had come when it ended.
    pub connection: Option<ObjectId>,
    /// Whether that connection was searched for.
    pub sought: bool,
    /// Switches were lost meanwhile: it may have run for a part of it.
    pub doubted: bool,
}

impl Off {
    fn new(from: Time, to: Time, preempted: bool, doubted: bool) -> Off {
        let (queued_ns, most_queued_ns) = (0, 0);
        Off {
            from,
            to,
            preempted: preempted && !doubted,
            queued_ns,
            most_queued_ns,
            reason: None,
            connection: None,
            sought: doubted,
            doubted,
        }
    }

    /// Since when who ended the wait must have run.
    pub(super) fn woken_since(&self, queued_ns: u64) -> Time {
        let woken = self.to.plus_ns(-queued_ns.cast_signed());
        woken.plus_ns(-WAKING_NS).max(self.from)
    }
}

/// What a look found: between these two instants.
#[derive(Clone, Copy, Debug)]
struct Look {
    from: Time,
    to: Time,
    reason: Reason,
}

/// A thread.
#[derive(Debug)]
pub(super) struct ExactThread {
    pub pid: u32,
    pub track: TrackId,
    pub name: String,
    pub ends: Rc<Ends>,
    /// Since when it has been off the CPU, and whether it was preempted.
    pub off: Option<(Time, bool)>,
    /// Whether switches were lost since then.
    doubted: bool,
    on_since: Time,
    /// Whether it had been blocked before it came on.
    was_blocked: bool,
    /// Recent runs, the newest last, and whether it had been blocked before each.
    runs: VecDeque<(Time, Time, bool)>,
    /// Waits that have ended and are not recorded yet.
    pub ended_waits: Vec<Off>,
    looks: Vec<Look>,
    last_look: Option<Look>,
    /// Its run delay when its waits were last recorded.
    queued_ns: Option<u64>,
    /// Its page faults that read a disk when they were last counted.
    faults: Option<u64>,
    pub gone: Option<Time>,
    /// When it executed another program.
    pub executed: Option<Time>,
    /// The number of CPUs that it may run on, if that was recorded.
    pub allowed: Option<u32>,
}

impl ExactThread {
    /// Creates a thread that is off the CPU from now on; `runnable`: it waits for nothing but a CPU.
    pub(super) fn new(pid: u32, track: TrackId, name: String, ends: Rc<Ends>, at: Time, runnable: bool) -> ExactThread {
        let (runs, ended_waits, looks) = Default::default();
        let off = Some((at, runnable));
        let (last_look, queued_ns, gone, executed, allowed) = (None, runnable.then_some(0), None, None, None);
        let (on_since, doubted) = (at, false);
        ExactThread {
            pid,
            track,
            name,
            ends,
            off,
            doubted,
            on_since,
            was_blocked: false,
            runs,
            ended_waits,
            looks,
            last_look,
            queued_ns,
            faults: None,
            gone,
            executed,
            allowed,
        }
    }

    /// It was given a CPU.
    pub(super) fn came_in(&mut self, at: Time) {
        if let Some((from, preempted)) = self.off.take().filter(|(from, _)| *from < at) {
            self.ended_waits.push(Off::new(from, at, preempted, self.doubted));
            self.was_blocked = !preempted;
        }
        (self.on_since, self.doubted) = (at, false);
    }

    /// It left its CPU.
    pub(super) fn went_out(&mut self, at: Time, preempted: bool) {
        match self.off {
            None => self.ran_until(at),
            // The record of its return was lost.
            Some((from, _)) if from < at => self.ended_waits.push(Off::new(from, at, false, true)),
            Some(_) => {}
        }
        (self.off, self.doubted) = (Some((at, preempted)), false);
    }

    /// Switches were lost, perhaps its own: what it does now is not known, nor how long it has done it.
    pub(super) fn lost(&mut self) {
        self.doubted = self.off.is_some();
    }

    fn ran_until(&mut self, at: Time) {
        if self.runs.len() == RUNS {
            self.runs.pop_front();
        }
        self.runs.push_back((self.on_since, at, self.was_blocked));
    }

    /// It ended.
    pub(super) fn ended(&mut self, at: Time) {
        if self.off.is_none() {
            self.ran_until(at);
        }
        (self.off, self.gone) = (None, Some(at));
    }

    /// Whether it has been blocked for this long, and nobody has looked since.
    pub(super) fn is_to_be_looked_at(&self, now: Time, after_ns: u64) -> bool {
        let blocked = self.off.filter(|(since, preempted)| !preempted && now.since(*since) >= after_ns);
        blocked.is_some_and(|(since, _)| self.looks.last().is_none_or(|look| look.from < since))
    }

    /// Notes what a look found. It counts only if it turns out to lie within one wait.
    pub(super) fn looked(&mut self, from: Time, to: Time, reason: Reason) {
        self.looks.push(Look { from, to, reason });
    }

    /// What the look at the present wait found.
    pub(super) fn present_reason(&self) -> Option<(Reason, Time)> {
        let (since, _) = self.off?;
        self.looks.last().filter(|look| look.from >= since).map(|look| (look.reason, since))
    }

    /// Returns the waits that have ended, that only something on a connection could end, and for which nobody has
    /// searched yet.
    pub(super) fn ended_by_connection(&mut self) -> impl Iterator<Item = &mut Off> {
        let (looks, last_look) = (&self.looks, self.last_look);
        self.ended_waits.iter_mut().filter(|wait| !wait.sought && !wait.preempted).filter(move |wait| {
            // A wait too short for a look is like the one before.
            let look = looks.iter().rev().find(|look| look.to <= wait.to).copied().or(last_look);
            look.is_some_and(|look| look.reason.ender == Ender::Connection && wait.from.since(look.to) <= BETWEEN_LOOKS_NS)
        })
    }

    /// Returns how often it faulted since its faults were last counted; `None` if they never were.
    pub(super) fn faulted(&mut self, faults: u64) -> Option<u64> {
        self.faults.replace(faults).map(|before| faults.saturating_sub(before))
    }

    /// Whether it ran at any time between the two instants.
    pub(super) fn ran_between(&self, from: Time, to: Time) -> bool {
        let runs_on = self.off.is_none() && self.gone.is_none() && self.on_since <= to;
        runs_on || self.runs.iter().rev().any(|(on, off, _)| *on <= to && *off >= from)
    }

    /// Whether the thread ran between the two instants without having been woken for it.
    pub(super) fn was_awake_between(&self, from: Time, to: Time) -> bool {
        let awake = |on: Time, was_blocked: bool| on <= from || !was_blocked;
        let runs_on = self.off.is_none() && self.gone.is_none() && self.on_since <= to && awake(self.on_since, self.was_blocked);
        runs_on || self.runs.iter().rev().any(|(on, off, was_blocked)| *on <= to && *off >= from && awake(*on, *was_blocked))
    }

    /// Takes the waits that ended by `until`, with their reasons and times in the run queue. `queued_ns`: the kernel's
    /// sum of these times, if it can be read.
    pub(super) fn take_waits(&mut self, until: Time, queued_ns: Option<u64>) -> Vec<Off> {
        let many = self.ended_waits.partition_point(|wait| wait.to <= until);
        let mut waits: Vec<Off> = self.ended_waits.drain(..many).collect();
        if waits.is_empty() {
            return waits;
        }
        if let (Some(before), Some(now)) = (self.queued_ns, queued_ns) {
            let preempted: u64 = waits.iter().filter(|wait| wait.preempted).map(|wait| wait.to.since(wait.from)).sum();
            share_queue(&mut waits, now.saturating_sub(before).saturating_sub(preempted));
        }
        self.queued_ns = queued_ns.or(self.queued_ns);
        for wait in waits.iter_mut().filter(|wait| !wait.preempted && !wait.doubted) {
            let within = |look: &&Look| look.from >= wait.from && look.to <= wait.to;
            let looked = self.looks.iter().find(within).map(|look| look.reason);
            let came = |reason: Reason| match (reason.ender, wait.connection) {
                (Ender::Connection, Some(connection)) => Reason { object: Some(connection), ..reason },
                _ => reason,
            };
            wait.reason = looked.or_else(|| self.between(wait)).map(came);
        }
        let until = waits.last().map(|wait| wait.to);
        if let Some(until) = until {
            self.last_look = self.looks.iter().rev().find(|look| look.to <= until).copied().or(self.last_look);
            self.looks.retain(|look| look.to > until);
        }
        waits
    }

    /// Returns what both looks around an unseen wait found, if it is the same.
    fn between(&self, wait: &Off) -> Option<Reason> {
        let after = self.looks.iter().find(|look| look.from >= wait.to)?;
        let before = self.looks.iter().rev().find(|look| look.to <= wait.from).or(self.last_look.as_ref())?;
        let near = after.from.since(before.to) <= BETWEEN_LOOKS_NS;
        (near && before.reason == after.reason).then_some(before.reason)
    }
}

/// Divides time in the run queue among waits, the same for each, but none more than the wait is long: each wake-up
/// queues once, however long the wait was.
fn share_queue(waits: &mut [Off], mut left_ns: u64) {
    let mut order: Vec<&mut Off> = waits.iter_mut().filter(|wait| !wait.preempted).collect();
    order.sort_by_key(|wait| wait.to.since(wait.from));
    let many = order.len() as u64;
    let whole_ns = left_ns;
    for (done, wait) in (0..).zip(order) {
        wait.most_queued_ns = whole_ns.min(wait.to.since(wait.from));
        wait.queued_ns = (left_ns / (many - done)).min(wait.to.since(wait.from));
        left_ns -= wait.queued_ns;
    }
}

/// Returns the only element.
pub(super) fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thalweg_trace::SpanKind;

    fn at(us: i64) -> Time {
        Time::from_monotonic_ns(us * 1_000)
    }

    fn thread() -> ExactThread {
        let track = TrackId::new(1).expect("not zero");
        ExactThread::new(1, track, "cp".to_owned(), Rc::default(), at(0), true)
    }

    fn reading() -> Reason {
        Reason::of(SpanKind::FileRead)
    }

    #[test]
    fn a_look_counts_only_within_one_wait() {
        let mut thread = thread();
        thread.came_in(at(10));
        thread.went_out(at(100), false);
        assert!(!thread.is_to_be_looked_at(at(900), 1_000_000) && thread.is_to_be_looked_at(at(1_200), 1_000_000));
        thread.looked(at(1_200), at(1_220), reading());
        assert!(!thread.is_to_be_looked_at(at(5_000), 1_000_000), "once for each wait");
        thread.came_in(at(1_210));
        thread.went_out(at(1_215), false);
        thread.came_in(at(9_000));
        let waits = thread.take_waits(at(10_000), Some(10_000));
        let told: Vec<_> = waits.iter().map(|wait| (wait.from, wait.to, wait.preempted, wait.reason)).collect();
        let expected = [(at(0), at(10), true, None), (at(100), at(1_210), false, None), (at(1_215), at(9_000), false, None)];
        assert_eq!(told, expected, "it ran while it was looked at: the look may have seen either wait");
    }

    #[test]
    fn an_unseen_wait_is_what_both_looks_around_it_found() {
        let (mut thread, other) = (thread(), Reason { ender: Ender::Sibling, ..Reason::of(SpanKind::WaitLock) });
        thread.came_in(at(0));
        for (begin, looked) in [(100, Some(reading())), (3_000, None), (4_000, Some(reading())), (7_000, None), (8_000, Some(other))] {
            thread.went_out(at(begin), false);
            if let Some(reason) = looked {
                thread.looked(at(begin + 100), at(begin + 120), reason);
            }
            thread.came_in(at(begin + 500));
        }
        let kinds: Vec<_> = thread.take_waits(at(100_000), None).iter().map(|wait| wait.reason.map(|reason| reason.kind)).collect();
        let read = Some(SpanKind::FileRead);
        assert_eq!(kinds, [read, read, read, None, Some(SpanKind::WaitLock)]);
    }

    #[test]
    fn who_was_woken_meanwhile_was_not_awake_and_who_was_preempted_was() {
        for (preempted, awake) in [(false, false), (true, true)] {
            let mut thread = thread();
            thread.came_in(at(100));
            thread.went_out(at(200), preempted);
            thread.came_in(at(400));
            thread.went_out(at(450), false);
            assert!(thread.ran_between(at(300), at(500)));
            assert_eq!(thread.was_awake_between(at(300), at(500)), awake);
            assert!(thread.was_awake_between(at(420), at(500)), "it came before");
        }
    }

    #[test]
    fn who_ran_just_before_is_known() {
        let mut thread = thread();
        thread.came_in(at(100));
        thread.went_out(at(200), false);
        assert!(thread.ran_between(at(150), at(160)) && thread.ran_between(at(190), at(300)));
        assert!(!thread.ran_between(at(201), at(300)) && !thread.ran_between(at(0), at(99)));
        thread.came_in(at(400));
        assert!(thread.ran_between(at(500), at(600)), "it runs on");
        thread.ended(at(550));
        assert!(thread.ran_between(at(500), at(600)) && !thread.ran_between(at(560), at(600)));
    }

    #[test]
    fn what_a_wait_was_for_is_not_known_where_switches_were_lost() {
        let mut thread = thread();
        thread.came_in(at(10));
        thread.went_out(at(100), false);
        thread.looked(at(1_200), at(1_220), reading());
        thread.lost();
        thread.came_in(at(2_000));
        thread.went_out(at(2_100), false);
        thread.went_out(at(2_600), true);
        thread.came_in(at(2_700));
        let waits = thread.take_waits(at(10_000), None);
        let told: Vec<_> = waits.iter().skip(1).map(|wait| (wait.from, wait.to, wait.preempted, wait.reason)).collect();
        let expected = [(at(100), at(2_000), false, None), (at(2_100), at(2_600), false, None), (at(2_600), at(2_700), true, None)];
        assert_eq!(told, expected, "it may have run in both, and waited for something else");
    }

    proptest! {
        #[test]
        fn the_run_queues_time_is_divided_whole_and_no_wait_gets_more_than_it_has(
            lengths in prop::collection::vec((1_u32..5_000, any::<bool>()), 1..50), queued_us in 0_u64..100_000,
        ) {
            let mut thread = thread();
            thread.came_in(at(0));
            let mut now = 0;
            for (length, preempted) in &lengths {
                thread.went_out(at(now + 10), *preempted);
                now += 10 + i64::from(*length);
                thread.came_in(at(now));
            }
            let preempted: u64 = lengths.iter().filter(|(_, preempted)| *preempted).map(|(us, _)| u64::from(*us) * 1_000).sum();
            let waited: u64 = lengths.iter().filter(|(_, preempted)| !*preempted).map(|(us, _)| u64::from(*us) * 1_000).sum();
            let waits = thread.take_waits(at(i64::from(u32::MAX)), Some(preempted + queued_us * 1_000));
            prop_assert!(waits.iter().all(|wait| wait.queued_ns <= wait.to.since(wait.from) && (!wait.preempted || wait.queued_ns == 0)));
            prop_assert_eq!(waits.iter().map(|wait| wait.queued_ns).sum::<u64>(), waited.min(queued_us * 1_000));
        }
    }
}
