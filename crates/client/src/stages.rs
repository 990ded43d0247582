//! Where the threads of an engine spend their time, as a tuner sees it while bytes move.
//!
//! One clock for all threads of a copy (or of a client's shared engines): sums, to which each thread adds when it has done something. A
//! thread takes about four readings of the clock for a flow buffer, 0.1 µs against the 0.2 ms and more that 1 MiB takes. What is
//! under way is counted when it ends, so that a thread which sleeps for seconds is seen afterwards: a tuner that compares windows looks at
//! the bytes that moved in them, too. Rejected: spans of the recorder as the source, since a copy that nobody records has none.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time of connections' threads by what they did, summed over all of them since the engine began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Reading the local source, writing the local sink, or waiting for the turn to.
    pub local: Duration,
    /// Handing bytes to the connection.
    pub sending: Duration,
    /// Waiting for answers, and receiving their payload.
    pub answers: Duration,
    /// Without work.
    pub idle: Duration,
    /// In batches of small files, which move without a connection of their own (a tree's workers).
    pub batches: Duration,
    /// From the post of a flow buffer to its answer, smoothed over about eight; zero: none was answered yet.
    pub answer: Duration,
    /// The path's round trip at most: half of the shortest time in which a connection was made and greeted; zero: none was made yet.
    pub round_trip: Duration,
    /// Connections that there are.
    pub connections: u32,
    /// Connections beyond the first ones that could not be made, or were lost: their work was done by the others.
    pub lost_connections: u64,
}

/// What a thread has just done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    Local,
    Sending,
    Answers,
    Idle,
    Batches,
}

/// The sums, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct StageClock {
    stages: [AtomicU64; 5],
    answer: AtomicU64,
    round_trip: AtomicU64,
    connections: AtomicU32,
    lost_connections: AtomicU64,
}

impl StageClock {
    /// Since `begun` a thread did this.
    pub(crate) fn add(&self, stage: Stage, begun: Instant) {
        self.stages[stage as usize].fetch_add(nanoseconds(begun.elapsed()), Ordering::Relaxed);
    }

    /// A flow buffer that was posted at `posted` was answered. (Threads may overtake each other here: one sample more or less.)
    pub(crate) fn answered(&self, posted: Instant) {
        let (before, now) = (self.answer.load(Ordering::Relaxed), nanoseconds(posted.elapsed()));
        let smoothed = if before == 0 { now } else { before - before / 8 + now / 8 };
        self.answer.store(smoothed, Ordering::Relaxed);
    }

    /// There is one connection more, which it took so long to make: at least one round trip for TCP and one for the greeting.
    pub(crate) fn connected(&self, took: Duration) {
        let round_trip = nanoseconds(took / 2).max(1);
        let before = self.round_trip.load(Ordering::Relaxed);
        if before == 0 || round_trip < before {
            self.round_trip.store(round_trip, Ordering::Relaxed);
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// There is one connection less.
    pub(crate) fn disconnected(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection that others can do without could not be made, or is lost.
    pub(crate) fn lost(&self) {
        self.lost_connections.fetch_add(1, Ordering::Relaxed);
    }

    /// The sums now.
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
