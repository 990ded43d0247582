//! How far a copy is: a bar with rate and time left on a terminal, a plain line every two seconds without one, on standard error.
//!
//! Both go on while nothing moves: a stall is when a person most wants to see that the program is there.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_trace::numbers;

/// Between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// Between redraws of the bar.
const REDRAW_EVERY: Duration = Duration::from_millis(100);

/// Shows how many bytes were moved. Shared by the threads that move them.
pub struct Progress {
    counts: Arc<Counts>,
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines { ended: Arc<(Mutex<bool>, Condvar)>, thread: Option<JoinHandle<()>> },
    Nothing,
}

/// What is counted; 0 bytes in all: not known.
struct Counts {
    name: String,
    begun: Instant,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl Progress {
    /// Of `name`, which has `total_bytes` where that is known. `quiet`: shows nothing.
    pub fn new(name: &str, total_bytes: Option<u64>, quiet: bool) -> Progress {
        let counts = Arc::new(Counts {
            name: name.to_owned(),
            begun: Instant::now(),
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

    /// The total is known now, where it was not.
    pub fn expect(&self, total_bytes: u64) {
        if self.counts.total_bytes.compare_exchange(0, total_bytes, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            && let Shown::Bar(bar) = &self.shown
        {
            bar.set_length(total_bytes);
            bar.set_style(style(true));
        }
    }

    /// The total is so many bytes more than was known.
    pub fn grow(&self, bytes: u64) {
        let before = self.counts.total_bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Shown::Bar(bar) = &self.shown {
            bar.set_length(before + bytes);
            if before == 0 {
                bar.set_style(style(true));
            }
        }
    }

    /// `bytes` more were moved.
    pub fn advance(&self, bytes: u64) {
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
                *ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
                ended.1.notify_all();
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
        }
    }
}

impl Counts {
    fn line(&self) -> String {
        let seconds = self.begun.elapsed().as_secs_f64();
        let (done, total) = (self.done_bytes.load(Ordering::Relaxed), self.total_bytes.load(Ordering::Relaxed));
        let rate = numbers::byte_rate(done as f64 / seconds);
        if total == 0 {
            return format!("{}: {}, {rate}", self.name, numbers::size(done));
        }
        let percent = 100 * u128::from(done) / u128::from(total);
        let left = match done {
            0 => "?".to_owned(),
            _ => numbers::duration(seconds * total.saturating_sub(done) as f64 / done as f64),
        };
        format!("{}: {} of {} ({percent} %), {rate}, ETA {left}", self.name, numbers::size(done), numbers::size(total))
    }
}

fn lines(counts: &Arc<Counts>) -> Shown {
    let ended: Arc<(Mutex<bool>, Condvar)> = Arc::default();
    let (counts, heard) = (Arc::clone(counts), Arc::clone(&ended));
    let told = move || {
        let mut end = heard.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*end {
            let waited = heard.1.wait_timeout_while(end, LINE_EVERY, |end| !*end).unwrap_or_else(PoisonError::into_inner);
            end = waited.0;
            if waited.1.timed_out() {
                crate::output::note(&counts.line());
            }
        }
    };
    // Without a thread there are no lines, and the copy goes on.
    let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(told).ok();
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

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long_still() {
        let counts = Counts {
            name: "a".into(),
            begun: Instant::now(),
            done_bytes: AtomicU64::new(64 << 20),
            total_bytes: AtomicU64::new(256 << 20),
        };
        let line = counts.line();
        assert!(line.starts_with("a: 64 MiB of 256 MiB (25 %), ") && line.contains("/s, ETA "), "{line}");
        counts.total_bytes.store(0, Ordering::Relaxed);
        assert!(counts.line().starts_with("a: 64 MiB, "));
    }
}
