//! The network cause of an interval in which both ends wait and bytes are in flight. Decided from TCP's record at the sending end:
//! retransmissions (marks) and windows (counters), per connection and end.

use crate::ExplainError;
use crate::cause::{Cause, End};
use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::paths::{self, Measured};
use crate::observe::quantile;
use crate::observe::series::{Series, any_within, at, between, grew, most, widest_from};
use crate::observe::stalls::{Stall, Stalls};
use crate::observe::tables::Tables;
pub(crate) use crate::observe::transit::{InFlight, Near, Transit, UnderWay};
use crate::observe::unrecorded_end::Outside;
use crate::rule::RuleId;
use std::collections::{BTreeMap, HashMap};
use thalweg_trace::{CounterName, CounterOf, MarkKind, Source};

/// The series that a counter belongs to.
type SeriesOf = fn(&mut TcpSeries) -> &mut Series;

/// TCP's marks and counters at one end of one connection.
#[derive(Debug, Default)]
struct TcpSeries {
    /// Times of retransmissions.
    retransmits: Vec<i64>,
    /// Times the retransmission timer expired.
    timeouts: Vec<i64>,
    /// Times the peer's window closed.
    zero_windows: Vec<i64>,
    /// Times the connection request was sent again.
    asked_again: Vec<i64>,
    /// Times TCP sent again after a pause, with a smaller congestion window.
    restarts: Vec<i64>,
    /// Intervals after losses in which the window was below its former width.
    recoveries: Vec<(i64, i64)>,
    cwnd: Series,
    in_flight: Series,
    receive_window: Series,
    send_buffer: Series,
    srtt_us: Series,
    min_rtt_us: Series,
    unsent: Series,
    unread: Series,
    busy_us: Series,
    rwnd_limited_us: Series,
    sndbuf_limited_us: Series,
    outside: Outside,
    least_rtt_us: Option<i64>,
    /// The widest that the peer's window becomes from an instant on.
    widest_from: Series,
    widest_buffer: i64,
}

/// By connection and sender: the usual time, so far, until messages are picked up.
pub(crate) type UsualLags = HashMap<(u32, End), u64>;

/// TCP's record of all connections: `[connection][end]`.
#[derive(Debug)]
pub(crate) struct WireFacts {
    series: Vec<[TcpSeries; 2]>,
    /// By connection: least round trip of its path, in microseconds.
    paths_us: Vec<Option<i64>>,
    /// TCP's own stalls.
    pub stalls: Stalls,
    /// By connection: threads of the listening processes that had not accepted it.
    pub not_accepted: BTreeMap<u32, Vec<u32>>,
}

impl TcpSeries {
    /// Sorts the marks, and removes retransmissions due to a full receiver: they are no losses.
    fn leave_out_probes(&mut self) {
        self.zero_windows.sort_unstable();
        let closed = &self.zero_windows;
        for marks in [&mut self.retransmits, &mut self.timeouts] {
            marks.sort_unstable();
            marks.retain(|&at| !any_within(closed, at - limits::PROBE_AFTER_NS, at));
        }
    }

    /// Finds the intervals after losses in which the congestion window was smaller: until it recovered, if it no longer grew or the loss
    /// was a full queue's; else to the end, since a loss ends slow start (RFC 5681; CUBIC, RFC 9438).
    fn find_recoveries(&mut self) {
        let mut losses: Vec<i64> = self.retransmits.iter().chain(&self.timeouts).copied().collect();
        losses.sort_unstable();
        let mut until = i64::MIN;
        for loss in losses {
            if loss <= until {
                continue;
            }
            let before = self.cwnd.partition_point(|&(t, _)| t <= loss);
            let since = self.cwnd[..before].partition_point(|&(t, _)| t <= until);
            let Some(widest) = self.cwnd[since..before].iter().map(|&(_, v)| v).max() else { continue };
            let reduced = self.cwnd[before..].iter().position(|c| c.1 < widest).map(|i| before + i);
            // A window that stays as wide through the next few acknowledgements was not reduced for this loss.
            let Some(reduced) = reduced.filter(|i| i - before < limits::REDUCED_WITHIN) else { continue };
            let recovered = self.cwnd[reduced..].iter().find(|c| c.1 * 20 >= widest * limits::RECOVERED_TWENTIETHS);
            until = recovered.filter(|_| self.queueing(loss) || self.stood(loss, widest)).map_or(i64::MAX, |c| c.0);
            self.recoveries.push((loss, until));
        }
    }

