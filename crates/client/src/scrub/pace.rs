//! The rate of a scrub.

use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;

/// Keeps what all threads of a scrub read together at a rate.
pub(super) struct Pace {
    bytes_per_second: Option<u64>,
    /// When what was read so far is paid for.
    due: Mutex<Instant>,
}

/// Longest sleep between two looks at whether the scrub is to end.
const STEP: Duration = Duration::from_millis(100);
/// What is read at once: shorter requests at low rates, so that others wait less.
const MOST_BYTES: u64 = 16 << 20;
const LEAST_BYTES: u64 = 1 << 20;

impl Pace {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace { bytes_per_second, due: Mutex::new(Instant::now()) }
    }

    /// Returns how much to read at once.
    pub(super) fn most_bytes(&self) -> u64 {
        self.bytes_per_second.map_or(MOST_BYTES, |rate| (rate / 16).clamp(LEAST_BYTES, MOST_BYTES))
    }

    /// Sleeps until these bytes are paid for, unless `is_over`.
    pub(super) fn spend(&self, bytes: u64, is_over: &dyn Fn() -> bool) {
        let Some(rate) = self.bytes_per_second.filter(|rate| *rate > 0) else { return };
        let until = {
            let mut due = self.due.lock();
            // Time in which nothing was read is not saved up.
            *due = (*due).max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / rate as f64);
            *due
        };
        while !is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_read_together_takes_as_long_as_the_rate_says_and_an_interruption_ends_it() {
        let pace = Pace::new(Some(10 << 20));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..4).for_each(|_| pace.spend(256 << 10, &|| false)));
            }
        });
        // 2 MiB at 10 MiB/s; a busy machine only takes longer.
        assert!(begun.elapsed() >= Duration::from_millis(190), "{:?}", begun.elapsed());
        pace.spend(1 << 40, &|| true);
        Pace::new(None).spend(u64::MAX, &|| false);
        assert_eq!((Pace::new(Some(200 << 20)).most_bytes(), Pace::new(Some(1)).most_bytes()), (200 << 16, 1 << 20));
    }
}
