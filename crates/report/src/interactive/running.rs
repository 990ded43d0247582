//! When threads ran: no recorder writes it, but between its waits and calls a thread that was recorded runs.
//!
//! Only for recorders that see every wait, only while recording of the thread went on, and only for threads of which the explanation
//! says that they had as much processor time.

use super::lanes::Slots;
use super::ticks::instant;
use std::collections::HashMap;
use thalweg_explain::document::Explanation;
use thalweg_trace::{Mark, MarkKind, Source, TrackKind};

/// Shorter times between spans are not drawn.
const LEAST_NS: i64 = 1_000;
/// How much longer the times between spans may be than the processor time known.
const TOLERANCE: f64 = 1.1;

/// A thread, backward in time.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Whether it can be said when it ran.
    known: bool,
    /// When it was created.
    created_ns: Option<i64>,
    /// Start of the earliest span so far, or when it ended.
    until_ns: Option<i64>,
    /// Sum of the times between spans.
    sum_ns: i64,
    /// Its processor time.
    cpu_ns: f64,
}

/// Threads by their slots.
pub(super) struct Running {
    threads: Vec<Thread>,
    start_ns: i64,
}

impl Running {
    /// Returns the threads of a recording, before its last span.
    pub(super) fn new(source: &dyn Source, explanation: &Explanation, slots: &Slots<'_>, marks: &[Mark]) -> Running {
        let abilities = source.meta().abilities();
        let mut threads = vec![Thread::default(); slots.count()];
        let cpu: HashMap<u64, f64> = explanation.tracks.iter().map(|of| (of.track, of.cpu_s * 1e9)).collect();
        let complete = abilities.waits && abilities.every_change && explanation.dropped_events == 0;
        for (thread, track) in threads.iter_mut().zip(source.tracks()) {
            thread.cpu_ns = cpu.get(&track.track.number()).copied().unwrap_or(0.0);
            thread.known = complete && track.kind == TrackKind::Thread && thread.cpu_ns > 0.0;
        }
        for mark in marks {
            let Some(slot) = slots.track(mark.track.number()) else { continue };
            let thread = &mut threads[slot as usize];
            match mark.kind {
                MarkKind::ThreadStart | MarkKind::ThreadSeen => thread.created_ns = Some(mark.at.ns()),
                MarkKind::ThreadExit => thread.until_ns = Some(mark.at.ns()),
                MarkKind::Lost => thread.known = false,
                _ => {}
            }
        }
        Running { threads, start_ns: instant(explanation, 0.0) }
    }

    /// Returns the time the thread ran from the end of this span to the start of the next; spans must come in order of descending end.
    pub(super) fn between(&mut self, slot: u32, start_ns: i64, end_ns: i64) -> Option<(i64, i64)> {
        let thread = &mut self.threads[slot as usize];
        let until_ns = thread.until_ns.unwrap_or(end_ns);
        thread.until_ns = Some(until_ns.min(start_ns));
        thread.ran(end_ns, until_ns)
    }

    /// Returns the time each thread ran before its first span.
    pub(super) fn first(&mut self) -> Vec<(u32, (i64, i64))> {
        let start_ns = self.start_ns;
        let threads = self.threads.iter_mut().enumerate();
        let before = |(slot, thread): (usize, &mut Thread)| {
            let (created_ns, until_ns) = (thread.created_ns?.max(start_ns), thread.until_ns?);
            Some((slot as u32, thread.ran(created_ns, until_ns)?))
        };
        threads.filter_map(before).collect()
    }

    /// Whether the times between a thread's spans agree with its processor time.
    pub(super) fn holds(&self, slot: u32) -> bool {
        let thread = &self.threads[slot as usize];
        thread.known && thread.sum_ns as f64 <= thread.cpu_ns * TOLERANCE + 1e6
    }
}

impl Thread {
    fn ran(&mut self, from_ns: i64, until_ns: i64) -> Option<(i64, i64)> {
        let ran_ns = until_ns.saturating_sub(from_ns);
        if !self.known || ran_ns < LEAST_NS {
            return None;
        }
        self.sum_ns = self.sum_ns.saturating_add(ran_ns);
        Some((from_ns, until_ns))
    }
}
