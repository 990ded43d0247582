//! Calls that nobody answers: the process that listens there sleeps, computes, or waits for something else, and does not accept. It has nothing
//! to do with the caller that the kernel's events would show, so that nobody would follow it: who it is, is looked up.

use super::translate::{Translator, Unanswered};
use crate::kernel::clock::now_ns;
use crate::proc::listeners::{Call, Callee, callees};
use std::collections::{BTreeSet, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// A call that was not answered for so long is looked into.
const PATIENCE_NS: u64 = 20_000_000;

/// Between two polls lies so many times as long as the last one took.
const POLL_PART: u32 = 50;

/// Calls that are looked into together; addresses of other machines that are remembered.
const MOST_CALLS: usize = 256;
const MOST_ELSEWHERE: usize = 4_096;

/// Processes that are reached this way at most.
const MOST_REACHED: usize = 512;

/// Who was found has to be met within this time: it may have ended before.
const MEETING_NS: u64 = 1_000_000_000;

/// A process that was to accept a call.
#[derive(Debug)]
struct Found {
    call: Unanswered,
    pid: u32,
    /// When nobody had accepted it.
    polled_ns: u64,
    /// Until when it has to be met.
    until_ns: u64,
}

/// Calls to be looked into, and what was found.
#[derive(Debug, Default)]
pub(crate) struct Unaccepted {
    pending: Vec<Unanswered>,
    /// Processes that were to accept calls, which have to be met before that can be recorded.
    found: Vec<Found>,
    reached: BTreeSet<u32>,
    /// There were more to be reached than may be.
    pub left_out: bool,
    /// Who is called on other machines, from which network namespace.
    elsewhere: HashSet<(u32, SocketAddr)>,
    next_poll: Option<Instant>,
}

impl Unaccepted {
    /// Whether there is something to be done soon.
    pub(crate) fn is_busy(&self) -> bool {
        !self.found.is_empty()
    }

    /// Once in each of the reader's rounds: processes that are to be recorded from now on.
    pub(crate) fn round(&mut self, translator: &mut Translator) -> BTreeSet<u32> {
        self.emit(translator);
        let fresh = translator.connections.take_unanswered(now_ns().saturating_sub(PATIENCE_NS));
        let room = MOST_CALLS.saturating_sub(self.pending.len());
        self.pending.extend(fresh.into_iter().filter(|call| !self.elsewhere.contains(&(call.namespace, call.remote))).take(room));
        let (begun, polled_ns) = (Instant::now(), now_ns());
        if self.pending.is_empty() || self.next_poll.is_some_and(|at| begun < at) {
            return BTreeSet::new();
        }
        let pending = std::mem::take(&mut self.pending);
        let calls: Vec<Call> = pending.iter().map(|call| Call { from: call.local, to: call.remote, namespace: call.namespace }).collect();
        let mut processes = BTreeSet::new();
        for (call, callee) in pending.iter().zip(callees(&calls)) {
            match callee {
                Callee::Accepted => {}
                Callee::Elsewhere if self.elsewhere.len() >= MOST_ELSEWHERE => {}
                Callee::Elsewhere => drop(self.elsewhere.insert((call.namespace, call.remote))),
                Callee::Waiting(mut by) => {
                    by.retain(|pid| may_be_reached(*pid));
                    let until_ns = now_ns() + MEETING_NS;
                    self.found.extend(by.iter().take(MOST_CALLS).map(|pid| Found { call: call.clone(), pid: *pid, polled_ns, until_ns }));
                    processes.extend(by);
                }
            }
        }
        self.next_poll = Some(begun + begun.elapsed().max(Duration::from_micros(1)) * POLL_PART);
        let met = translator.threads.recorded_main_tracks(&processes, &mut translator.output);
        processes.retain(|pid| !met.contains_key(pid));
        self.emit(translator);
        self.within_bounds(processes)
    }

    /// As many of them as may still be taken into the recording.
    fn within_bounds(&mut self, mut processes: BTreeSet<u32>) -> BTreeSet<u32> {
        processes.retain(|pid| {
            let may = self.reached.contains(pid) || self.reached.len() < MOST_REACHED && self.reached.insert(*pid);
            self.left_out |= !may;
            may
        });
        processes
    }

    /// Records each process that was met by now, and gives up who was not met for long.
    fn emit(&mut self, translator: &mut Translator) {
        if self.found.is_empty() {
            return;
        }
        let Translator { threads, connections, output, .. } = translator;
        let met = threads.recorded_main_tracks(&self.found.iter().map(|found| found.pid).collect(), output);
        let now = now_ns();
        self.found.retain(|found| {
            let Some(track) = met.get(&found.pid) else { return now < found.until_ns };
            connections.not_accepted(&found.call, *track, (found.polled_ns, now), output);
            false
        });
        self.found.truncate(MOST_CALLS);
    }
}

/// Whether a process may be taken into the recording that nobody has met: not the recorder itself, and not the machine's first, which listens
/// for others (as `follow` in `bpf/follow.bpf.h`).
fn may_be_reached(pid: u32) -> bool {
    /// The first namespace of processes.
    const FIRST: &str = "pid:[4026531836]";
    let is_first = || std::fs::read_link("/proc/self/ns/pid").map_or(true, |name| name == Path::new(FIRST));
    pid != std::process::id() && (pid != 1 || !is_first())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::{HostId, IdSpace};

    fn found(pid: u32, until_ns: u64) -> Found {
        let address = || "127.0.0.1:7000".parse().expect("an address");
        Found { call: Unanswered { id: 1, namespace: 1, local: address(), remote: address(), asked_ns: 0 }, pid, polled_ns: 0, until_ns }
    }

    #[test]
    fn who_is_not_met_soon_is_given_up() {
        let mut translator = Translator::new(HostId(0), IdSpace(1), 4_000, false);
        let now = now_ns();
        let found = vec![found(1_000, now), found(1_001, now + 60 * MEETING_NS)];
        let mut calls = Unaccepted { found, ..Unaccepted::default() };
        assert!(calls.round(&mut translator).is_empty() && calls.is_busy());
        assert_eq!(calls.found.iter().map(|found| found.pid).collect::<Vec<_>>(), [1_001]);
        assert!(translator.output.events.is_empty(), "nothing is recorded of processes that were not met");
    }

    #[test]
    fn the_recorder_is_not_reached_and_no_more_processes_than_are_followed() {
        assert!(!may_be_reached(std::process::id()) && may_be_reached(std::process::id() + 1));
        let mut calls = Unaccepted::default();
        assert_eq!(calls.within_bounds((2..502).collect()).len(), 500);
        assert!(!calls.left_out);
        assert_eq!(calls.within_bounds((1_002..1_502).collect()).len(), MOST_REACHED - 500);
        assert!(calls.left_out);
        assert_eq!(calls.within_bounds(BTreeSet::from([2, 2_000])), BTreeSet::from([2]), "one that was reached before is not another");
    }
}
