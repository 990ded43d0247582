//! Queueing for processors: how many of the run's threads ran when, and from which length queueing was due to a quota.

use super::program::{Class, Op};
use super::rows::{Row, Rows};
use super::timeline::{Piece, Timeline};
use crate::limits::replay as limits;
use crate::observe::tables::Tables;
use thalweg_trace::{ObjectKind, SpanKind};

/// Whether an operation is queueing of recorded length.
pub(crate) fn is_queueing(op: &Op) -> bool {
    matches!(op, Op::Delay { class: Class::Foreign | Class::Queue | Class::Ours | Class::LongQueue | Class::Recorder | Class::Quota, .. })
}

/// Number of the run's running threads over time, and the work each got done.
pub(crate) struct Busy {
    cpus: f64,
    times: Vec<i64>,
    running: Vec<i32>,
    /// Work of a thread that ran all the time until then, in nanoseconds of a processor not slowed by others.
    done: Vec<f64>,
}

impl Busy {
    /// Computes it for one machine.
    pub(crate) fn of(tables: &Tables, timelines: &[Timeline], machine: u32) -> Busy {
        let ours = timelines.iter().filter(|t| tables.actors[t.track as usize].machine == machine);
        let runs = ours.flat_map(|t| t.pieces.iter()).filter_map(|p| if let Piece::Run(a, b) = *p { Some((a, b)) } else { None });
        let mut changes: Vec<(i64, i32)> = runs.flat_map(|(a, b)| [(a, 1), (b, -1)]).collect();
        changes.sort_unstable();
        let cpus = f64::from(tables.machines[machine as usize].cpus.max(1));
        let mut busy = Busy { cpus, times: Vec::new(), running: Vec::new(), done: Vec::new() };
        for (at, change) in changes {
            let (done, running) = (busy.done_by(at), busy.running.last().copied().unwrap_or(0) + change);
            busy.times.push(at);
            busy.running.push(running);
            busy.done.push(done);
        }
        busy
    }

    /// The number at an instant.
    pub(crate) fn at(&self, instant: i64) -> i32 {
        let after = self.times.partition_point(|&t| t <= instant);
        after.checked_sub(1).map_or(0, |i| self.running[i])
    }

    /// Work of a thread that ran from `from` to `to`, in nanoseconds of a processor not slowed by others. No more threads run than there
    /// are processors: if more seem to, their queueing was not recorded, and they are assumed to have shared the processors equally, as
    /// they will in the replay.
    pub(crate) fn worked(&self, from: i64, to: i64) -> f64 {
        (self.done_by(to) - self.done_by(from)).clamp(0.0, (to - from) as f64)
    }

    fn done_by(&self, instant: i64) -> f64 {
        let after = self.times.partition_point(|&t| t <= instant);
        let Some(i) = after.checked_sub(1) else { return instant as f64 - self.times.first().copied().unwrap_or(instant) as f64 };
        let (running, since) = (f64::from(self.running[i].max(1)), (instant - self.times[i]) as f64);
        let speed = 1.0 / (1.0 + limits::SLOWDOWN * (running.min(self.cpus) - 1.0));
        self.done[i] + since * (self.cpus / running).min(1.0) * speed
    }
}

/// Length from which queueing was due to a quota: its longest intervals, as many as add up to the quota's time. The kernel counts that time
/// by processor, however many threads were stopped on each.
pub(crate) fn stopped_from_ns(tables: &Tables, rows: &Rows, end: usize, quota: Option<f64>) -> i64 {
    let Some(taken_ns) = quota else { return i64::MAX };
    let ours = |r: &&Row| tables.actors[r.track as usize].end as usize == end;
    // If the recording shows which queueing was the quota's, no other was.
    let is_group = |r: &Row| tables.objects.get(r.object as usize).is_some_and(|object| object.kind == ObjectKind::Cgroup);
    if rows.rows.iter().any(|r| r.kind == SpanKind::WaitRunqueue && is_group(r)) {
        return i64::MAX;
    }
    let queued = rows.rows.iter().filter(|r| r.kind == SpanKind::WaitRunqueue && r.end - r.start >= limits::QUOTA_WAIT_NS).filter(ours);
    let mut intervals: Vec<(i64, i64)> = queued.map(|r| (r.start, r.end)).collect();
    let processors = tables.machines.iter().map(|m| m.cpus.max(1)).max().unwrap_or(1);
    intervals.sort_unstable_by_key(|&(start, end)| std::cmp::Reverse(end - start));
    let enough = |count: usize| processor_time_ns(&intervals[..count], processors) as f64 >= taken_ns;
    if intervals.is_empty() || !enough(intervals.len()) {
        return limits::QUOTA_WAIT_NS;
    }
    let (mut too_few, mut enough_of) = (0, intervals.len());
    while enough_of - too_few > 1 {
        let middle = too_few.midpoint(enough_of);
        if enough(middle) { enough_of = middle } else { too_few = middle }
    }
    let (start, end) = intervals[enough_of - 1];
    end - start
}

/// Time that processors were idle, when threads queued in these intervals: each thread on a processor of its own, while there are enough.
fn processor_time_ns(intervals: &[(i64, i64)], processors: u32) -> i64 {
    let mut edges: Vec<(i64, i64)> = intervals.iter().flat_map(|&(start, end)| [(start, 1), (end, -1)]).collect();
    edges.sort_unstable();
    let (mut sum, mut queued, mut since) = (0, 0, 0);
    for (at, change) in edges {
        sum += queued.min(i64::from(processors)) * (at - since);
        (queued, since) = (queued + change, at);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::processor_time_ns;

    #[test]
    fn threads_that_stood_still_together_are_counted_by_processor() {
        assert_eq!(processor_time_ns(&[(0, 10)], 2), 10);
        assert_eq!(processor_time_ns(&[(0, 10), (2, 12), (4, 6)], 2), 20, "never more than two at once");
        assert_eq!(processor_time_ns(&[(0, 10), (20, 30)], 2), 20);
    }
}
