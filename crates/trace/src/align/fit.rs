//! Turns bounds into a continuous, piecewise linear map between two clocks, with its error.
//!
//! A stretch of the map is a line, given by its offsets at the stretch's two ends: a point (x, y) of a plane. Each
//! bound is a half-plane there, as is the maximum drift; their intersection is a convex polygon, small in both
//! directions where bytes went both ways. Its centre is the stretch's estimate; the distance from its corners to the
//! final map is the error.
//!
//! A program can be interrupted between reading the clock and the event, so a few timestamps are late by some
//! microseconds, and a late timestamp makes a bound that the truth breaks. Such a bound need not contradict any
//! other, since the bounds of the two sides are a round trip apart: it then goes unnoticed, and the resulting polygon
//! excludes the truth. Late timestamps cannot be identified, so the bounds of a side are dealt into enough parts that
//! one of them is free of late ones, and the error covers the polygons of all parts, each without its few tightest
//! bounds.

use super::bounds::Limit;
use crate::{Clock, HostId};
use std::ops::Range;

/// Maximum drift between two clocks: quartz is within 100 ppm, and time daemons correct by little more. Clocks that
/// drift more contradict their bounds, which widens the error bar; a larger maximum would widen it for every short
/// recording.
const MOST_DRIFT: f64 = 3e-4;
/// Minimum length of a stretch, if the bounds last as long: long enough to distinguish drift from delay, short enough for a
/// constant drift.
const STRETCH_NS: i64 = 60_000_000_000;
/// Minimum length when a stretch is cut because the clock's rate changed within it.
const SHORTEST_STRETCH_NS: i64 = 1_000_000_000;
/// Minimum bounds of each side in a stretch.
const FEWEST: usize = 8;
/// One in this many bounds of a side may come from a late timestamp; a side with enough bounds has at least
/// [`LEAST_UNBELIEVED`] of them. Measured: one in some hundreds, late by 10 µs or more, of programs competing for two
/// CPUs.
const ONE_IN_LATE: usize = 50;
const LEAST_UNBELIEVED: usize = 2;
/// Contradictions up to this size are attributed to late timestamps and go into the error bar.
const TOLERATED_NS: f64 = 20_000.0;

/// The line of one stretch: its offsets at both ends, and the alternatives that also fit.
#[derive(Clone, Debug)]
struct Line {
    from_ns: i64,
    to_ns: i64,
    at: [f64; 2],
    corners: Vec<Corner>,
    /// Amount by which the stretch's bounds were loosened.
    slack: f64,
}

/// Returns the pieces of the map, the number of bounds dropped as contradictory, and the size of the remaining
/// contradiction in ns (clock steps included). `covers` is the interval the map must hold for; beyond the bounds the
/// error grows with the uncertainty of the drift.
pub(super) fn fit(limits: &[Limit], covers: Range<i64>) -> Option<(Vec<Clock>, usize, u64)> {
    let first = limits.first()?;
    // Offsets relative to the first are small enough for floating point to keep nanoseconds.
    let base_ns = first.offset_ns;
    let (mut lines, mut dropped) = (Vec::new(), 0);
    for stretch in stretches(limits) {
        fit_or_cut(stretch, base_ns, &mut lines, &mut dropped);
    }
    let slack = lines.iter().map(|line| line.slack).fold(0.0, f64::max);
    let slack = lines.windows(2).map(|pair| pair[0].jump_to(&pair[1])).fold(slack, f64::max);
    let mut clocks = joined(&lines, base_ns);
    extend(&mut clocks, &lines, base_ns, covers);
    Some((clocks, dropped, slack.ceil() as u64))
}

/// Cuts the bounds into stretches with enough bounds of both sides each.
fn stretches(limits: &[Limit]) -> Vec<&[Limit]> {
    let mut cuts = vec![0];
    let mut count = [0_usize; 2];
    for (i, limit) in limits.iter().enumerate() {
        let begun = *cuts.last().expect("there is a first cut");
        let long = limit.at_ns - limits[begun].at_ns >= STRETCH_NS;
        if long && count.iter().all(|n| *n >= FEWEST) {
            cuts.push(i);
            count = [0; 2];
        }
        count[usize::from(limit.upper)] += 1;
    }
    if cuts.len() > 1 && count.iter().any(|n| *n < FEWEST) {
        cuts.pop();
    }
    // The next stretch's first bound belongs to both, so that no gap is left between them.
    let ends = cuts.iter().skip(1).map(|cut| cut + 1).chain([limits.len()]);
    cuts.iter().zip(ends).map(|(from, to)| &limits[*from..to]).collect()
}