    /// Whether the congestion window had been about this wide for some round trips.
    fn stood(&self, instant: i64, widest: i64) -> bool {
        let round_trips_ns = at(&self.srtt_us, instant).unwrap_or(0) * 1000 * limits::STANDS_ROUND_TRIPS;
        at(&self.cwnd, instant - round_trips_ns).is_some_and(|before| before * 20 >= widest * limits::RECOVERED_TWENTIETHS)
    }

    fn recovering(&self, instant: i64) -> bool {
        let after = self.recoveries.partition_point(|r| r.0 <= instant);
        after.checked_sub(1).is_some_and(|i| self.recoveries[i].1 >= instant)
    }

    /// Until when the congestion window is below its width before an instant.
    fn narrow_until(&self, since: i64) -> i64 {
        let before = at(&self.cwnd, since - 1).unwrap_or(0);
        let after = self.cwnd.partition_point(|&(t, _)| t <= since);
        self.cwnd[after..].iter().find(|c| c.1 >= before).map_or(i64::MAX, |c| c.0)
    }

    /// Whether TCP restarted after a pause, with a congestion window below its former width.
    fn restarted(&self, start: i64, end: i64) -> bool {
        let after = self.restarts.partition_point(|&at| at <= end);
        let restart = after.checked_sub(1).and_then(|i| self.restarts.get(i));
        restart.is_some_and(|&restart| restart >= start || end <= self.narrow_until(restart))
    }

    /// Whether segments wait in queues: the round trip is well above its least. After a loss, more than a few segments must also be in
    /// flight above what the path holds: with a small window, delayed acknowledgements make round trips equally long.
    fn queueing(&self, instant: i64) -> bool {
        let (Some(now), Some(least)) = (at(&self.srtt_us, instant), self.least_rtt_us) else { return false };
        let is_long = now * 2 > least * limits::QUEUE_HALVES && now - least > limits::LEAST_PATH_US;
        let loses = self.retransmits.first().is_some_and(|&first| first <= instant);
        let queued = || most(&self.in_flight, instant - now * 1000, instant).map(|bytes| bytes * (now - least) / now);
        is_long && (!loses || queued().is_none_or(|bytes| bytes >= limits::QUEUED_BYTES))
    }

    /// Whether a time is many round trips of that instant.
    fn is_far_longer(&self, ns: u64, instant: i64) -> bool {
        at(&self.srtt_us, instant).is_some_and(|us| ns > limits::STALL_TIMES * 1000 * us.max(0) as u64)
    }

    /// The part of TCP's busy time around an interval during which this limited it.
    fn limited_by(&self, series: &Series, start: i64, end: i64) -> f64 {
        // The kernel counts in ticks of up to 10 ms.
        let (start, end) = (start - limits::TICKS_NS, end + limits::TICKS_NS);
        let grew = |s: &Series| Some(between(s, end)? - between(s, start)?);
        match (grew(series), grew(&self.busy_us)) {
            (Some(limited), Some(busy)) if busy > 0.0 => limited / busy,
            _ => 0.0,
        }
    }

    /// Whether the window is at its limit: as wide as it will ever be. A window that grows with the transfer is part of its start; one
    /// offered wider before any data came, and reduced to what the buffer holds, is at its limit.
    fn window_stands(&self, start: i64, end: i64) -> bool {
        let from = self.widest_from.partition_point(|&(t, _)| t < start);
        let widest = self.widest_from.get(from).map_or(0, |&(_, widest)| widest);
        most(&self.receive_window, start, end).is_some_and(|w| w > 0 && w * 10 >= widest * limits::STANDS_TENTHS)
    }

    /// Whether the send buffer is at its limit.
    fn buffer_stands(&self, end: i64) -> bool {
        at(&self.send_buffer, end).is_none_or(|b| b * 10 >= self.widest_buffer * limits::STANDS_TENTHS)
    }

    /// Whether bytes waited at the sender for TCP to send them: some were unsent, or in hand for longer than a transit takes.
    fn backlogged(&self, way: &Transit) -> bool {
        let unsent = most(&self.unsent, way.start, way.end).is_some_and(|b| b > 0);
        let long = match (way.sent, self.least_rtt_us) {
            (Some(sent), Some(rtt)) => way.end - sent > rtt * 1000,
            _ => false,
        };
        way.bytes == u64::MAX || unsent || long
    }

