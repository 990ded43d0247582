//! The spans of the page: one pass over the recording, backward in time, in bounded memory.
//!
//! Beyond [`Bounds::all`] spans, the longest [`Bounds::longest`] are kept, and as many on the critical path; what all of them come to is
//! in [`Whole`]. Bytes sent over a connection are drawn twice: on the thread that sends, and on the connection.

use super::collected::Collector;
use super::lanes::Slots;
use super::latency::{Latency, LatencyRow};
use super::looks::{look, look_of};
use super::pyramid::{Finest, MOST_VALUES, Pyramid};
use super::ticks::instant;
use crate::Result;
use crate::picture::palette::Mostly;
use crate::running::{Running, covers};
use std::cmp::Reverse;
use thalweg_explain::document::Explanation;
use thalweg_trace::arrows::wakes;
use thalweg_trace::{ABSENT, Mark, Source, SpanBatch, SpanKind, WakerContext};

/// Most spans of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Up to this number, all are kept.
    pub(super) all: usize,
    /// Beyond it, this number of the longest, and at most as many others on the critical path.
    pub(super) longest: usize,
}

impl Bounds {
    /// The bounds of pages: 25 MB of data, and 200 MB of memory.
    pub(super) const OF_PAGES: Bounds = Bounds { all: 3_000_000, longest: 1_000_000 };
}

/// A page with as many spans draws areas while it reads the spans.
const MANY: usize = 500_000;
/// Values of those areas: with 1,500 rows, one for each pixel of a screen.
const PREVIEW_VALUES: usize = 1 << 21;

/// A span to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    /// Start on the reference axis.
    pub(super) start_ns: i64,
    /// End on the reference axis.
    pub(super) end_ns: i64,
    /// Number of the object; 0: none.
    pub(super) object: u64,
    /// Number of the track that ended the wait; 0: none.
    pub(super) waker: u64,
    /// Number of the span in the recording; 0: a copy on a connection, or a time between spans.
    pub(super) span: u64,
    /// Offset in the object; [`ABSENT`]: none.
    pub(super) offset: u64,
    /// Number of the stack in the recording; 0: none.
    pub(super) stack: u32,
    /// Bytes, saturated; 0: none.
    pub(super) size: u32,
    /// Its slot.
    pub(super) slot: u32,
    /// Its kind and the state of its thread: [`super::looks`].
    pub(super) look: u8,
    /// Whether the critical path leads over it.
    on_path: bool,
    /// Whether the recording has it in this place: neither a copy on a connection nor a time between spans.
    recorded: bool,
}

impl Drawn {
    fn duration_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Whether it is a time between spans.
    fn is_assumed(&self) -> bool {
        !self.recorded && self.look == look(SpanKind::CpuRun, Mostly::Ran)
    }
}

/// Returns the number of the track that woke the thread of a span; 0: none.
fn waker(batch: &SpanBatch, row: usize) -> u64 {
    let context = WakerContext::ALL.get(usize::from(batch.waker_context[row])).copied();
    if wakes(batch.kind[row], context) { batch.waker_track[row] } else { 0 }
}

/// The critical path's intervals on each slot, in order of time.
struct OnPath(Vec<Vec<(i64, i64)>>);

impl OnPath {
    fn new(slots: &Slots<'_>, explanation: &Explanation) -> OnPath {
        let mut of_slot = vec![Vec::new(); slots.count()];
        for segment in &explanation.path {
            if let Some(slot) = segment.track.and_then(|track| slots.track(track)) {
                of_slot[slot as usize].push((instant(explanation, segment.start_s), instant(explanation, segment.end_s)));
            }
        }
        OnPath(of_slot)
    }

    /// Whether the path is on this slot at some time of the interval.
    fn has(&self, slot: u32, start_ns: i64, end_ns: i64) -> bool {
        let path = &self.0[slot as usize];
        let next = path.partition_point(|(_, end)| *end <= start_ns);
        path.get(next).is_some_and(|(start, _)| *start < end_ns)
    }
}

/// The spans kept.
pub(super) struct Spans {
    /// In no order.
    pub(super) drawn: Vec<Drawn>,
    /// Number of spans of the recording that were dropped.
    pub(super) left_out: u64,
    /// What stands for them.
    pub(super) whole: Option<Whole>,
}

