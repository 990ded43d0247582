//! Which of the network's causes an interval is charged to, when both ends wait and bytes are under way.
//! Decided from what TCP said: retransmissions (marks) and windows (counters), per connection.

use crate::ExplainError;
use crate::cast::Cast;
use crate::cause::Cause;
use crate::index::NONE;
use thalweg_trace::{CounterName, CounterOf, MarkKind, Source};

/// A message with less than this many bytes has nothing to fill a path with: its transit is latency.
pub const SMALL_BYTES: u64 = 64 << 10;

/// Values of one counter of one connection, in order of time.
type Series = Vec<(i64, i64)>;

/// Which of a connection's series a counter goes to.
type SeriesOf = fn(&mut Said) -> &mut Series;

/// What TCP said of one connection.
#[derive(Debug, Default)]
struct Said {
    losses: Vec<i64>,
    cwnd: Series,
    in_flight: Series,
    receive_window: Series,
    send_buffer: Series,
    srtt_us: Series,
    least_srtt_us: Option<i64>,
    usual_lag_ns: Option<u64>,
}

/// What TCP said of all connections.
#[derive(Debug)]
pub struct WireFacts {
    said: Vec<Said>,
}

/// The last value at or before an instant.
fn at(series: &Series, instant: i64) -> Option<i64> {
    let after = series.partition_point(|&(t, _)| t <= instant);
    series.get(after.checked_sub(1)?).map(|&(_, v)| v)
}

impl WireFacts {
    /// Reads marks and counters.
    pub fn read(source: &dyn Source, cast: &mut Cast) -> Result<WireFacts, ExplainError> {
        let mut said: Vec<Said> = cast.connections.iter().map(|_| Said::default()).collect();
        for mark in source.marks()? {
            let connection = mark.object.map_or(NONE, |o| {
                let object = cast.objects.get(o.number());
                cast.connection_of(object)
            });
            if matches!(mark.kind, MarkKind::TcpRetransmit | MarkKind::TcpTimeout)
                && let Some(said) = said.get_mut(connection as usize)
            {
                said.losses.push(mark.at.ns());
            }
        }
        let counters: [(CounterName, SeriesOf); 5] = [
            (CounterName::TcpCwndBytes, |s| &mut s.cwnd),
            (CounterName::TcpInFlightBytes, |s| &mut s.in_flight),
            (CounterName::TcpReceiveWindowBytes, |s| &mut s.receive_window),
            (CounterName::TcpSendBufferBytes, |s| &mut s.send_buffer),
            (CounterName::TcpSrttUs, |s| &mut s.srtt_us),
        ];
        for (name, series) in counters {
            for counter in source.counters(name)? {
                let CounterOf::Object(object) = counter.of else { continue };
                let object = cast.objects.get(object.number());
                if let Some(said) = said.get_mut(cast.connection_of(object) as usize) {
                    series(said).push((counter.at.ns(), counter.value));
                }
            }
        }
        for said in &mut said {
            said.losses.sort_unstable();
            said.least_srtt_us = said.srtt_us.iter().map(|&(_, v)| v).min();
        }
        Ok(WireFacts { said })
    }

    /// The cause of an interval in which `bytes` were under way on a connection and both ends waited.
    pub fn cause(&self, connection: u32, start: i64, end: i64, bytes: u64) -> Cause {
        let by_size = if bytes < SMALL_BYTES { Cause::NetworkLatency } else { Cause::NetworkBandwidth };
        let Some(said) = self.said.get(connection as usize) else { return by_size };
        let first = said.losses.partition_point(|&t| t < start);
        if said.losses.get(first).is_some_and(|&t| t <= end) {
            return Cause::NetworkLoss;
        }
        let Some(in_flight) = at(&said.in_flight, end).filter(|&b| b > 0) else { return by_size };
        let reaches = |limit: Option<i64>| limit.is_some_and(|l| l > 0 && in_flight * 10 >= l * 9);
        let srtt = at(&said.srtt_us, end);
        let queueing = matches!((srtt, said.least_srtt_us), (Some(now), Some(least)) if now * 4 > least * 5);
        if queueing {
            return by_size;
        }
        // getsockopt reports twice what can be filled with payload.
        if reaches(at(&said.send_buffer, end).map(|b| b / 2)) {
            Cause::NetworkSndbuf
        } else if reaches(at(&said.receive_window, end)) {
            Cause::NetworkRwnd
        } else if reaches(at(&said.cwnd, end)) {
            Cause::NetworkCwnd
        } else {
            by_size
        }
    }

    /// Whether a message that took so long to be picked up lay waiting for a receiver that stood still:
    /// on one machine nothing else holds a message back for long. Remembers what is usual.
    pub fn is_stall(&mut self, connection: u32, same_machine: bool, lag_ns: u64, bytes: u64, start: i64, end: i64) -> bool {
        let cause = self.cause(connection, start, end, bytes);
        let Some(said) = self.said.get_mut(connection as usize) else { return false };
        let usual = said.usual_lag_ns.unwrap_or(1_000_000).max(1_000_000);
        let bytes_per_s = bytes as f64 * 1e9 / lag_ns.max(1) as f64;
        let slow = bytes < SMALL_BYTES || bytes_per_s < 1_048_576.0;
        let stall = same_machine && cause != Cause::NetworkLoss && lag_ns >= 100_000_000 && lag_ns > 20 * usual && slow;
        if !stall {
            said.usual_lag_ns = Some(said.usual_lag_ns.map_or(lag_ns, |u| u - u / 8 + lag_ns / 8));
        }
        stall
    }
}