    /// The limit of TCP's own that delays the sender, if any.
    fn limit(&self, way: &Transit) -> Option<(Cause, RuleId)> {
        let (start, end) = (way.start, way.end);
        if any_within(&self.timeouts, start, end) || any_within(&self.asked_again, start, end) {
            return Some((Cause::NetworkLoss, RuleId::WireTimeout));
        }
        let queueing = self.queueing(end);
        // A full link drops what does not fit in its queue: that is its bandwidth.
        if !queueing && any_within(&self.retransmits, start, end) {
            return Some((Cause::NetworkLoss, RuleId::WireRetransmit));
        }
        let backlogged = self.backlogged(way);
        if queueing || !backlogged && (way.bytes < limits::SMALL_BYTES || self.fits_latency(way)) {
            return None;
        }
        let by_buffer = self.limited_by(&self.sndbuf_limited_us, start, end) >= limits::LIMITED_PART;
        if by_buffer && self.buffer_stands(end) {
            return Some((Cause::NetworkSndbuf, RuleId::WireSndbuf));
        }
        let by_window = self.limited_by(&self.rwnd_limited_us, start, end) >= limits::LIMITED_PART;
        if by_window && self.window_stands(start, end) {
            return Some((Cause::NetworkRwnd, RuleId::WireRwnd));
        }
        let round_trip_ns = at(&self.srtt_us, end).or(self.least_rtt_us).unwrap_or(0) * limits::IN_FLIGHT_NS_PER_US;
        let in_flight = most(&self.in_flight, start.min(end - round_trip_ns), end).filter(|&b| b > 0)?;
        let reaches = |limit: Option<i64>, tenths: i64| limit.is_some_and(|l| l > 0 && in_flight * 10 >= l * tenths);
        // getsockopt reports twice the payload capacity.
        let fills_buffer = reaches(at(&self.send_buffer, end).map(|b| b / 2), limits::FILLED_TENTHS);
        let fills_window = reaches(at(&self.receive_window, end), limits::FILLED_TENTHS);
        if fills_buffer && self.buffer_stands(end) {
            Some((Cause::NetworkSndbuf, RuleId::WireSndbuf))
        } else if fills_window && self.window_stands(start, end) {
            Some((Cause::NetworkRwnd, RuleId::WireRwnd))
        } else if self.recovering(end) && !self.restarted(start, end) && reaches(at(&self.cwnd, end), limits::CWND_TENTHS) {
            Some((Cause::NetworkLoss, RuleId::WireRecovering))
        } else if reaches(at(&self.cwnd, end), limits::CWND_TENTHS)
            || self.restarted(start, end)
            || self.is_path() && (by_window || by_buffer || fills_window || fills_buffer)
        {
            // All of TCP's windows grow together until the path is full.
            Some((Cause::NetworkCwnd, RuleId::WireCwnd))
        } else {
            None
        }
    }

    /// Whether much of this end's own was unacknowledged nearly all the time: the other end could not answer yet.
    fn asks_throughout(&self, start: i64, end: i64) -> bool {
        let bytes = most(&self.in_flight, start, end).unwrap_or(0).saturating_add(most(&self.unsent, start, end).unwrap_or(0));
        let busy_us = between(&self.busy_us, end).zip(between(&self.busy_us, start)).map_or(0.0, |(to, from)| to - from);
        bytes >= limits::SMALL_BYTES as i64 && busy_us * 1e3 >= limits::ASKS_PART * (end - start) as f64
    }

    /// Whether the round trip is long enough for windows to matter.
    fn is_path(&self) -> bool {
        self.least_rtt_us.is_some_and(|rtt| rtt >= limits::LEAST_PATH_US)
    }

    /// Whether the wait was for the connection itself, not for room: TCP had measured nothing yet, and it took one round trip.
    fn comes_about(&self, way: &Transit) -> bool {
        let measured = self.srtt_us.first().is_some_and(|&(first, _)| first > way.start);
        measured && way.bytes == u64::MAX && self.least_rtt_us.is_some_and(|rtt| way.length_ns() <= rtt * limits::TRANSIT_NS_PER_US)
    }

