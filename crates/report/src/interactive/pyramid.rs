//! The pyramid's finest level: for a page that leaves spans out, how much of each bucket of time each lane spent in each class.
//!
//! At every instant a lane is in one class: that of the innermost span. Spans come in order of descending end, so when one arrives, all
//! spans that are open between its end and the last arrival's end are known, and that time is charged at once. Rejected: adding up
//! every span's time, which counts a call and the waits within it twice.

use super::labels;
use super::looks::looks_like;
use std::iter::zip;
use thalweg_trace::SpanKind;

/// Most buckets of a lane.
const MOST_BUCKETS: usize = 1 << 17;
/// Fewest buckets; with more rows than fit then, further ones are not kept.
const LEAST_BUCKETS: usize = 16;
/// Bound: values of all rows of a page that leaves spans out: 64 MB of memory, at most 16 MB of planes.
pub(super) const MOST_VALUES: usize = 1 << 24;
/// Bound: spans of one lane that are open at once. Instead: the outermost is forgotten.
const MOST_OPEN: usize = 64;
/// The area of a full bucket.
const FULL: f32 = 255.0;
/// The class of times between spans in which a thread is taken to have run, until it is known whether that holds.
const ASSUMED: &str = "assumed";
/// Marks that a lane has no row of a class.
const NO_ROW: u32 = u32::MAX;
/// At least the number of classes, with [`ASSUMED`].
const MOST_CLASSES: usize = 20;

/// The classes, and that of each look.
struct Classes {
    names: Vec<&'static str>,
    of_look: [u8; 256],
}

impl Classes {
    fn new() -> Classes {
        let mut classes = Classes { names: vec![ASSUMED], of_look: [0; 256] };
        for look in 0..SpanKind::ALL.len() * 4 {
            let (kind, mostly) = looks_like(look as u8);
            let name = labels::class_of(kind, mostly);
            let known = classes.names.iter().position(|known| *known == name);
            classes.of_look[look] = known.unwrap_or(classes.names.len()) as u8;
            if known.is_none() {
                classes.names.push(name);
            }
        }
        assert!(classes.names.len() <= MOST_CLASSES, "{} classes", classes.names.len());
        classes
    }

    /// Returns how a class ranks among open spans: computing is shown where nothing says more, a request where nothing within it does.
    fn rank(&self, class: u8) -> u8 {
        match self.names[usize::from(class)] {
            "compute" => 0,
            "other" => 1,
            _ => 2,
        }
    }
}

/// An open span: greater than another if the lane shows it instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    rank: u8,
    start_ns: i64,
    class: u8,
}

/// A lane, backward in time.
#[derive(Clone, Debug)]
struct Sweep {
    /// Spans that begin before the cursor (and perhaps others), in ascending order.
    open: Vec<Open>,
    /// What is later is charged.
    cursor_ns: i64,
    /// Row of each class.
    rows: [u32; MOST_CLASSES],
}

/// Rows of areas: shares of each bucket.
struct Rows {
    /// Bound: values of all rows. Instead: two buckets become one.
    most_values: usize,
    start_ns: i64,
    width_ns: f64,
    buckets: usize,
    areas: Vec<Vec<f32>>,
}

impl Rows {
    /// Returns the number of a new row, or [`NO_ROW`] if there is no room.
    fn push(&mut self) -> u32 {
        while (self.areas.len() + 1) * self.buckets > self.most_values && self.buckets > LEAST_BUCKETS {
            self.halve();
        }
        if (self.areas.len() + 1) * self.buckets > self.most_values {
            return NO_ROW;
        }
        self.areas.push(vec![0.0; self.buckets]);
        self.areas.len() as u32 - 1
    }

    fn halve(&mut self) {
        self.buckets /= 2;
        self.width_ns *= 2.0;
        for areas in &mut self.areas {
            *areas = areas.chunks_exact(2).map(|two| (two[0] + two[1]) / 2.0).collect();
        }
    }

