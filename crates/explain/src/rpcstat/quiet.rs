//! Quiet intervals, with nothing in transit, and those among them that are stalls.
//!
//! While nothing moves, an end is waited for. If the pending queue is as full as the client allows, it is the server; if it is empty, the
//! client; in between, the next event decides: a reply or a call was waited for. If a message stopped in transit, the cause is a receiver
//! that closed its window, a network that lost a part of it, or its sender. A stall is a quiet interval that is long compared with the
//! others.

use super::document::{EndedBy, MAX_STALLS, Queue, Quiet, Stall, Stalls, StallsBy, WaitInterval, Who};
use super::over_time::OverTime;
use super::sweep::{Edge, State};
use super::waits::{Waits, waited_for};
use crate::limits::rpcstat as limits;
use crate::observe::curve::Curve;
use crate::observe::quantile::of_sorted;
use std::collections::HashSet;
use thalweg_trace::{Mark, MarkKind};

/// One quiet interval.
#[derive(Clone, Copy, Debug)]
struct Interval {
    from_ns: i64,
    to_ns: i64,
    pending: u64,
    /// Whether only calls that are never answered were pending.
    in_vain: bool,
    ended_by: EndedBy,
    /// The RPC of the next message.
    request: u64,
    /// Whether that message had begun before.
    within_message: bool,
}

impl Interval {
    fn ns(&self) -> u64 {
        (self.to_ns - self.from_ns) as u64
    }
}

/// All quiet intervals.
#[derive(Debug)]
pub(super) struct QuietIntervals {
    open: Option<Interval>,
    next: (EndedBy, u64),
    /// Pending calls; and those of them being sent again.
    pending: HashSet<u64>,
    again: HashSet<u64>,
    kept: Vec<Interval>,
    least_ns: u64,
    /// Intervals not kept, by pending calls: none, some; and by the next event.
    rest_empty_ns: u64,
    rest_reply_ns: u64,
    rest_call_ns: u64,
    rest_in_vain_ns: u64,
    /// All of them by cause, over time.
    pub whose: QuietByCause,
    waits: Waits,
}

/// The summary of quiet intervals.
#[derive(Debug)]
pub(super) struct Summary {
    pub quiet: Quiet,
    pub stalls: Stalls,
    pub waits: Vec<WaitInterval>,
    pub whose: QuietByCause,
}

/// Quiet time over time, by cause.
#[derive(Clone, Debug)]
pub(super) struct QuietByCause {
    pub server: Curve,
    pub client: Curve,
    pub network: Curve,
    /// Unknown: calls were pending that were never answered.
    pub unanswered: Curve,
}

impl QuietByCause {
    fn spread(&mut self, who: Who, interval: &Interval) {
        let curve = match who {
            _ if interval.in_vain => &mut self.unanswered,
            Who::Server => &mut self.server,
            Who::Client => &mut self.client,
            Who::Network => &mut self.network,
        };
        curve.spread(interval.from_ns, interval.to_ns, interval.ns() as f64);
    }
}

impl QuietIntervals {
    /// An empty set, for a recording between these instants.
    pub(super) fn new(start_ns: i64, end_ns: i64) -> QuietIntervals {
        let curve = || Curve::new(start_ns, end_ns, limits::FINE_BINS);
        QuietIntervals {
            open: None,
            next: (EndedBy::End, 0),
            pending: HashSet::new(),
            again: HashSet::new(),
            kept: Vec::new(),
            least_ns: 0,
            rest_empty_ns: 0,
            rest_reply_ns: 0,
            rest_call_ns: 0,
            rest_in_vain_ns: 0,
            whose: QuietByCause { server: curve(), client: curve(), network: curve(), unanswered: curve() },
            waits: Waits::new(start_ns, end_ns),
        }
    }

