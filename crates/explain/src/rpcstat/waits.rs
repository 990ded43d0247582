//! Intervals in which nothing moved, with who was waited for, for drawing.
//!
//! Most of a fast transfer is short waits between packets, alternately for each end. Only waits that are long compared with these are
//! shown. Intervals shorter than a pixel are shown if most of the pixel is of one kind.

use super::document::{EndedBy, MAX_WAITS, Queue, WaitInterval, WaitedFor, Who};
use crate::limits::rpcstat as limits;
use crate::observe::quantile::Lengths;

/// An interval in which one end was waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wait {
    from_ns: i64,
    to_ns: i64,
    waited_for: WaitedFor,
    /// The part of it that was of its kind, in ns.
    ns: i64,
}

/// Gathers them, backward in time.
#[derive(Debug)]
pub(super) struct Waits {
    start_ns: i64,
    end_ns: i64,
    /// All quiet intervals.
    lengths: Lengths,
    /// Long ones that are too many to keep, by bin: the time of each kind.
    bins: Vec<[i64; KINDS.len()]>,
    listed: Vec<Wait>,
}

const KINDS: [WaitedFor; 5] = [
    WaitedFor::ServerQueueFull,
    WaitedFor::ServerQueuePartly,
    WaitedFor::ClientQueuePartly,
    WaitedFor::ClientQueueEmpty,
    WaitedFor::Network,
];

/// Who was waited for in a quiet interval.
pub(super) fn waited_for(who: Who, queue: Queue, ended_by: EndedBy, within_message: bool) -> WaitedFor {
    match (who, queue) {
        (Who::Network, _) => WaitedFor::Network,
        (Who::Server, Queue::Full) => WaitedFor::ServerQueueFull,
        (Who::Server, _) => WaitedFor::ServerQueuePartly,
        (Who::Client, Queue::Empty) if !within_message || ended_by == EndedBy::Call => WaitedFor::ClientQueueEmpty,
        (Who::Client, _) => WaitedFor::ClientQueuePartly,
    }
}

impl Waits {
    /// An empty set, for a recording between these instants.
    pub(super) fn new(start_ns: i64, end_ns: i64) -> Waits {
        Waits {
            start_ns,
            end_ns,
            lengths: Lengths::default(),
            bins: vec![[0; KINDS.len()]; limits::WAITS_NEAR as usize],
            listed: Vec::new(),
        }
    }

    /// Adds the length of a quiet interval of any kind.
    pub(super) fn length(&mut self, ns: u64) {
        self.lengths.add(ns.min(1 << 50));
    }

    /// Least length of an invisible one that is still shown.
    fn least_ns(&self) -> i64 {
        let usual_ns = self.lengths.quantile_ns(0.5) as i64;
        usual_ns.saturating_mul(limits::TIMES_USUAL_WAIT).max(limits::LEAST_WAIT_NS)
    }

    /// Adds one with its kind, in any order.
    pub(super) fn add(&mut self, from_ns: i64, to_ns: i64, waited_for: WaitedFor) {
        let (from_ns, to_ns) = (from_ns.max(self.start_ns), to_ns.min(self.end_ns));
        if to_ns > from_ns {
            self.listed.push(Wait { from_ns, to_ns, waited_for, ns: to_ns - from_ns });
        }
    }

    /// Adds one that is only summed up.
    pub(super) fn sum_up(&mut self, from_ns: i64, to_ns: i64, waited_for: WaitedFor) {
        if to_ns - from_ns < limits::LEAST_WAIT_NS || to_ns - from_ns < self.least_ns() {
            return;
        }
        self.spread(from_ns, to_ns, waited_for);
    }

    fn spread(&mut self, from_ns: i64, to_ns: i64, waited_for: WaitedFor) {
        let (mut at_ns, to_ns, width_ns) = (from_ns.max(self.start_ns), to_ns.min(self.end_ns), self.width_ns());
        while at_ns < to_ns {
            let index = (at_ns - self.start_ns) / width_ns;
            let until_ns = to_ns.min(self.start_ns + (index + 1) * width_ns);
            self.bins[index as usize][waited_for as usize] += until_ns - at_ns;
            at_ns = until_ns;
        }
    }

    fn width_ns(&self) -> i64 {
        ((self.end_ns - self.start_ns) / limits::WAITS_NEAR + 1).max(1)
    }

    /// The visible ones, in order of time.
    pub(super) fn finish(mut self) -> Vec<WaitInterval> {
        let wall_ns = self.end_ns - self.start_ns;
        let (near_ns, shown_ns) = (wall_ns / limits::WAITS_NEAR, wall_ns / limits::WAITS_SHOWN);
        let least_ns = self.least_ns();
        self.listed.retain(|w| w.ns >= least_ns || w.ns >= shown_ns.max(limits::LEAST_WAIT_NS));
        self.list_bins();
        self.listed.sort_by_key(|w| w.from_ns);
        let mut merged: Vec<Wait> = Vec::new();
        for mut wait in self.listed {
            if let Some(last) = merged.last_mut() {
                if last.is_one_with(&wait, near_ns) {
                    last.to_ns = last.to_ns.max(wait.to_ns);
                    last.ns += wait.ns;
                    continue;
                }
                wait.from_ns = wait.from_ns.max(last.to_ns);
                wait.ns = wait.ns.min(wait.to_ns - wait.from_ns);
            }
            if wait.ns > 0 {
                merged.push(wait);
            }
        }
        merged.retain(|w| w.to_ns - w.from_ns >= shown_ns);
        if merged.len() > MAX_WAITS {
            merged.sort_by_key(|w| std::cmp::Reverse(w.to_ns - w.from_ns));
            merged.truncate(MAX_WAITS);
            merged.sort_by_key(|w| w.from_ns);
        }
        let seconds = |ns: i64| (ns - self.start_ns) as f64 / 1e9;
        merged.iter().map(|w| WaitInterval { start_s: seconds(w.from_ns), end_s: seconds(w.to_ns), waited_for: w.waited_for }).collect()
    }

