//! Bytes that crossed the wire, and when: arrivals at the receiving end, or else acknowledgements at the sending one.
//!
//! Bytes handed over by a program say nothing of the wire: a socket takes megabytes at the speed of memory, and the link drains them later.
//! TCP's counters are points of a curve of bytes over time; between two points, bytes came as fast as the connection carries them, at the
//! end of the interval, and during the rest nothing crossed the wire. The pace follows from the points themselves: the time per byte in the
//! interval of the median byte. If the sender shows that nothing was in flight until an instant, that is a pause whatever the pace.

use crate::ExplainError;
use crate::cause::End;
use crate::document::ChannelBasis;
use crate::limits::observe as limits;
use crate::observe::channels::{Gathered, Gatherer};
use crate::observe::sustained::{Sustained, of_the_median_byte};
use crate::observe::tables::Tables;
use crate::observe::wire::ends;
use thalweg_trace::{CounterName, CounterOf, Source};

/// Bytes that crossed the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crossing {
    /// Start.
    pub start: i64,
    /// End.
    pub end: i64,
    /// Number of bytes.
    pub bytes: u64,
}

/// One direction of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// The basis of the data.
    pub basis: ChannelBasis,
    /// When bytes crossed the wire, in order of time.
    pub crossings: Vec<Crossing>,
}

/// TCP's counters at one end of a connection.
#[derive(Clone, Debug, Default)]
struct Counted {
    acknowledged: Vec<(i64, i64)>,
    arrived: Vec<(i64, i64)>,
    in_flight: Vec<(i64, i64)>,
    least_rtt_us: Option<i64>,
}

/// Bytes that crossed the wire, by connection: `[connection][sending end]`.
#[derive(Debug, Default)]
pub(crate) struct OnWire {
    flows: Vec<[Option<Flow>; 2]>,
    /// By sending end: the sustained rate of all connections together.
    sustained: [Option<Sustained>; 2],
}

impl OnWire {
    /// Reads the counters, for an interval.
    pub(crate) fn read(source: &dyn Source, tables: &mut Tables, start: i64, end: i64) -> Result<OnWire, ExplainError> {
        type CurveOf = fn(&mut Counted) -> &mut Vec<(i64, i64)>;
        let mut counted: Vec<[Counted; 2]> = tables.connections.iter().map(|_| Default::default()).collect();
        let curves: [(CounterName, CurveOf); 3] = [
            (CounterName::TcpAckedBytes, |c| &mut c.acknowledged),
            (CounterName::TcpReceivedBytes, |c| &mut c.arrived),
            (CounterName::TcpInFlightBytes, |c| &mut c.in_flight),
        ];
        let mut each = |name: CounterName, take: &mut dyn FnMut(&mut Counted, i64, i64)| -> Result<(), ExplainError> {
            for counter in source.counters(name)? {
                let CounterOf::Object(object) = counter.of else { continue };
                let (connection, ends) = ends(tables, object.number());
                let Some(both) = counted.get_mut(connection as usize) else { continue };
                both.iter_mut().zip(ends).filter(|(_, of)| *of).for_each(|(c, _)| take(c, counter.at.ns(), counter.value));
            }
            Ok(())
        };
        for (name, curve) in curves {
            each(name, &mut |c, at, value| curve(c).push((at, value)))?;
        }
        for name in [CounterName::TcpMinRttUs, CounterName::TcpSrttUs] {
            each(name, &mut |c, _, us| c.least_rtt_us = c.least_rtt_us.into_iter().chain((us > 0).then_some(us)).min())?;
        }
        let mut arrived: [Vec<Arrival>; 2] = Default::default();
        let mut flow = |by: End, sender: &Counted, receiver: &Counted| {
            let half_way_ns = sender.least_rtt_us.or(receiver.least_rtt_us).unwrap_or(0) * 500;
            let empty = pauses(&sender.in_flight, half_way_ns);
            let (basis, points) = if receiver.arrived.len() > 1 {
                (ChannelBasis::Received, receiver.arrived.clone())
            } else {
                (ChannelBasis::Acknowledged, sender.acknowledged.iter().map(|&(at, v)| (at - half_way_ns, v)).collect())
            };
            let intervals = intervals(&points, &empty);
            arrived[by as usize].extend(intervals.iter().filter(|i| i.0 >= start && i.1 <= end));
            let crossings: Vec<Crossing> = crossings(&intervals).into_iter().filter_map(|c| within(c, start, end)).collect();
            (!crossings.is_empty()).then_some(Flow { basis, crossings })
        };
        let flows = counted.iter().map(|[client, server]| [flow(End::Client, client, server), flow(End::Server, server, client)]).collect();
        Ok(OnWire { flows, sustained: arrived.map(|intervals| Sustained::of(&intervals)) })
    }

    /// Whether TCP counters were recorded for any connection.
    pub(crate) fn is_known(&self) -> bool {
        self.flows.iter().flatten().any(Option::is_some)
    }

    /// The sustained rate of the busier direction.
    pub(crate) fn sustained(&self) -> Option<Sustained> {
        self.sustained.iter().flatten().copied().max_by_key(|sustained| sustained.bytes)
    }

    /// One direction of a connection, by its sender.
    pub(crate) fn flow(&self, connection: u32, sender: End) -> Option<&Flow> {
        self.flows.get(connection as usize)?[sender as usize].as_ref()
    }
}

/// Merges several directions into one channel, busy while any of them is. An idle wire for the resolution or longer is a gap: a pause
/// between two sends does not show there while the socket has bytes left.
pub(crate) fn gather(flows: &[&Flow]) -> Gathered {
    let mut all: Vec<Crossing> = flows.iter().flat_map(|f| f.crossings.iter().copied()).collect();
    all.sort_unstable_by_key(|c| std::cmp::Reverse((c.end, c.start)));
    let mut gatherer = Gatherer::default();
    all.iter().for_each(|c| gatherer.add(c.start, c.end, c.bytes));
    gatherer.finish_with(limits::GRAIN_NS as u64)
}

