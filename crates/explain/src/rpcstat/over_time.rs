//! Everything over time, in bins: for the series, for the RPC window before a stall, and for the phases.

use super::document::{MAX_BINS, Pending, Series};
use super::sweep::State;
use crate::limits::rpcstat as limits;
use crate::observe::curve::Curve;
use crate::observe::quantile::Lengths;

/// One fine bin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bin {
    pub calls: u64,
    pub replies: u64,
    pub response_total_ns: u64,
    pub response_max_ns: u64,
    pub pending_ns: f64,
    pub pending_max: u64,
    pub empty_ns: f64,
    pub retransmissions: u64,
    pub timeouts: u64,
    pub tcp_retransmissions: u64,
    pub in_flight: Option<u64>,
    pub receive_window: Option<u64>,
    pub unsent: Option<u64>,
    pub cwnd: Option<u64>,
    pub window: Option<u64>,
}

/// The bins.
#[derive(Debug)]
pub(super) struct OverTime {
    start_ns: i64,
    end_ns: i64,
    width_ns: f64,
    pub bins: Vec<Bin>,
    pub sent: Curve,
    pub received: Curve,
    /// Response times, in the narrowest bins that a series can have.
    responses: Vec<Lengths>,
}

impl OverTime {
    pub(super) fn new(start_ns: i64, end_ns: i64) -> OverTime {
        let width_ns = ((end_ns - start_ns) as f64 / limits::FINE_BINS as f64).max(1.0);
        let curve = || Curve::new(start_ns, end_ns, limits::FINE_BINS);
        OverTime {
            start_ns,
            end_ns,
            width_ns,
            bins: vec![Bin::default(); limits::FINE_BINS],
            sent: curve(),
            received: curve(),
            responses: vec![Lengths::default(); limits::MOST_BINS],
        }
    }

    /// Length of the whole.
    pub(super) fn wall_s(&self) -> f64 {
        (self.end_ns - self.start_ns) as f64 / 1e9
    }

    /// The bin of an instant; the nearest one for an instant outside.
    pub(super) fn index(&self, at_ns: i64) -> usize {
        let after = at_ns.saturating_sub(self.start_ns).max(0) as f64;
        ((after / self.width_ns) as usize).min(self.bins.len() - 1)
    }

    pub(super) fn at(&mut self, at_ns: i64) -> &mut Bin {
        let index = self.index(at_ns);
        &mut self.bins[index]
    }

    /// Adds a reply at this instant, with its call's response time.
    pub(super) fn response(&mut self, at_ns: i64, ns: u64) {
        let index = self.index(at_ns) / (limits::FINE_BINS / limits::MOST_BINS);
        self.responses[index].add(ns.min(1 << 50));
    }

    /// Adds the pending queue between two instants.
    pub(super) fn pending(&mut self, from_ns: i64, to_ns: i64, state: State) {
        let (from_ns, to_ns) = (from_ns.max(self.start_ns), to_ns.min(self.end_ns));
        if to_ns <= from_ns {
            return;
        }
        let (first, last) = (self.index(from_ns), self.index(to_ns - 1));
        for index in first..=last {
            let low = (self.start_ns as f64 + index as f64 * self.width_ns).max(from_ns as f64);
            let high = (self.start_ns as f64 + (index + 1) as f64 * self.width_ns).min(to_ns as f64);
            let part_ns = (high - low).max(0.0);
            let bin = &mut self.bins[index];
            bin.pending_ns += part_ns * state.pending as f64;
            bin.pending_max = bin.pending_max.max(state.pending);
            bin.empty_ns += if state.pending + state.in_vain == 0 { part_ns } else { 0.0 };
        }
    }

