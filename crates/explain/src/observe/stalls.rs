//! TCP's own stalls: waits that no byte under way explains, and that a setting or a call of the program ends.
//! Each is a mark of the kernel's; here they answer which of them lay in an interval, for the words of a charge.

use std::collections::{BTreeMap, HashSet};
use thalweg_trace::numbers::{count, duration};
use thalweg_trace::{Mark, MarkKind};

/// Which stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stall {
    /// The request for a connection, or its answer, was lost.
    LostRequest,
    /// The listener dropped requests, because its queue was full.
    AcceptQueue,
    /// Nagle's algorithm held a small segment back, and the peer its acknowledgement.
    Nagle,
    /// The congestion window shrank while nothing was sent.
    IdleRestart,
}

#[derive(Clone, Copy, Debug)]
struct Stalled {
    stall: Stall,
    connection: u32,
    start: i64,
    end: i64,
}

/// All of them, by their ends.
#[derive(Debug, Default)]
pub(crate) struct Stalls(Vec<Stalled>);

/// How often, and for how long together.
pub(crate) type Often = (u64, i64);

impl Stalls {
    /// Takes a mark, if it is of a stall.
    pub(crate) fn note(&mut self, mark: &Mark, connection: u32) {
        let end = mark.at.ns();
        let (stall, start) = match mark.kind {
            MarkKind::TcpSynRetransmit => (Stall::LostRequest, end),
            MarkKind::TcpAcceptQueue => (Stall::AcceptQueue, end),
            MarkKind::TcpNagle => (Stall::Nagle, end - mark.value.unwrap_or(0)),
            MarkKind::TcpIdleRestart => (Stall::IdleRestart, end),
            _ => return,
        };
        self.0.push(Stalled { stall, connection, start, end });
    }

    /// All marks were taken. A request that its full listener dropped was not lost.
    pub(crate) fn settle(&mut self) {
        self.0.sort_by_key(|s| s.end);
        let late: Vec<Stalled> = self.0.iter().copied().filter(|s| s.stall == Stall::AcceptQueue).collect();
        for stalled in &mut self.0 {
            let accepted = late.iter().any(|l| l.connection == stalled.connection && l.end >= stalled.end);
            if stalled.stall == Stall::LostRequest && accepted {
                stalled.stall = Stall::AcceptQueue;
            }
        }
    }

    /// What lay in these intervals; each stall once.
    pub(crate) fn within(&self, intervals: impl Iterator<Item = (i64, i64)>) -> BTreeMap<Stall, Often> {
        let mut often: BTreeMap<Stall, Often> = BTreeMap::new();
        let mut counted: HashSet<usize> = HashSet::new();
        for (start, end) in intervals {
            let from = self.0.partition_point(|s| s.end < start);
            let near = self.0[from..].iter().enumerate().take_while(|(_, s)| s.end <= end || s.start <= end);
            for (at, stalled) in near.filter(|(_, s)| s.start <= end) {
                if counted.insert(from + at) {
                    let entry = often.entry(stalled.stall).or_default();
                    *entry = (entry.0 + 1, entry.1 + stalled.end - stalled.start);
                }
            }
        }
        often
    }
}

impl Stall {
    /// Says it, with what ends it.
    pub(crate) fn words(self, (times, together_ns): Often) -> String {
        let times_of = |one: &str, many: &str| if times == 1 { one.to_owned() } else { format!("{} {many}", count(times)) };
        match self {
            Stall::LostRequest => {
                let what = times_of("a request for a connection (SYN), or its answer, was lost and", "requests for connections (SYN), or their answers, were lost and");
                format!("{what} sent again after TCP's first timeout of a second or more")
            }
            Stall::AcceptQueue => {
                "the server's accept queue was full, so that it dropped requests for connections (SYN), which TCP sends again after a second or more: \
                 accept sooner, or listen with a longer backlog"
                    .to_owned()
            }
            Stall::Nagle => {
                let what = times_of("a small segment was", "small segments were");
                let each = duration(together_ns as f64 / 1e9 / times.max(1) as f64);
                format!(
                    "{what} held back for {each}{} by Nagle's algorithm, until the peer's delayed acknowledgement: set TCP_NODELAY, or send a message in one call",
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
            let at = Time::from_monotonic_ns(at);
            stalls.note(&Mark { track: TrackId::new(1).expect("not 0"), kind, at, object: None, value: Some(value) }, connection);
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
    }

    #[test]
    fn a_request_that_a_full_listener_dropped_was_not_lost() {
        let all = stalls(&[
            (MarkKind::TcpSynRetransmit, 100, 0, 3),
            (MarkKind::TcpSynRetransmit, 100, 0, 4),
            (MarkKind::TcpAcceptQueue, 110, 1, 3),
        ]);
        let found = all.within([(0, 200)].into_iter());
        assert_eq!((found[&Stall::LostRequest].0, found[&Stall::AcceptQueue].0), (1, 2));
    }
}
