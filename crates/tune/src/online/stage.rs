//! The limiting stage, and the parameters that affect it.
//!
//! A connection's thread is always in one of four stages, and the one where it spends most of its time is where bytes wait: at the local
//! file, in sending (the connection accepts no more), waiting for answers (everything allowed is posted), or idle (no work). Changing
//! anything else cannot help, and costs a window each. The flow buffer size belongs to no stage: it trades calls for memory, and 1 MiB is
//! large enough for the one and small enough for the other on every path measured (docs/results/BENCH.md).

use std::time::Duration;
use thalweg_client::Stages;

/// Where bytes wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Reading the local source, or writing the local sink.
    Local,
    /// Sending: the path or the server accepts no more on these connections.
    Sending,
    /// Waiting for answers.
    Answers,
    /// Idle.
    Idle,
    /// In batches of small files.
    Batches,
}

impl Stage {
    /// Returns the stage where threads spent most of the time between two polls; `None`: no time was recorded.
    pub(super) fn of(before: &Stages, now: &Stages) -> Option<Stage> {
        let spent = [
            (Stage::Local, now.local.saturating_sub(before.local)),
            (Stage::Sending, now.sending.saturating_sub(before.sending)),
            (Stage::Answers, now.answers.saturating_sub(before.answers)),
            (Stage::Idle, now.idle.saturating_sub(before.idle)),
        ];
        let batches = now.batches.saturating_sub(before.batches);
        // A worker with a large file waits for the connections' threads: only time they do not account for is its own.
        let connections: Duration = spent.iter().filter(|(stage, _)| *stage != Stage::Idle).map(|(_, time)| *time).sum();
        if batches > connections.saturating_mul(2) {
            return Some(Stage::Batches);
        }
        let most = spent.into_iter().max_by_key(|(_, time)| *time)?;
        (!most.1.is_zero()).then_some(most.0)
    }

    /// Returns the stage's parameters, cheapest to try first.
    pub(super) fn parameters(self) -> &'static [&'static str] {
        match self {
            // Each connection's thread reads and writes by itself.
            Stage::Local | Stage::Sending => &["streams"],
            // More in flight on existing connections first; then more connections.
            Stage::Answers => &["depth", "streams"],
            Stage::Idle => &["requests", "workers"],
            Stage::Batches => &["workers"],
        }
    }

    /// Returns a short description.
    pub(super) fn words(self) -> &'static str {
        match self {
            Stage::Local => "the local file",
            Stage::Sending => "sending",
            Stage::Answers => "waiting for answers",
            Stage::Idle => "no work",
            Stage::Batches => "batches of small files",
        }
    }
}

/// Returns the share of time the threads were idle between two polls.
pub(super) fn resting(before: &Stages, now: &Stages) -> f64 {
    let spent = |of: fn(&Stages) -> Duration| of(now).saturating_sub(of(before)).as_secs_f64();
    let idle = spent(|s| s.idle);
    let all = idle + spent(|s| s.local) + spent(|s| s.sending) + spent(|s| s.answers);
    if all > 0.0 { idle / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_is_where_threads_were_most_of_the_time_between_the_looks() {
        let seconds = Duration::from_secs;
        let before = Stages { local: seconds(100), ..Stages::default() };
        let mut now = Stages { local: seconds(101), answers: seconds(3), ..Stages::default() };
        assert_eq!(Stage::of(&before, &now), Some(Stage::Answers));
        now.batches = seconds(20);
        assert_eq!(Stage::of(&before, &now), Some(Stage::Batches));
        assert_eq!(Stage::of(&now, &now), None);
        now.idle = seconds(8);
        assert!((resting(&before, &now) - 8.0 / 12.0).abs() < 1e-9);
    }
}
