//! Intervals in which nothing is on its way, and which of them are stalls.
//!
//! While nothing moves, somebody is waited for. If the pending queue is as full as the client lets it become, it is the
//! server; if it is empty, it is the client; in between, what comes next shows it: a reply was waited for, or a call. A
//! stall is such an interval that is long against the others.

use super::document::{EndedBy, MAX_STALLS, Queue, Quiet, Stall, Stalls, StallsBy, Who};
use super::over_time::OverTime;
use super::sweep::{Edge, State};
use crate::quantile::of_sorted;
use thalweg_trace::{Mark, MarkKind};

/// Intervals that are kept one by one; of more, the shorter half is only summed up.
const KEPT: usize = 1 << 16;

/// A stall is so many times as long as the median ...
const TIMES_MEDIAN: u64 = 10;

/// ... and at least so long.
const LEAST_STALL_NS: u64 = 10_000_000;

/// The queue is full from this part of the window on.
const FULL: f64 = 0.9;

/// A mark so shortly after an interval is what ended it.
const AT_END_NS: i64 = 1_000_000;

/// One quiet interval.
#[derive(Clone, Copy, Debug)]
struct Interval {
    from_ns: i64,
    to_ns: i64,
    pending: u64,
    ended_by: EndedBy,
}

impl Interval {
    fn ns(&self) -> u64 {
        (self.to_ns - self.from_ns) as u64
    }
}

/// All of them.
#[derive(Debug)]
pub struct QuietIntervals {
    open: Option<Interval>,
    next: EndedBy,
    kept: Vec<Interval>,
    least_ns: u64,
    /// What was not kept, by pending: none, some; and what came next.
    rest_empty_ns: u64,
    rest_reply_ns: u64,
    rest_call_ns: u64,
}

impl Default for QuietIntervals {
    fn default() -> QuietIntervals {
        QuietIntervals {
            open: None,
            next: EndedBy::End,
            kept: Vec::new(),
            least_ns: 0,
            rest_empty_ns: 0,
            rest_reply_ns: 0,
            rest_call_ns: 0,
        }
    }
}

impl QuietIntervals {
    /// Between two events, backward in time.
    pub fn interval(&mut self, from_ns: i64, to_ns: i64, state: State) {
        if !state.is_quiet() {
            self.close();
            return;
        }
        match &mut self.open {
            Some(open) if open.from_ns == to_ns && open.pending == state.pending => open.from_ns = from_ns,
            _ => {
                self.close();
                self.open = Some(Interval { from_ns, to_ns, pending: state.pending, ended_by: self.next });
            }
        }
    }

    /// An event, backward in time.
    pub fn edge(&mut self, edge: Edge) {
        self.next = match edge {
            Edge::Replied | Edge::ReceiveBegins | Edge::ReceiveEnds => EndedBy::Reply,
            Edge::SendBegins | Edge::SendEnds | Edge::Posted => EndedBy::Call,
        };
    }

    fn close(&mut self) {
        let Some(interval) = self.open.take().filter(|i| i.to_ns > i.from_ns) else { return };
        if interval.ns() < self.least_ns {
            return self.sum_up(interval);
        }
        self.kept.push(interval);
        if self.kept.len() >= KEPT {
            let mut lengths: Vec<u64> = self.kept.iter().map(Interval::ns).collect();
            let (_, median, _) = lengths.select_nth_unstable(KEPT / 2);
            self.least_ns = *median + 1;
            let kept = std::mem::take(&mut self.kept);
            let (kept, short): (Vec<Interval>, Vec<Interval>) = kept.into_iter().partition(|i| i.ns() >= self.least_ns);
            self.kept = kept;
            short.into_iter().for_each(|i| self.sum_up(i));
        }
    }

    fn sum_up(&mut self, interval: Interval) {
        let sum = match (interval.pending, interval.ended_by) {
            (0, _) => &mut self.rest_empty_ns,
            (_, EndedBy::Call) => &mut self.rest_call_ns,
            _ => &mut self.rest_reply_ns,
        };
        *sum += interval.ns();
    }

