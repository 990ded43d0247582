//! When threads ran: no recorder writes it, but between its waits and calls a thread that was recorded runs.
//!
//! Only for recorders that see every wait, only while recording of the thread went on, and only for threads of which the explanation
//! says that they had as much processor time.

use crate::Result;
use std::collections::HashMap;
use thalweg_explain::document::Explanation;
use thalweg_trace::{Mark, MarkKind, Source, SpanBatch, SpanKind, TrackKind};

/// Shorter times between spans are not drawn.
const LEAST_NS: i64 = 1_000;
/// How much longer the times between spans may be than the processor time known. Measured: of 869 threads with 20 ms or more of processor
/// time, in 430 recordings, 783 are within 1.02 and 862 within 1.25 (interrupts, and processors busy with others, add to the times); the
/// others waited unseen.
const TOLERANCE: f64 = 1.25;

/// A thread, backward in time.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Its track's number.
    track: u64,
    /// Whether it can be said when it ran.
    known: bool,
    /// When it was created, or its recording began.
    created_ns: Option<i64>,
    /// When it ended.
    ended_ns: Option<i64>,
    /// Start of the earliest span so far, or when it ended.
    until_ns: Option<i64>,
    /// Sum of the times between spans.
    sum_ns: i64,
    /// Its processor time.
    cpu_ns: f64,
}

/// The threads of a recording, by their positions among its tracks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    threads: Vec<Thread>,
    places: HashMap<u64, u32>,
    start_ns: i64,
}

/// Whether a span of this kind is of the thread's own time. In others (a request, an RPC), the thread works at the parts, or at others.
pub(crate) fn covers(kind: SpanKind) -> bool {
    !matches!(kind, SpanKind::AppRequest | SpanKind::RpcCall | SpanKind::RpcServe)
}

impl Running {
    /// Returns the threads of a recording, before its last span.
    pub(crate) fn new(source: &dyn Source, explanation: &Explanation, marks: &[Mark]) -> Running {
        let abilities = source.meta().abilities();
        let cpu: HashMap<u64, f64> = explanation.tracks.iter().map(|of| (of.track, of.cpu_s * 1e9)).collect();
        let complete = abilities.waits && abilities.every_change && explanation.dropped_events == 0;
        let mut threads: Vec<Thread> = Vec::with_capacity(source.tracks().len());
        let mut places: HashMap<u64, u32> = HashMap::new();
        for (place, track) in source.tracks().iter().enumerate() {
            let number = track.track.number();
            let cpu_ns = cpu.get(&number).copied().unwrap_or(0.0);
            let known = complete && track.kind == TrackKind::Thread && cpu_ns > 0.0;
            threads.push(Thread { track: number, cpu_ns, known, ..Thread::default() });
            places.insert(number, place as u32);
        }
        for mark in marks {
            let Some(thread) = places.get(&mark.track.number()).map(|place| &mut threads[*place as usize]) else { continue };
            match mark.kind {
                MarkKind::ThreadStart | MarkKind::ThreadSeen => thread.created_ns = Some(mark.at.ns()),
                MarkKind::ThreadExit => (thread.ended_ns, thread.until_ns) = (Some(mark.at.ns()), Some(mark.at.ns())),
                MarkKind::Lost => thread.known = false,
                _ => {}
            }
        }
        Running { threads, places, start_ns: explanation.start_ns }
    }

    /// Returns the threads whose times between spans agree with their processor time, before the last span; reads all spans for it.
    pub(crate) fn read(source: &dyn Source, explanation: &Explanation) -> Result<Running> {
        let mut running = Running::new(source, explanation, &source.marks()?);
        if !running.threads.iter().any(|thread| thread.known) {
            return Ok(running);
        }
        for batch in source.spans_backward() {
            let batch = batch?;
            for row in 0..batch.len() {
                if let Some(place) = running.place(&batch, row) {
                    running.between(place, batch.start_ns[row], batch.end_ns[row]);
                }
            }
        }
        running.first();
        Ok(running.again())
    }

    /// Returns the state before the last span, for another pass, with only those threads whose times agree with their processor time.
    pub(crate) fn again(&self) -> Running {
        let again =
            |(place, thread): (usize, &Thread)| Thread { known: self.holds(place as u32), until_ns: thread.ended_ns, sum_ns: 0, ..*thread };
        Running { threads: self.threads.iter().enumerate().map(again).collect(), ..self.clone() }
    }

    /// Returns the thread that a row's span is the own time of.
    pub(crate) fn place(&self, batch: &SpanBatch, row: usize) -> Option<u32> {
        self.places.get(&batch.track[row]).copied().filter(|_| covers(batch.kind[row]))
    }

    /// Returns the number of a thread's track.
    pub(crate) fn track(&self, place: u32) -> u64 {
        self.threads[place as usize].track
    }

    /// Whether earlier spans cannot change when a thread ran after this instant.
    pub(crate) fn is_settled(&self, from_ns: i64) -> bool {
        self.threads.iter().filter(|thread| thread.known).all(|thread| thread.until_ns.is_none_or(|until| until <= from_ns))
    }

    /// Returns the time the thread ran from the end of this span to the start of the next; spans must come in order of descending end.
    pub(crate) fn between(&mut self, place: u32, start_ns: i64, end_ns: i64) -> Option<(i64, i64)> {
        let thread = self.threads.get_mut(place as usize)?;
        let until_ns = thread.until_ns.unwrap_or(end_ns);
        thread.until_ns = Some(until_ns.min(start_ns));
        thread.ran(end_ns, until_ns)
    }

    /// Returns the time each thread ran before its first span.
    pub(crate) fn first(&mut self) -> Vec<(u32, (i64, i64))> {
        let start_ns = self.start_ns;
        let threads = self.threads.iter_mut().enumerate();
        let before = |(place, thread): (usize, &mut Thread)| {
            let (created_ns, until_ns) = (thread.created_ns?.max(start_ns), thread.until_ns?);
            Some((place as u32, thread.ran(created_ns, until_ns)?))
        };
        threads.filter_map(before).collect()
    }

    /// Whether the times between a thread's spans agree with its processor time.
    pub(crate) fn holds(&self, place: u32) -> bool {
        let agrees = |thread: &Thread| thread.known && thread.sum_ns as f64 <= thread.cpu_ns * TOLERANCE + 1e6;
        self.threads.get(place as usize).is_some_and(agrees)
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
