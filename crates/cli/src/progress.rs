//! How far a copy is: a bar with rate and time left on a terminal, a plain line every two seconds without one, on standard error.

use crate::size;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Shows how many bytes were moved. Shared by the threads that move them.
pub struct Progress {
    shown: Shown,
    name: String,
    begun: Instant,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

enum Shown {
    Bar(ProgressBar),
    Lines(Mutex<Instant>),
    Nothing,
}

impl Progress {
    /// Of `name`, which has `total_bytes` where that is known. `quiet`: shows nothing.
    pub fn new(name: &str, total_bytes: Option<u64>, quiet: bool) -> Progress {
        let shown = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Shown::Nothing,
            (false, true) => Shown::Bar(bar(name, total_bytes)),
            (false, false) => Shown::Lines(Mutex::new(Instant::now())),
        };
        Progress {
            shown,
            name: name.to_owned(),
            begun: Instant::now(),
            done_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(total_bytes.unwrap_or(0)),
        }
    }

    /// The total is known now (or has grown).
    pub fn set_total(&self, total_bytes: u64) {
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        if let Shown::Bar(bar) = &self.shown {
            bar.set_length(total_bytes);
        }
    }

    /// `bytes` more were moved.
    pub fn advance(&self, bytes: u64) {
        let done = self.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        match &self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => bar.set_position(done),
            Shown::Lines(last) => {
                let Ok(mut last) = last.try_lock() else { return };
                if last.elapsed() >= LINE_EVERY {
                    *last = Instant::now();
                    crate::output::note(&self.line(done));
                }
            }
        }
    }

    fn line(&self, done: u64) -> String {
        let seconds = self.begun.elapsed().as_secs_f64();
        let total = self.total_bytes.load(Ordering::Relaxed);
        let rate = size::rate_text(done, seconds);
        if total == 0 || done == 0 {
            return format!("{}: {}, {rate}", self.name, size::text(done));
        }
        let left = seconds * (total.saturating_sub(done)) as f64 / done as f64;
        let percent = 100 * u128::from(done) / u128::from(total);
        format!("{}: {} of {} ({percent} %), {rate}, {} left", self.name, size::text(done), size::text(total), size::seconds_text(left))
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

fn bar(name: &str, total_bytes: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr_with_hz(10));
    let template = match total_bytes {
        Some(_) => "{prefix} [{bar:30}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, ETA {eta}",
        None => "{prefix} {spinner} {binary_bytes}, {binary_bytes_per_sec}",
    };
    bar.set_style(ProgressStyle::with_template(template).expect("the template is right").progress_chars("=> "));
    bar.set_prefix(name.to_owned());
    bar
}
