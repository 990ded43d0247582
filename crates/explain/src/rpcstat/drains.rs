//! Drain cycles: intervals in which nothing is sent while pending calls complete, until the client sends again.
//!
//! A client that keeps its window full sends a call for each reply. Where it stops (for a commit, for a lock, because its
//! flusher sleeps), the queue drains. What it then does alone (the commit) belongs to the drain. One such interval is an accident;
//! some of them, at distances, are a cycle. A client that sends in bursts lets its queue run empty after each, for as long as
//! calls take to be answered: that is no drain.

use super::document::DrainCycles;
use super::sweep::{Edge, State};
use crate::limits::rpcstat as limits;

#[derive(Clone, Copy, Debug)]
struct Drain {
    from_ns: i64,
    to_ns: i64,
    pending_at_start: u64,
    pending_at_end: u64,
}

/// A pause in sending, seen from its end.
#[derive(Clone, Copy, Debug)]
struct Pause {
    to_ns: i64,
    pending_at_end: u64,
    replies: u64,
    /// Calls made alone within it.
    alone: u32,
}

/// Gathers them, backward in time.
#[derive(Debug, Default)]
pub(super) struct Drains {
    pause: Option<Pause>,
    /// A pause after a call that was made alone.
    after_alone: Option<Pause>,
    drains: Vec<Drain>,
}

impl Drains {
    /// An event, and the state it leads to.
    pub(super) fn edge(&mut self, at_ns: i64, edge: Edge, after: State) {
        match edge {
            Edge::SendBegins if after.sending == 1 => {
                // Nothing was pending when the call was sent that was then waited for alone: the pause before it is a part of the same.
                let joined = self.after_alone.take().filter(|_| after.pending == 0).map(|later| Pause { alone: later.alone + 1, ..later });
                self.pause = joined.or(Some(Pause { to_ns: at_ns, pending_at_end: after.pending, replies: 0, alone: 0 }));
            }
            Edge::Replied => {
                if let Some(pause) = &mut self.pause {
                    pause.replies += 1;
                }
            }
            Edge::SendEnds if after.sending == 0 => {
                // The call whose sending ends here is pending from here on.
                let pending_at_start = after.pending + 1;
                if let Some(pause) = self.pause.take() {
                    if pending_at_start == 1 && pause.pending_at_end == 0 && pause.alone < limits::MOST_ALONE {
                        self.after_alone = Some(pause);
                        return;
                    }
                    let fell = pause.pending_at_end as f64 <= limits::FALL * pending_at_start as f64;
                    if pending_at_start >= limits::DRAIN_PENDING
                        && pause.replies >= limits::DRAIN_REPLIES
                        && fell
                        && self.drains.len() < limits::KEPT_DRAINS
                    {
                        let Pause { to_ns, pending_at_end, .. } = pause;
                        self.drains.push(Drain { from_ns: at_ns, to_ns, pending_at_start, pending_at_end });
                    }
                }
            }
            _ => {}
        }
    }

    /// What they come to, if they recur. `response_ns`: what nearly all calls took at most.
    pub(super) fn finish(mut self, response_ns: u64) -> Option<DrainCycles> {
        let least_ns = (limits::TIMES_RESPONSE * response_ns as f64) as i64;
        self.drains.retain(|d| d.to_ns - d.from_ns >= least_ns);
        if self.drains.len() < limits::LEAST_DRAINS {
            return None;
        }
        self.drains.reverse();
        let mut lengths: Vec<i64> = self.drains.iter().map(|d| d.to_ns - d.from_ns).collect();
        let mut periods: Vec<i64> = self.drains.windows(2).map(|w| w[1].from_ns - w[0].from_ns).collect();
        let median_of = |of: &dyn Fn(&Drain) -> u64| {
            let mut all: Vec<u64> = self.drains.iter().map(of).collect();
            all.sort_unstable();
            all[all.len() / 2]
        };
        let total_s = lengths.iter().sum::<i64>() as f64 / 1e9;
        lengths.sort_unstable();
        periods.sort_unstable();
        Some(DrainCycles {
            count: self.drains.len() as u64,
            median_s: lengths[lengths.len() / 2] as f64 / 1e9,
            period_s: periods[periods.len() / 2] as f64 / 1e9,
            total_s,
            pending_at_start: median_of(&|d| d.pending_at_start),
            pending_at_end: median_of(&|d| d.pending_at_end),
            longest: Vec::new(),
            lengths: Vec::new(),
        })
    }
}
