//! TCP stalls: waits without a byte in flight, which a setting or a call of the program ends. Each is a kernel mark; here they are matched
//! with intervals, for the words of a charge.

use crate::cause::End;
use foldhash::{HashSet, HashSetExt};
use std::collections::BTreeMap;
use thalweg_base::numbers::{count, duration};
use thalweg_trace::{Mark, MarkKind};

/// The kind of stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stall {
    /// The connection request, or its answer, was lost.
    LostRequest,
    /// The listener's queue was full, and it dropped requests.
    AcceptQueue,
    /// The connection was in the listener's queue, and was not accepted.
    NotAccepted,
    /// Nagle's algorithm delayed a small segment, and the peer its acknowledgement.
    Nagle,
    /// The congestion window shrank while nothing was sent.
    IdleRestart,
}

#[derive(Clone, Debug)]
struct Stalled {
    stall: Stall,
    connection: u32,
    /// The end at which it was seen, if its object says.
    side: Option<End>,
    /// The server's address.
    listener: String,
    start: i64,
    end: i64,
}

impl Stalled {
    fn length(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// All stalls, by their ends.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    all: Vec<Stalled>,
    /// For each, the earliest start of it and all later ones.
    earliest: Vec<i64>,
}

/// Number, and total length in ns.
pub(crate) type Often = (u64, i64);

/// Small segments that Nagle's algorithm delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldBack {
    /// Number of segments.
    pub times: u64,
    /// Total delay.
    pub ns: i64,
    /// The end that sent most of them, if known.
    pub sender: Option<End>,
}

impl Stalls {
    /// Adds a mark, if it is of a stall.
    pub(crate) fn note(&mut self, mark: &Mark, (connection, side): (u32, Option<End>), name: &str) {
        let (stall, length) = match mark.kind {
            MarkKind::TcpSynRetransmit => (Stall::LostRequest, mark.value),
            MarkKind::TcpAcceptQueue => (Stall::AcceptQueue, None),
            MarkKind::TcpNotAccepted => (Stall::NotAccepted, mark.value),
            MarkKind::TcpNagle => (Stall::Nagle, mark.value),
            MarkKind::TcpIdleRestart => (Stall::IdleRestart, None),
            _ => return,
        };
        let end = mark.at.ns();
        let listener = name.split_once(" > ").map_or(name, |(_, server)| server).to_owned();
        self.all.push(Stalled { stall, connection, side, listener, start: end.saturating_sub(length.unwrap_or(0)), end });
    }

    /// Notes how long a congestion window stayed below its width before it shrank.
    pub(crate) fn lasts(&mut self, connection: u32, since: i64, until: i64) {
        let of_it = |s: &&mut Stalled| s.stall == Stall::IdleRestart && s.connection == connection && s.start == since;
        self.all.iter_mut().filter(of_it).for_each(|s| s.end = until);
    }

    /// Called after all marks. If a listener dropped requests since one was first sent, that one was not lost. (Drops are recorded with the
    /// next connection that the listener accepts, whichever it is.)
    pub(crate) fn settle(&mut self) {
        self.all.sort_by_key(|s| s.end);
        let full: Vec<(String, i64)> =
            self.all.iter().filter(|s| s.stall == Stall::AcceptQueue).map(|s| (s.listener.clone(), s.end)).collect();
        for stalled in self.all.iter_mut().filter(|s| s.stall == Stall::LostRequest) {
            if full.iter().any(|(listener, end)| *listener == stalled.listener && *end >= stalled.start) {
                stalled.stall = Stall::AcceptQueue;
            }
        }
        let mut earliest = i64::MAX;
        self.earliest = self
            .all
            .iter()
            .rev()
            .map(|s| {
                earliest = earliest.min(s.start);
                earliest
            })
            .collect();
        self.earliest.reverse();
    }

    /// The stall of a connection requested within an interval, if the first request did not succeed.
    pub(crate) fn connecting(&self, connection: u32, start: i64, end: i64) -> Option<Stall> {
        let of_requests = |s: &&Stalled| matches!(s.stall, Stall::LostRequest | Stall::AcceptQueue);
        let mut own = self.all.iter().filter(|s| s.connection == connection && s.end >= start && s.start <= end).filter(of_requests);
        own.next().map(|s| s.stall)
    }

    /// Whether small segments of a connection were delayed until acknowledgements.
    pub(crate) fn held_back(&self, connection: u32) -> bool {
        self.all.iter().any(|s| s.connection == connection && s.stall == Stall::Nagle)
    }

    /// The stalls within these intervals, each counted once.
    pub(crate) fn within(&self, intervals: impl Iterator<Item = (i64, i64)>) -> BTreeMap<Stall, Often> {
        let mut often: BTreeMap<Stall, Often> = BTreeMap::new();
        self.each_within(intervals, |stalled| {
            let entry = often.entry(stalled.stall).or_default();
            *entry = (entry.0 + 1, entry.1.saturating_add(stalled.length()));
        });
        often
    }

    /// The delayed small segments in these intervals, and their sender.
    pub(crate) fn held_back_within(&self, intervals: impl Iterator<Item = (i64, i64)>) -> Option<HeldBack> {
        let (mut times, mut ns, mut by_side) = (0, 0_i64, [0_i64; 2]);
        self.each_within(intervals, |stalled| {
            if stalled.stall == Stall::Nagle {
                (times, ns) = (times + 1, ns.saturating_add(stalled.length()));
                stalled.side.into_iter().for_each(|side| by_side[side as usize] += stalled.length());
            }
        });
        let most = [End::Client, End::Server].into_iter().max_by_key(|side| by_side[*side as usize]);
        (times > 0).then_some(HeldBack { times, ns, sender: most.filter(|side| by_side[*side as usize] * 2 > ns) })
    }

