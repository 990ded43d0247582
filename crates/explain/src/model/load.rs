//! How busy a machine's processors were, from the sampled spans: what tells the cost of work done alone
//! from that of work done beside other work.

use crate::observe::cast::Cast;
use crate::observe::span::LiveSpan;
use crate::walk::rules::is_idle_wait;

/// When a span's thread ran: all through it, or at the end of a wait.
pub(crate) fn ran(span: &LiveSpan) -> Option<(i64, i64, f64)> {
    let (cpu, _, _) = span.division()?;
    if cpu == 0 || span.is_container() || !span.is_activity() {
        return None;
    }
    let from = if is_idle_wait(span) { span.end - cpu as i64 } else { span.start };
    let length = (span.end - from).max(1);
    Some((from, span.end, cpu as f64 / length as f64))
}

/// The number of running threads of one machine over time, integrated.
#[derive(Debug, Default)]
pub(crate) struct Load {
    times: Vec<i64>,
    running: Vec<f64>,
    integral: Vec<f64>,
}

impl Load {
    /// Of one run of sampled spans.
    pub(crate) fn of(cast: &Cast, spans: &[LiveSpan], machine: u32) -> Load {
        let on_machine = spans.iter().filter(|s| cast.actors[s.track as usize].machine == machine);
        let mut changes: Vec<(i64, f64)> =
            on_machine.filter_map(ran).flat_map(|(from, to, weight)| [(from, weight), (to, -weight)]).collect();
        changes.sort_by_key(|c| c.0);
        let mut load = Load::default();
        let (mut running, mut integral) = (0.0, 0.0);
        for (at, change) in changes {
            if let Some(&last) = load.times.last() {
                integral += running * (at - last) as f64;
            }
            running += change;
            load.times.push(at);
            load.running.push(running);
            load.integral.push(integral);
        }
        load
    }

    fn until(&self, at: i64) -> f64 {
        let after = self.times.partition_point(|&t| t <= at);
        match after.checked_sub(1) {
            Some(i) => self.integral[i] + self.running[i] * (at - self.times[i]) as f64,
            None => 0.0,
        }
    }

    /// The mean number of other threads running while this span's thread ran.
    pub(crate) fn others(&self, span: &LiveSpan) -> Option<f64> {
        let (from, to, weight) = ran(span)?;
        let all = (self.until(to) - self.until(from)) / (to - from).max(1) as f64;
        Some((all - weight).max(0.0))
    }
}

/// Work of one class: how its cost per byte depends on how many others ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trend {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    count: u32,
}

impl Trend {
    /// Adds a span: its cost per byte `y` beside `x` others, with this weight.
    pub(crate) fn add(&mut self, x: f64, y: f64, weight: f64) {
        self.weight += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.xy += weight * x * y;
        self.count += 1;
    }

    /// By which part of the cost alone each further running thread adds to it, and how much that is to be trusted.
    fn slowdown(&self) -> Option<(f64, f64)> {
        if self.count < 12 || self.weight <= 0.0 {
            return None;
        }
        let (mean_x, mean_y) = (self.x / self.weight, self.y / self.weight);
        let variance = self.xx / self.weight - mean_x * mean_x;
        let covariance = self.xy / self.weight - mean_x * mean_y;
        if variance < 0.02 {
            return None;
        }
        let slope = covariance / variance;
        let alone = mean_y - slope * mean_x;
        (alone > 0.0).then(|| (slope / alone, self.weight * variance))
    }
}

/// By which part processors usually slow each other down: what is assumed where a recording does not tell.
const USUAL_SLOWDOWN: f64 = 0.10;

/// More than this no processors slow each other down; what shows more is a cost of another kind that
/// happened to come when others ran (a first touch of memory, a full buffer).
const MOST_SLOWDOWN: f64 = 0.5;

/// How much one recording's fit counts against what is usual. Fits of recordings of one copy on one machine, minutes
/// apart, lie anywhere between none and [`MOST_SLOWDOWN`]: most of what one shows is chance.
const TRUST_IN_FIT: f64 = 0.25;

/// The slowdown that all classes of work together show, drawn towards what is usual.
pub(crate) fn slowdown(trends: &[Trend]) -> f64 {
    let (sum, weight) = trends.iter().filter_map(Trend::slowdown).fold((0.0, 0.0), |(s, w), (b, trust)| (s + b * trust, w + trust));
    let fit = if weight > 0.0 { (sum / weight).clamp(0.0, MOST_SLOWDOWN) } else { USUAL_SLOWDOWN };
    USUAL_SLOWDOWN + TRUST_IN_FIT * (fit - USUAL_SLOWDOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowdown_of_work_beside_other_work_is_found() {
        let mut trend = Trend::default();
        for i in 0..50 {
            let others = f64::from(i % 2);
            trend.add(others, 100.0 * (1.0 + 0.3 * others), 1.0);
        }
        let found = USUAL_SLOWDOWN + TRUST_IN_FIT * (0.3 - USUAL_SLOWDOWN);
        assert!((slowdown(&[trend, Trend::default()]) - found).abs() < 1e-6);
        assert_eq!(slowdown(&[]), USUAL_SLOWDOWN);
    }
}