    /// Adds an interval to a row; what lies outside of the buckets is not counted.
    fn add(&mut self, row: u32, start_ns: i64, end_ns: i64) {
        let Some(areas) = self.areas.get_mut(row as usize) else { return };
        let per_ns = 1.0 / self.width_ns;
        let place = |at: i64| (at.saturating_sub(self.start_ns) as f64 * per_ns).clamp(0.0, self.buckets as f64);
        let (from, to) = (place(start_ns), place(end_ns));
        let (first, last) = (from as usize, (to as usize).min(self.buckets - 1));
        if first >= last {
            areas[first.min(last)] += (to - from) as f32;
            return;
        }
        areas[first] += (first as f64 + 1.0 - from) as f32;
        areas[first + 1..last].iter_mut().for_each(|area| *area += 1.0);
        areas[last] += (to - last as f64) as f32;
    }
}

/// The pyramid being made.
pub(super) struct Pyramid {
    classes: Classes,
    lanes: Vec<Sweep>,
    rows: Rows,
}

/// A row of the finest level.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// Its slot.
    pub(super) slot: u32,
    /// Number of its class in [`Finest::classes`].
    pub(super) class: u8,
    /// Parts of [`FULL`], by bucket.
    pub(super) areas: Vec<u8>,
}

/// The finest level.
pub(super) struct Finest {
    /// Start and end of the buckets on the reference axis.
    pub(super) interval: (i64, i64),
    /// Number of buckets.
    pub(super) buckets: usize,
    /// The classes' names.
    pub(super) classes: Vec<&'static str>,
    /// By slot and class; classes without time are left out.
    pub(super) levels: Vec<Level>,
}

impl Pyramid {
    /// Returns a pyramid without areas, for this number of slots and this interval; `most_values`: most areas of all lanes and classes.
    pub(super) fn new(slots: usize, (start_ns, end_ns): (i64, i64), most_values: usize) -> Pyramid {
        let width_ns = end_ns.saturating_sub(start_ns).max(1) as f64 / MOST_BUCKETS as f64;
        Pyramid {
            classes: Classes::new(),
            lanes: vec![Sweep { open: Vec::new(), cursor_ns: i64::MAX, rows: [NO_ROW; MOST_CLASSES] }; slots],
            rows: Rows { most_values, start_ns, width_ns, buckets: MOST_BUCKETS, areas: Vec::new() },
        }
    }

    /// Adds a span; those of a slot must come in order of descending end.
    pub(super) fn add(&mut self, slot: u32, look: u8, start_ns: i64, end_ns: i64) {
        let class = self.classes.of_look[usize::from(look)];
        let new = Open { rank: self.classes.rank(class), start_ns, class };
        self.advance(slot, end_ns);
        if start_ns >= end_ns {
            return;
        }
        let lane = &mut self.lanes[slot as usize];
        if lane.open.len() == MOST_OPEN {
            let cursor_ns = lane.cursor_ns;
            lane.open.retain(|open| open.start_ns < cursor_ns);
            if lane.open.len() == MOST_OPEN {
                lane.open.remove(0);
            }
        }
        // Behind its equals: of spans that start together the shorter is within the longer, which came before.
        let at = lane.open.partition_point(|open| (open.rank, open.start_ns) <= (new.rank, new.start_ns));
        lane.open.insert(at, new);
    }

    /// Adds a time between spans of a slot.
    pub(super) fn ran(&mut self, slot: u32, start_ns: i64, end_ns: i64) {
        self.charge(slot, 0, start_ns, end_ns);
    }

    /// Charges the time down to an instant, before which further spans may end.
    fn advance(&mut self, slot: u32, to_ns: i64) {
        while let lane = &mut self.lanes[slot as usize]
            && lane.cursor_ns > to_ns
            && let Some(&top) = lane.open.last()
        {
            if top.start_ns >= lane.cursor_ns {
                lane.open.pop();
                continue;
            }
            let (from_ns, until_ns) = (top.start_ns.max(to_ns), lane.cursor_ns);
            lane.cursor_ns = from_ns;
            self.charge(slot, top.class, from_ns, until_ns);
        }
        let lane = &mut self.lanes[slot as usize];
        lane.cursor_ns = lane.cursor_ns.min(to_ns);
    }

