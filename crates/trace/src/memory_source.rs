//! A recording in memory: for tests, for small unfinished recordings, and for explaining a copy without keeping its
//! recording.

use crate::{Axis, Clock, Counter, CounterName, CounterOf, Event, Host, Mark, Meta, Object, Sample, Source, SourceError, Span, SpanBatch};
use crate::{Stack, Time, Track, WaitStacks};

/// Maximum spans in a batch.
pub(crate) const BATCH_ROWS: usize = 16_384;

/// Events as a [`Source`]: on the reference axis, in the order that [`Source`] promises.
#[derive(Clone, Debug)]
pub struct MemorySource {
    meta: Meta,
    hosts: Vec<Host>,
    clocks: Vec<Clock>,
    tracks: Vec<Track>,
    objects: Vec<Object>,
    batches: Vec<SpanBatch>,
    marks: Vec<Mark>,
    counters: Vec<Counter>,
    samples: Vec<Sample>,
    stacks: Vec<Stack>,
}

impl MemorySource {
    /// Creates a source of these events, which may be in any order, with times on their hosts' own clocks.
    pub fn from_events(meta: Meta, events: impl IntoIterator<Item = Event>) -> MemorySource {
        let mut source = MemorySource {
            meta,
            hosts: Vec::new(),
            clocks: Vec::new(),
            tracks: Vec::new(),
            objects: Vec::new(),
            batches: Vec::new(),
            marks: Vec::new(),
            counters: Vec::new(),
            samples: Vec::new(),
            stacks: Vec::new(),
        };
        let (mut spans, mut waits): (Vec<Span>, WaitStacks) = Default::default();
        for event in events {
            match event {
                Event::Host(row) => source.hosts.push(row),
                Event::Clock(row) => source.clocks.push(row),
                Event::Track(row) => source.tracks.push(row),
                Event::Object(row) => source.objects.push(row),
                Event::Span(row) => spans.push(row),
                Event::Mark(row) => source.marks.push(row),
                Event::Counter(row) => source.counters.push(row),
                Event::Sample(row) => source.samples.push(row),
                Event::Stack(row) => source.stacks.push(row),
                Event::Waited(row) => waits.add(&row),
            }
        }
        spans.iter_mut().for_each(|span| *span = waits.with_stack(*span));
        last_of_each(&mut source.hosts, |h| h.host);
        last_of_each(&mut source.clocks, |c| (c.host, c.from_ns));
        last_of_each(&mut source.tracks, |t| t.track);
        last_of_each(&mut source.objects, |o| o.object);
        last_of_each(&mut source.stacks, |s| s.stack);
        source.align(&spans);
        source
    }

    /// Converts all times to the reference axis and sorts everything by time.
    fn align(&mut self, spans: &[Span]) {
        let axis = Axis::new(&self.clocks, &self.tracks, &self.objects);
        let mut order: Vec<(i64, u64, usize)> = spans.iter().enumerate().map(|(i, s)| (end_ns(&axis, s), s.span.number(), i)).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        for chunk in order.chunks(BATCH_ROWS) {
            let mut batch = SpanBatch::default();
            for &(end_ns, _, i) in chunk {
                let span = &spans[i];
                batch.push(span, axis.to_reference(axis.host_of_track(span.track.number()), span.start.ns()), end_ns);
            }
            self.batches.push(batch);
        }
        // Rows of the same instant are in the order that tables have.
        self.marks.sort_by_key(|m| (axis.host_of_track(m.track.number()), m.at, m.track));
        self.counters.sort_by_key(|c| (axis.host_of_counter(c.of), c.at, number_of(c.of)));
        self.samples.sort_by_key(|s| (s.host, s.at, s.cpu));
        for mark in &mut self.marks {
            mark.at = moved(&axis, axis.host_of_track(mark.track.number()), mark.at);
        }
        for counter in &mut self.counters {
            counter.at = moved(&axis, axis.host_of_counter(counter.of), counter.at);
        }
        for sample in &mut self.samples {
            sample.at = moved(&axis, sample.host, sample.at);
        }
        self.marks.sort_by_key(|m| m.at);
        self.counters.sort_by_key(|c| c.at);
        self.samples.sort_by_key(|s| s.at);
    }
}

/// Keeps the last row of each key; a repeated row replaces the earlier one.
fn last_of_each<R, K: Ord>(rows: &mut Vec<R>, key: impl Fn(&R) -> K) {
    rows.sort_by_key(&key);
    // (A stable sort of the reversed rows puts the later of equal ones first.)
    rows.reverse();
    rows.dedup_by(|earlier, later| key(earlier) == key(later));
    rows.reverse();
}

fn number_of(of: CounterOf) -> u64 {
    match of {
        CounterOf::Track(track) => track.number(),
        CounterOf::Object(object) => object.number(),
    }
}

fn end_ns(axis: &Axis, span: &Span) -> i64 {
    axis.to_reference(axis.host_of_track(span.track.number()), span.end().ns())
}

/// Converts a host's instant to the reference host's.
pub(crate) fn moved(axis: &Axis, host: crate::HostId, at: Time) -> Time {
    Time::from_monotonic_ns(axis.to_reference(host, at.ns()))
}

impl Source for MemorySource {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn hosts(&self) -> &[Host] {
        &self.hosts
    }
    fn clocks(&self) -> &[Clock] {
        &self.clocks
    }
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }
    fn objects(&self) -> &[Object] {
        &self.objects
    }
    fn spans_backward<'a>(&'a self) -> Box<dyn Iterator<Item = Result<SpanBatch, SourceError>> + 'a> {
        Box::new(self.batches.iter().cloned().map(Ok))
    }
    fn marks(&self) -> Result<Vec<Mark>, SourceError> {
        Ok(self.marks.clone())
    }
    fn counters(&self, name: CounterName) -> Result<Vec<Counter>, SourceError> {
        Ok(self.counters.iter().copied().filter(|c| c.name == name).collect())
    }
    fn samples(&self) -> Result<Vec<Sample>, SourceError> {
        Ok(self.samples.clone())
    }
    fn stacks(&self) -> Result<Vec<Stack>, SourceError> {
        Ok(self.stacks.clone())
    }
}
