//! The stored points of a connection's counters: both ends of each pause, and points at the sampling interval between them; none
//! while nothing changes.

use thalweg_trace::{Counter, CounterName, CounterOf, Event, Mark, MarkKind, ObjectId, TcpInfo, Time, TrackId};

/// Minimum length of a pause whose ends are both stored: the resolution that explanations assume of recorders.
const PAUSE_NS: u64 = 100_000;
/// Intervals between stored values of windows and times that changed little.
const SLOW: u64 = 5;

/// The byte counter of one direction of the stream.
struct Curve {
    name: CounterName,
    /// The last change, and whether it is stored.
    last: Option<(Time, u64, bool)>,
    stored_at: Time,
}

impl Curve {
    fn new(name: CounterName) -> Curve {
        Curve { name, last: None, stored_at: Time::from_monotonic_ns(0) }
    }

    /// Notes a reading; returns whether the counter advanced.
    fn note(&mut self, at: Time, value: u64, grain_ns: u64, of: ObjectId, out: &mut Vec<Event>) -> bool {
        let paused = match self.last {
            Some((_, before, _)) if value <= before => return false,
            Some((since, ..)) => at.since(since) >= PAUSE_NS,
            None => true,
        };
        if paused {
            self.store_last(of, out);
        }
        let is_stored = paused || at.since(self.stored_at) >= grain_ns;
        self.last = Some((at, value, is_stored));
        if is_stored {
            self.stored_at = at;
            out.push(counter(of, self.name, at, value as i64));
        }
        true
    }

    fn store_last(&mut self, of: ObjectId, out: &mut Vec<Event>) {
        if let Some((since, value, is_stored @ false)) = &mut self.last {
            *is_stored = true;
            self.stored_at = *since;
            out.push(counter(of, self.name, *since, *value as i64));
        }
    }
}

fn counter(object: ObjectId, name: CounterName, at: Time, value: i64) -> Event {
    Event::Counter(Counter { of: CounterOf::Object(object), name, at, value })
}

/// The counters of a connection, and what of them is stored.
pub(super) struct Series {
    object: ObjectId,
    acknowledged: Curve,
    arrived: Curve,
    /// The last stored values of the connection's state, in the order of [`TcpInfo::values`].
    stored: [Option<i64>; 12],
    stored_at: Time,
    /// Latest time at which nothing was in flight, until the next bytes leave.
    empty_until: Option<Time>,
    /// When the connection began, if all of it is recorded, until a thread uses it.
    begun: Option<Time>,
    troubles: Option<(u32, u16)>,
}

impl Series {
    /// Makes the series of the connection with this object. `begun`: when it began, if all of it is recorded.
    pub(super) fn new(object: ObjectId, begun: Option<Time>) -> Series {
        Series {
            object,
            acknowledged: Curve::new(CounterName::TcpAckedBytes),
            arrived: Curve::new(CounterName::TcpReceivedBytes),
            stored: [None; 12],
            stored_at: Time::from_monotonic_ns(0),
            empty_until: None,
            begun,
            troubles: begun.map(|_| (0, 0)),
        }
    }

    /// Stores what a reading shows; returns whether anything moves. `send_buffer` is called only if it is stored.
    pub(super) fn note(
        &mut self,
        (at, info): (Time, &TcpInfo),
        by: Option<TrackId>,
        grain_ns: u64,
        send_buffer: impl FnOnce() -> Option<u32>,
        out: &mut Vec<Event>,
    ) -> bool {
        let acknowledged = info.acked_bytes.is_some_and(|v| self.acknowledged.note(at, v, grain_ns, self.object, out));
        let arrived = info.received_bytes.is_some_and(|v| self.arrived.note(at, v, grain_ns, self.object, out));
        let in_flight = info.in_flight_bytes();
        let is_empty = in_flight == 0 && info.unsent_bytes.unwrap_or(0) == 0;
        let left = self.empty_until.filter(|_| in_flight > 0);
        let turned = left.is_some() || is_empty && self.empty_until.is_none();
        if turned || self.is_due(at, info, grain_ns) {
            self.store(at, left, info, send_buffer(), is_empty, out);
        }
        match (is_empty, left) {
            (true, _) => self.empty_until = Some(at),
            (false, Some(_)) => self.empty_until = None,
            // Bytes are queued, and none has left.
            (false, None) => {}
        }
        self.note_troubles(at, info, by, out);
        acknowledged || arrived || !is_empty
    }

