//! Where an engine's threads spend their time, for a tuner.
//!
//! One clock for all threads of a copy (or of a client's shared engines) holds sums; a thread adds to them when it has finished an
//! activity. It reads the time about four times per flow buffer, 0.1 µs against at least 0.2 ms for 1 MiB. An activity counts when it
//! ends, so a thread that sleeps for seconds shows up late: a tuner that compares windows must also consider the bytes moved. Rejected:
//! using the recorder's spans, which a copy without a recording does not have.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time of the connections' threads by activity, summed since the engine began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Reading the local source or writing the local sink, including waits for the turn to do so.
    pub local: Duration,
    /// Sending on the connection.
    pub sending: Duration,
    /// Waiting for answers and receiving their payloads.
    pub answers: Duration,
    /// Idle.
    pub idle: Duration,
    /// Working on batches of small files, which have no connection of their own (a tree's workers).
    pub batches: Duration,
    /// Time from posting a flow buffer to its answer, smoothed over about eight; zero: none answered yet.
    pub answer: Duration,
    /// Upper bound of the path's round trip: half the shortest time to connect and greet; zero: no connection yet.
    pub round_trip: Duration,
    /// Current number of connections.
    pub connections: u32,
    /// Additional connections that could not be made or were lost; the other connections do their work.
    pub lost_connections: u64,
}

/// A thread's activity.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    Local,
    Sending,
    Answers,
    Idle,
    Batches,
}

/// Sums, in ns.
#[derive(Debug, Default)]
pub(crate) struct StageClock {
    stages: [AtomicU64; 5],
    answer: AtomicU64,
    round_trip: AtomicU64,
    connections: AtomicU32,
    lost_connections: AtomicU64,
}

impl StageClock {
    /// Adds the time since `begun` to an activity.
    pub(crate) fn add(&self, stage: Stage, begun: Instant) {
        self.stages[stage as usize].fetch_add(nanoseconds(begun.elapsed()), Ordering::Relaxed);
    }

    /// Records that a flow buffer posted at `posted` was answered. (A race between threads may drop a sample.)
    pub(crate) fn answered(&self, posted: Instant) {
        let (before, now) = (self.answer.load(Ordering::Relaxed), nanoseconds(posted.elapsed()));
        let smoothed = if before == 0 { now } else { before - before / 8 + now / 8 };
        self.answer.store(smoothed, Ordering::Relaxed);
    }

    /// Adds a connection that took `took` to establish: at least one round trip for TCP and one for the greeting.
    pub(crate) fn connected(&self, took: Duration) {
        let round_trip = nanoseconds(took / 2).max(1);
        let before = self.round_trip.load(Ordering::Relaxed);
        if before == 0 || round_trip < before {
            self.round_trip.store(round_trip, Ordering::Relaxed);
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Subtracts a connection.
    pub(crate) fn disconnected(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a dispensable connection that could not be made, or was lost.
    pub(crate) fn lost(&self) {
        self.lost_connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the current sums.
    pub(crate) fn read(&self) -> Stages {
        let sum = |stage: Stage| Duration::from_nanos(self.stages[stage as usize].load(Ordering::Relaxed));
        Stages {
            local: sum(Stage::Local),
            sending: sum(Stage::Sending),
            answers: sum(Stage::Answers),
            idle: sum(Stage::Idle),
            batches: sum(Stage::Batches),
            answer: Duration::from_nanos(self.answer.load(Ordering::Relaxed)),
            round_trip: Duration::from_nanos(self.round_trip.load(Ordering::Relaxed)),
            connections: self.connections.load(Ordering::Relaxed),
            lost_connections: self.lost_connections.load(Ordering::Relaxed),
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