    /// The visible RPC window before an instant: the most pending over the last completions, two rounds of them.
    pub(super) fn window_before(&self, at_ns: i64) -> u64 {
        let (mut window, mut completions) = (0, 0);
        for bin in self.bins[..=self.index(at_ns)].iter().rev() {
            window = window.max(bin.pending_max);
            completions += bin.replies;
            if completions > limits::WINDOW_COMPLETIONS.max(2 * window) {
                break;
            }
        }
        window
    }

    /// The pending queue over the whole.
    pub(super) fn queue(&self) -> Pending {
        let wall_ns = (self.end_ns - self.start_ns).max(1) as f64;
        let step = limits::FINE_BINS / MAX_BINS;
        let mut peaks: Vec<u64> = self
            .bins
            .chunks(step)
            .filter(|bins| bins.iter().any(|b| b.calls + b.replies > 0))
            .map(|bins| bins.iter().map(|b| b.pending_max).max().unwrap_or(0))
            .collect();
        peaks.sort_unstable();
        Pending {
            mean: self.bins.iter().map(|b| b.pending_ns).sum::<f64>() / wall_ns,
            max: peaks.last().copied().unwrap_or(0),
            empty_share: (self.bins.iter().map(|b| b.empty_ns).sum::<f64>() / wall_ns).clamp(0.0, 1.0),
            window_median: peaks.get(peaks.len() / 2).copied().unwrap_or(0),
            window_min: peaks.first().copied().unwrap_or(0),
            sent_only: false,
            unsent: None,
        }
    }

    /// The document's series, in as many bins as the largest power of two up to `bins`.
    pub(super) fn series(&self, bins: usize) -> Series {
        let count = 1 << bins.clamp(1, limits::MOST_BINS).ilog2();
        let step = limits::FINE_BINS / count;
        let each = limits::MOST_BINS / count;
        let bin_s = self.width_ns * step as f64 / 1e9;
        let mut series = Series { bin_s, ..Series::default() };
        for (index, bins) in self.bins.chunks(step).enumerate() {
            let sum = |of: &dyn Fn(&Bin) -> u64| bins.iter().map(of).sum::<u64>();
            let most = |of: &dyn Fn(&Bin) -> u64| bins.iter().map(of).max().unwrap_or(0);
            let rate = |curve: &Curve| curve.bins[index * step..(index + 1) * step].iter().sum::<f64>() / bin_s;
            let replies = sum(&|b| b.replies);
            let seconds = |ns: f64| (replies > 0).then_some(ns / 1e9);
            series.sent_bytes_per_s.push(rate(&self.sent));
            series.received_bytes_per_s.push(rate(&self.received));
            series.calls.push(sum(&|b| b.calls));
            series.replies.push(replies);
            series.pending_mean.push(bins.iter().map(|b| b.pending_ns).sum::<f64>() / (bin_s * 1e9));
            series.pending_max.push(most(&|b| b.pending_max));
            let total_ns = bins.iter().map(|b| b.response_total_ns as f64).sum::<f64>();
            series.response_mean_s.push(seconds(total_ns / replies.max(1) as f64));
            series.response_max_s.push(seconds(most(&|b| b.response_max_ns) as f64));
            let mut responses = Lengths::default();
            self.responses[index * each..(index + 1) * each].iter().for_each(|more| responses.add_all(more));
            series.response_median_s.push(seconds(responses.quantile_ns(0.5) as f64));
            series.window.push(bins.iter().filter_map(|b| b.window).max());
            series.cwnd_bytes.push(bins.iter().filter_map(|b| b.cwnd).max());
            series.retransmissions.push(sum(&|b| b.retransmissions));
            series.timeouts.push(sum(&|b| b.timeouts));
            series.tcp_retransmissions.push(sum(&|b| b.tcp_retransmissions));
            series.in_flight_bytes.push(bins.iter().filter_map(|b| b.in_flight).max());
            series.unsent_bytes.push(bins.iter().filter_map(|b| b.unsent).max());
            series.receive_window_bytes.push(bins.iter().filter_map(|b| b.receive_window).min());
        }
        series
    }
}