    /// What they come to. `marks` by time.
    pub fn finish(mut self, start_ns: i64, over_time: &OverTime, marks: &[Mark]) -> (Quiet, Stalls) {
        self.close();
        self.kept.reverse();
        let mut quiet = Quiet {
            full_s: 0.0,
            empty_s: self.rest_empty_ns as f64 / 1e9,
            between_then_reply_s: self.rest_reply_ns as f64 / 1e9,
            between_then_call_s: self.rest_call_ns as f64 / 1e9,
        };
        let least_ns = self.least_stall_ns();
        let mut stalls = Vec::new();
        for interval in &self.kept {
            let window = over_time.window_before(interval.from_ns).max(interval.pending);
            let queue = match interval.pending {
                0 => Queue::Empty,
                pending if pending as f64 >= FULL * window as f64 => Queue::Full,
                _ => Queue::Between,
            };
            let seconds = interval.ns() as f64 / 1e9;
            match (queue, interval.ended_by) {
                (Queue::Full, _) => quiet.full_s += seconds,
                (Queue::Empty, _) => quiet.empty_s += seconds,
                (Queue::Between, EndedBy::Call) => quiet.between_then_call_s += seconds,
                (Queue::Between, _) => quiet.between_then_reply_s += seconds,
            }
            // Before the first call and after the last reply nobody stalls.
            let whole = interval.ended_by != EndedBy::End && interval.from_ns > start_ns;
            if whole && interval.ns() >= least_ns {
                stalls.push(stall(interval, queue, window, start_ns, marks));
            }
        }
        (quiet, summed_up(stalls, least_ns))
    }

    fn least_stall_ns(&self) -> u64 {
        let mut lengths: Vec<u64> = self.kept.iter().map(Interval::ns).collect();
        lengths.sort_unstable();
        // With the short ones only summed up, the median of the kept is above that of all.
        of_sorted(&lengths, 0.5).unwrap_or(0).saturating_mul(TIMES_MEDIAN).max(LEAST_STALL_NS)
    }
}

fn stall(interval: &Interval, queue: Queue, window: u64, start_ns: i64, marks: &[Mark]) -> Stall {
    let from = marks.partition_point(|m| m.at.ns() <= interval.from_ns);
    let within = marks[from..].iter().take_while(|m| m.at.ns() <= interval.to_ns.saturating_add(AT_END_NS));
    let (mut retransmissions, mut tcp_retransmissions, mut zero_window) = (0, 0, false);
    for mark in within {
        match mark.kind {
            MarkKind::RpcRetransmit => retransmissions += 1,
            MarkKind::TcpRetransmit => tcp_retransmissions += 1,
            MarkKind::TcpZeroWindow => zero_window = true,
            _ => {}
        }
    }
    let ended_by = match interval.ended_by {
        EndedBy::Call if retransmissions > 0 => EndedBy::Retransmission,
        other => other,
    };
    let (who, why) = whose(queue, ended_by, tcp_retransmissions, zero_window, interval.pending, window);
    Stall {
        start_s: (interval.from_ns - start_ns) as f64 / 1e9,
        length_s: interval.ns() as f64 / 1e9,
        pending: interval.pending,
        window,
        queue,
        ended_by,
        retransmissions,
        tcp_retransmissions,
        zero_window,
        who,
        why,
    }
}

fn whose(queue: Queue, ended_by: EndedBy, tcp_retransmissions: u64, zero_window: bool, pending: u64, window: u64) -> (Who, String) {
    let queue_is = match queue {
        Queue::Full => format!("the pending queue was full ({pending} of {window})"),
        Queue::Empty => "nothing was pending".to_owned(),
        Queue::Between => format!("{pending} of {window} calls were pending"),
    };
    match (queue, ended_by) {
        _ if zero_window => (Who::Server, format!("{queue_is}, and the receiver had closed its window")),
        (Queue::Empty, _) => (Who::Client, format!("{queue_is}: the client did not ask")),
        _ if tcp_retransmissions > 0 => {
            let times = if tcp_retransmissions == 1 { "once".to_owned() } else { format!("{tcp_retransmissions} times") };
            (Who::Network, format!("{queue_is}, and TCP sent again {times}"))
        }
        (_, EndedBy::Retransmission) => (Who::Server, format!("{queue_is}, no reply came, and the client sent again")),
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
