//! Latencies of single calls of a recorded program: reads, writes, syncs, and requests to a server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use thalweg_trace::{Recording, Role, Source, SpanBatch, SpanKind};

/// Ratio between bucket bounds.
const WIDTH: f64 = 1.02;

/// Returns the 99th percentile in seconds, to within a bucket of 2 %; `None` if the recording has no such call. Merged calls (which never
/// blocked) count each with their mean.
pub(super) fn p99_s(recording: &Path) -> std::io::Result<Option<f64>> {
    let recording = Recording::open(recording).map_err(std::io::Error::other)?;
    let of_program: BTreeSet<u64> = recording
        .tracks()
        .iter()
        .filter(|track| !matches!(track.role, Role::Server | Role::Kernel | Role::Recorder))
        .map(|track| track.track.number())
        .collect();
    let mut lengths = Lengths::default();
    for batch in recording.spans_backward() {
        lengths.add(&batch.map_err(std::io::Error::other)?, |track| of_program.contains(&track));
    }
    Ok(lengths.quantile_s(0.99))
}

/// A histogram of calls by the logarithm of their duration.
#[derive(Default)]
struct Lengths {
    calls: u64,
    by_bucket: BTreeMap<u32, u64>,
}

impl Lengths {
    fn add(&mut self, batch: &SpanBatch, is_of_program: impl Fn(u64) -> bool) {
        for row in 0..batch.len() {
            let is_call = matches!(batch.kind[row], SpanKind::FileRead | SpanKind::FileWrite | SpanKind::FileSync | SpanKind::RpcCall);
            if is_call && is_of_program(batch.track[row]) {
                let count = u64::from(batch.count[row].max(1));
                let mean_ns = (batch.end_ns[row] - batch.start_ns[row]).max(1) as f64 / count as f64;
                *self.by_bucket.entry((mean_ns.max(1.0).ln() / WIDTH.ln()) as u32).or_default() += count;
                self.calls += count;
            }
        }
    }

    fn quantile_s(&self, quantile: f64) -> Option<f64> {
        let wanted = (self.calls as f64 * quantile).ceil() as u64;
        let mut so_far = 0;
        let reached = self.by_bucket.iter().find(|(_, calls)| {
            so_far += **calls;
            so_far >= wanted
        });
        reached.filter(|_| self.calls > 0).map(|(bucket, _)| WIDTH.powf(f64::from(*bucket) + 0.5) * 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_counts_merged_calls_each_and_leaves_other_work_out() {
        let mut batch = SpanBatch::default();
        let mut push = |kind, track, count, ns: i64| {
            let span = thalweg_trace::Span::bare(
                thalweg_trace::SpanId::new(1).unwrap(),
                thalweg_trace::TrackId::new(track).unwrap(),
                kind,
                thalweg_trace::Time::from_monotonic_ns(0),
                ns as u64,
            );
            batch.push(&thalweg_trace::Span { count, ..span }, 0, ns);
        };
        push(SpanKind::FileRead, 1, 980, 980_000);
        push(SpanKind::FileWrite, 1, 15, 15 * 50_000);
        push(SpanKind::FileSync, 1, 5, 5 * 9_000_000);
        push(SpanKind::CpuRun, 1, 1, 900_000_000);
        push(SpanKind::FileRead, 2, 1, 900_000_000);
        let mut lengths = Lengths::default();
        lengths.add(&batch, |track| track == 1);
        assert_eq!(lengths.calls, 1000);
        let near = |quantile, expected: f64| (lengths.quantile_s(quantile).unwrap() / expected - 1.0).abs() < 0.02;
        assert!(near(0.5, 1e-6) && near(0.99, 50e-6) && near(1.0, 9e-3));
        assert_eq!(Lengths::default().quantile_s(0.99), None);
    }
}