    /// Adds the interval between two events, backward in time.
    pub(super) fn interval(&mut self, from_ns: i64, to_ns: i64, state: State) {
        if !state.is_quiet() {
            // A call that is sent again for lack of an answer does not end a stall.
            match &mut self.open {
                Some(open) if state.receiving == 0 && state.sending == self.again.len() as u64 && open.from_ns == to_ns => {
                    open.from_ns = from_ns;
                }
                _ => self.close(),
            }
            return;
        }
        let in_vain = state.pending == 0 && state.in_vain > 0;
        match &mut self.open {
            Some(open) if open.from_ns == to_ns && open.pending == state.pending && open.in_vain == in_vain => open.from_ns = from_ns,
            _ => {
                self.close();
                let (ended_by, request) = self.next;
                self.open = Some(Interval { from_ns, to_ns, pending: state.pending, in_vain, ended_by, request, within_message: false });
            }
        }
    }

    /// Adds an event of an RPC, backward in time.
    pub(super) fn edge(&mut self, edge: Edge, request: u64) {
        let known = request != 0;
        match edge {
            Edge::Replied if known => drop(self.pending.insert(request)),
            Edge::Posted => drop(self.pending.remove(&request)),
            // A call that is given up is no message, and leaves the next event unchanged.
            Edge::GivenUp | Edge::PostedInVain => return,
            // Sent while pending: sent again.
            Edge::SendEnds if self.pending.contains(&request) => {
                self.again.insert(request);
                if self.open.is_some() {
                    return;
                }
            }
            Edge::SendBegins if self.again.remove(&request) && self.open.is_some() => return,
            _ => {}
        }
        if let (Some(open), Edge::SendEnds | Edge::ReceiveEnds) = (&mut self.open, edge) {
            open.within_message = request != 0 && open.request == request && open.ended_by == by(edge);
        }
        self.next = (by(edge), request);
    }

    fn close(&mut self) {
        let Some(interval) = self.open.take().filter(|i| i.to_ns > i.from_ns) else { return };
        self.waits.length(interval.ns());
        if interval.ns() < self.least_ns {
            return self.sum_up(interval);
        }
        self.kept.push(interval);
        if self.kept.len() >= limits::KEPT_INTERVALS {
            let mut lengths: Vec<u64> = self.kept.iter().map(Interval::ns).collect();
            let (_, median, _) = lengths.select_nth_unstable(limits::KEPT_INTERVALS / 2);
            self.least_ns = *median + 1;
            let kept = std::mem::take(&mut self.kept);
            let (kept, short): (Vec<Interval>, Vec<Interval>) = kept.into_iter().partition(|i| i.ns() >= self.least_ns);
            self.kept = kept;
            short.into_iter().for_each(|i| self.sum_up(i));
        }
    }

    fn sum_up(&mut self, interval: Interval) {
        let (sum, who, queue) = match (interval.pending, interval.ended_by) {
            _ if interval.in_vain => {
                self.rest_in_vain_ns += interval.ns();
                return self.whose.spread(Who::Client, &interval);
            }
            (0, _) => (&mut self.rest_empty_ns, Who::Client, Queue::Empty),
            (_, EndedBy::Call) => (&mut self.rest_call_ns, Who::Client, Queue::Between),
            _ => (&mut self.rest_reply_ns, Who::Server, Queue::Between),
        };
        *sum += interval.ns();
        self.waits.sum_up(interval.from_ns, interval.to_ns, waited_for(who, queue, interval.ended_by, false));
        self.whose.spread(who, &interval);
    }

