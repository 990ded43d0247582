//! TCP at an end that was not recorded, as far as others may read it (its unacknowledged bytes and congestion window), completed by what the
//! recorded end shows of it: the window that it offers, the round trip of what arrives, and segments that arrive out of order.

use crate::observe::series::{Series, at};

/// What one end of a connection shows of the other's sending, and what is read of an end from outside.
#[derive(Debug, Default)]
pub(super) struct Outside {
    /// Bytes of this end that the other has not acknowledged.
    pub(super) queued: Series,
    /// Connections that this end's listener has not accepted.
    pub(super) not_accepted: Series,
    /// The window that this end offers.
    pub(super) offered_window: Series,
    /// The round trip, as data arriving at this end shows it.
    pub(super) receive_rtt_us: Series,
    /// Segments that arrived at this end before an earlier one.
    pub(super) out_of_order: Series,
    /// This end's slow-start threshold, once it has one.
    pub(super) ssthresh: Series,
}

/// A sender's figures, derived.
#[derive(Debug, Default)]
pub(super) struct Derived {
    pub(super) in_flight: Series,
    pub(super) unsent: Series,
    pub(super) receive_window: Series,
    pub(super) srtt_us: Series,
    pub(super) retransmits: Vec<i64>,
}

impl Outside {
    /// Times at which segments had arrived out of order: an earlier one was sent again.
    pub(super) fn gaps(&self) -> Vec<i64> {
        self.out_of_order.windows(2).filter(|two| two[1].1 > two[0].1).map(|two| two[1].0).collect()
    }

    /// The figures of this end, not recorded itself; `None` if nothing was read of it.
    pub(super) fn derived(&self, other: &Outside, cwnd: &Series) -> Option<Derived> {
        if self.queued.is_empty() {
            return None;
        }
        let offered = widest_around(&other.offered_window);
        let window = |limits: &Series, instant| at(limits, instant).filter(|&bytes| bytes > 0).unwrap_or(i64::MAX);
        let sent = |instant: i64, queued: i64| queued.min(window(cwnd, instant)).min(window(&offered, instant));
        Some(Derived {
            in_flight: self.queued.iter().map(|&(t, queued)| (t, sent(t, queued))).collect(),
            unsent: self.queued.iter().map(|&(t, queued)| (t, queued - sent(t, queued))).collect(),
            receive_window: offered,
            srtt_us: other.receive_rtt_us.clone(),
            retransmits: other.gaps(),
        })
    }

    /// Whether this end's congestion window had been reduced by an instant, by losses or a full queue.
    pub(super) fn reduced(&self, instant: i64) -> bool {
        at(&self.ssthresh, instant).is_some()
    }

    /// Since when, in an interval, this end had bytes that the other had not acknowledged, without a break; `None` if it had none at its end.
    pub(super) fn has_bytes_since(&self, start: i64, end: i64) -> Option<i64> {
        let after = self.queued.partition_point(|&(t, _)| t <= end);
        let within = self.queued.partition_point(|&(t, _)| t < start);
        if within == after && self.queued.get(after).is_some_and(|&(_, bytes)| bytes == 0) {
            // No reading lies within it, and the next has none.
            return None;
        }
        let none = self.queued[..after].iter().rposition(|&(_, bytes)| bytes == 0);
        match none {
            _ if after == 0 => None,
            Some(last) if last + 1 == after => None,
            Some(last) => Some(self.queued[last].0.max(start)),
            None => Some(self.queued[0].0.max(start)),
        }
        .filter(|&since| since < end)
    }
}

/// Each value, or a larger one beside it: what waits to be read makes a window smaller until the next acknowledgement.
fn widest_around(series: &Series) -> Series {
    let around = |i: usize| series[i.saturating_sub(2)..(i + 3).min(series.len())].iter().map(|&(_, v)| v).max().unwrap_or(0);
    (0..series.len()).map(|i| (series[i].0, around(i))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_under_way_from_the_last_reading_without_any() {
        let of = |queued: &[(i64, i64)]| Outside { queued: queued.to_vec(), ..Outside::default() };
        let one = of(&[(0, 0), (10, 5), (20, 5), (30, 0), (40, 9), (50, 9), (60, 0)]);
        assert_eq!(one.has_bytes_since(35, 55), Some(35));
        assert_eq!(one.has_bytes_since(25, 55), Some(30));
        assert_eq!(one.has_bytes_since(25, 35), None, "the last reading has none");
        assert_eq!(one.has_bytes_since(42, 48), Some(42), "both around have some");
        assert_eq!(one.has_bytes_since(52, 58), None, "the next has none");
        assert_eq!(of(&[]).has_bytes_since(0, 10), None);
    }

    #[test]
    fn what_is_in_flight_fits_both_windows() {
        let sender = Outside { queued: vec![(5, 100), (15, 10)], ..Outside::default() };
        let receiver = Outside { offered_window: vec![(0, 30)], out_of_order: vec![(0, 2), (9, 2), (12, 4)], ..Outside::default() };
        let derived = sender.derived(&receiver, &vec![(0, 40)]).expect("it was read");
        assert_eq!((derived.in_flight, derived.unsent), (vec![(5, 30), (15, 10)], vec![(5, 70), (15, 0)]));
        assert_eq!(derived.retransmits, [12]);
        assert!(receiver.derived(&sender, &Vec::new()).is_none());
    }
}
