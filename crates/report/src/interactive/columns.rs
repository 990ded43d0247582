//! The planes of a page, in the order of its format.

use super::header::PyramidEntry;
use super::lanes::{NO_LANE, Slots};
use super::latency::LatencyRow;
use super::planes::Planes;
use super::pyramid::{self, Finest, Level};
use super::series::Series;
use super::spans::{Drawn, Whole};
use super::ticks::{Ticks, instant};
use std::collections::{BTreeMap, HashMap};
use thalweg_explain::Cause;
use thalweg_explain::document::{Explanation, Segment};

/// Buckets of a page's first picture; like all numbers of buckets a power of two.
const FIRST_BUCKETS: usize = 1_024;

/// Numbers that rows refer to.
pub(super) struct Numbers<'a> {
    pub(super) ticks: Ticks,
    pub(super) slots: &'a Slots<'a>,
    /// Slot to lane.
    pub(super) lane_of: &'a [u16],
    /// Look of a span to kind.
    pub(super) kinds: &'a [u8; 256],
    /// Number of an object in the recording to its number in the header.
    pub(super) objects: &'a HashMap<u64, u32>,
    /// Cause to its number in the header.
    pub(super) causes: &'a BTreeMap<Cause, u8>,
}

impl Numbers<'_> {
    fn lane(&self, slot: Option<u32>) -> u16 {
        slot.map_or(NO_LANE, |slot| self.lane_of[slot as usize])
    }

    /// Returns 1 + the lane of a track; 0 if it has none.
    fn waker(&self, track: u64) -> u32 {
        let lane = if track == 0 { NO_LANE } else { self.lane(self.slots.track(track)) };
        if lane == NO_LANE { 0 } else { u32::from(lane) + 1 }
    }

    /// Adds the spans, which must be in order of lane and start.
    pub(super) fn spans(&self, planes: &mut Planes, spans: &[Drawn]) {
        let ticks = self.ticks;
        planes.add("span.lane", spans, |s| self.lane_of[s.slot as usize].to_le_bytes());
        planes.add("span.kind", spans, |s| [self.kinds[usize::from(s.look)]]);
        planes.add("span.start", spans, |s| ticks.at(s.start_ns).to_le_bytes());
        planes.add("span.duration", spans, |s| ticks.between(s.start_ns, s.end_ns).to_le_bytes());
        planes.add("span.object", spans, |s| self.objects.get(&s.object).copied().unwrap_or(0).to_le_bytes());
        planes.add("span.size", spans, |s| s.size.to_le_bytes());
        planes.add("span.waker", spans, |s| self.waker(s.waker).to_le_bytes());
    }

    /// Adds what stands for spans that are left out; returns what the header says of the pyramid.
    pub(super) fn whole(&self, planes: &mut Planes, whole: &Whole) -> PyramidEntry {
        let Finest { interval, buckets, classes, levels } = &whole.finest;
        let mut levels: Vec<&Level> = levels.iter().filter(|level| self.lane_of[level.slot as usize] != NO_LANE).collect();
        levels.sort_by_key(|level| (self.lane_of[level.slot as usize], level.class));
        planes.add("level.lane", &levels, |level| self.lane_of[level.slot as usize].to_le_bytes());
        planes.add("level.class", &levels, |level| [level.class]);
        // While the rest is read, the page draws a level that is no finer than a screen.
        if *buckets > FIRST_BUCKETS {
            let first: Vec<Vec<u8>> = levels.iter().map(|level| pyramid::coarser(&level.areas, buckets / FIRST_BUCKETS)).collect();
            planes.add_bytes("first.area", first.iter().map(|areas| &**areas));
        }
        planes.add_bytes("level.area", levels.iter().map(|level| &*level.areas));
        let mut latency: Vec<LatencyRow> = whole.latency.clone();
        latency.retain(|row| self.lane_of[row.slot as usize] != NO_LANE);
        latency.sort_by_key(|row| (self.lane_of[row.slot as usize], row.look, row.bin));
        if !latency.is_empty() {
            planes.add("latency.lane", &latency, |row| self.lane_of[row.slot as usize].to_le_bytes());
            planes.add("latency.kind", &latency, |row| [self.kinds[usize::from(row.look)]]);
            planes.add("latency.bin", &latency, |row| [row.bin]);
            planes.add("latency.count", &latency, |row| row.count.to_le_bytes());
        }
        let span = [self.ticks.at(interval.0), self.ticks.at(interval.1)];
        PyramidEntry { buckets: *buckets, span, classes: classes.clone() }
    }

    /// Adds the critical path.
    pub(super) fn path(&self, planes: &mut Planes, explanation: &Explanation) {
        let path = &explanation.path;
        let ticks = self.ticks;
        let ends = |s: &Segment| (instant(explanation, s.start_s), instant(explanation, s.end_s));
        planes.add("path.start", path, |s| ticks.at(ends(s).0).to_le_bytes());
        planes.add("path.duration", path, |s| ticks.between(ends(s).0, ends(s).1).to_le_bytes());
        planes.add("path.cause", path, |s| [self.causes[&s.cause]]);
        planes.add("path.charge", path, |s| u16::try_from(s.charge).unwrap_or(u16::MAX).to_le_bytes());
        planes.add("path.lane", path, |s| self.lane(s.track.and_then(|track| self.slots.track(track))).to_le_bytes());
    }

    /// Adds marks, counters and samples.
    pub(super) fn series(&self, planes: &mut Planes, series: &Series) {
        let ticks = self.ticks;
        planes.add("mark.lane", &series.marks, |m| self.lane(Some(m.slot)).to_le_bytes());
        planes.add("mark.kind", &series.marks, |m| [m.kind]);
        planes.add("mark.at", &series.marks, |m| ticks.at(m.at_ns).to_le_bytes());
        planes.add("mark.value", &series.marks, |m| m.value.to_le_bytes());
        planes.add("counter.of", &series.values, |v| v.of.to_le_bytes());
        planes.add("counter.at", &series.values, |v| ticks.at(v.at_ns).to_le_bytes());
        planes.add("counter.value", &series.values, |v| v.value.to_le_bytes());
        if !series.samples.is_empty() {
            planes.add("sample.lane", &series.samples, |s| self.lane(s.slot).to_le_bytes());
            planes.add("sample.at", &series.samples, |s| ticks.at(s.at_ns).to_le_bytes());
            planes.add("sample.class", &series.samples, |s| [s.class]);
        }
    }
}