    fn charge(&mut self, slot: u32, class: u8, start_ns: i64, end_ns: i64) {
        let row = &mut self.lanes[slot as usize].rows[usize::from(class)];
        if *row == NO_ROW {
            *row = self.rows.push();
        }
        self.rows.add(*row, start_ns, end_ns);
    }

    /// Returns the areas of the slots that are wanted; `ran`: whether the times between spans of a slot are times in which it ran.
    pub(super) fn finish(mut self, wanted: impl Fn(u32) -> bool, ran: impl Fn(u32) -> bool) -> Finest {
        let compute = self.classes.names.iter().position(|name| *name == "compute").expect("a class");
        let mut levels = Vec::new();
        let wanted: Vec<u32> = (0..self.lanes.len() as u32).filter(|slot| wanted(*slot)).collect();
        // All of them first: a new row may halve the number of buckets.
        wanted.iter().for_each(|slot| self.advance(*slot, i64::MIN));
        for slot in wanted {
            let rows = self.lanes[slot as usize].rows;
            for class in 1..self.classes.names.len() {
                let own = self.rows.areas.get(rows[class] as usize);
                let assumed = self.rows.areas.get(rows[0] as usize).filter(|_| class == compute && ran(slot));
                let areas = match (own, assumed) {
                    (None, None) => continue,
                    (Some(areas), None) | (None, Some(areas)) => rounded(areas.iter().copied()),
                    (Some(own), Some(assumed)) => rounded(zip(own, assumed).map(|(own, assumed)| own + assumed)),
                };
                levels.push(Level { slot, class: class as u8 - 1, areas });
            }
        }
        let end_ns = self.rows.start_ns.saturating_add((self.rows.width_ns * self.rows.buckets as f64).round() as i64);
        self.classes.names.remove(0);
        Finest { interval: (self.rows.start_ns, end_ns), buckets: self.rows.buckets, classes: self.classes.names, levels }
    }
}

/// Returns the areas of wider buckets, of which each is `by` buckets.
pub(super) fn coarser(areas: &[u8], by: usize) -> Vec<u8> {
    let mean = |some: &[u8]| some.iter().map(|area| f32::from(*area)).sum::<f32>() / (FULL * by as f32);
    rounded(areas.chunks(by).map(mean))
}