    /// Whether a transit is no longer than the path's round trip allows.
    fn fits_latency(&self, way: &Transit) -> bool {
        self.least_rtt_us.is_some_and(|rtt| rtt >= limits::LEAST_PATH_US && way.length_ns() <= rtt * limits::TRANSIT_NS_PER_US)
            && way.bytes != u64::MAX
    }
}

/// The end whose series a counter or mark belongs to; both, if its object does not say.
pub(super) fn ends(tables: &mut Tables, object: u64) -> (u32, [bool; 2]) {
    let object = tables.object_rows.get(object);
    let Some(object) = tables.objects.get(object as usize) else { return (NONE, [false; 2]) };
    let ends = object.connection_end.map_or([true; 2], |e| [e == End::Client, e == End::Server]);
    (object.connection, ends)
}

/// Completes the figures of an end that was not recorded by those of the other.
fn derive(both: &mut [TcpSeries; 2]) {
    for (sender, receiver) in [(0, 1), (1, 0)] {
        if !both[sender].in_flight.is_empty() {
            continue;
        }
        let Some(derived) = both[sender].outside.derived(&both[receiver].outside, &both[sender].cwnd) else { continue };
        let (min_rtt_us, tcp) = (both[receiver].min_rtt_us.clone(), &mut both[sender]);
        (tcp.in_flight, tcp.unsent, tcp.receive_window) = (derived.in_flight, derived.unsent, derived.receive_window);
        (tcp.srtt_us, tcp.min_rtt_us) = (derived.srtt_us, min_rtt_us);
        tcp.retransmits.extend(derived.retransmits);
    }
}

/// The counters of a connection, each with its series.
fn counted() -> [(CounterName, SeriesOf); 17] {
    [
        (CounterName::TcpCwndBytes, |s| &mut s.cwnd),
        (CounterName::TcpInFlightBytes, |s| &mut s.in_flight),
        (CounterName::TcpReceiveWindowBytes, |s| &mut s.receive_window),
        (CounterName::TcpSendBufferBytes, |s| &mut s.send_buffer),
        (CounterName::TcpSrttUs, |s| &mut s.srtt_us),
        (CounterName::TcpMinRttUs, |s| &mut s.min_rtt_us),
        (CounterName::TcpUnsentBytes, |s| &mut s.unsent),
        (CounterName::TcpUnreadBytes, |s| &mut s.unread),
        (CounterName::TcpBusyUs, |s| &mut s.busy_us),
        (CounterName::TcpReceiveWindowLimitedUs, |s| &mut s.rwnd_limited_us),
        (CounterName::TcpSendBufferLimitedUs, |s| &mut s.sndbuf_limited_us),
        (CounterName::TcpSsthreshBytes, |s| &mut s.outside.ssthresh),
        (CounterName::TcpQueuedBytes, |s| &mut s.outside.queued),
        (CounterName::TcpAcceptQueued, |s| &mut s.outside.not_accepted),
        (CounterName::TcpOfferedWindowBytes, |s| &mut s.outside.offered_window),
        (CounterName::TcpReceiveRttUs, |s| &mut s.outside.receive_rtt_us),
        (CounterName::TcpOutOfOrder, |s| &mut s.outside.out_of_order),
    ]
}

