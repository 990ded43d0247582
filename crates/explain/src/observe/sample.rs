//! The spans the replay model is made from: all of them, while they are few, and after that every
//! second, fourth, eighth, ... run of consecutive ones, so that requests stay whole and memory bounded.

use crate::observe::cast::Cast;
use crate::observe::span::LiveSpan;

/// Consecutive spans kept together.
const RUN_SPANS: usize = 8192;

/// Runs kept at most.
const RUNS: usize = 64;

/// The sample, gathered backward.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    runs: Vec<Vec<LiveSpan>>,
    /// Every how many runs one is kept, as a power of two.
    stride_bits: u32,
    seen: usize,
    off: bool,
}

impl Sample {
    /// Keeps nothing: no model will be made.
    pub(crate) fn off() -> Sample {
        Sample { off: true, ..Sample::default() }
    }

    /// Takes the next span.
    #[inline]
    pub(crate) fn take(&mut self, _cast: &Cast, span: &LiveSpan) {
        let run = self.seen / RUN_SPANS;
        let first_of_run = self.seen.is_multiple_of(RUN_SPANS);
        self.seen += 1;
        if self.off || run & ((1 << self.stride_bits) - 1) != 0 {
            return;
        }
        if first_of_run {
            self.make_room();
            if run & ((1 << self.stride_bits) - 1) != 0 {
                return;
            }
            self.runs.push(Vec::with_capacity(if self.runs.is_empty() { 256 } else { RUN_SPANS }));
        }
        if let Some(run) = self.runs.last_mut() {
            run.push(*span);
        }
    }

    fn make_room(&mut self) {
        if self.runs.len() < RUNS {
            return;
        }
        self.stride_bits += 1;
        let mut position = 0;
        self.runs.retain(|_| {
            position += 1;
            position % 2 == 1
        });
    }

    /// The runs, latest first; within each, by descending end.
    pub(crate) fn runs(&self) -> &[Vec<LiveSpan>] {
        &self.runs
    }
}