/// Rounds shares to parts of [`FULL`]. What rounding took from one bucket or gave to it is made good in the next, so that sums stay true.
fn rounded(shares: impl Iterator<Item = f32>) -> Vec<u8> {
    let mut rest = 0.0;
    let round = |share: f32| {
        let exact = share * FULL + rest;
        let whole = exact.round().clamp(0.0, FULL);
        rest = (exact - whole).clamp(-1.0, 1.0);
        whole as u8
    };
    shares.map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spans as (look, start, end), in the order in which they start, longer ones first: the innermost of them is the last.
    type Rows = Vec<(u8, i64, i64)>;

    const RUN: (i64, i64) = (0, 100_000);

    fn look(kind: SpanKind) -> u8 {
        kind as u8 * 4
    }

    fn some(count: usize) -> Rows {
        let kinds = [SpanKind::FileRead, SpanKind::WaitDisk, SpanKind::AppRequest, SpanKind::CpuRun, SpanKind::WaitLock];
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut spans: Rows = (0..count)
            .map(|_| {
                let start = random(99_000) as i64;
                let length = if random(5) == 0 { random(20_000) } else { random(300) } as i64;
                (look(kinds[random(5) as usize]), start, (start + length).min(RUN.1))
            })
            .collect();
        spans.sort_by_key(|(_, start, end)| (*start, std::cmp::Reverse(*end)));
        spans
    }

    fn pyramid(spans: &Rows) -> Finest {
        let mut backward = spans.clone();
        backward.sort_by_key(|(_, _, end)| std::cmp::Reverse(*end));
        let mut pyramid = Pyramid::new(1, RUN, MOST_VALUES);
        backward.iter().for_each(|(look, start, end)| pyramid.add(0, *look, *start, *end));
        pyramid.finish(|_| true, |_| false)
    }

    /// Time of each class in the order of its name.
    fn times(finest: &Finest) -> Vec<(&'static str, f64)> {
        let bucket_ns = (finest.interval.1 - finest.interval.0) as f64 / finest.buckets as f64;
        let time = |level: &Level| level.areas.iter().map(|area| f64::from(*area)).sum::<f64>() / f64::from(FULL) * bucket_ns;
        let mut times: Vec<_> = finest.levels.iter().map(|level| (finest.classes[usize::from(level.class)], time(level))).collect();
        times.sort_by_key(|(name, _)| *name);
        times
    }

    /// What the page shows of each instant if it has every span.
    fn expected(spans: &Rows) -> Vec<(&'static str, f64)> {
        let classes = Classes::new();
        let mut times = std::collections::BTreeMap::new();
        for at in RUN.0..RUN.1 {
            let open = spans.iter().enumerate().filter(|(_, (_, start, end))| (*start..*end).contains(&at));
            let shown = open.max_by_key(|(i, (look, _, _))| (classes.rank(classes.of_look[usize::from(*look)]), *i));
            if let Some((_, (look, _, _))) = shown {
                *times.entry(classes.names[usize::from(classes.of_look[usize::from(*look)])]).or_insert(0.0) += 1.0;
            }
        }
        times.into_iter().collect()
    }

    #[test]
    fn areas_are_those_of_the_innermost_spans() {
        let spans = some(300);
        let (found, exact) = (times(&pyramid(&spans)), expected(&spans));
        assert_eq!(found.len(), exact.len());
        for ((class, found), (name, exact)) in zip(found, exact) {
            assert_eq!(class, name);
            assert!((found - exact).abs() <= 1.0, "{class}: {found} ns, not {exact}");
        }
    }

    #[test]
    fn areas_are_in_the_buckets_of_their_time() {
        let finest = pyramid(&vec![(look(SpanKind::FileRead), 25_000, 50_000), (look(SpanKind::WaitDisk), 30_000, 40_000)]);
        let at = |class: &str, share: f64| {
            let level = finest.levels.iter().find(|level| finest.classes[usize::from(level.class)] == class).unwrap();
            level.areas[(share * finest.buckets as f64) as usize]
        };
        assert_eq!([0.2, 0.26, 0.35, 0.45, 0.6].map(|share| at("read", share)), [0, 255, 0, 255, 0]);
        assert_eq!([0.2, 0.26, 0.35, 0.45, 0.6].map(|share| at("wait.disk", share)), [0, 0, 255, 0, 0]);
    }

    #[test]
    fn more_lanes_have_fewer_buckets_and_no_less_time() {
        let lanes = 3_000;
        let mut pyramid = Pyramid::new(lanes, RUN, MOST_VALUES);
        for lane in 0..lanes as u32 {
            pyramid.add(lane, look(SpanKind::FileRead), 10, 60_010);
            pyramid.ran(lane, 70_000, 80_000);
        }
        let finest = pyramid.finish(|_| true, |lane| lane.is_multiple_of(2));
        assert_eq!((finest.buckets, finest.levels.len()), (2_048, lanes + lanes / 2));
        let sum: f64 = times(&finest).iter().map(|(_, ns)| ns).sum();
        let exact = lanes as f64 * 60_000.0 + lanes as f64 / 2.0 * 10_000.0;
        assert!((sum / exact - 1.0).abs() < 1e-3, "{sum} of {exact}");
    }

    #[test]
    fn what_is_outside_of_the_run_and_too_many_open_spans_do_no_harm() {
        let mut spans: Rows = (0..200).map(|n| (look(SpanKind::FileRead), n, RUN.1 - n)).collect();
        spans.push((look(SpanKind::WaitLock), i64::MIN, i64::MAX));
        let found: f64 = times(&pyramid(&spans)).iter().map(|(_, ns)| ns).sum();
        assert!(found > 99_000.0 && found < 100_001.0, "{found}");
        assert_eq!(coarser(&[10, 20, 30, 40, 255, 255, 0, 1], 2), [15, 35, 255, 1]);
        assert_eq!(rounded([0.3 / 255.0; 10].into_iter()).iter().map(|area| u32::from(*area)).sum::<u32>(), 3);
    }
}
