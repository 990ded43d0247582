//! What the network's part of an interval was, as the critical path was charged: transit is scaled by what
//! made it as long as it was.

use crate::assemble::Parts;
use crate::cause::Cause;

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
pub(crate) const REGIMES: usize = 5;

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
    network: Vec<(i64, i64, Regime)>,
    locks: Vec<(i64, i64)>,
    usual: Regime,
}

impl Regimes {
    /// From what the walk charged.
    pub(crate) fn of(parts: &Parts<'_>) -> Regimes {
        let mut network = Vec::new();
        let mut locks = Vec::new();
        let mut sums = [0_i64; REGIMES];
        for run in parts.ledger.path.iter().rev() {
            let cause = parts.ledger.entries[run.entry as usize].cause;
            if let Some(regime) = regime_of(cause) {
                network.push((run.start, run.end, regime));
                sums[regime as usize] += run.end - run.start;
            }
            if matches!(cause, Cause::ClientLock | Cause::ServerLock) {
                locks.push((run.start, run.end));
            }
        }
        use Regime as R;
        let all = [R::Bandwidth, R::Window, R::Cwnd, R::Latency, R::Loss];
        let usual = all.into_iter().max_by_key(|&r| sums[r as usize]).unwrap_or(R::Bandwidth);
        Regimes { network, locks, usual }
    }

    /// What a transit between these instants was; where the path lay elsewhere, what transits were mostly.
    pub(crate) fn within(&self, start: i64, end: i64) -> Regime {
        let first = self.network.partition_point(|n| n.1 <= start);
        let mut sums = [0_i64; REGIMES];
        for &(from, to, regime) in self.network[first..].iter().take_while(|n| n.0 < end).take(256) {
            sums[regime as usize] += to.min(end) - from.max(start);
        }
        use Regime as R;
        let all = [R::Bandwidth, R::Window, R::Cwnd, R::Latency, R::Loss];
        let most = all.into_iter().max_by_key(|&r| sums[r as usize]).filter(|&r| sums[r as usize] > 0);
        most.unwrap_or(self.usual)
    }

    /// Whether the path was charged to the network within this interval, for most of it.
    pub(crate) fn is_network(&self, start: i64, end: i64) -> bool {
        let first = self.network.partition_point(|n| n.1 <= start);
        let within = self.network[first..].iter().take_while(|n| n.0 < end);
        let ns: i64 = within.map(|n| n.1.min(end) - n.0.max(start)).sum();
        ns * 2 > end - start
    }

    /// Whether the path was charged to a lock within this interval, for most of it.
    pub(crate) fn is_lock(&self, start: i64, end: i64) -> bool {
        let first = self.locks.partition_point(|l| l.1 <= start);
        let within = self.locks[first..].iter().take_while(|l| l.0 < end);
        let ns: i64 = within.map(|l| l.1.min(end) - l.0.max(start)).sum();
        ns * 2 > end - start
    }
}