/// Fits one stretch. If no line satisfies its bounds, drops the few that contradict the rest, or else cuts the
/// stretch.
fn fit_or_cut(stretch: &[Limit], base_ns: i64, lines: &mut Vec<Line>, dropped: &mut usize) {
    let mut problem = Problem::new(stretch, base_ns);
    let most_dropped = (stretch.len() / 100).max(2);
    let mut slack = problem.least_slack();
    let mut taken_out = 0;
    while slack > TOLERATED_NS && taken_out < most_dropped {
        let Some(better) = problem.without_worst(slack) else { break };
        slack = better;
        taken_out += 1;
    }
    let length_ns = stretch[stretch.len() - 1].at_ns - stretch[0].at_ns;
    if slack > TOLERATED_NS && length_ns > 2 * SHORTEST_STRETCH_NS {
        let middle = stretch[0].at_ns + length_ns / 2;
        let cut = stretch.partition_point(|limit| limit.at_ns < middle);
        let (one, other) = (&stretch[..=cut], &stretch[cut..]);
        let both_sides = |part: &[Limit]| part.iter().any(|l| l.upper) && part.iter().any(|l| !l.upper);
        if both_sides(one) && both_sides(other) {
            fit_or_cut(one, base_ns, lines, dropped);
            fit_or_cut(other, base_ns, lines, dropped);
            return;
        }
    }
    *dropped += taken_out;
    lines.push(problem.line(slack));
}

/// Joins lines at their ends; the offset at a joint is the mean of both.
fn joined(lines: &[Line], base_ns: i64) -> Vec<Clock> {
    let mut clocks = Vec::with_capacity(lines.len());
    let mut offset_ns = lines.first().map_or(0.0, |line| line.at[0]);
    for (i, line) in lines.iter().enumerate() {
        let next = lines.get(i + 1);
        let end = next.map_or(line.at[1], |next| (line.at[1] + next.at[0]) / 2.0);
        let error = line.error_at(line.from_ns, offset_ns).max(line.error_at(line.to_ns, end));
        let drift = (end - offset_ns) / ((line.to_ns - line.from_ns) as f64).max(1.0);
        clocks.push(Clock {
            host: HostId(0),
            from_ns: line.from_ns,
            offset_ns: base_ns.saturating_add(offset_ns.round() as i64),
            drift_ppb: (drift * 1e9).round() as i64,
            error_ns: error.ceil() as u64,
        });
        offset_ns = end;
    }
    clocks
}

/// Extends the first and last line beyond the bounds, with a growing error.
fn extend(clocks: &mut Vec<Clock>, lines: &[Line], base_ns: i64, covers: Range<i64>) {
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return };
    let value =
        |clock: &Clock, at_ns: i64| (clock.offset_ns - base_ns) as f64 + clock.drift_ppb as f64 * 1e-9 * (at_ns - clock.from_ns) as f64;
    if last.to_ns < covers.end {
        let clock = clocks[clocks.len() - 1];
        let begin = (clock.drift_ppb as f64 * 1e-9 * (last.to_ns - clock.from_ns) as f64).round() as i64;
        let error = last.error_at(covers.end, value(&clock, covers.end));
        let error_ns = clock.error_ns.max(error.ceil() as u64);
        clocks.push(Clock { from_ns: last.to_ns, offset_ns: clock.offset_ns.saturating_add(begin), error_ns, ..clock });
    }
    if first.from_ns > covers.start {
        let clock = clocks[0];
        let begin = (clock.drift_ppb as f64 * 1e-9 * (covers.start - clock.from_ns) as f64).round() as i64;
        let error = first.error_at(covers.start, value(&clock, covers.start));
        let error_ns = clock.error_ns.max(error.ceil() as u64);
        clocks.insert(0, Clock { from_ns: covers.start, offset_ns: clock.offset_ns.saturating_add(begin), error_ns, ..clock });
    }
}

impl Line {
    /// Returns the distance between this line's end and the next line's start beyond the uncertainty of both: the
    /// clock was stepped there.
    fn jump_to(&self, next: &Line) -> f64 {
        let (end, begin) = (self.error_at(self.to_ns, self.at[1]), next.error_at(next.from_ns, next.at[0]));
        (self.at[1] - next.at[0]).abs() - end - begin
    }

    /// Returns the distance of `value` from what the alternative lines give at this instant.
    fn error_at(&self, at_ns: i64, value: f64) -> f64 {
        let place = (at_ns - self.from_ns) as f64 / (self.to_ns - self.from_ns) as f64;
        self.corners.iter().map(|(x, y)| (x + (y - x) * place - value).abs()).fold(0.0, f64::max)
    }
}