/// Times without bytes in flight, half the round trip after the sender.
fn pauses(in_flight: &[(i64, i64)], half_way_ns: i64) -> Vec<(i64, i64)> {
    let empty = in_flight.windows(2).filter(|w| w[0].1 == 0 && w[1].1 > 0);
    empty.map(|w| (w[0].0 - half_way_ns, w[1].0 + half_way_ns)).collect()
}

/// The part of a crossing within an interval.
fn within(crossing: Crossing, start: i64, end: i64) -> Option<Crossing> {
    let (from, to) = (crossing.start.max(start), crossing.end.min(end));
    let length = (crossing.end - crossing.start).max(1);
    let part = (to - from).max(i64::from(crossing.start == crossing.end)) as f64 / length as f64;
    (from <= to && part > 0.0).then(|| Crossing { start: from, end: to, bytes: (crossing.bytes as f64 * part).round() as u64 })
}

/// Start, end and bytes of an arrival.
type Arrival = (i64, i64, u64);

/// Arrivals, from the points of their curve and the times without bytes in flight.
fn intervals(points: &[(i64, i64)], empty: &[(i64, i64)]) -> Vec<Arrival> {
    let mut grown: Vec<(i64, i64, u64)> = Vec::with_capacity(points.len());
    let mut last: Option<(i64, i64)> = None;
    for &(at, value) in points {
        if let Some((before, so_far)) = last
            && value > so_far
        {
            grown.push((before, at, (value - so_far) as u64));
        }
        last = Some((at, last.map_or(value, |(_, so_far)| so_far.max(value))));
    }
    let begun = |&(from, to, bytes): &(i64, i64, u64)| {
        let before = empty.partition_point(|e| e.0 < to);
        let until = before.checked_sub(1).map(|i| empty[i].1).filter(|&until| until > from && until <= to);
        (until.unwrap_or(from), to, bytes)
    };
    grown.iter().map(begun).collect()
}

/// The crossings of these arrivals.
fn crossings(intervals: &[Arrival]) -> Vec<Crossing> {
    let pace = ns_per_byte(intervals);
    let mut crossings: Vec<Crossing> = Vec::with_capacity(intervals.len());
    let mut next = i64::MAX;
    for &(from, to, bytes) in intervals.iter().rev() {
        let usual = pace.map_or(0, |ns| (ns * bytes as f64) as i64);
        let end = to.min(next.max(from));
        // Bytes that came faster than the connection carries had waited to be taken in: they crossed before.
        let as_usual = end - from >= usual && (end - from) as f64 <= usual as f64 * limits::SLOWER;
        let start = if as_usual { from } else { end - usual };
        next = start;
        match crossings.last_mut() {
            Some(later) if end >= later.start => {
                later.start = later.start.min(start);
                later.bytes += bytes;
            }
            _ => crossings.push(Crossing { start, end, bytes }),
        }
    }
    crossings.reverse();
    crossings
}

/// Time per byte in the interval of the median byte.
fn ns_per_byte(intervals: &[(i64, i64, u64)]) -> Option<f64> {
    let mut paces: Vec<(f64, f64)> = intervals
        .iter()
        .filter(|i| i.1 - i.0 > limits::POINTS_APART_NS)
        .map(|&(from, to, bytes)| ((to - from) as f64 / bytes as f64, bytes as f64))
        .collect();
    of_the_median_byte(&mut paces)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_pause_emitted_at_both_ends_is_no_part_of_a_burst() {
        // Two bursts of 3 ms at 1 MB/ms, 10 ms apart: points each millisecond, and at both ends.
        let points: Vec<(i64, i64)> =
            [(0, 0), (1, 1), (2, 2), (3, 3), (14, 4), (15, 5), (16, 6)].map(|(t, v)| (t * MS, v * 1_000_000)).into();
        let found = crossings(&intervals(&points, &[]));
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].end, found[1].start, found[1].bytes), (3 * MS, 13 * MS, 3_000_000));
    }

    #[test]
    fn what_the_sender_says_of_its_departure_begins_a_burst_whatever_the_pace() {
        // A quarter of each interval nothing was in flight: too little to show against the pace.
        let points: Vec<(i64, i64)> = (0..9).map(|n| (n * MS, n * 64_000)).collect();
        let empty: Vec<(i64, i64)> = (0..8).map(|n| (n * MS, n * MS + MS / 4)).collect();
        let busy: i64 = crossings(&intervals(&points, &empty)).iter().map(|c| c.end - c.start).sum();
        assert!((busy - 6 * MS).abs() < MS / 100, "{busy}");
        assert_eq!(crossings(&intervals(&points, &[])).len(), 1);
    }

    #[test]
    fn a_steady_stream_with_uneven_arrivals_has_no_pauses() {
        let points: Vec<(i64, i64)> = (0..100).map(|n| (n * 262_000 + (n % 3) * 40_000, n * 65_536)).collect();
        let found = crossings(&intervals(&points, &[]));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn what_lies_outside_of_the_interval_is_left_out_in_proportion() {
        let crossing = Crossing { start: 0, end: 100, bytes: 1_000 };
        assert_eq!(within(crossing, 50, 200), Some(Crossing { start: 50, end: 100, bytes: 500 }));
        assert_eq!(within(crossing, 100, 200), None);
        assert_eq!(within(Crossing { start: 70, end: 70, bytes: 9 }, 50, 200).map(|c| c.bytes), Some(9));
    }
}