impl WireFacts {
    /// Reads marks and counters.
    pub(crate) fn read(source: &dyn Source, tables: &mut Tables) -> Result<WireFacts, ExplainError> {
        let mut all: Vec<[TcpSeries; 2]> = tables.connections.iter().map(|_| Default::default()).collect();
        let mut stalls = Stalls::default();
        let mut not_accepted: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for mark in source.marks()? {
            let Some(object) = mark.object else { continue };
            let (connection, ends) = ends(tables, object.number());
            let Some(both) = all.get_mut(connection as usize) else { continue };
            let side = tables.objects[tables.object_rows.get(object.number()) as usize].connection_end;
            stalls.note(&mark, (connection, side), &tables.objects[tables.object_rows.get(object.number()) as usize].name);
            if mark.kind == MarkKind::TcpNotAccepted {
                not_accepted.entry(connection).or_default().push(tables.tracks.get(mark.track.number()));
            }
            for (tcp, _) in both.iter_mut().zip(ends).filter(|(_, of)| *of) {
                match mark.kind {
                    MarkKind::TcpRetransmit => tcp.retransmits.push(mark.at.ns()),
                    MarkKind::TcpTimeout => tcp.timeouts.push(mark.at.ns()),
                    MarkKind::TcpZeroWindow => tcp.zero_windows.push(mark.at.ns()),
                    MarkKind::TcpSynRetransmit => tcp.asked_again.push(mark.at.ns()),
                    MarkKind::TcpIdleRestart => tcp.restarts.push(mark.at.ns()),
                    _ => {}
                }
            }
        }
        for (name, series) in counted() {
            for counter in source.counters(name)? {
                let CounterOf::Object(object) = counter.of else { continue };
                let (connection, ends) = ends(tables, object.number());
                let Some(both) = all.get_mut(connection as usize) else { continue };
                for (tcp, _) in both.iter_mut().zip(ends).filter(|(_, of)| *of) {
                    series(tcp).push((counter.at.ns(), counter.value));
                }
            }
        }
        all.iter_mut().for_each(derive);
        for tcp in all.iter_mut().flatten() {
            tcp.leave_out_probes();
            let least = |s: &Series| s.iter().map(|&(_, v)| v).filter(|&v| v > 0).min();
            tcp.least_rtt_us = least(&tcp.min_rtt_us).or_else(|| least(&tcp.srtt_us));
            tcp.widest_from = widest_from(&tcp.receive_window);
            tcp.widest_buffer = tcp.send_buffer.iter().map(|&(_, v)| v).max().unwrap_or(0);
            tcp.find_recoveries();
        }
        for (connection, tcp) in all.iter().enumerate().flat_map(|(c, both)| both.iter().map(move |tcp| (c as u32, tcp))) {
            tcp.restarts.iter().for_each(|&since| stalls.lasts(connection, since, tcp.narrow_until(since)));
        }
        stalls.settle();
        let measured = |both: &[TcpSeries; 2]| Measured {
            least_us: both.iter().filter_map(|s| s.least_rtt_us).min(),
            is_smoothed: both.iter().all(|s| s.min_rtt_us.is_empty()),
        };
        let paths_us = paths::least_us(tables, &all.iter().map(measured).collect::<Vec<_>>());
        Ok(WireFacts { series: all, paths_us, stalls, not_accepted })
    }

    fn of(&self, connection: u32, end: End) -> Option<&TcpSeries> {
        self.series.get(connection as usize).map(|both| &both[end as usize])
    }

    /// The bytes in flight of one end of a connection in these intervals, in order of time, and its limits, each from the median reading;
    /// `None` if TCP recorded none.
    pub(crate) fn under_way(&self, connection: u32, sender: End, intervals: &[(i64, i64)]) -> Option<UnderWay> {
        let tcp = self.of(connection, sender)?;
        let usual = |series: &Series| {
            let mut values: Vec<i64> = intervals.iter().filter_map(|&(from, to)| most(series, from, to)).filter(|&v| v > 0).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied()
        };
        Some(UnderWay {
            in_flight_bytes: usual(&tcp.in_flight)?,
            window_bytes: usual(&tcp.receive_window),
            buffer_bytes: usual(&tcp.send_buffer),
            cwnd_bytes: usual(&tcp.cwnd),
            round_trip_us: self.path_us(connection),
        })
    }

    /// Whether a sender retransmitted nothing in most of the time of these intervals.
    pub(crate) fn mostly_undisturbed(&self, connection: u32, sender: End, intervals: &[(i64, i64)]) -> bool {
        let Some(tcp) = self.of(connection, sender) else { return false };
        let marks = [&tcp.retransmits, &tcp.timeouts, &tcp.asked_again];
        let again = |&&(from, to): &&(i64, i64)| marks.iter().any(|marks| any_within(marks, from, to));
        let disturbed: i64 = intervals.iter().filter(again).map(|&(from, to)| to - from).sum();
        disturbed * 2 < intervals.iter().map(|&(from, to)| to - from).sum::<i64>()
    }

    /// The cause of an interval in which bytes were in flight on a connection and both ends waited.
    pub(crate) fn cause(&self, way: &Transit) -> Cause {
        self.decided(way).0
    }

