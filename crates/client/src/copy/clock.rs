//! The offset of a server's clock from ours, when the server is on another machine.
//!
//! The server is asked for its time. The reading was taken between our question and its answer, so half the round trip is the error. Of
//! several readings, the one with the shortest round trip is used (the least-delay rule of NTP, RFC 5905 section 10). Readings at the
//! beginning and the end of the recording give offset and drift.

use thalweg_trace::{Clock, HostId, Time};
use thalweg_wire::Connection;
use thalweg_wire::Result;

/// Questions per reading.
const QUESTIONS: usize = 8;

/// One clock reading: reference time = host time + offset, within ± error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    host_ns: i64,
    offset_ns: i64,
    error_ns: u64,
}

impl Reading {
    /// Builds the reading for a question sent at `asked`, answered with `host`, with the answer received at `answered`.
    fn new(asked: Time, host: Time, answered: Time) -> Reading {
        let round_trip_ns = answered.since(asked);
        let middle_ns = asked.ns() + (round_trip_ns / 2) as i64;
        Reading { host_ns: host.ns(), offset_ns: middle_ns - host.ns(), error_ns: round_trip_ns.div_ceil(2) }
    }

    /// Asks a server [`QUESTIONS`] times and returns the reading with the shortest round trip.
    pub(super) fn take(connection: &mut Connection) -> Result<Reading> {
        let mut best: Option<Reading> = None;
        for _ in 0..QUESTIONS {
            let asked = Time::now();
            let host = connection.clock()?;
            let reading = Reading::new(asked, host, Time::now());
            best = Some(best.filter(|b| b.error_ns <= reading.error_ns).unwrap_or(reading));
        }
        Ok(best.expect("it has been asked"))
    }
}

/// Returns the host's row of `clocks` from its first reading and, if available, its last. Drift is recorded only if it exceeds the error.
pub(super) fn clock(host: HostId, first: Reading, last: Option<Reading>) -> Clock {
    let mut clock = Clock { host, from_ns: first.host_ns, offset_ns: first.offset_ns, drift_ppb: 0, error_ns: first.error_ns };
    let Some(last) = last.filter(|last| last.host_ns > first.host_ns) else { return clock };
    let moved_ns = last.offset_ns - first.offset_ns;
    if moved_ns.unsigned_abs() > first.error_ns + last.error_ns {
        clock.drift_ppb = (i128::from(moved_ns) * 1_000_000_000 / i128::from(last.host_ns - first.host_ns)) as i64;
        clock.error_ns = first.error_ns.max(last.error_ns);
    } else if last.error_ns < first.error_ns {
        clock.offset_ns = last.offset_ns;
        clock.error_ns = last.error_ns;
    }
    clock
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: i64) -> Time {
        Time::from_monotonic_ns(ns)
    }

    /// A reading of a host that is `offset_ns` behind at 0 and drifts by `drift_ppb`, taken at `now_ns` over a path with these one-way
    /// delays.
    fn asked(now_ns: i64, offset_ns: i64, drift_ppb: i64, there_ns: i64, back_ns: i64) -> Reading {
        let arrives = now_ns + there_ns;
        let host = arrives - offset_ns - arrives / 1_000_000 * drift_ppb / 1000;
        Reading::new(at(now_ns), at(host), at(arrives + back_ns))
    }

    #[test]
    fn a_clock_shifted_by_seconds_that_drifts_is_aligned_within_half_a_round_trip() {
        for (there_ns, back_ns) in [(50_000, 50_000), (10_000, 190_000), (190_000, 10_000)] {
            let (offset_ns, drift_ppb) = (-7_300_000_000, 100_000);
            let first = asked(1_000_000_000, offset_ns, drift_ppb, there_ns, back_ns);
            let last = asked(61_000_000_000, offset_ns, drift_ppb, back_ns, there_ns);
            let clock = clock(HostId(1), first, Some(last));
            for now_ns in [1_000_000_000_i64, 30_000_000_000, 61_000_000_000] {
                let host_ns = now_ns - offset_ns - now_ns / 1_000_000 * drift_ppb / 1000;
                let since_ns = i128::from(host_ns - clock.from_ns);
                let ours = host_ns + clock.offset_ns + (since_ns * i128::from(clock.drift_ppb) / 1_000_000_000) as i64;
                assert!(ours.abs_diff(now_ns) <= clock.error_ns + 1000, "{} off, {} said", ours - now_ns, clock.error_ns);
            }
        }
    }

    #[test]
    fn noise_is_not_taken_for_drift() {
        let first = asked(1_000_000_000, 5_000, 0, 900_000, 100_000);
        let last = asked(2_000_000_000, 5_000, 0, 20_000, 20_000);
        let clock = clock(HostId(1), first, Some(last));
        assert_eq!((clock.drift_ppb, clock.error_ns), (0, 20_000));
        assert!(clock.offset_ns.abs_diff(5_000) <= clock.error_ns);
    }
}
