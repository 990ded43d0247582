//! Queueing for processors: how many threads of ours ran when, and from which length on a quota made them queue.

use super::rows::Rows;
use super::timeline::{Piece, Timeline};
use crate::cast::Cast;
use thalweg_trace::SpanKind;

/// How many threads of ours ran, over time.
pub struct Busy {
    times: Vec<i64>,
    running: Vec<i32>,
}

impl Busy {
    /// Of one machine.
    pub fn of(cast: &Cast, timelines: &[Timeline], machine: u32) -> Busy {
        let ours = timelines.iter().filter(|t| cast.actors[t.track as usize].machine == machine);
        let runs = ours.flat_map(|t| t.pieces.iter()).filter_map(|p| if let Piece::Run(a, b) = *p { Some((a, b)) } else { None });
        let mut changes: Vec<(i64, i32)> = runs.flat_map(|(a, b)| [(a, 1), (b, -1)]).collect();
        changes.sort_unstable();
        let mut running = 0;
        let running = changes.iter().map(|c| {
            running += c.1;
            running
        });
        Busy { running: running.collect(), times: changes.iter().map(|c| c.0).collect() }
    }

    /// At an instant.
    pub fn at(&self, instant: i64) -> i32 {
        let after = self.times.partition_point(|&t| t <= instant);
        after.checked_sub(1).map_or(0, |i| self.running[i])
    }
}

/// From which length on queueing was a quota's doing: its longest intervals, as many as make up the time it took.
pub fn stopped_from_ns(cast: &Cast, rows: &Rows, end: usize, quota: Option<f64>) -> i64 {
    const LEAST_NS: i64 = 1_000_000;
    let Some(mut left) = quota else { return i64::MAX };
    let queued = rows.rows.iter().filter(|r| r.kind == SpanKind::WaitRunqueue && cast.actors[r.track as usize].end as usize == end);
    let mut lengths: Vec<i64> = queued.map(|r| r.end - r.start).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    for length in lengths {
        left -= length as f64;
        if left <= 0.0 || length <= LEAST_NS {
            return length.max(LEAST_NS);
        }
    }
    LEAST_NS
}