    /// The cause of such an interval, and its rule.
    pub(crate) fn decided(&self, way: &Transit) -> (Cause, RuleId) {
        const LATENCY: (Cause, RuleId) = (Cause::NetworkLatency, RuleId::WireLatency);
        const BANDWIDTH: (Cause, RuleId) = (Cause::NetworkBandwidth, RuleId::WireBandwidth);
        let by_size = if way.bytes < limits::SMALL_BYTES { LATENCY } else { BANDWIDTH };
        let Some(tcp) = self.of(way.connection, way.sender) else { return by_size };
        if tcp.comes_about(way) {
            return LATENCY;
        }
        if let Some(limit) = tcp.limit(way) {
            return limit;
        }
        // If the bytes' size is unknown, TCP's own amounts show it.
        let in_hand = |series| most(series, way.start, way.end).unwrap_or(0);
        let queueing = tcp.queueing(way.end);
        let by_hand = match way.bytes {
            0 if in_hand(&tcp.in_flight).max(in_hand(&tcp.unsent)) >= limits::SMALL_BYTES as i64 => BANDWIDTH,
            // Behind a queue, the link is waited for, however short the transit: several connections may share it.
            bytes if bytes >= limits::SMALL_BYTES && tcp.fits_latency(way) && !queueing => LATENCY,
            _ => by_size,
        };
        let queue = by_hand.0 == Cause::NetworkBandwidth && queueing;
        (by_hand.0, if queue { RuleId::WireQueue } else { by_hand.1 })
    }

    /// The stall that delayed a connection's setup in this time, and its direction. Everything either end sent again by its end, greetings
    /// too, belongs to it; unless there were counters before, which belong to an earlier connection between the same two ports.
    pub(crate) fn connecting(&self, connection: u32, (start, end): (i64, i64)) -> Option<(Stall, End)> {
        if let Some(stall) = self.stalls.connecting(connection, start, end) {
            return Some((stall, End::Client));
        }
        let lost = |side: &End| {
            self.of(connection, *side).is_some_and(|tcp| {
                let from = if tcp.cwnd.first().is_some_and(|&(at, _)| at < start) { start } else { i64::MIN };
                any_within(&tcp.timeouts, from, end) || any_within(&tcp.retransmits, from, end)
            })
        };
        [End::Client, End::Server].into_iter().find(lost).map(|side| (Stall::LostRequest, side))
    }

    /// For a wait whose other end was not recorded: the network's cause, by TCP's record at this end; `None` if it is the other end's.
    /// `for_room`: this end waits to send, else to receive; `asked`: it had just sent something.
    pub(crate) fn seen_from_one_end(&self, way: &Transit, for_room: bool, asked: bool) -> Option<Cause> {
        let tcp = self.of(way.connection, way.sender)?;
        if !for_room {
            // As far as this end can know, only its own sends can have been lost.
            let lost = asked && (any_within(&tcp.timeouts, way.start, way.end) || any_within(&tcp.retransmits, way.start, way.end));
            if lost || !tcp.asks_throughout(way.start, way.end) {
                return lost.then_some(Cause::NetworkLoss);
            }
        }
        let before = most(&tcp.receive_window, i64::MIN, way.start).unwrap_or(0);
        let closed = most(&tcp.receive_window, way.start, way.end).is_some_and(|w| w * 2 < before);
        match tcp.limit(way) {
            Some((Cause::NetworkLoss, _)) => Some(Cause::NetworkLoss),
            // It has been wider: the other end does not read.
            _ if closed => None,
            Some((limit, _)) => Some(limit),
            None if tcp.comes_about(way) => Some(Cause::NetworkLatency),
            None if tcp.queueing(way.end) => Some(Cause::NetworkBandwidth),
            None => None,
        }
    }

    /// For a wait for bytes of an end that was not recorded, but of which TCP's figures were read: since when it had given them to TCP,
    /// and the network's cause, and whether that is certain; `None` if it had not, or nothing was read.
    pub(crate) fn given_to_tcp(&self, connection: u32, sender: End, (start, end): (i64, i64)) -> Option<(i64, Cause, bool)> {
        let tcp = self.of(connection, sender)?;
        let since = tcp.outside.has_bytes_since(start, end)?;
        // More was waiting than fitted.
        let is_stream = most(&tcp.unsent, since, end).is_some_and(|bytes| bytes > 0);
        let in_flight = most(&tcp.in_flight, since, end).unwrap_or(0).max(0) as u64;
        let bytes = if is_stream { u64::MAX } else { in_flight };
        let cause = self.cause(&Transit { connection, sender, start: since, end, bytes, sent: None });
        let round_trips_ns = at(&tcp.srtt_us, end).unwrap_or(0) * 1000 * limits::STANDS_ROUND_TRIPS;
        // A reduced window may be that of losses, or of a queue that was full before the connection began; one that stands limits nothing: it
        // would grow.
        let is_certain = match cause {
            Cause::NetworkCwnd => !tcp.outside.reduced(end) && grew(&tcp.cwnd, end, (round_trips_ns, limits::GREW_READINGS)),
            Cause::NetworkLatency => !tcp.outside.reduced(end),
            _ => true,
        };
        Some((since, cause, is_certain))
    }

