//! Calls that nobody answers: the process that listens there sleeps, computes, or waits for something else, and does not accept. It has nothing
//! to do with the caller that the kernel's events would show, so that nobody would follow it: who it is, is looked up.

use super::translate::{Translator, Unanswered, now_ns};
use crate::proc::listeners::{Call, Callee, callees};
use std::collections::{BTreeSet, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A call that was not answered for so long is looked into.
const PATIENCE_NS: u64 = 20_000_000;

/// Between two looks lies so many times as long as the last one took.
const LOOK_PART: u32 = 50;

/// Calls that are looked into together; addresses of other machines that are remembered.
const MOST_CALLS: usize = 256;
const MOST_ELSEWHERE: usize = 4_096;

/// Calls to be looked into, and what was found.
#[derive(Debug, Default)]
pub(crate) struct Unaccepted {
    pending: Vec<Unanswered>,
    /// Calls with a process that was to accept them, which has to be met before that can be told.
    found: Vec<(Unanswered, u32)>,
    /// Who is called on other machines, from which network namespace.
    elsewhere: HashSet<(u32, SocketAddr)>,
    next_look: Option<Instant>,
}

impl Unaccepted {
    /// Whether there is something to be done soon.
    pub(crate) fn is_busy(&self) -> bool {
        !self.found.is_empty()
    }

    /// Once in each of the reader's rounds: processes that are to be recorded from now on.
    pub(crate) fn round(&mut self, translator: &mut Translator) -> BTreeSet<u32> {
        self.tell(translator);
        let fresh = translator.connections.take_unanswered(now_ns().saturating_sub(PATIENCE_NS));
        let room = MOST_CALLS.saturating_sub(self.pending.len());
        self.pending.extend(fresh.into_iter().filter(|call| !self.elsewhere.contains(&(call.namespace, call.remote))).take(room));
        let begun = Instant::now();
        if self.pending.is_empty() || self.next_look.is_some_and(|at| begun < at) {
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
                Callee::Waiting(by) => {
                    self.found.extend(by.iter().take(MOST_CALLS).map(|pid| (call.clone(), *pid)));
                    processes.extend(by);
                }
            }
        }
        self.next_look = Some(begun + begun.elapsed().max(Duration::from_micros(1)) * LOOK_PART);
        processes.retain(|pid| translator.threads.recorded_main_track(*pid, &mut translator.output).is_none());
        self.tell(translator);
        processes
    }

    /// Tells of each process that was met by now.
    fn tell(&mut self, translator: &mut Translator) {
        let Translator { threads, connections, output, .. } = translator;
        self.found.retain(|(call, pid)| {
            let Some(track) = threads.recorded_main_track(*pid, output) else { return true };
            connections.not_accepted(call, track, now_ns(), output);
            false
        });
        self.found.truncate(MOST_CALLS);
    }
}