    /// Whether the connection's state is due to be stored.
    fn is_due(&self, at: Time, info: &TcpInfo, grain_ns: u64) -> bool {
        let since_ns = at.since(self.stored_at);
        if since_ns < grain_ns {
            return false;
        }
        let values = info.values(None, None);
        let differs = |name: CounterName, times: i64| {
            let now_and_then = values.iter().zip(self.stored).find(|((n, _), _)| *n == name);
            now_and_then.is_some_and(|((_, now), then)| match (now, then) {
                (Some(now), Some(then)) => now.max(&then) > &(now.min(&then) * times),
                (now, _) => now.is_some(),
            })
        };
        since_ns >= SLOW * grain_ns
            || differs(CounterName::TcpCwndBytes, 1)
            || differs(CounterName::TcpReceiveWindowBytes, 2)
            || differs(CounterName::TcpInFlightBytes, 2)
    }

    /// Stores changes of the connection's state. Bytes in flight are stored as 0 only if nothing is queued either, and as
    /// positive from when the first of them `left`.
    fn store(&mut self, at: Time, left: Option<Time>, info: &TcpInfo, send_buffer: Option<u32>, is_empty: bool, out: &mut Vec<Event>) {
        self.stored_at = at;
        for (slot, (name, value)) in self.stored.iter_mut().zip(info.values(send_buffer, None)) {
            let is_in_flight = name == CounterName::TcpInFlightBytes;
            let Some(new) = value.filter(|v| *slot != value && !(is_in_flight && *v == 0 && !is_empty)) else { continue };
            *slot = value;
            let at = left.filter(|_| is_in_flight).unwrap_or(at);
            out.push(counter(self.object, name, at, new));
        }
    }

    /// Records retransmissions as marks on the thread that used the connection last. Retransmissions from connection set-up,
    /// before anyone read the counters, are dated to the connection's beginning.
    fn note_troubles(&mut self, at: Time, info: &TcpInfo, by: Option<TrackId>, out: &mut Vec<Event>) {
        let now = (info.total_retransmits, info.total_timeouts.unwrap_or(0));
        if by.is_none() && self.begun.is_some() {
            return;
        }
        let (Some(before), Some(track)) = (self.troubles.replace(now), by) else { return };
        let at = self.begun.take().unwrap_or(at);
        let again = i64::from(now.0.saturating_sub(before.0)) * i64::from(info.segment_bytes);
        let timeouts = i64::from(now.1.saturating_sub(before.1));
        for (kind, value) in [(MarkKind::TcpRetransmit, again), (MarkKind::TcpTimeout, timeouts)] {
            if value > 0 {
                out.push(Event::Mark(Mark { track, kind, at, object: Some(self.object), value: Some(value) }));
            }
        }
    }

