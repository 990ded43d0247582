//! What the network's part of an interval was, as the critical path was charged: transit is scaled by what
//! made it as long as it was.

use crate::cause::Cause;
use crate::facts::Parts;

/// What made a transit as long as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Regime {
    /// The link's rate.
    Bandwidth,
    /// A send buffer or receive window: a window's worth each round trip.
    Window,
    /// The congestion window: the same, and it grows.
    Cwnd,
    /// The way there.
    Latency,
    /// Lost segments, and recovering from that.
    Loss,
}

/// How many there are.
pub(crate) const REGIMES: usize = Regime::ALL.len();

impl Regime {
    /// All of them.
    pub(crate) const ALL: [Regime; 5] = [Regime::Bandwidth, Regime::Window, Regime::Cwnd, Regime::Latency, Regime::Loss];

    /// The one that took most; `None` where none took any.
    fn largest(ns: [i64; REGIMES]) -> Option<Regime> {
        Regime::ALL.into_iter().max_by_key(|&regime| ns[regime as usize]).filter(|&regime| ns[regime as usize] > 0)
    }
}

fn regime_of(cause: Cause) -> Option<Regime> {
    Some(match cause {
        Cause::NetworkBandwidth => Regime::Bandwidth,
        Cause::NetworkSndbuf | Cause::NetworkRwnd => Regime::Window,
        Cause::NetworkCwnd => Regime::Cwnd,
        Cause::NetworkLatency => Regime::Latency,
        Cause::NetworkLoss => Regime::Loss,
        _ => return None,
    })
}

/// The path's stretches that matter to the model, in order of time.
#[derive(Debug)]
pub(crate) struct Regimes {
    /// From where to where it lay on the network, and what that was; or, `None`, waited for a lock.
    stretches: Vec<(i64, i64, Option<Regime>)>,
    usual: Regime,
}

impl Regimes {
    /// From what the walk charged.
    pub(crate) fn of(parts: &Parts<'_>) -> Regimes {
        let mut stretches = Vec::new();
        let mut sums = [0_i64; REGIMES];
        for run in parts.ledger.path.iter().rev() {
            let cause = parts.ledger.entries[run.entry as usize].cause;
            if let Some(regime) = regime_of(cause) {
                stretches.push((run.start, run.end, Some(regime)));
                sums[regime as usize] += run.end - run.start;
            }
            if matches!(cause, Cause::ClientLock | Cause::ServerLock) {
                stretches.push((run.start, run.end, None));
            }
        }
        Regimes { stretches, usual: Regime::largest(sums).unwrap_or(Regime::Bandwidth) }
    }

    /// The stretches that lie within an interval, and for how long they do.
    fn parts(&self, start: i64, end: i64) -> impl Iterator<Item = (Option<Regime>, i64)> {
        let first = self.stretches.partition_point(|stretch| stretch.1 <= start);
        let within = self.stretches[first..].iter().take_while(move |stretch| stretch.0 < end);
        within.map(move |&(from, to, of)| (of, to.min(end) - from.max(start)))
    }

    /// What a transit between these instants was; where the path lay elsewhere, what transits were mostly.
    pub(crate) fn within(&self, start: i64, end: i64) -> Regime {
        let mut sums = [0_i64; REGIMES];
        for (regime, ns) in self.parts(start, end).filter_map(|(of, ns)| Some((of?, ns))).take(256) {
            sums[regime as usize] += ns;
        }
        Regime::largest(sums).unwrap_or(self.usual)
    }

    /// Whether the path was charged to the network within this interval, for most of it.
    pub(crate) fn is_network(&self, start: i64, end: i64) -> bool {
        self.is_most(start, end, |of| of.is_some())
    }

    /// Whether the path was charged to a lock within this interval, for most of it.
    pub(crate) fn is_lock(&self, start: i64, end: i64) -> bool {
        self.is_most(start, end, |of| of.is_none())
    }

    fn is_most(&self, start: i64, end: i64, counts: impl Fn(Option<Regime>) -> bool) -> bool {
        let ns: i64 = self.parts(start, end).filter(|part| counts(part.0)).map(|part| part.1).sum();
        ns * 2 > end - start
    }
}
