//! The sustained rate of one direction of the network: what it carries while there is something to carry, and the burst it accepts beyond
//! that.
//!
//! A queue in front of a link (a token bucket, a switch, a network card) takes a burst at the speed of memory and drains it while the
//! programs do something else. Then neither the rate while they send nor the time in which they wait shows what the link carries, and work
//! overlapped with sending is overlapped already. A link is described as in network calculus (Le Boudec and Thiran, *Network Calculus*,
//! 2001, section 1.3): in any time `t` it carries at most `burst + rate · t`. The rate is that of the median byte, when bytes arrived; the
//! burst is the most by which arrivals were ahead of it.

use crate::limits::observe as limits;

/// The sustained rate and burst of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sustained {
    /// Bytes that crossed.
    pub bytes: u64,
    /// Nanoseconds per byte.
    pub ns_per_byte: f64,
    /// Bytes that may come ahead of that rate.
    pub burst_bytes: f64,
    /// Time from the first arrival to the last, in nanoseconds.
    pub within_ns: f64,
}

impl Sustained {
    /// Computes it from intervals in which bytes arrived, over all connections; `None` if they are too short, or too few.
    pub(crate) fn of(intervals: &[(i64, i64, u64)]) -> Option<Sustained> {
        let (first, last) = (intervals.iter().map(|i| i.0).min()?, intervals.iter().map(|i| i.1).max()?);
        let bytes: u64 = intervals.iter().map(|i| i.2).sum();
        // Bytes come in packets, several at a time: a part must hold many.
        let of_many_ns = ((last - first) as f64 * limits::SUSTAINED_BYTES as f64 / bytes.max(1) as f64) as i64;
        let bin_ns = ((last - first) / limits::SUSTAINED_BINS).max(limits::SUSTAINED_GRAIN_NS).max(of_many_ns);
        let bins = usize::try_from((last - first) / bin_ns).ok()? + 1;
        let (mut arrived, mut under_way): (Vec<f64>, Vec<f64>) = (vec![0.0; bins], vec![0.0; bins]);
        for &(from, to, bytes) in intervals {
            let length = (to - from).max(1) as f64;
            let (mut at, end) = (from, to.max(from + 1));
            while at < end {
                let bin = ((at - first) / bin_ns) as usize;
                let until = end.min(first + (bin as i64 + 1) * bin_ns);
                let (Some(sum), Some(used)) = (arrived.get_mut(bin), under_way.get_mut(bin)) else { break };
                *sum += bytes as f64 * (until - at) as f64 / length;
                *used = (*used + (until - at) as f64).min(bin_ns as f64);
                at = until;
            }
        }
        let all: f64 = arrived.iter().sum();
        let mut paces: Vec<(f64, f64)> =
            arrived.iter().zip(&under_way).filter(|(b, _)| **b > 0.0).map(|(b, used)| (used / b, *b)).collect();
        if paces.len() < limits::SUSTAINED_LEAST {
            return None;
        }
        let ns_per_byte = of_the_median_byte(&mut paces)?;
        let (mut ahead, mut burst_bytes): (f64, f64) = (0.0, 0.0);
        for bytes in &arrived {
            // In a pause the queue gets room again.
            ahead = (ahead + bytes - bin_ns as f64 / ns_per_byte).max(0.0);
            burst_bytes = burst_bytes.max(ahead);
        }
        Some(Sustained { bytes: all as u64, ns_per_byte, burst_bytes, within_ns: (last - first) as f64 })
    }

    /// Bytes per second.
    pub(crate) fn bytes_per_s(&self) -> f64 {
        1e9 / self.ns_per_byte
    }

    /// Least time for all of the bytes, in nanoseconds.
    pub(crate) fn least_ns(&self) -> f64 {
        (self.bytes as f64 - self.burst_bytes).max(0.0) * self.ns_per_byte
    }
}

/// The pace of the median byte, from paces with their bytes.
pub(super) fn of_the_median_byte(paces: &mut [(f64, f64)]) -> Option<f64> {
    paces.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = paces.iter().map(|pace| pace.1).sum();
    let mut so_far = 0.0;
    let median = paces.iter().find(|pace| {
        so_far += pace.1;
        so_far >= all / 2.0
    });
    median.map(|pace| pace.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Arrivals each millisecond through a bucket of `burst` bytes that is filled at 100 kB/ms: 1 MB is sent twenty times, each time when
    /// the last was taken and `pause` ms have passed since it was sent.
    fn through_a_bucket(burst: f64, pause_ms: i64) -> Vec<(i64, i64, u64)> {
        let (mut tokens, mut queued, mut intervals, mut sent, mut next) = (burst, 0.0, Vec::new(), 0, 0);
        for ms in 0..100_000 {
            if sent < 20 && ms >= next && queued <= burst.max(1.0) {
                (queued, sent, next) = (queued + 1e6, sent + 1, ms + pause_ms);
            }
            let carried = queued.min(tokens + 1e5);
            tokens = (tokens + 1e5 - carried).min(burst);
            queued -= carried;
            if carried > 0.0 {
                intervals.push((ms * MS, (ms + 1) * MS, carried as u64));
            }
        }
        intervals
    }

    // If each send fits in the bucket, the link is never full, and its rate does not show.
    #[test]
    fn a_link_behind_a_queue_is_as_fast_as_it_drains() {
        for (burst, pause_ms) in [(0.0, 0), (1e4, 5), (1e5, 12), (6e5, 8), (3e6, 2)] {
            let found = Sustained::of(&through_a_bucket(burst, pause_ms)).expect("it was long enough");
            let rate = 1.0 / found.ns_per_byte * 1e6;
            assert!((rate - 1e5).abs() < 2e3, "{burst}: {rate} bytes/ms");
            let (least_ms, right_ms) = (found.least_ns() / 1e6, (20e6 - burst) / 1e5);
            assert!(least_ms <= right_ms * 1.02 && least_ms >= right_ms * 0.93, "{burst}: {least_ms}, and not {right_ms}");
        }
    }

    #[test]
    fn pauses_are_no_part_of_a_rate() {
        let turns: Vec<(i64, i64, u64)> =
            (0..50).flat_map(|n| (0..5).map(move |k| ((n * 20 + k) * MS, (n * 20 + k + 1) * MS, 100_000))).collect();
        let found = Sustained::of(&turns).expect("it was long enough");
        assert!((found.least_ns() / 1e6 - 250.0).abs() < 3.0, "{found:?}");
        assert_eq!(Sustained::of(&turns[..2]), None);
    }
}
