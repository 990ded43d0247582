//! Bursts and gaps: when the bytes of a transfer moved, and when they did not.
//!
//! Payload spans come by descending end, so the union of their intervals grows backward, and the interval between a span's end and the
//! union so far is certainly idle. Idle intervals are kept with the number of bytes after them; when there are too many, the shortest are
//! dropped. Which of them are *gaps*, and which only the usual pause between two sends, is decided at the end by their lengths: if these
//! fall into two clearly separate groups (Otsu's split of their logarithms), the longer ones are gaps.

use crate::limits::observe as limits;
use crate::observe::quantile::of_sorted;

/// An idle interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle {
    /// Start.
    pub start: i64,
    /// End.
    pub end: i64,
    /// Bytes that the channel carried after it.
    pub bytes_after: u64,
}

/// The busy and idle intervals of one channel, gathered backward.
#[derive(Clone, Debug)]
pub(crate) struct Gatherer {
    busy: Option<(i64, i64)>,
    first: i64,
    last: i64,
    busy_ns: i64,
    /// Bytes so far.
    pub bytes: u64,
    /// Spans so far.
    pub sends: u64,
    idle: Vec<Idle>,
    least_ns: i64,
}

impl Default for Gatherer {
    fn default() -> Gatherer {
        Gatherer {
            busy: None,
            first: i64::MAX,
            last: i64::MIN,
            busy_ns: 0,
            bytes: 0,
            sends: 0,
            idle: Vec::new(),
            least_ns: limits::LEAST_GAP_NS,
        }
    }
}

impl Gatherer {
    /// Adds the next busy interval, by descending end.
    #[inline]
    pub(crate) fn add(&mut self, start: i64, end: i64, bytes: u64) {
        match &mut self.busy {
            Some(busy) if end >= busy.0 => busy.0 = busy.0.min(start),
            Some(busy) => {
                let (from, to) = *busy;
                *busy = (start, end);
                self.busy_ns += to - from;
                if from - end >= self.least_ns {
                    self.keep(Idle { start: end, end: from, bytes_after: self.bytes });
                }
            }
            None => self.busy = Some((start, end)),
        }
        self.first = self.first.min(start);
        self.last = self.last.max(end);
        self.bytes += bytes;
        self.sends += 1;
    }

    fn keep(&mut self, idle: Idle) {
        self.idle.push(idle);
        if self.idle.len() >= limits::KEPT_INTERVALS {
            let mut lengths: Vec<i64> = self.idle.iter().map(|i| i.end - i.start).collect();
            let (_, median, _) = lengths.select_nth_unstable(limits::KEPT_INTERVALS / 2);
            self.least_ns = *median + 1;
            self.idle.retain(|i| i.end - i.start >= self.least_ns);
        }
    }

    /// Its first and last busy instant; `None` if it was never busy.
    pub(crate) fn extent(&self) -> Option<(i64, i64)> {
        self.busy.map(|_| (self.first, self.last))
    }

    /// The busy intervals in order of time, with their bytes; idle intervals too short to be kept do not separate them.
    pub(crate) fn bursts(&self) -> Vec<(i64, i64, u64)> {
        let Some((first, last)) = self.extent() else { return Vec::new() };
        let (mut bursts, mut from, mut left) = (Vec::with_capacity(self.idle.len() + 1), first, self.bytes);
        for idle in self.idle.iter().rev() {
            bursts.push((from, idle.start, left - idle.bytes_after));
            (from, left) = (idle.end, idle.bytes_after);
        }
        bursts.push((from, last, left));
        bursts
    }

    /// The result.
    pub(crate) fn finish(&self) -> Gathered {
        let lengths: Vec<u64> = self.idle.iter().map(|i| (i.end - i.start) as u64).collect();
        self.finish_with(least_gap_ns(&lengths))
    }

    /// The result if idle intervals of at least this length are gaps.
    pub(crate) fn finish_with(&self, least: u64) -> Gathered {
        let busy_ns = self.busy_ns + self.busy.map_or(0, |(from, to)| to - from);
        let mut gaps: Vec<Idle> = self.idle.iter().copied().filter(|i| (i.end - i.start) as u64 >= least).collect();
        gaps.reverse();
        let gap_ns: i64 = gaps.iter().map(|g| g.end - g.start).sum();
        let extent_ns = self.extent().map_or(0, |(first, last)| last - first);
        Gathered { bytes: self.bytes, sends: self.sends, busy_ns, burst_ns: extent_ns - gap_ns, gaps }
    }
}

/// The result for one channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    /// Payload bytes.
    pub bytes: u64,
    /// Spans that carried them.
    pub sends: u64,
    /// Time in which any span was in progress.
    pub busy_ns: i64,
    /// Total length of the bursts, including pauses within them.
    pub burst_ns: i64,
    /// Its gaps, in order of time.
    pub gaps: Vec<Idle>,
}

