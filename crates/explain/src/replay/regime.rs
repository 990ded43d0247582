//! The network's part of an interval, by the critical path's charges: a transit is scaled by what determined its length.

use crate::cause::Cause;
use crate::facts::Parts;

/// The determinant of a transit's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Regime {
    /// The link's rate.
    Bandwidth,
    /// A send buffer or receive window: one window per round trip.
    Window,
    /// The congestion window: one window per round trip, growing.
    Cwnd,
    /// The transit itself.
    Latency,
    /// Lost segments, and recovery.
    Loss,
}

/// Number of regimes.
pub(crate) const REGIMES: usize = Regime::ALL.len();

impl Regime {
    /// All regimes.
    pub(crate) const ALL: [Regime; 5] = [Regime::Bandwidth, Regime::Window, Regime::Cwnd, Regime::Latency, Regime::Loss];

    /// The regime with most time; `None` if there was none.
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

/// The path's stretches relevant to the model, in order of time.
#[derive(Debug)]
pub(crate) struct Regimes {
    /// Start, end, and the network's regime, or `None` for a wait for a lock.
    stretches: Vec<(i64, i64, Option<Regime>)>,
    usual: Regime,
}

impl Regimes {
    /// Reads them from the walk's charges.
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

    /// The stretches that overlap an interval, with the overlap.
    fn parts(&self, start: i64, end: i64) -> impl Iterator<Item = (Option<Regime>, i64)> {
        let first = self.stretches.partition_point(|stretch| stretch.1 <= start);
        let within = self.stretches[first..].iter().take_while(move |stretch| stretch.0 < end);
        within.map(move |&(from, to, of)| (of, to.min(end) - from.max(start)))
    }

    /// The regime of a transit between these instants; if the path lay elsewhere, the usual regime.
    pub(crate) fn within(&self, start: i64, end: i64) -> Regime {
        let mut sums = [0_i64; REGIMES];
        for (regime, ns) in self.parts(start, end).filter_map(|(of, ns)| Some((of?, ns))).take(256) {
            sums[regime as usize] += ns;
        }
        Regime::largest(sums).unwrap_or(self.usual)
    }

    /// Whether the path was charged to the network for most of this interval.
    pub(crate) fn is_network(&self, start: i64, end: i64) -> bool {
        self.is_most(start, end, |of| of.is_some())
    }

    /// Whether the path was charged to a lock for most of this interval.
    pub(crate) fn is_lock(&self, start: i64, end: i64) -> bool {
        self.is_most(start, end, |of| of.is_none())
    }

    fn is_most(&self, start: i64, end: i64, counts: impl Fn(Option<Regime>) -> bool) -> bool {
        let ns: i64 = self.parts(start, end).filter(|part| counts(part.0)).map(|part| part.1).sum();
        ns * 2 > end - start
    }
}
