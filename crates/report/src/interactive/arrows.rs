//! The arrows of the page: from the send of a request to the server's work, from the reply to its arrival, and between ranks.

use super::clocks::Clocks;
use super::collected::MAX_EXCHANGES;
use super::lanes::Slots;
use super::planes::Planes;
use super::spans::Drawn;
use super::ticks::Ticks;
use thalweg_base::numbers::count;
use thalweg_trace::arrows::{Arrow, ArrowEnd, ArrowKind, Exchanges};

/// Bound: most arrows, 3 MB of data. Of more, the longest are kept.
const MAX_ARROWS: usize = 250_000;

/// An end of an arrow on a drawn span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    at_ns: i64,
    slot: u32,
    /// Index of its span.
    span: u32,
}

/// An arrow to draw.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrowRow {
    kind: ArrowKind,
    from: End,
    to: End,
}

impl ArrowRow {
    fn length_ns(&self) -> i64 {
        self.to.at_ns.saturating_sub(self.from.at_ns)
    }
}

/// The arrows between drawn spans.
pub(super) struct Arrows {
    rows: Vec<ArrowRow>,
    /// Number of arrows left out because there are too many.
    left_out: usize,
    /// Whether requests were left out before.
    is_incomplete: bool,
}

impl Arrows {
    /// Returns the arrows between spans, which are in the order of the page. None leads to a host whose clock could not be aligned.
    pub(super) fn between(spans: &[Drawn], exchanges: &Exchanges, slots: &Slots<'_>, clocks: &Clocks) -> Arrows {
        let places = Places::new(spans, exchanges);
        let host = |end: End| slots.track_at(end.slot).map(|track| track.host);
        let comparable = |row: &ArrowRow| host(row.from).zip(host(row.to)).is_some_and(|(from, to)| clocks.are_comparable(from, to));
        let row = |arrow: Arrow| {
            let place = |ends: [Option<ArrowEnd>; 2]| ends.into_iter().flatten().find_map(|end| places.of(spans, end));
            Some(ArrowRow { kind: arrow.kind, from: place(arrow.from)?, to: place(arrow.to)? })
        };
        let mut rows: Vec<ArrowRow> = exchanges.arrows().filter_map(row).filter(comparable).collect();
        let left_out = rows.len().saturating_sub(MAX_ARROWS);
        if left_out > 0 {
            rows.select_nth_unstable_by_key(MAX_ARROWS, |row| (std::cmp::Reverse(row.length_ns()), row.from, row.kind));
            rows.truncate(MAX_ARROWS);
        }
        rows.sort_unstable_by_key(|row| (row.from, row.to, row.kind));
        Arrows { rows, left_out, is_incomplete: exchanges.is_incomplete() }
    }

    /// Returns sentences on what is left out.
    pub(super) fn left_out(&self) -> impl Iterator<Item = String> {
        let shorter = (self.left_out > 0).then(|| format!("{} arrows are left out; the longest are drawn.", count(self.left_out as u64)));
        let earlier = self.is_incomplete.then(|| format!("Arrows are drawn for the last {} requests.", count(MAX_EXCHANGES as u64)));
        shorter.into_iter().chain(earlier)
    }

    /// Returns the kinds for the header; none without arrows.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        if self.rows.is_empty() { Vec::new() } else { ArrowKind::ALL.map(ArrowKind::name).to_vec() }
    }

    /// Adds the planes, if there are any arrows.
    pub(super) fn add(&self, planes: &mut Planes, lane_of: &[u16], ticks: Ticks) {
        if self.rows.is_empty() {
            return;
        }
        let lane = |end: End| lane_of[end.slot as usize].to_le_bytes();
        planes.add("arrow.from_lane", &self.rows, |row| lane(row.from));
        planes.add("arrow.from", &self.rows, |row| ticks.at(row.from.at_ns).to_le_bytes());
        planes.add("arrow.to_lane", &self.rows, |row| lane(row.to));
        planes.add("arrow.to", &self.rows, |row| ticks.at(row.to.at_ns).to_le_bytes());
        planes.add("arrow.kind", &self.rows, |row| [row.kind as u8]);
        planes.add("arrow.from_span", &self.rows, |row| (row.from.span + 1).to_le_bytes());
        planes.add("arrow.to_span", &self.rows, |row| (row.to.span + 1).to_le_bytes());
    }
}

/// Where the spans of arrows are among the drawn spans, by their numbers.
struct Places {
    numbers: Vec<u64>,
    /// 1 + the index of the span of each number; 0: not drawn.
    at: Vec<u32>,
}

impl Places {
    fn new(spans: &[Drawn], exchanges: &Exchanges) -> Places {
        let ends = exchanges.arrows().flat_map(|arrow| arrow.from.into_iter().chain(arrow.to)).flatten();
        let mut numbers: Vec<u64> = ends.map(|end| end.span().number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut at = vec![0; numbers.len()];
        for (index, span) in spans.iter().enumerate() {
            if span.span != 0
                && let Ok(place) = numbers.binary_search(&span.span)
            {
                at[place] = index as u32 + 1;
            }
        }
        Places { numbers, at }
    }

    fn of(&self, spans: &[Drawn], end: ArrowEnd) -> Option<End> {
        let place = self.numbers.binary_search(&end.span().number()).ok()?;
        let span = self.at[place].checked_sub(1)?;
        let drawn = &spans[span as usize];
        let at_ns = if matches!(end, ArrowEnd::Start(_)) { drawn.start_ns } else { drawn.end_ns };
        Some(End { at_ns, slot: drawn.slot, span })
    }
}
