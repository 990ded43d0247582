//! A device's service over time: its requests with their issuers.
//!
//! At each instant a device is taken to serve the request in progress that completes next. That is right for a device that serves one
//! request at a time, in any order; on one that serves several simultaneously, each issuer gets the part of the time that its requests are
//! of those completed. Whether a request takes longer while others are in progress is decided by [`Requests::queueing`].

use crate::limits::observe as limits;
use crate::observe::index::NONE;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Time it was issued.
    pub start: i64,
    /// Time it completed.
    pub end: i64,
    /// Its issuer: a track, or [`NONE`].
    pub by: u32,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Whether the request writes.
    pub writes: bool,
}

/// A stretch in which a device served one issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Start.
    pub start: i64,
    /// End.
    pub end: i64,
    /// The issuer: a track, or [`NONE`].
    pub by: u32,
}

/// Whether a device makes requests wait for each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Queueing {
    /// The degree to which they take turns: 1 if everything in progress is served first, 0 if nothing is.
    InTurns(f64),
    /// They do not: the device serves many simultaneously.
    AtOnce,
    /// Unknown: the number in progress was constant, or the lengths differ for other reasons.
    DoesNotShow,
}

/// The last [`limits::KEPT_REQUESTS`] requests of a device, by descending end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    kept: Vec<Request>,
    asked: bool,
}

impl Requests {
    /// Adds the next, by descending end.
    pub(crate) fn add(&mut self, request: Request) {
        self.asked |= request.by != NONE;
        if self.kept.len() < limits::KEPT_REQUESTS {
            self.kept.push(request);
        }
    }

    /// All kept requests.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.kept.iter()
    }

    /// Whether any request has its issuer recorded.
    pub(crate) fn says_who(&self) -> bool {
        self.asked
    }

    /// The device's service, earliest first.
    pub(crate) fn served(&self) -> Vec<Stretch> {
        let mut served = Vec::new();
        // In progress at `at`, the next to complete on top.
        let mut open: Vec<(i64, u32)> = Vec::new();
        let mut at = i64::MAX;
        for request in &self.kept {
            back_to(request.end, &mut at, &mut open, &mut served);
            at = at.min(request.end);
            open.push((request.start, request.by));
        }
        back_to(i64::MIN, &mut at, &mut open, &mut served);
        served.reverse();
        served
    }

    /// Whether requests wait for each other: whether a request's length grows with the number in progress when it is issued.
    ///
    /// From each request to the next: the increase in length, against the increase in the number in progress and in bytes. That slope is
    /// compared with the slope for strict turns. The number in progress only approximates what was ahead of a request, which biases the
    /// slope towards zero: so the geometric mean of the two regressions is used.
    pub(crate) fn queueing(&self) -> Queueing {
        if self.kept.len() < limits::ENOUGH_REQUESTS {
            return Queueing::DoesNotShow;
        }
        let mut by_start: Vec<&Request> = self.kept.iter().collect();
        by_start.sort_unstable_by_key(|request| request.start);
        let mut under_way = std::collections::BinaryHeap::new();
        let (mut count, mut bytes) = (0.0, 0.0);
        let (mut counts, mut sizes) = (Slope::default(), Slope::default());
        for request in by_start {
            while let Some(&std::cmp::Reverse((end, moved))) = under_way.peek()
                && end <= request.start
            {
                under_way.pop();
                count -= 1.0;
                bytes -= moved as f64;
            }
            let took = (request.end - request.start) as f64;
            counts.point(count, took);
            sizes.point(bytes, took);
            under_way.push(std::cmp::Reverse((request.end, request.bytes)));
            count += 1.0;
            bytes += request.bytes as f64;
        }
        let mean_bytes = self.kept.iter().map(|request| request.bytes as f64).sum::<f64>() / self.kept.len() as f64;
        let shows = |slope: &Slope, own: f64| (slope.fit() >= limits::QUEUE_SHOWS).then(|| slope.between() / slope.in_turns(own));
        let turns = shows(&counts, 1.0).into_iter().chain(shows(&sizes, mean_bytes)).reduce(f64::max);
        match turns {
            Some(turns) if turns >= limits::IN_TURNS => Queueing::InTurns(turns.min(1.0)),
            None if counts.most() / counts.in_turns(1.0) < limits::AT_ONCE => Queueing::AtOnce,
            _ => Queueing::DoesNotShow,
        }
    }
}

/// Adds the service from `end` down to `at`, latest first, and moves back to there.
fn back_to(end: i64, at: &mut i64, open: &mut Vec<(i64, u32)>, served: &mut Vec<Stretch>) {
    while *at > end {
        let Some(&(start, by)) = open.last() else {
            *at = end;
            return;
        };
        let from = start.max(end);
        if from < *at {
            match served.last_mut() {
                Some(last) if last.by == by && last.start == *at => last.start = from,
                _ => served.push(Stretch { start: from, end: *at, by }),
            }
            *at = from;
        }
        if start < end {
            return;
        }
        open.pop();
    }
}