    /// Stores the points still pending.
    pub(super) fn rest(&mut self, out: &mut Vec<Event>) {
        self.acknowledged.store_last(self.object, out);
        self.arrived.store_last(self.object, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAIN_NS: u64 = 1_000_000;

    fn series() -> Series {
        Series::new(ObjectId::new(1).expect("not 0"), None)
    }

    fn at_us(us: i64) -> Time {
        Time::from_monotonic_ns(1_000_000_000 + us * 1000)
    }

    /// The stored points of readings, as (microseconds, TCP info).
    fn stored(readings: &[(i64, TcpInfo)]) -> Vec<(CounterName, i64, i64)> {
        let (mut series, mut out) = (series(), Vec::new());
        for (us, info) in readings {
            series.note((at_us(*us), info), None, GRAIN_NS, || Some(1 << 20), &mut out);
        }
        series.rest(&mut out);
        let row = |event: &Event| match event {
            Event::Counter(c) => Some((c.name, (c.at.ns() - at_us(0).ns()) / 1000, c.value)),
            _ => None,
        };
        out.iter().filter_map(row).collect()
    }

    fn of(name: CounterName, rows: &[(CounterName, i64, i64)]) -> Vec<(i64, i64)> {
        rows.iter().filter(|r| r.0 == name).map(|r| (r.1, r.2)).collect()
    }

    fn arrived(bytes: u64) -> TcpInfo {
        TcpInfo { segment_bytes: 1000, cwnd_segments: 10, received_bytes: Some(bytes), acked_bytes: Some(1), ..TcpInfo::default() }
    }

    fn sent(segments: u32, unsent: u32) -> TcpInfo {
        TcpInfo { unacked_segments: segments, unsent_bytes: Some(unsent), ..arrived(0) }
    }

    #[test]
    fn no_point_is_stored_when_nothing_changed() {
        let once = stored(&[(0, arrived(5))]);
        let often: Vec<(i64, TcpInfo)> = (0..100).map(|n| (n * 1000, arrived(5))).collect();
        assert_eq!(stored(&often), once);
    }

    #[test]
    fn both_ends_of_a_pause_are_stored_and_points_between_as_far_apart_as_the_grain() {
        let mut readings: Vec<(i64, TcpInfo)> = (0..=40).map(|n| (n * 50, arrived(100 * n as u64))).collect();
        readings.extend((1..10).map(|n| (2000 + n * 1000, arrived(4000))));
        readings.push((12_000, arrived(4100)));
        let rows = stored(&readings);
        assert_eq!(of(CounterName::TcpReceivedBytes, &rows), [(0, 0), (1000, 2000), (2000, 4000), (12_000, 4100)]);
    }

    #[test]
    fn bytes_are_in_flight_from_when_they_left_and_none_only_when_none_waits() {
        let rows = stored(&[
            (0, sent(0, 0)),
            (900, sent(0, 0)),
            (1500, sent(3, 7)),
            (1600, sent(0, 7)),
            (3000, sent(0, 7)),
            (4000, sent(1, 0)),
            (4200, sent(0, 0)),
        ]);
        let in_flight = of(CounterName::TcpInFlightBytes, &rows);
        assert_eq!(in_flight, [(0, 0), (900, 3000), (4000, 1000), (4200, 0)]);
    }

    #[test]
    fn what_was_sent_again_is_a_mark_and_what_was_before_is_none() {
        let (mut series, mut out) = (series(), Vec::new());
        let info = |again, timeouts| TcpInfo { total_retransmits: again, total_timeouts: Some(timeouts), ..sent(1, 0) };
        for (us, info) in [(0, info(7, 1)), (10, info(7, 1)), (20, info(9, 2))] {
            series.note((at_us(us), &info), TrackId::new(3), GRAIN_NS, || None, &mut out);
        }
        let marks: Vec<_> = out.iter().filter_map(|e| if let Event::Mark(m) = e { Some((m.kind, m.value)) } else { None }).collect();
        assert_eq!(marks, [(MarkKind::TcpRetransmit, Some(2000)), (MarkKind::TcpTimeout, Some(1))]);
    }

    #[test]
    fn what_was_sent_again_while_a_recorded_connection_came_about_is_at_its_beginning() {
        let begun = at_us(-300_000);
        let (mut series, mut out) = (Series::new(ObjectId::new(1).expect("not 0"), Some(begun)), Vec::new());
        let info = TcpInfo { total_retransmits: 1, total_timeouts: Some(1), ..sent(1, 0) };
        // First read before any thread used it.
        for (us, by) in [(0, None), (10, TrackId::new(3)), (20, TrackId::new(3))] {
            series.note((at_us(us), &info), by, GRAIN_NS, || None, &mut out);
        }
        let marks: Vec<_> = out.iter().filter_map(|e| if let Event::Mark(m) = e { Some((m.kind, m.at, m.value)) } else { None }).collect();
        assert_eq!(marks, [(MarkKind::TcpRetransmit, begun, Some(1000)), (MarkKind::TcpTimeout, begun, Some(1))]);
    }
}