    /// Summarises them. `marks` are sorted by time.
    pub(super) fn finish(mut self, start_ns: i64, over_time: &OverTime, marks: &[Mark]) -> Summary {
        self.close();
        self.kept.reverse();
        let mut quiet = Quiet {
            full_s: 0.0,
            empty_s: self.rest_empty_ns as f64 / 1e9,
            between_then_reply_s: self.rest_reply_ns as f64 / 1e9,
            between_then_call_s: self.rest_call_ns as f64 / 1e9,
            within_messages_s: 0.0,
            network_s: 0.0,
            unanswered_s: self.rest_in_vain_ns as f64 / 1e9,
        };
        let least_ns = self.least_stall_ns();
        let mut stalls = Vec::new();
        for interval in &self.kept {
            let window = over_time.window_before(interval.from_ns).max(interval.pending);
            let queue = match interval.pending {
                0 => Queue::Empty,
                pending if is_full(pending, window) => Queue::Full,
                _ => Queue::Between,
            };
            let seconds = interval.ns() as f64 / 1e9;
            if interval.in_vain {
                quiet.unanswered_s += seconds;
                self.whose.spread(Who::Client, interval);
                continue;
            }
            let stall = stall(interval, queue, window, start_ns, marks);
            match (queue, interval.ended_by) {
                _ if stall.who == Who::Network => quiet.network_s += seconds,
                _ if interval.within_message => quiet.within_messages_s += seconds,
                (Queue::Full, _) => quiet.full_s += seconds,
                (Queue::Empty, _) => quiet.empty_s += seconds,
                (Queue::Between, EndedBy::Call) => quiet.between_then_call_s += seconds,
                (Queue::Between, _) => quiet.between_then_reply_s += seconds,
            }
            self.whose.spread(stall.who, interval);
            self.waits.add(interval.from_ns, interval.to_ns, waited_for(stall.who, queue, interval.ended_by, interval.within_message));
            // Before the first call and after the last reply there are no stalls.
            let whole = interval.ended_by != EndedBy::End && interval.from_ns > start_ns;
            if whole && interval.ns() >= least_ns {
                stalls.push(stall);
            }
        }
        Summary { quiet, stalls: summed_up(stalls, least_ns), waits: self.waits.finish(), whose: self.whose }
    }

    fn least_stall_ns(&self) -> u64 {
        let mut lengths: Vec<u64> = self.kept.iter().map(Interval::ns).collect();
        lengths.sort_unstable();
        // With the short ones only summed up, the median of the kept ones is above the true one.
        of_sorted(&lengths, 0.5).unwrap_or(0).saturating_mul(limits::TIMES_MEDIAN).max(limits::LEAST_STALL_NS)
    }
}

/// Whether a queue is full. In a large one, a single free place is still full.
fn is_full(pending: u64, window: u64) -> bool {
    pending as f64 >= limits::QUEUE_FULL * window as f64 || (window >= limits::LEAST_WINDOW && pending + 1 >= window)
}

/// The kind of message that an event belongs to.
fn by(edge: Edge) -> EndedBy {
    match edge {
        Edge::Replied | Edge::GivenUp | Edge::ReceiveBegins | Edge::ReceiveEnds => EndedBy::Reply,
        Edge::SendBegins | Edge::SendEnds | Edge::Posted | Edge::PostedInVain => EndedBy::Call,
    }
}

fn stall(interval: &Interval, queue: Queue, window: u64, start_ns: i64, marks: &[Mark]) -> Stall {
    let seen = MarksWithin::within(interval, marks);
    let ended_by = match interval.ended_by {
        EndedBy::Call if seen.retransmissions > 0 => EndedBy::Retransmission,
        other => other,
    };
    let (who, why) =
        if interval.within_message { stopped(&seen, interval.ended_by) } else { waited(queue, ended_by, &seen, interval.pending, window) };
    Stall {
        start_s: (interval.from_ns - start_ns) as f64 / 1e9,
        length_s: interval.ns() as f64 / 1e9,
        pending: interval.pending,
        window,
        queue,
        ended_by,
        within_message: interval.within_message,
        retransmissions: seen.retransmissions,
        tcp_retransmissions: seen.tcp_retransmissions,
        zero_window: seen.zero_window,
        who,
        why,
    }
}

/// TCP's marks in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct MarksWithin {
    retransmissions: u64,
    tcp_retransmissions: u64,
    /// Whether most of the interval was over before TCP last retransmitted: then it waited for recovery.
    recovering: bool,
    zero_window: bool,
}