    /// For a wait for bytes: since when a segment was missing while later ones had arrived.
    pub(crate) fn missing_since(&self, connection: u32, receiver: End, (start, end): (i64, i64)) -> Option<i64> {
        let gaps = self.of(connection, receiver)?.outside.gaps();
        gaps.into_iter().find(|&at| at > start && at < end)
    }

    /// Whether a connection was asked for again in an interval, because the request was lost: its first figures once established include that,
    /// and its listener, read meanwhile, had nothing to accept.
    pub(crate) fn lost_on_the_way(&self, connection: u32, (start, end): (i64, i64)) -> bool {
        let Some([client, server]) = self.series.get(connection as usize) else { return false };
        let Some(&(established, _)) = client.srtt_us.iter().find(|&&(_, us)| us > 0) else { return false };
        let requested = client.srtt_us.iter().any(|&(at, us)| us == 0 && at >= start && at <= end);
        let again = [&client.asked_again, &client.timeouts, &client.retransmits].iter().any(|marks| any_within(marks, start, established));
        let listener = &server.outside.not_accepted;
        requested && again && !listener.is_empty() && listener.iter().all(|&(_, waiting)| waiting == 0)
    }

    /// The least round trip measured at this end (or the other), if there is a path at all.
    pub(crate) fn least_round_trip_ns(&self, connection: u32, end: End) -> Option<i64> {
        let other = if end == End::Client { End::Server } else { End::Client };
        let least = |end| self.of(connection, end).and_then(|s| s.least_rtt_us);
        least(end).or_else(|| least(other)).filter(|&us| us >= limits::LEAST_PATH_US).map(|us| us * 1000)
    }

    /// The reported round trip of a connection's path, in microseconds.
    fn path_us(&self, connection: u32) -> Option<i64> {
        self.paths_us.get(connection as usize).copied().flatten()
    }

    /// The round trip of each connection's path, in nanoseconds, if there is a path at all.
    pub(crate) fn round_trips(&self) -> Vec<Option<i64>> {
        self.paths_us.iter().map(|us| us.filter(|&us| us >= limits::LEAST_PATH_US).map(|us| us * 1000)).collect()
    }

    /// A sender's bytes in flight, if TCP recorded them: `part` is the part of the readings that counts as usual and is not the
    /// connection's start.
    pub(crate) fn in_flight(&self, connection: u32, sender: End, part: f64) -> Option<InFlight> {
        let series = &self.of(connection, sender)?.in_flight;
        let mut values: Vec<u64> = series.iter().filter_map(|&(_, bytes)| u64::try_from(bytes).ok()).filter(|&bytes| bytes > 0).collect();
        let beginning = values.len() - (values.len() as f64 * part).ceil() as usize;
        let settled = values[beginning..].iter().copied().max()?;
        values.sort_unstable();
        Some(InFlight { most: *values.last()?, settled, usual: quantile::of_sorted(&values, part)? })
    }

