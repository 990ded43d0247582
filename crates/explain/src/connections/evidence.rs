//! TCP's evidence on a pause, from marks and counters: a loss, a window, an acknowledgement in transit, or an end with nothing to send.

use super::way::Way;
use crate::limits::connections as limits;
use std::collections::HashMap;
use thalweg_trace::{Counter, CounterName, CounterOf, Mark, MarkKind, Source, SourceError};

/// Why a connection paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// TCP retransmitted.
    Loss,
    /// The receiver's window was closed, or full.
    Window,
    /// The sender waited for acknowledgements.
    Acknowledgement,
    /// The end that sent next took its time, less a round trip.
    Turn {
        /// Round trip of the path between the capture and that end.
        round_trip_ns: i64,
    },
}

/// The facts of an end of a connection.
#[derive(Debug, Default)]
pub(super) struct End {
    /// Bytes in flight, in order of time.
    in_flight: Vec<(i64, i64)>,
    /// The windows that its peer offered.
    windows: Vec<(i64, i64)>,
    round_trip_ns: Option<i64>,
    pub sent_again: u64,
    /// How often it had to wait for a closed window.
    pub zero_windows: u64,
    pub least_window: Option<u64>,
}

/// Both ends of each connection, by track; and its marks.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    ends: HashMap<u64, [End; 2]>,
    again: HashMap<u64, Vec<i64>>,
    closed: HashMap<u64, Vec<i64>>,
    pub timeouts: u64,
}

fn value(list: &[(i64, i64)], at_ns: i64) -> Option<i64> {
    list[..list.partition_point(|(at, _)| *at <= at_ns)].last().map(|(_, value)| *value)
}

fn within(list: Option<&Vec<i64>>, from_ns: i64, to_ns: i64) -> bool {
    list.is_some_and(|all| all.get(all.partition_point(|&at| at < from_ns)).is_some_and(|&at| at <= to_ns))
}

impl Evidence {
    /// Reads all connections of a recording. `tracks`: those of each connection's objects, by number, and whether an object is the
    /// client's.
    pub(super) fn read(source: &dyn Source, tracks: &HashMap<u64, (u64, bool)>) -> Result<Evidence, SourceError> {
        let mut evidence = Evidence::default();
        source.marks()?.iter().for_each(|mark| evidence.mark(mark, tracks));
        for name in [CounterName::TcpInFlightBytes, CounterName::TcpReceiveWindowBytes, CounterName::TcpSrttUs] {
            source.counters(name)?.iter().for_each(|counter| evidence.counter(name, counter, tracks));
        }
        Ok(evidence)
    }

    /// The facts of a connection's client, or of its server.
    pub(super) fn end(&self, track: u64, of_client: bool) -> Option<&End> {
        self.ends.get(&track).map(|ends| &ends[usize::from(!of_client)])
    }

    fn mark(&mut self, mark: &Mark, tracks: &HashMap<u64, (u64, bool)>) {
        let Some(&(track, of_client)) = mark.object.and_then(|object| tracks.get(&object.number())) else { return };
        let end = &mut self.ends.entry(track).or_default()[usize::from(!of_client)];
        match mark.kind {
            MarkKind::TcpRetransmit => {
                end.sent_again += 1;
                self.again.entry(track).or_default().push(mark.at.ns());
            }
            MarkKind::TcpZeroWindow => {
                end.zero_windows += 1;
                self.closed.entry(track).or_default().push(mark.at.ns());
            }
            MarkKind::TcpTimeout => self.timeouts += 1,
            _ => {}
        }
    }

    fn counter(&mut self, name: CounterName, counter: &Counter, tracks: &HashMap<u64, (u64, bool)>) {
        let CounterOf::Object(object) = counter.of else { return };
        let Some(&(track, of_client)) = tracks.get(&object.number()) else { return };
        let end = &mut self.ends.entry(track).or_default()[usize::from(!of_client)];
        let now = (counter.at.ns(), counter.value);
        match name {
            CounterName::TcpInFlightBytes => end.in_flight.push(now),
            CounterName::TcpReceiveWindowBytes => {
                let bytes = counter.value.max(0) as u64;
                end.least_window = Some(end.least_window.map_or(bytes, |least| least.min(bytes)));
                end.windows.push(now);
            }
            // The least: later ones include the other end's work before its answer.
            _ => {
                let ns = counter.value.saturating_mul(1000);
                end.round_trip_ns = Some(end.round_trip_ns.map_or(ns, |least| least.min(ns)));
            }
        }
    }

    /// Why a connection paused between a burst in one direction and the next.
    pub(super) fn why(&self, track: u64, (from_ns, to_ns): (i64, i64), before: Way, next: Way) -> Why {
        let sender = next != Way::Received;
        if within(self.again.get(&track), from_ns + (to_ns - from_ns) / 2, to_ns + limits::AT_END_NS) {
            return Why::Loss;
        }
        if before == next && within(self.closed.get(&track), from_ns - limits::AT_END_NS, to_ns) {
            return Why::Window;
        }
        let own = self.end(track, sender);
        if before == next
            && let Some(own) = own
        {
            let in_flight = value(&own.in_flight, from_ns).unwrap_or(0);
            let is_full = |window: i64| in_flight as f64 >= limits::AT_WINDOW * window as f64;
            if value(&own.windows, from_ns).is_some_and(|window| window > 0 && is_full(window)) {
                return Why::Window;
            }
            let round_trip_ns = own.round_trip_ns.unwrap_or(0);
            if in_flight > 0 && to_ns - from_ns <= round_trip_ns.saturating_mul(limits::ROUND_TRIPS) {
                return Why::Acknowledgement;
            }
            return Why::Turn { round_trip_ns: 0 };
        }
        // The other end sends: this end's bytes had to arrive there, and the answer here.
        let round_trip_ns = self.end(track, !sender).and_then(|end| end.round_trip_ns).unwrap_or(0);
        Why::Turn { round_trip_ns }
    }
}