/// What all spans come to, for a page that leaves some out, or that takes a while to read.
pub(super) struct Whole {
    /// Areas of the lanes of which spans were dropped; of all lanes if none was.
    pub(super) finest: Finest,
    /// How long the spans of all lanes took, if some were dropped.
    pub(super) latency: Vec<LatencyRow>,
    /// Whether spans were dropped, by slot.
    pub(super) partial: Vec<bool>,
}

/// Takes part in the pass from the first dropped span on.
struct Summing {
    pyramid: Pyramid,
    latency: Latency,
    partial: Vec<bool>,
    /// Dropped without a look at others: spans on the critical path shorter than the first, and others shorter than the second.
    least_ns: [i64; 2],
}

impl Summing {
    fn new(slots: usize, interval: (i64, i64)) -> Summing {
        let (pyramid, latency) = (Pyramid::new(slots, interval, MOST_VALUES), Latency::new(slots));
        Summing { pyramid, latency, partial: vec![false; slots], least_ns: [i64::MIN; 2] }
    }

    fn add(&mut self, drawn: &Drawn) {
        let Drawn { slot, look, start_ns, end_ns, .. } = *drawn;
        if drawn.is_assumed() {
            return self.pyramid.ran(slot, start_ns, end_ns);
        }
        self.pyramid.add(slot, look, start_ns, end_ns);
        self.latency.add(slot, look, start_ns, end_ns);
    }

    /// Whether a span is too short to be among the longest.
    fn drops(&mut self, drawn: &Drawn) -> bool {
        let drops = drawn.duration_ns() < self.least_ns[usize::from(!drawn.on_path)];
        self.partial[drawn.slot as usize] |= drops;
        drops
    }

    /// Returns the areas of spans that are all kept, in the order in which they were read.
    fn preview(drawn: &[Drawn], slots: usize, interval: (i64, i64)) -> Whole {
        let mut pyramid = Pyramid::new(slots, interval, PREVIEW_VALUES);
        drawn.iter().filter(|drawn| !drawn.is_assumed()).for_each(|d| pyramid.add(d.slot, d.look, d.start_ns, d.end_ns));
        drawn.iter().filter(|drawn| drawn.is_assumed()).for_each(|d| pyramid.ran(d.slot, d.start_ns, d.end_ns));
        Whole { finest: pyramid.finish(|_| true, |_| true), latency: Vec::new(), partial: vec![false; slots] }
    }

    fn finish(self, running: &Running) -> Whole {
        let partial = self.partial;
        let finest = self.pyramid.finish(|slot| partial[slot as usize], |slot| running.holds(slot));
        Whole { finest, latency: self.latency.rows(), partial }
    }
}

struct Gatherer<'a> {
    slots: &'a Slots<'a>,
    on_path: OnPath,
    bounds: Bounds,
    drawn: Vec<Drawn>,
    /// Number of recorded spans seen.
    seen: u64,
    /// Start of the run, and the end of the run or of the last span.
    interval: (i64, i64),
    summing: Option<Summing>,
}

/// Reads the spans to draw, and shows all of them to `requests`.
pub(super) fn gather(
    source: &dyn Source,
    explanation: &Explanation,
    slots: &Slots<'_>,
    marks: &[Mark],
    bounds: Bounds,
    requests: &mut Collector,
) -> Result<Spans> {
    let on_path = OnPath::new(slots, explanation);
    let interval = (instant(explanation, 0.0), instant(explanation, explanation.wall_s));
    let mut gatherer = Gatherer { slots, on_path, bounds, drawn: Vec::new(), seen: 0, interval, summing: None };
    let mut running = Running::new(source, explanation, marks);
    for batch in source.spans_backward() {
        let batch = batch?;
        for row in 0..batch.len() {
            requests.see(&batch, row);
            gatherer.add(&batch, row, &mut running);
        }
    }
    for (slot, (start_ns, end_ns)) in running.first() {
        gatherer.ran(slot, start_ns, end_ns);
    }
    if gatherer.summing.is_some() {
        gatherer.prune();
    }
    gatherer.drawn.retain(|drawn| !drawn.is_assumed() || running.holds(drawn.slot));
    let recorded = gatherer.drawn.iter().filter(|drawn| drawn.recorded).count() as u64;
    let whole = match gatherer.summing {
        Some(summing) => Some(summing.finish(&running)),
        None if gatherer.drawn.len() >= MANY => Some(Summing::preview(&gatherer.drawn, slots.count(), gatherer.interval)),
        None => None,
    };
    Ok(Spans { left_out: gatherer.seen - recorded, drawn: gatherer.drawn, whole })
}