/// Least length of an idle interval that is a gap.
fn least_gap_ns(lengths: &[u64]) -> u64 {
    let mut sorted: Vec<u64> = lengths.to_vec();
    sorted.sort_unstable();
    let logs: Vec<f64> = sorted.iter().map(|&l| (l.max(1) as f64).ln()).collect();
    let total: f64 = logs.iter().sum();
    let (mut below, mut best) = (0.0, (0.0, 0));
    for split in 1..logs.len() {
        below += logs[split - 1];
        let (n0, n1) = (split as f64, (logs.len() - split) as f64);
        let apart = (total - below) / n1 - below / n0;
        let variance = n0 * n1 * apart * apart;
        if variance > best.0 && apart >= limits::GROUPS_APART {
            best = (variance, split);
        }
    }
    sorted.get(best.1).copied().unwrap_or(0)
}

/// Bytes between gaps, if most gaps are about equally far apart: all of them, or, if shorter ones lie between, those longer than the mean.
pub(crate) fn period_of(gaps: &[(i64, u64)]) -> Option<u64> {
    let carried = |least: i64| gaps.iter().filter(|g| g.0 >= least).map(|g| g.1).collect::<Vec<u64>>();
    let mean = gaps.iter().map(|g| g.0).sum::<i64>() / gaps.len().max(1) as i64;
    period_bytes(&carried(0)).or_else(|| period_bytes(&carried(mean)))
}

/// The period of positions alone: `carried` has the bytes carried before each gap, ascending.
fn period_bytes(carried: &[u64]) -> Option<u64> {
    if carried.len() < limits::FEWEST_GAPS {
        return None;
    }
    let apart: Vec<u64> = carried.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    let mut sorted = apart.clone();
    sorted.sort_unstable();
    let middle = of_sorted(&sorted, 0.5).filter(|&m| m > 0)?;
    // A missing gap leaves a double distance, which does not contradict the period.
    let near = apart.iter().filter(|&&d| {
        let times = (d as f64 / middle as f64).round();
        (1.0..=3.0).contains(&times) && (d as f64 / times - middle as f64).abs() <= limits::PERIOD_NEAR * middle as f64
    });
    (near.count() * 10 >= apart.len() * limits::PERIOD_TENTHS).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(requests: u64, gap_ns: i64) -> Gatherer {
        let mut spans = Vec::new();
        let mut t = 0;
        for _ in 0..requests {
            for _ in 0..10 {
                spans.push((t, t + 400_000));
                t += 430_000;
            }
            t += gap_ns;
        }
        let mut gatherer = Gatherer::default();
        spans.iter().rev().for_each(|&(s, e)| gatherer.add(s, e, 1 << 20));
        gatherer
    }

    #[test]
    fn gaps_between_requests_are_found_and_pauses_between_sends_are_not() {
        let gathered = copy(26, 5_000_000).finish();
        assert_eq!(gathered.gaps.len(), 25);
        assert_eq!(gathered.bytes, 260 << 20);
        let carried: Vec<u64> = gathered.gaps.iter().map(|g| gathered.bytes - g.bytes_after).collect();
        assert_eq!(period_bytes(&carried), Some(10 << 20));
    }

    #[test]
    fn one_long_stall_does_not_hide_the_ordinary_gaps() {
        let mut gatherer = Gatherer::default();
        gatherer.add(100_000_000_000, 100_000_400_000, 1 << 20);
        let before = copy(26, 5_000_000);
        let mut spans = vec![];
        let mut t = 0;
        for _ in 0..26 {
            for _ in 0..10 {
                spans.push((t, t + 400_000));
                t += 430_000;
            }
            t += 5_000_000;
        }
        spans.iter().rev().for_each(|&(s, e)| gatherer.add(s, e, 1 << 20));
        assert_eq!(gatherer.finish().gaps.len(), before.finish().gaps.len() + 1);
    }

    #[test]
    fn equal_pauses_are_all_gaps_or_none_is_hidden() {
        let mut gatherer = Gatherer::default();
        for n in (0..100_i64).rev() {
            gatherer.add(n * 1_000_000, n * 1_000_000 + 500_000, 1 << 20);
        }
        assert_eq!(gatherer.finish().gaps.len(), 99);
    }

    #[test]
    fn overlapping_spans_are_one_burst() {
        let mut gatherer = Gatherer::default();
        gatherer.add(50, 1_000_000, 10);
        gatherer.add(0, 900_000, 10);
        let gathered = gatherer.finish();
        assert_eq!((gathered.busy_ns, gathered.gaps.len()), (1_000_000, 0));
    }

    #[test]
    fn bursts_have_all_the_bytes_between_them() {
        let mut gatherer = Gatherer::default();
        for (start, end, bytes) in [(900_000, 1_000_000, 30), (400_000, 500_000, 20), (350_000, 410_000, 2), (0, 100_000, 10)] {
            gatherer.add(start, end, bytes);
        }
        assert_eq!(gatherer.bursts(), vec![(0, 100_000, 10), (350_000, 500_000, 22), (900_000, 1_000_000, 30)]);
        assert_eq!(Gatherer::default().bursts(), Vec::new());
    }

    #[test]
    fn no_period_in_gaps_at_random_distances() {
        assert_eq!(period_bytes(&[1, 100, 110, 500, 505, 2000, 2001, 9000]), None);
        assert_eq!(period_bytes(&[10, 20, 30, 50, 60]), Some(10));
    }
}
