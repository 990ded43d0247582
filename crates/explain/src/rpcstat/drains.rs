//! Drain cycles: intervals in which nothing is sent while pending calls complete, until the client sends again.
//!
//! A client that keeps its window full sends a call for each reply. When it stops (for a commit, for a lock, because its flusher sleeps),
//! the queue drains. Calls that it then makes alone (the commit) belong to the drain. One such interval is an accident; several, at
//! intervals, are a cycle. A client that sends in bursts lets its queue run empty after each, for the response time of its calls: that is
//! no drain. If such pauses fall into two clearly separate groups, the longer ones are the drains.

use super::document::{Drain as Listed, DrainCycles, LengthBin, MAX_DRAINS};
use super::over_time::OverTime;
use super::sweep::{Edge, State};
use crate::limits::observe::GROUPS_APART;
use crate::limits::rpcstat as limits;

#[derive(Clone, Copy, Debug)]
struct Drain {
    from_ns: i64,
    to_ns: i64,
    pending_at_start: u64,
    pending_at_end: u64,
    replies: u64,
}

impl Drain {
    fn ns(&self) -> i64 {
        self.to_ns - self.from_ns
    }

    /// Whether a queue drained: it had several calls, and more than one was answered.
    fn is_of_queue(&self) -> bool {
        self.pending_at_start >= limits::DRAIN_PENDING && self.replies >= limits::DRAIN_REPLIES
    }
}

/// A pause in sending, seen from its end.
#[derive(Clone, Copy, Debug)]
struct Pause {
    to_ns: i64,
    pending_at_end: u64,
    replies: u64,
    /// Number of calls made alone within it.
    alone: u32,
    /// Time, after it, in which anything was pending, in ns.
    waited_after_ns: i64,
}

/// A pause in sending with two parts: calls complete, and then nothing is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TwoParts {
    /// The last byte of the call before it.
    pub from_ns: i64,
    /// The instant from which nothing is pending.
    pub empty_from_ns: i64,
    /// The first byte of the call after it.
    pub to_ns: i64,
}

/// Gathers drains, backward in time.
#[derive(Debug, Default)]
pub(super) struct Drains {
    pause: Option<Pause>,
    /// A pause after a single call.
    after_alone: Option<(Drain, Pause)>,
    drains: Vec<Drain>,
    /// Shorter ones are dropped.
    least_ns: i64,
    /// The last event, going backward; and the time, after it, in which anything was pending.
    at_ns: Option<i64>,
    waited_ns: i64,
    /// End of the current pause, including single calls; and its last reply, if nothing was pending after it.
    sends_again: Option<(i64, Option<i64>)>,
    two_parts: Option<TwoParts>,
}

impl Drains {
    /// Adds an event, and the state it leads to.
    pub(super) fn edge(&mut self, at_ns: i64, edge: Edge, after: State) {
        let later_ns = self.at_ns.replace(at_ns).unwrap_or(at_ns);
        self.waited_ns += if after.pending > 0 { later_ns - at_ns } else { 0 };
        match edge {
            Edge::SendBegins if after.sending == 1 => self.begins(at_ns, after),
            Edge::Replied => {
                if let Some(pause) = &mut self.pause {
                    pause.replies += 1;
                }
                if let Some((_, emptied @ None)) = &mut self.sends_again
                    && after.pending == 0
                {
                    *emptied = Some(at_ns);
                }
            }
            Edge::SendEnds if after.sending == 0 => self.ends(at_ns, after),
            _ => {}
        }
    }

    /// Ends a pause, at the start of a call.
    fn begins(&mut self, at_ns: i64, after: State) {
        self.sends_again = Some((at_ns, None));
        let mut pause = Pause { to_ns: at_ns, pending_at_end: after.pending, replies: 0, alone: 0, waited_after_ns: self.waited_ns };
        if let Some((later, alone)) = self.after_alone.take() {
            // Nothing was pending when the single call was sent: the pause before it belongs to the same drain.
            if after.pending == 0 {
                pause = Pause { alone: alone.alone + 1, ..alone };
            } else {
                self.keep(later, alone);
            }
        }
        self.pause = Some(pause);
    }