/// How one quantity changes with another, from one point to the next: slow drifts, and requests in progress before the recording, do not
/// matter.
#[derive(Clone, Copy, Debug, Default)]
struct Slope {
    last: Option<(f64, f64)>,
    points: f64,
    x: f64,
    y: f64,
    dx_dx: f64,
    dx_dy: f64,
    dy_dy: f64,
}

impl Slope {
    fn point(&mut self, x: f64, y: f64) {
        self.points += 1.0;
        self.x += x;
        self.y += y;
        if let Some((before_x, before_y)) = self.last.replace((x, y)) {
            let (dx, dy) = (x - before_x, y - before_y);
            self.dx_dx += dx * dx;
            self.dx_dy += dx * dy;
            self.dy_dy += dy * dy;
        }
    }

    /// The part of the second quantity's variation that the first explains, if they change together.
    fn fit(&self) -> f64 {
        let both = self.dx_dx * self.dy_dy;
        if both <= 0.0 || self.dx_dy <= 0.0 { 0.0 } else { self.dx_dy * self.dx_dy / both }
    }

    /// The part of the second's mean that goes with the first.
    fn explained(&self) -> f64 {
        if self.dx_dx <= 0.0 || self.y <= 0.0 { 0.0 } else { self.dx_dy / self.dx_dx * self.x / self.y }
    }

    /// The explained part, if the first is known only approximately.
    fn between(&self) -> f64 {
        self.explained() / self.fit().sqrt()
    }

    /// The most it can be (two standard errors above); infinite if the first did not change.
    fn most(&self) -> f64 {
        if self.dx_dx <= 0.0 || self.y <= 0.0 {
            return f64::INFINITY;
        }
        let unexplained = (self.dy_dy - self.dx_dy * self.dx_dy / self.dx_dx).max(0.0);
        let error = (unexplained / self.points / self.dx_dx).sqrt();
        (self.dx_dy / self.dx_dx + 2.0 * error) * self.x / self.y
    }

    /// The value of [`explained`](Self::explained) if everything in progress is served first, and a request itself is `own` of it.
    fn in_turns(&self, own: f64) -> f64 {
        self.x / (self.x + own * self.points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(all: &[(i64, i64, u32)]) -> Requests {
        let mut requests = Requests::default();
        let mut all = all.to_vec();
        all.sort_by_key(|&(_, end, _)| std::cmp::Reverse(end));
        for (start, end, by) in all {
            requests.add(Request { start, end, by, bytes: 4096, writes: false });
        }
        requests
    }

    fn served(all: &[(i64, i64, u32)]) -> Vec<(i64, i64, u32)> {
        requests(all).served().into_iter().map(|s| (s.start, s.end, s.by)).collect()
    }

    #[test]
    fn a_device_serves_what_is_done_next() {
        assert_eq!(served(&[(0, 10, 1), (0, 20, 2), (0, 30, 1)]), [(0, 10, 1), (10, 20, 2), (20, 30, 1)]);
        assert_eq!(served(&[(0, 10, 1), (5, 7, 2)]), [(0, 5, 1), (5, 7, 2), (7, 10, 1)], "one that overtakes");
        assert_eq!(served(&[(0, 10, 1), (15, 20, 2)]), [(0, 10, 1), (15, 20, 2)], "idle between");
        assert_eq!(served(&[(0, 10, 1), (2, 20, 1)]), [(0, 20, 1)], "joined");
        assert_eq!(
            served(&[(0, 30, 3), (1, 4, 1), (2, 4, 2), (8, 9, 1)]),
            [(0, 1, 3), (1, 2, 1), (2, 4, 2), (4, 8, 3), (8, 9, 1), (9, 30, 3)]
        );
        assert_eq!(served(&[]), []);
    }

    /// Three issuers, each with one request in progress, the second for a part of the time only.
    fn rounds(takes: impl Fn(usize) -> i64) -> Requests {
        let mut all = Vec::new();
        for round in 0..50 {
            let (at, askers) = (round * 1_000, if round % 2 == 0 { 1 } else { 3 });
            all.extend((0..askers).map(|n| (at + n as i64, at + n as i64 + takes(n), n as u32)));
        }
        requests(&all)
    }

    #[test]
    fn that_a_device_serves_one_at_a_time_shows_in_how_long_requests_take() {
        let one_at_a_time = rounds(|ahead| 100 * (ahead as i64 + 1)).queueing();
        assert!(matches!(one_at_a_time, Queueing::InTurns(part) if part > 0.9), "{one_at_a_time:?}");
        assert_eq!(rounds(|_| 100).queueing(), Queueing::AtOnce);
        assert_eq!(requests(&[(0, 10, 1), (0, 20, 2)]).queueing(), Queueing::DoesNotShow, "too few");
    }
}