    /// Longest time that the network can have taken for this cause from `start` to `end`, by TCP's figures; `None` if they do not show it.
    /// A transit takes its round trips; what fills a window goes window by window; a link carries as long as there was something to carry.
    pub(crate) fn longest_ns(&self, cause: Cause, connection: u32, (start, end): (i64, i64)) -> Option<i64> {
        let both = self.series.get(connection as usize)?;
        let of = |series: fn(&TcpSeries) -> &Series| both.iter().filter_map(|s| most(series(s), start, end)).max();
        let round_trip_us = of(|s| &s.srtt_us).max(both.iter().filter_map(|s| s.least_rtt_us).max());
        let round_trips_ns = round_trip_us.map(|us| us.max(0).saturating_mul(limits::LONGEST_NS_PER_US));
        match cause {
            Cause::NetworkLoss => Some(i64::MAX),
            Cause::NetworkLatency => round_trips_ns,
            Cause::NetworkBandwidth => {
                let to_carry = of(|s| &s.unsent).max(of(|s| &s.in_flight)).unwrap_or(0) > 0;
                let carries = to_carry || both.iter().any(|s| s.queueing(end));
                round_trips_ns.map(|ns| if carries { i64::MAX } else { ns })
            }
            _ => {
                let window = of(|s| &s.in_flight).unwrap_or(0).max(limits::SMALL_BYTES as i64 / 4);
                let waiting = of(|s| &s.unsent).unwrap_or(0).max(limits::HANDED_BYTES);
                round_trips_ns.map(|ns| ns.saturating_mul(2 + waiting / window))
            }
        }
    }

    /// Whether a connection's least round trip is within one machine, so that there is no path at all; `None` if unknown.
    pub(crate) fn is_no_path(&self, connection: u32) -> Option<bool> {
        Some(self.least_us(connection)? < limits::LEAST_PATH_US)
    }

    /// Longest time of a transit within one machine, by the least round trip; `None` if there is a path, or it is unknown.
    pub(crate) fn within_kernel_ns(&self, connection: u32) -> Option<i64> {
        let us = self.least_us(connection).filter(|&us| us < limits::LEAST_PATH_US)?;
        Some(us.saturating_mul(limits::LONGEST_NS_PER_US))
    }

    fn least_us(&self, connection: u32) -> Option<i64> {
        let both = self.series.get(connection as usize)?;
        both.iter().flat_map(|s| &s.min_rtt_us).map(|&(_, us)| us).filter(|&us| us > 0).min()
    }

    /// Whether any bytes were in flight on a connection in an interval, or waited to be; `None` if not recorded.
    pub(crate) fn has_under_way(&self, connection: u32, (start, end): (i64, i64)) -> Option<bool> {
        let both = self.series.get(connection as usize)?;
        let bytes = both.iter().flat_map(|s| [&s.in_flight, &s.unsent]).filter_map(|series| most(series, start, end));
        bytes.reduce(i64::max).map(|bytes| bytes > 0)
    }

    /// Whether one end of a connection had unread bytes in an interval; `None` if not recorded.
    pub(crate) fn had_unread(&self, connection: u32, side: End, (start, end): (i64, i64)) -> Option<bool> {
        most(&self.of(connection, side)?.unread, start, end).map(|bytes| bytes > 0)
    }

    /// Whether a message that took this long to be picked up waited for a stopped receiver: on one machine nothing else delays a message
    /// for long, unless there is an artificial slow or long path, which round trips show. Updates the usual time.
    pub(crate) fn is_stall(&self, way: &Transit, near: Near, usual: &mut UsualLags) -> bool {
        let Some(both) = self.series.get(way.connection as usize) else { return false };
        let lag_ns = way.length_ns() as u64;
        let loopback = near == Near::Loopback && self.is_no_path(way.connection) == Some(true);
        // Processors alone lengthen a loopback's round trips; a queue would have delayed the message for about as long as these.
        let in_queue = |s: &TcpSeries| s.queueing(way.end) && !(loopback && s.is_far_longer(lag_ns, way.end));
        let slow_path = both.iter().any(|s| s.least_rtt_us.is_some_and(|us| us >= limits::SLOW_PATH_US) || in_queue(s));
        let lags = (way.connection, way.sender);
        let known = usual.get(&lags).copied();
        let bytes_per_s = way.bytes as f64 * 1e9 / lag_ns.max(1) as f64;
        let least = if loopback { limits::STALL_WITHIN_BYTES_PER_S } else { limits::STALL_BYTES_PER_S };
        let slow = way.bytes < limits::SMALL_BYTES || bytes_per_s < least;
        let stall = near != Near::No
            && !slow_path
            && lag_ns >= limits::STALL_NS
            && lag_ns > limits::STALL_TIMES * known.unwrap_or(0).max(limits::USUAL_LAG_NS)
            && slow
            && self.cause(way) != Cause::NetworkLoss;
        if !stall {
            usual.insert(lags, known.map_or(lag_ns, |u| u - u / 8 + lag_ns / 8));
        }
        stall
    }
}