    /// Begins a pause, at a call's last byte.
    fn ends(&mut self, at_ns: i64, after: State) {
        if let Some((to_ns, Some(empty_from_ns))) = self.sends_again.take() {
            self.two_parts(TwoParts { from_ns: at_ns, empty_from_ns, to_ns });
        }
        let Some(pause) = self.pause.take() else { return };
        // The call whose sending ends here is pending from here on.
        let pending_at_start = after.pending + 1;
        let Pause { to_ns, pending_at_end, replies, .. } = pause;
        let fell = pending_at_end as f64 <= limits::FALL * pending_at_start as f64;
        let drain = Drain { from_ns: at_ns, to_ns, pending_at_start, pending_at_end, replies };
        if pending_at_start == 1 && pending_at_end == 0 && pause.alone < limits::MOST_ALONE {
            self.after_alone = Some((drain, pause));
        } else if fell && replies > 0 {
            self.keep(drain, pause);
        }
    }

    fn keep(&mut self, drain: Drain, pause: Pause) {
        // A pause that lasts because the client is idle is no drain.
        let waited_ns = self.waited_ns - pause.waited_after_ns;
        if (waited_ns as f64) < limits::DRAIN_WAITS * drain.ns() as f64 || drain.ns() < self.least_ns {
            return;
        }
        self.drains.push(drain);
        if self.drains.len() >= limits::KEPT_DRAINS {
            let mut lengths: Vec<i64> = self.drains.iter().map(Drain::ns).collect();
            let (_, median, _) = lengths.select_nth_unstable(limits::KEPT_DRAINS / 2);
            self.least_ns = *median + 1;
            self.drains.retain(|d| d.ns() >= self.least_ns);
        }
    }

    /// Keeps the two-part pause whose shorter part is longest.
    fn two_parts(&mut self, found: TwoParts) {
        let shorter_ns = |t: &TwoParts| (t.to_ns - t.empty_from_ns).min(t.empty_from_ns - t.from_ns);
        if self.two_parts.is_none_or(|before| shorter_ns(&before) < shorter_ns(&found)) {
            self.two_parts = Some(found);
        }
    }

    /// The drain cycles, if they recur; and the most prominent two-part pause. `usual_ns`, `nearly_all_ns`: the median of all calls, and
    /// the time nearly all took at most.
    pub(super) fn finish(
        mut self,
        start_ns: i64,
        over_time: &OverTime,
        usual_ns: u64,
        nearly_all_ns: u64,
    ) -> (Option<DrainCycles>, Option<TwoParts>) {
        if let Some((later, pause)) = self.after_alone.take() {
            self.keep(later, pause);
        }
        self.drains.reverse();
        let times = |response_ns: u64| (limits::TIMES_RESPONSE * response_ns as f64) as i64;
        let longer = longer_group(&self.drains).map(|least_ns| least_ns.max(times(usual_ns)));
        let drains: Vec<Drain> = match longer {
            Some(least_ns) if over_time.queue().window_median >= limits::DRAIN_PENDING => {
                self.drains.iter().filter(|d| d.ns() >= least_ns).copied().collect()
            }
            _ => self.drains.iter().filter(|d| d.ns() >= times(nearly_all_ns) && d.is_of_queue()).copied().collect(),
        };
        let cycles = cycles(&drains, start_ns).filter(|c| c.total_s >= limits::DRAIN_PART * over_time.wall_s());
        (cycles, self.two_parts)
    }
}

/// Least length of the longer of two groups of pauses: the best split of the logarithms of lengths, each weighted by its length.
fn longer_group(drains: &[Drain]) -> Option<i64> {
    let mut lengths: Vec<i64> = drains.iter().map(|d| d.ns().max(1)).collect();
    lengths.sort_unstable();
    let weighed = |of: &[i64]| of.iter().fold((0.0, 0.0), |(n, sum), &l| (n + l as f64, sum + l as f64 * (l as f64).ln()));
    let (all, total) = weighed(&lengths);
    let (mut n0, mut below, mut best) = (0.0, 0.0, (0.0, 0, 0.0));
    for (at, pair) in lengths.windows(2).enumerate() {
        n0 += pair[0] as f64;
        below += pair[0] as f64 * (pair[0] as f64).ln();
        let n1 = all - n0;
        let means = (below / n0, (total - below) / n1);
        let apart = means.1 - means.0;
        let variance = n0 * n1 * apart * apart;
        if pair[0] < pair[1] && apart >= GROUPS_APART && variance > best.0 {
            best = (variance, at + 1, ((means.0 + means.1) / 2.0).exp());
        }
    }
    let (_, split, middle) = best;
    // Between two groups there is little.
    let ((low, _), (high, _)) = (weighed(&lengths[..split]), weighed(&lengths[split..]));
    let between = |l: &&i64| (**l as f64 >= middle / limits::VALLEY_WIDTH) && (**l as f64 <= middle * limits::VALLEY_WIDTH);
    let valley: i64 = lengths.iter().filter(between).sum();
    (split > 0 && valley as f64 <= limits::VALLEY_PART * low.min(high)).then(|| lengths[split])
}