impl MarksWithin {
    fn within(interval: &Interval, marks: &[Mark]) -> MarksWithin {
        // A window closes, and the last segments into it are sent, just before nothing moves any more.
        let from = marks.partition_point(|m| m.at.ns() < interval.from_ns.saturating_sub(limits::AT_END_NS));
        let half_ns = interval.from_ns + (interval.to_ns - interval.from_ns) / 2;
        let mut seen = MarksWithin::default();
        for mark in marks[from..].iter().take_while(|m| m.at.ns() <= interval.to_ns.saturating_add(limits::AT_END_NS)) {
            match mark.kind {
                MarkKind::TcpZeroWindow => seen.zero_window = true,
                MarkKind::RpcRetransmit if mark.at.ns() > interval.from_ns => seen.retransmissions += 1,
                MarkKind::TcpRetransmit if mark.at.ns() > interval.from_ns => {
                    seen.tcp_retransmissions += 1;
                    seen.recovering |= mark.at.ns() >= half_ns;
                }
                _ => {}
            }
        }
        seen
    }

    fn times(&self) -> String {
        if self.tcp_retransmissions == 1 { "once".to_owned() } else { format!("{} times", self.tcp_retransmissions) }
    }
}

/// The cause of a stall in which a message stopped in transit.
fn stopped(seen: &MarksWithin, message: EndedBy) -> (Who, String) {
    let (sender, receiver, what) = match message {
        EndedBy::Reply => (Who::Server, Who::Client, "a reply"),
        _ => (Who::Client, Who::Server, "a call"),
    };
    let name = |who| if who == Who::Server { "the server" } else { "the client" };
    match seen {
        s if s.zero_window => (receiver, format!("{what} stopped in transit: {} had closed its window", name(receiver))),
        s if s.recovering => (Who::Network, format!("{what} stopped in transit: TCP sent again {}", s.times())),
        _ => (sender, format!("{what} stopped in transit: {} did not send the rest", name(sender))),
    }
}

/// The cause of a stall between messages.
fn waited(queue: Queue, ended_by: EndedBy, seen: &MarksWithin, pending: u64, window: u64) -> (Who, String) {
    let queue_is = match queue {
        Queue::Full => format!("the pending queue was at its maximum ({pending} of {window})"),
        Queue::Empty => "nothing was pending".to_owned(),
        Queue::Between => format!("{pending} of {window} calls were pending"),
    };
    match (queue, ended_by) {
        (Queue::Empty, _) => (Who::Client, format!("{queue_is}: the client did not ask")),
        _ if seen.zero_window && !seen.recovering => (Who::Server, format!("{queue_is}, and a window had closed")),
        _ if seen.retransmissions > 0 => (Who::Server, format!("{queue_is}, no reply came, and the client sent again")),
        _ if seen.recovering => (Who::Network, format!("{queue_is}, and TCP sent again {}", seen.times())),
        (Queue::Full, _) => (Who::Server, format!("{queue_is}: the server did not answer")),
        (Queue::Between, EndedBy::Call) => (Who::Client, format!("{queue_is}, and a call came next: the client could have sent it")),
        (Queue::Between, _) => (Who::Server, format!("{queue_is}, and a reply came next: it was waited for")),
    }
}

fn summed_up(mut stalls: Vec<Stall>, least_ns: u64) -> Stalls {
    let by = [Who::Server, Who::Client, Who::Network].into_iter().filter_map(|who| {
        let mut lengths: Vec<f64> = stalls.iter().filter(|s| s.who == who).map(|s| s.length_s).collect();
        lengths.sort_by(f64::total_cmp);
        let median_s = *lengths.get(lengths.len() / 2)?;
        Some(StallsBy { who, count: lengths.len() as u64, total_s: lengths.iter().sum(), median_s })
    });
    let mut by: Vec<StallsBy> = by.collect();
    by.sort_by(|a, b| b.total_s.total_cmp(&a.total_s));
    let (count, total_s) = (stalls.len() as u64, stalls.iter().map(|s| s.length_s).sum());
    if stalls.len() > MAX_STALLS {
        stalls.sort_by(|a, b| b.length_s.total_cmp(&a.length_s));
        stalls.truncate(MAX_STALLS);
        stalls.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    }
    Stalls { least_s: least_ns as f64 / 1e9, count, total_s, by, longest: stalls }
}
