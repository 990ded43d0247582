//! Progress of a copy on standard error: a bar with rate and ETA on a terminal, a plain line every two seconds elsewhere.
//!
//! Both keep updating during a stall, to show that the program is alive.

use super::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::{Condvar, Mutex};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_base::numbers;

/// Interval between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// Interval between redraws of the bar.
const REDRAW_EVERY: Duration = Duration::from_millis(100);

/// Shows the bytes moved. Shared by the threads that move them.
pub(crate) struct Progress {
    counts: Arc<Counts>,
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines { ended: Arc<(Mutex<bool>, Condvar)>, thread: Option<JoinHandle<()>> },
    Nothing,
}

/// The counts; a total of 0 bytes means unknown.
struct Counts {
    name: String,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl Progress {
    /// Starts showing the progress of `name`, of `total_bytes` if known. `quiet` shows nothing.
    pub(crate) fn new(name: &str, total_bytes: Option<u64>, quiet: bool) -> Progress {
        let counts = Arc::new(Counts {
            name: name.to_owned(),
            done_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(total_bytes.unwrap_or(0)),
        });
        let shown = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Shown::Nothing,
            (false, true) => Shown::Bar(bar(name, total_bytes)),
            (false, false) => lines(&counts),
        };
        Progress { counts, shown }
    }

    /// Sets the total, as far as it is known now.
    pub(crate) fn expect(&self, total_bytes: u64) {
        let before = self.counts.total_bytes.swap(total_bytes, Ordering::Relaxed);
        if let Shown::Bar(bar) = &self.shown {
            bar.set_length(total_bytes);
            if before == 0 {
                bar.set_style(style(true));
            }
        }
    }

    /// Lowers the total by `bytes`.
    pub(crate) fn shrink(&self, bytes: u64) {
        let total_bytes = self.counts.total_bytes.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes);
        if let (Shown::Bar(bar), true) = (&self.shown, bytes > 0) {
            bar.set_length(total_bytes);
        }
    }

    /// Raises the total by `bytes`.
    pub(crate) fn grow(&self, bytes: u64) {
        let before = self.counts.total_bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Shown::Bar(bar) = &self.shown {
            bar.set_length(before + bytes);
            if before == 0 {
                bar.set_style(style(true));
            }
        }
    }

    /// Adds `bytes` to the bytes moved.
    pub(crate) fn advance(&self, bytes: u64) {
        let done = self.counts.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Shown::Bar(bar) = &self.shown {
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => bar.finish_and_clear(),
            Shown::Lines { ended, thread } => {
                *ended.0.lock() = true;
                ended.1.notify_all();
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
        }
    }
}

impl Counts {
    /// Formats the plain line after `elapsed`.
    fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        let (done, total) = (self.done_bytes.load(Ordering::Relaxed), self.total_bytes.load(Ordering::Relaxed));
        let rate = numbers::byte_rate(done as f64 / seconds);
        if total == 0 {
            return format!("{}: {}, {rate}", self.name, numbers::size(done));
        }
        let percent = 100 * u128::from(done) / u128::from(total);
        let left = seconds_left(seconds, done, total).map_or_else(|| "?".to_owned(), numbers::duration);
        format!("{}: {} of {} ({percent} %), {rate}, ETA {left}", self.name, numbers::size(done), numbers::size(total))
    }
}

/// Returns the time left at the average rate so far, in seconds; `None` if there is no rate yet.
fn seconds_left(seconds: f64, done_bytes: u64, total_bytes: u64) -> Option<f64> {
    (done_bytes > 0).then(|| seconds * total_bytes.saturating_sub(done_bytes) as f64 / done_bytes as f64)
}

fn lines(counts: &Arc<Counts>) -> Shown {
    let ended: Arc<(Mutex<bool>, Condvar)> = Arc::default();
    let (counts, heard) = (Arc::clone(counts), Arc::clone(&ended));
    let begun = Instant::now();
    let report = move || {
        let mut end = heard.0.lock();
        while !*end {
            if heard.1.wait_while_for(&mut end, |end| !*end, LINE_EVERY).timed_out() && !*end {
                output::note(&counts.line(begun.elapsed()));
            }
        }
    };
    // Without a thread there are no lines; the copy continues.
    let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(report).ok();
    Shown::Lines { ended, thread }
}

fn bar(name: &str, total_bytes: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(style(total_bytes.is_some()));
    bar.set_prefix(name.to_owned());
    bar.enable_steady_tick(REDRAW_EVERY);
    bar
}

fn style(total_is_known: bool) -> ProgressStyle {
    let template = match total_is_known {
        true => "{prefix} [{bar:30}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, ETA {eta}",
        false => "{prefix} {spinner} {binary_bytes}, {binary_bytes_per_sec}",
    };
    ProgressStyle::with_template(template).expect("the template is right").progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(done_bytes: u64, total_bytes: u64) -> Counts {
        Counts { name: "a".into(), done_bytes: AtomicU64::new(done_bytes), total_bytes: AtomicU64::new(total_bytes) }
    }

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long_still() {
        let line = |done_bytes, total_bytes, seconds| counts(done_bytes, total_bytes).line(Duration::from_secs(seconds));
        assert_eq!(line(64 << 20, 256 << 20, 4), "a: 64 MiB of 256 MiB (25 %), 16 MiB/s, ETA 12.0 s");
        assert_eq!(line(64 << 20, 0, 4), "a: 64 MiB, 16 MiB/s");
        assert_eq!(line(0, 256 << 20, 4), "a: 0 B of 256 MiB (0 %), 0 B/s, ETA ?");
    }

    #[test]
    fn the_time_left_is_what_the_rest_takes_at_the_rate_so_far() {
        let copy_s = 80.0;
        for percent in 1..=100_u64 {
            // A copy at an even rate, at each moment of which the time passed and the time left are the whole.
            let passed_s = copy_s * percent as f64 / 100.0;
            let left_s = seconds_left(passed_s, percent << 20, 100 << 20).unwrap();
            assert!((passed_s + left_s - copy_s).abs() < 1e-6, "{left_s} s left at {percent} %");
        }
        assert_eq!(seconds_left(10.0, 3 << 20, 4 << 20), Some(10.0 / 3.0), "twice the rest is not twice the whole");
        assert_eq!(seconds_left(10.0, 5 << 20, 4 << 20), Some(0.0), "a file that has grown");
        assert_eq!(seconds_left(10.0, 0, 4 << 20), None);
        // A stall puts the end off.
        assert!(seconds_left(20.0, 1 << 20, 4 << 20) > seconds_left(10.0, 1 << 20, 4 << 20));
    }
}