/// A bound in the stretch's own coordinates: `place` is 0 at its start, 1 at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    place: f64,
    offset: f64,
}

/// The bounds of one stretch.
struct Problem {
    from_ns: i64,
    to_ns: i64,
    lower: Vec<Bound>,
    upper: Vec<Bound>,
}

type Corner = (f64, f64);

impl Problem {
    fn new(stretch: &[Limit], base_ns: i64) -> Problem {
        let from_ns = stretch[0].at_ns;
        let to_ns = stretch[stretch.len() - 1].at_ns.max(from_ns + 1_000_000);
        let length = (to_ns - from_ns) as f64;
        let bound = |limit: &Limit| Bound {
            place: (limit.at_ns - from_ns) as f64 / length,
            offset: (i128::from(limit.offset_ns) - i128::from(base_ns)) as f64,
        };
        let of = |upper| stretch.iter().filter(|limit| limit.upper == upper).map(bound).collect();
        Problem { from_ns, to_ns, lower: of(false), upper: of(true) }
    }

    /// Returns the polygon of lines that satisfy every bound to within `slack`.
    fn polygon(&self, slack: f64) -> Vec<Corner> {
        let drift = MOST_DRIFT * (self.to_ns - self.from_ns) as f64;
        let least = self.lower.iter().map(|b| b.offset).fold(f64::NEG_INFINITY, f64::max) - slack - 2.0 * drift;
        let most = self.upper.iter().map(|b| b.offset).fold(f64::INFINITY, f64::min) + slack + 2.0 * drift;
        if least > most {
            return Vec::new();
        }
        let mut corners = vec![(least, least), (most, least), (most, most), (least, most)];
        clip(&mut corners, 1.0, -1.0, drift);
        clip(&mut corners, -1.0, 1.0, drift);
        for bound in hull(&self.lower, 1.0) {
            clip(&mut corners, bound.place - 1.0, -bound.place, slack - bound.offset);
        }
        for bound in hull(&self.upper, -1.0) {
            clip(&mut corners, 1.0 - bound.place, bound.place, slack + bound.offset);
        }
        corners
    }

    /// Returns the least loosening of all bounds that lets some line satisfy them; 0 if one does already.
    fn least_slack(&self) -> f64 {
        if !self.polygon(0.0).is_empty() {
            return 0.0;
        }
        let mut too_much = 1.0;
        while self.polygon(too_much).is_empty() && too_much < 1e18 {
            too_much *= 4.0;
        }
        let mut too_little = 0.0;
        while too_much - too_little > 1.0 + too_much * 1e-6 {
            let middle = (too_much + too_little) / 2.0;
            if self.polygon(middle).is_empty() { too_little = middle } else { too_much = middle }
        }
        too_much
    }

    /// Removes the bound without which the least slack shrinks most; `None` if it does not shrink.
    fn without_worst(&mut self, slack: f64) -> Option<f64> {
        let corners = self.polygon(slack);
        let (x, y) = centre(&corners)?;
        let mut best: Option<(f64, bool, usize)> = None;
        for upper in [false, true] {
            let side = if upper { &self.upper } else { &self.lower };
            let broken_by = |bound: &Bound| {
                let value = x + (y - x) * bound.place;
                if upper { value - bound.offset } else { bound.offset - value }
            };
            let tight: Vec<usize> = (0..side.len()).filter(|&i| broken_by(&side[i]) > slack * 0.99 - 1.0).take(4).collect();
            for i in tight {
                let taken = self.side(upper).remove(i);
                let left = if self.lower.is_empty() || self.upper.is_empty() { slack } else { self.least_slack() };
                self.side(upper).insert(i, taken);
                if best.is_none_or(|(least, _, _)| left < least) {
                    best = Some((left, upper, i));
                }
            }
        }
        let (left, upper, i) = best?;
        if left >= slack {
            return None;
        }
        self.side(upper).remove(i);
        Some(left)
    }

    fn side(&mut self, upper: bool) -> &mut Vec<Bound> {
        if upper { &mut self.upper } else { &mut self.lower }
    }

