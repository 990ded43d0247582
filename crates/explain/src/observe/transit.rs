//! Bytes in flight on a connection, and its ends' distance.

use crate::cause::End;

/// The distance between the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Near {
    /// On two machines.
    No,
    /// On one machine, perhaps with an artificial path between its parts.
    Machine,
    /// On one machine, by its own addresses: without any path.
    Loopback,
}

/// Bytes in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transit {
    /// The connection.
    pub connection: u32,
    /// The sending end.
    pub sender: End,
    /// Start.
    pub start: i64,
    /// End.
    pub end: i64,
    /// Number of bytes; 0 if unknown, `u64::MAX` if more were waiting than fitted.
    pub bytes: u64,
    /// Time they were handed to TCP, if known.
    pub sent: Option<i64>,
}

/// A sender's bytes in flight, and its limits, each as it usually was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnderWay {
    /// Bytes sent but not acknowledged.
    pub in_flight_bytes: i64,
    /// The receiver's window.
    pub window_bytes: Option<i64>,
    /// The send buffer, as the kernel reports it.
    pub buffer_bytes: Option<i64>,
    /// The congestion window.
    pub cwnd_bytes: Option<i64>,
    /// Least round trip in microseconds, if known.
    pub round_trip_us: Option<i64>,
}

/// A sender's bytes in flight, over the whole connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// The most.
    pub most: u64,
    /// The most after its start.
    pub settled: u64,
    /// The most in most of the readings.
    pub usual: u64,
}

impl Transit {
    pub(crate) fn length_ns(&self) -> i64 {
        self.end - self.start
    }
}