    /// Calls `take` with each stall within these intervals, once.
    fn each_within(&self, intervals: impl Iterator<Item = (i64, i64)>, mut take: impl FnMut(&Stalled)) {
        let mut counted: HashSet<usize> = HashSet::new();
        for (start, end) in intervals {
            let from = self.all.partition_point(|s| s.end < start);
            let near = (from..self.all.len()).take_while(|&at| self.earliest[at] <= end).map(|at| (at, &self.all[at]));
            for (at, stalled) in near.filter(|(_, s)| s.start <= end) {
                if counted.insert(at) {
                    take(stalled);
                }
            }
        }
    }
}

impl Stall {
    /// The stall in words, with its remedy.
    pub(crate) fn words(self, (times, together_ns): Often) -> String {
        let times_of = |one: &str, many: &str| if times == 1 { one.to_owned() } else { format!("{} {many}", count(times)) };
        match self {
            Stall::LostRequest => {
                let one = "a request for a connection (SYN), or its answer, was lost, and it was";
                let what = times_of(one, "times a request for a connection (SYN), or its answer, was lost, and it was");
                format!("{what} sent again after TCP's timeout, which starts at 1 s")
            }
            Stall::AcceptQueue => {
                "the server's accept queue was full, so it dropped connection requests (SYN), which TCP sends again after 1 s or more: \
                 accept sooner, or listen with a longer backlog"
                    .to_owned()
            }
            Stall::NotAccepted => {
                let what = times_of("a call waited in the server's accept queue", "calls waited in the server's accept queue");
                format!("{what} too long: accept sooner, or in a thread of its own")
            }
            Stall::Nagle => {
                let what = times_of("a small segment was", "small segments were");
                let each = duration(together_ns as f64 / 1e9 / times.max(1) as f64);
                format!(
                    "{what} delayed for {each}{} by Nagle's algorithm, until the peer's delayed acknowledgement: set TCP_NODELAY, or send a message in one call",
                    if times == 1 { "" } else { " each" }
                )
            }
            Stall::IdleRestart => {
                let what = times_of("the congestion window had shrunk once", "times the congestion window had shrunk");
                format!("{what} while nothing was sent (net.ipv4.tcp_slow_start_after_idle)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::{Time, TrackId};

    fn stalls(marks: &[(MarkKind, i64, i64, u32)]) -> Stalls {
        let mut stalls = Stalls::default();
        for &(kind, at, value, connection) in marks {
            let name = format!("10.0.0.1:{} > 10.0.0.2:{}", 5_000 + connection, connection / 10);
            let at = Time::from_monotonic_ns(at);
            let side = if connection % 2 == 0 { End::Client } else { End::Server };
            let mark = Mark { track: TrackId::new(1).expect("not 0"), kind, at, object: None, value: Some(value) };
            stalls.note(&mark, (connection, Some(side)), &name);
        }
        stalls.settle();
        stalls
    }

    #[test]
    fn each_stall_is_counted_once_and_only_where_it_lay() {
        let all = stalls(&[(MarkKind::TcpNagle, 100, 40, 0), (MarkKind::TcpNagle, 200, 40, 0), (MarkKind::TcpNagle, 300, 40, 0)]);
        assert_eq!(all.within([(190, 250), (150, 180), (0, 50)].into_iter()).get(&Stall::Nagle), Some(&(1, 40)));
        assert_eq!(all.within([(190, 250), (60, 110)].into_iter()).get(&Stall::Nagle), Some(&(2, 80)));
        assert!(all.within([(110, 150)].into_iter()).is_empty());
        // A long one does not hide a later one.
        let long = stalls(&[(MarkKind::TcpNagle, 1_000, 990, 0), (MarkKind::TcpNagle, 900, 10, 0), (MarkKind::TcpNagle, 500, 10, 1)]);
        assert_eq!(long.within([(20, 30)].into_iter()).get(&Stall::Nagle), Some(&(1, 990)));
    }

    #[test]
    fn who_held_segments_back_is_the_end_that_held_most_of_them() {
        let nagle = MarkKind::TcpNagle;
        let all = stalls(&[(nagle, 100, 40, 1), (nagle, 200, 40, 1), (nagle, 300, 30, 0), (MarkKind::TcpIdleRestart, 350, 1, 1)]);
        let within = |from, to| all.held_back_within([(from, to)].into_iter());
        assert_eq!(within(0, 400), Some(HeldBack { times: 3, ns: 110, sender: Some(End::Server) }));
        assert_eq!(within(280, 400), Some(HeldBack { times: 1, ns: 30, sender: Some(End::Client) }));
        assert_eq!(within(340, 400), None);
    }

    #[test]
    fn a_request_that_a_full_listener_dropped_was_not_lost() {
        let (again, full) = (MarkKind::TcpSynRetransmit, MarkKind::TcpAcceptQueue);
        // Two wait for the listener of the thirties, whose drops are recorded with the first that it accepts; one for another's.
        let all = stalls(&[(again, 100, 90, 31), (again, 100, 90, 32), (again, 100, 90, 41), (full, 50, 2, 31)]);
        assert_eq!(all.connecting(31, 10, 100), Some(Stall::AcceptQueue));
        assert_eq!(all.connecting(32, 10, 100), Some(Stall::AcceptQueue));
        assert_eq!(all.connecting(41, 10, 100), Some(Stall::LostRequest));
        assert_eq!(all.connecting(42, 10, 100), None);
        // Drops before the request was made do not concern it.
        assert_eq!(stalls(&[(again, 100, 40, 31), (full, 50, 2, 32)]).connecting(31, 60, 100), Some(Stall::LostRequest));
    }
}