    /// Fits a line. The estimate is the centre of the polygon of all bounds; the error is the extent of the polygons
    /// that remain if any few bounds are late.
    ///
    /// Rejected: leaving the tightest bounds, late ones among them, out of the estimate too. Where none is late, the
    /// tightest bounds carry most of the information, and the estimate moved with the drift by more than two late
    /// ones move it.
    fn line(&self, slack: f64) -> Line {
        // Bounds that contradict each other by this much can be wrong by the same amount again.
        let polygon = self.polygon(slack * 2.0);
        let (x, y) = centre(&polygon).unwrap_or((0.0, 0.0));
        let believed = self.without_tightest((x, y), LEAST_UNBELIEVED);
        let mut corners = believed.polygon(believed.least_slack() * 2.0);
        corners.extend(polygon);
        for lower in parts(&self.lower) {
            for upper in parts(&self.upper) {
                let part = Problem { from_ns: self.from_ns, to_ns: self.to_ns, lower: lower.clone(), upper };
                corners.append(&mut part.without_tightest((x, y), 0).polygon(0.0));
            }
        }
        Line { from_ns: self.from_ns, to_ns: self.to_ns, at: [x, y], corners, slack }
    }

    /// Returns the problem without the few tightest bounds of each side, measured from a line.
    fn without_tightest(&self, (x, y): Corner, least: usize) -> Problem {
        let of = |bounds: &[Bound], sign: f64| {
            let few = if bounds.len() < FEWEST { 0 } else { (bounds.len() / ONE_IN_LATE).max(least) };
            let distance = |bound: &Bound| (x + (y - x) * bound.place - bound.offset) * sign;
            let mut distances: Vec<f64> = bounds.iter().map(distance).collect();
            distances.sort_unstable_by(f64::total_cmp);
            let nearest = distances.get(few).copied().unwrap_or(f64::NEG_INFINITY);
            bounds.iter().filter(|bound| distance(bound) >= nearest).copied().collect()
        };
        Problem { from_ns: self.from_ns, to_ns: self.to_ns, lower: of(&self.lower, 1.0), upper: of(&self.upper, -1.0) }
    }
}

/// Deals the bounds of a side into one part more than there may be late ones, so that one part has none. A side with
/// few bounds is not divided.
fn parts(bounds: &[Bound]) -> Vec<Vec<Bound>> {
    let many = if bounds.len() < FEWEST { 1 } else { 1 + LEAST_UNBELIEVED };
    (0..many).map(|part| bounds.iter().skip(part).step_by(many).copied().collect()).collect()
}

/// Returns the bounds that others do not make redundant: their convex hull, from above (`sign` 1) or below (−1).
fn hull(bounds: &[Bound], sign: f64) -> Vec<Bound> {
    let mut hull: Vec<Bound> = Vec::new();
    for &bound in bounds {
        while let [.., a, b] = hull.as_slice() {
            // b stays if it lies beyond the line from a to the new bound.
            let cross = (b.place - a.place) * (bound.offset - a.offset) - (b.offset - a.offset) * (bound.place - a.place);
            if cross * sign < 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(bound);
    }
    hull
}

/// Clips a convex polygon to a·x + b·y ≤ c.
fn clip(corners: &mut Vec<Corner>, a: f64, b: f64, c: f64) {
    let beyond = |corner: Corner| a * corner.0 + b * corner.1 - c;
    // Corners on the border, within floating-point error, are inside.
    let border = 1e-9 * (1.0 + c.abs());
    let whole = std::mem::take(corners);
    for (i, &here) in whole.iter().enumerate() {
        let next = whole[(i + 1) % whole.len()];
        let (now, then) = (beyond(here), beyond(next));
        if now <= border {
            corners.push(here);
        }
        if (now < -border && then > border) || (now > border && then < -border) {
            let share = now / (now - then);
            corners.push((here.0 + share * (next.0 - here.0), here.1 + share * (next.1 - here.1)));
        }
    }
}

/// Returns the centroid of a polygon, or the mean of its corners if its area is 0.
fn centre(corners: &[Corner]) -> Option<Corner> {
    let (origin, count) = (*corners.first()?, corners.len());
    let (mut area, mut x, mut y) = (0.0, 0.0, 0.0);
    for i in 0..count {
        let one = (corners[i].0 - origin.0, corners[i].1 - origin.1);
        let other = (corners[(i + 1) % count].0 - origin.0, corners[(i + 1) % count].1 - origin.1);
        let cross = one.0 * other.1 - other.0 * one.1;
        area += cross;
        x += (one.0 + other.0) * cross;
        y += (one.1 + other.1) * cross;
    }
    if area.abs() < 1e-6 {
        let sum = corners.iter().fold((0.0, 0.0), |sum, corner| (sum.0 + corner.0, sum.1 + corner.1));
        return Some((sum.0 / count as f64, sum.1 / count as f64));
    }
    Some((origin.0 + x / (3.0 * area), origin.1 + y / (3.0 * area)))
}
