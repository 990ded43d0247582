//! Unanswered calls: the listening process sleeps, computes, or waits for something else, and does not accept. The
//! kernel's events show no interaction with the caller, so it would not be followed: it is looked up.

use super::translate::{Translator, Unanswered};
use crate::kernel::clock::now_ns;
use crate::proc::listeners::{Call, Callee, callees};
use std::collections::{BTreeSet, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time after which an unanswered call is investigated.
const PATIENCE_NS: u64 = 20_000_000;

/// Minimum interval between two polls, as a multiple of the last one's duration.
const POLL_PART: u32 = 50;

/// Maximum calls investigated together, and addresses of other machines remembered.
const MOST_CALLS: usize = 256;
const MOST_ELSEWHERE: usize = 4_096;

/// Maximum processes reached this way.
const MOST_REACHED: usize = 512;

/// Time within which a process found here must be met: it may have ended before.
const MEETING_NS: u64 = 1_000_000_000;

/// A process that should accept a call.
#[derive(Debug)]
struct Acceptor {
    call: Unanswered,
    pid: u32,
    /// When the call was seen unaccepted.
    polled_ns: u64,
    /// Until when the process must be met.
    until_ns: u64,
}

/// Calls under investigation, and results.
#[derive(Debug, Default)]
pub(crate) struct Unaccepted {
    pending: Vec<Unanswered>,
    /// Processes that should accept calls, and must be met before that can be recorded.
    found: Vec<Acceptor>,
    reached: BTreeSet<u32>,
    /// More were found than may be reached.
    pub left_out: bool,
    /// Called addresses on other machines, by the caller's network namespace.
    elsewhere: HashSet<(u32, SocketAddr)>,
    next_poll: Option<Instant>,
}

impl Unaccepted {
    /// Whether another round is due soon.
    pub(crate) fn is_busy(&self) -> bool {
        !self.found.is_empty()
    }

    /// Runs once per round of the reader; returns processes to record from now on.
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
                    self.found.extend(by.iter().take(MOST_CALLS).map(|pid| Acceptor {
                        call: call.clone(),
                        pid: *pid,
                        polled_ns,
                        until_ns,
                    }));
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

    /// Returns those that may still be taken into the recording.
    fn within_bounds(&mut self, mut processes: BTreeSet<u32>) -> BTreeSet<u32> {
        processes.retain(|pid| {
            let may = self.reached.contains(pid) || self.reached.len() < MOST_REACHED && self.reached.insert(*pid);
            self.left_out |= !may;
            may
        });
        processes
    }

    /// Records each process met by now, and drops those not met in time.
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

/// Whether an unmet process may be taken into the recording: not the recorder itself, and not the machine's init,
/// which listens on others' behalf (as `follow` in `bpf/follow.bpf.h`).
fn may_be_reached(pid: u32) -> bool {
    /// The initial PID namespace.
    const FIRST: &str = "pid:[4026531836]";
    let is_first = || std::fs::read_link("/proc/self/ns/pid").map_or(true, |name| name == Path::new(FIRST));
    pid != std::process::id() && (pid != 1 || !is_first())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::{HostId, IdSpace};

    fn found(pid: u32, until_ns: u64) -> Acceptor {
        let address = || "127.0.0.1:7000".parse().expect("an address");
        Acceptor { call: Unanswered { id: 1, namespace: 1, local: address(), remote: address(), asked_ns: 0 }, pid, polled_ns: 0, until_ns }
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