    /// Lists the bins that are mostly of one kind. Kept intervals shorter than a bin are first added to their bin, if it has others:
    /// together they may be most of it.
    fn list_bins(&mut self) {
        let width_ns = self.width_ns();
        let has_others: Vec<bool> = self.bins.iter().map(|bin| bin.iter().any(|&ns| ns > 0)).collect();
        let is_short = |w: &Wait| w.ns < width_ns && has_others[((w.from_ns - self.start_ns) / width_ns) as usize];
        let (short, listed): (Vec<Wait>, Vec<Wait>) = self.listed.iter().partition(|w| is_short(w));
        self.listed = listed;
        short.iter().for_each(|w| self.spread(w.from_ns, w.to_ns, w.waited_for));
        for (index, bin) in self.bins.iter().enumerate() {
            for (kind, &ns) in KINDS.iter().zip(bin) {
                if ns as f64 >= limits::MOST_OF_IT * width_ns as f64 {
                    let from_ns = self.start_ns + index as i64 * width_ns;
                    let to_ns = (from_ns + width_ns).min(self.end_ns);
                    self.listed.push(Wait { from_ns, to_ns, waited_for: *kind, ns: ns.min(to_ns - from_ns) });
                }
            }
        }
    }
}

impl Wait {
    /// Whether a later one is drawn as one with this.
    fn is_one_with(&self, later: &Wait, near_ns: i64) -> bool {
        let whole_ns = later.to_ns.max(self.to_ns) - self.from_ns;
        self.waited_for == later.waited_for
            && later.from_ns - self.to_ns <= near_ns
            && (self.ns + later.ns) as f64 >= limits::MOST_OF_IT * whole_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Of 10 s, in which the usual wait is 0.1 ms.
    fn usual() -> Waits {
        let mut waits = Waits::new(0, 10_000 * MS);
        (0..10_000).for_each(|_| waits.length(100_000));
        waits
    }

    #[test]
    fn waits_that_nearly_touch_are_one_where_most_of_it_is_waited() {
        let mut waits = usual();
        // 4 ms of each 5: one. 4 ms of each 20: each too short to be seen.
        (0..100).for_each(|n| waits.add(n * 5 * MS, (n * 5 + 4) * MS, WaitedFor::ServerQueueFull));
        (0..100).for_each(|n| waits.add((1000 + n * 20) * MS, (1004 + n * 20) * MS, WaitedFor::ClientQueueEmpty));
        let shown = waits.finish();
        assert_eq!(shown, [WaitInterval { start_s: 0.0, end_s: 0.499, waited_for: WaitedFor::ServerQueueFull }]);
    }

    #[test]
    fn the_usual_pause_between_packets_is_nobodys_wait_however_much_of_the_time_it_is() {
        let mut waits = usual();
        (0..90_000).for_each(|n| waits.add(n * 110_000, n * 110_000 + 100_000, WaitedFor::ServerQueuePartly));
        assert_eq!(waits.finish(), []);
    }

    #[test]
    fn of_waits_that_are_too_many_to_keep_a_bin_is_of_the_kind_that_has_most_of_it() {
        let mut waits = usual();
        for n in 0..2500 {
            // Up to 5 s 1.8 ms of each 2 are the server's; then half is.
            let ns = if n * 2 < 5000 { 1_800_000 } else { MS };
            let (kind, from) = (WaitedFor::ServerQueuePartly, n * 2 * MS);
            if n % 3 == 0 {
                waits.add(from, from + ns, kind)
            } else {
                waits.sum_up(from, from + ns, kind)
            }
            let from = from + 5_000 * MS;
            waits.sum_up(from, from + MS, kind);
        }
        let shown = waits.finish();
        assert_eq!(shown.len(), 1, "{shown:?}");
        assert!(shown[0].start_s < 0.01 && (shown[0].end_s - 5.0).abs() < 0.01, "{shown:?}");
    }

    #[test]
    fn no_more_waits_are_listed_than_can_be_drawn_and_none_overlap() {
        let mut waits = usual();
        for n in 0..900 {
            waits.add(n * 11 * MS, (n * 11 + 10 + n % 3) * MS, KINDS[n as usize % KINDS.len()]);
        }
        let shown = waits.finish();
        assert!(shown.len() == MAX_WAITS && shown.windows(2).all(|w| w[0].end_s <= w[1].start_s), "{}", shown.len());
    }
}