/// Summarises drains in order of time.
fn cycles(drains: &[Drain], start_ns: i64) -> Option<DrainCycles> {
    if drains.len() < limits::LEAST_DRAINS {
        return None;
    }
    let mut lengths: Vec<i64> = drains.iter().map(Drain::ns).collect();
    let mut periods: Vec<i64> = drains.windows(2).map(|w| w[1].from_ns - w[0].from_ns).collect();
    let median_of = |of: &dyn Fn(&Drain) -> u64| {
        let mut all: Vec<u64> = drains.iter().map(of).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    lengths.sort_unstable();
    periods.sort_unstable();
    let mut longest: Vec<&Drain> = drains.iter().collect();
    longest.sort_by_key(|d| std::cmp::Reverse(d.ns()));
    longest.truncate(MAX_DRAINS);
    longest.sort_by_key(|d| d.from_ns);
    let listed = |d: &&Drain| Listed {
        start_s: (d.from_ns - start_ns) as f64 / 1e9,
        length_s: d.ns() as f64 / 1e9,
        pending_at_start: d.pending_at_start,
        pending_at_end: d.pending_at_end,
    };
    Some(DrainCycles {
        count: drains.len() as u64,
        median_s: lengths[lengths.len() / 2] as f64 / 1e9,
        period_s: periods[periods.len() / 2] as f64 / 1e9,
        total_s: lengths.iter().sum::<i64>() as f64 / 1e9,
        pending_at_start: median_of(&|d| d.pending_at_start),
        pending_at_end: median_of(&|d| d.pending_at_end),
        longest: longest.iter().map(listed).collect(),
        lengths: histogram(&lengths),
    })
}

/// Histogram of sorted lengths: bins of a width of 1, 2 or 5 times a power of ten, from 0, or from the least length if that is more than
/// half of the longest.
fn histogram(sorted: &[i64]) -> Vec<LengthBin> {
    let (Some(&least), Some(&longest)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let from = if least > longest / 2 { least } else { 0 };
    let widths = (0..18).flat_map(|power| [1, 2, 5].map(|n| n * i64::pow(10, power)));
    let bins_of = |width: i64| (longest / width - from / width) as usize + 1;
    let Some(width) = widths.into_iter().find(|&width| bins_of(width) <= limits::LENGTH_BINS) else { return Vec::new() };
    let first = from / width;
    let mut bins: Vec<LengthBin> = (0..bins_of(width) as i64)
        .map(|n| LengthBin { from_s: ((first + n) * width) as f64 / 1e9, to_s: ((first + n + 1) * width) as f64 / 1e9, count: 0 })
        .collect();
    for length in sorted {
        bins[(length / width - first) as usize].count += 1;
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_of_lengths_are_few_touch_and_hold_them_all() {
        for lengths in [
            vec![1],
            vec![20_000_000, 21_000_000, 22_500_000, 23_999_999],
            (0..1000).map(|n| n * n * 1_431).collect(),
            vec![7, 9_000_000_000],
        ] {
            let bins = histogram(&lengths);
            assert!((1..=limits::LENGTH_BINS).contains(&bins.len()), "{bins:?}");
            assert_eq!(bins.iter().map(|b| b.count).sum::<u64>(), lengths.len() as u64);
            assert!(bins.windows(2).all(|w| w[0].to_s == w[1].from_s), "{bins:?}");
            let (least, longest) = (lengths[0] as f64 / 1e9, lengths[lengths.len() - 1] as f64 / 1e9);
            assert!(bins[0].from_s <= least && longest < bins[bins.len() - 1].to_s, "{bins:?}");
        }
    }

    #[test]
    fn a_few_long_pauses_are_a_group_however_many_short_ones_there_are() {
        let drain = |ns| Drain { from_ns: 0, to_ns: ns, pending_at_start: 4, pending_at_end: 0, replies: 4 };
        // Most last 0.2 to 0.9 ms, some 1 to 3 ms, eight 320 ms.
        let mut drains: Vec<Drain> = (0..40_000).map(|n| drain(200_000 + n % 700 * 1000)).collect();
        drains.extend((0..260).map(|n| drain(1_000_000 + n * 8_000)));
        assert_eq!(longer_group(&drains), None, "short ones alone are one group");
        drains.extend((0..8).map(|n| drain(320_000_000 + n * 1_000_000)));
        assert_eq!(longer_group(&drains), Some(320_000_000));
    }
}