impl Gatherer<'_> {
    fn add(&mut self, batch: &SpanBatch, row: usize, running: &mut Running) {
        self.seen += 1;
        let Some(slot) = self.slots.track(batch.track[row]) else { return };
        let (start_ns, end_ns) = (batch.start_ns[row], batch.end_ns[row].max(batch.start_ns[row]));
        self.interval.1 = self.interval.1.max(end_ns);
        if covers(batch.kind[row])
            && let Some((from_ns, until_ns)) = running.between(slot, start_ns, end_ns)
        {
            self.ran(slot, from_ns, until_ns);
        }
        let size = batch.size_bytes[row];
        let drawn = Drawn {
            start_ns,
            end_ns,
            object: batch.object[row],
            waker: waker(batch, row),
            span: batch.span[row],
            offset: batch.offset_bytes[row],
            stack: batch.stack[row],
            size: if size == ABSENT { 0 } else { u32::try_from(size).unwrap_or(u32::MAX) },
            slot,
            look: look_of(batch, row),
            on_path: self.on_path.has(slot, start_ns, end_ns),
            recorded: true,
        };
        if batch.kind[row] == SpanKind::NetSend
            && let Some(connection) = self.slots.connection(batch.object[row])
            && connection != slot
        {
            let look = look(SpanKind::NetSend, Mostly::Ran);
            self.push(Drawn { slot: connection, look, span: 0, recorded: false, ..drawn });
        }
        self.push(drawn);
    }

    /// Adds a time between spans in which the thread ran.
    fn ran(&mut self, slot: u32, start_ns: i64, end_ns: i64) {
        let on_path = self.on_path.has(slot, start_ns, end_ns);
        let look = look(SpanKind::CpuRun, Mostly::Ran);
        let (object, waker, span, offset, stack, size) = (0, 0, 0, ABSENT, 0, 0);
        self.push(Drawn { start_ns, end_ns, object, waker, span, offset, stack, size, slot, look, on_path, recorded: false });
    }

    fn push(&mut self, drawn: Drawn) {
        if self.drawn.len() >= self.bounds.all {
            self.prune();
        }
        if let Some(summing) = &mut self.summing {
            summing.add(&drawn);
            if summing.drops(&drawn) {
                return;
            }
        }
        self.drawn.push(drawn);
    }

    /// Keeps the longest spans on the critical path, and the longest others.
    fn prune(&mut self) {
        let mut summing = self.summing.take().unwrap_or_else(|| {
            let mut summing = Summing::new(self.slots.count(), self.interval);
            self.drawn.iter().for_each(|drawn| summing.add(drawn));
            summing
        });
        let mut on_path = 0;
        for at in 0..self.drawn.len() {
            if self.drawn[at].on_path {
                self.drawn.swap(on_path, at);
                on_path += 1;
            }
        }
        let most = self.bounds.longest;
        let (path, others) = self.drawn.split_at_mut(on_path);
        for (spans, least_ns) in [path, others].into_iter().zip(&mut summing.least_ns) {
            if let Some(longest) = longest_first(spans, most) {
                *least_ns = longest;
                spans[most..].iter().for_each(|dropped| summing.partial[dropped.slot as usize] = true);
            }
        }
        self.drawn.drain(on_path.min(most)..on_path);
        self.drawn.truncate(on_path.min(most) + most);
        self.summing = Some(summing);
    }
}

/// Moves the longest `most` to the front; returns the duration of the longest of the others.
fn longest_first(spans: &mut [Drawn], most: usize) -> Option<i64> {
    let order = |span: &Drawn| (Reverse(span.duration_ns()), span.start_ns, span.slot, span.look, span.object);
    (spans.len() > most).then(|| spans.select_nth_unstable_by_key(most, order).1.duration_ns())
}
