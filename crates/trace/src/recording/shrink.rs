//! Cutting an interval out of a recording: how a large one becomes a fixture.

use super::writer::{Ending, RecordingWriter};
use crate::{Clock, CounterName, CounterOf, Event, Meta, Sink, Source, Time, TraceError};
use std::collections::HashSet;
use std::path::Path;

/// Writes to `out` what of `source` touches the interval (reference axis, nanoseconds): spans and rows in
/// it, and the tracks, objects, stacks and hosts they refer to. Times are on the reference axis already,
/// so the clocks of the copy are without offset and drift; what is not known of them is kept.
pub fn shrink(source: &dyn Source, from_ns: i64, to_ns: i64, out: &Path) -> Result<(), TraceError> {
    if to_ns <= from_ns {
        return Err(TraceError::new(out, format!("nothing lies between {from_ns} and {to_ns} ns")));
    }
    let meta = source.meta();
    let start = Time::from_monotonic_ns(meta.start.ns().max(from_ns));
    let writer = RecordingWriter::create(out, Meta { start, dropped_events: 0, ..meta.clone() })?;
    let within = |at: Time| (from_ns..=to_ns).contains(&at.ns());
    let (mut tracks, mut objects, mut stacks) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut last_ns = from_ns;
    let mut batch = Vec::new();
    for spans in source.spans_backward() {
        let spans = spans?;
        for row in 0..spans.len() {
            if spans.start_ns[row] > to_ns || spans.end_ns[row] < from_ns {
                continue;
            }
            let Some(span) = spans.row(row) else { continue };
            tracks.extend([Some(span.track), span.waker_track].into_iter().flatten());
            objects.extend(span.object);
            last_ns = last_ns.max(spans.end_ns[row]);
            batch.push(Event::Span(span));
        }
        writer.take(&mut batch);
    }
    for mark in source.marks()?.into_iter().filter(|mark| within(mark.at)) {
        tracks.insert(mark.track);
        objects.extend(mark.object);
        batch.push(Event::Mark(mark));
    }
    for &name in CounterName::ALL {
        for counter in source.counters(name)?.into_iter().filter(|counter| within(counter.at)) {
            match counter.of {
                CounterOf::Track(track) => drop(tracks.insert(track)),
                CounterOf::Object(object) => drop(objects.insert(object)),
            }
            batch.push(Event::Counter(counter));
        }
    }
    for sample in source.samples()?.into_iter().filter(|sample| within(sample.at)) {
        tracks.extend(sample.track);
        stacks.extend(sample.stack);
        batch.push(Event::Sample(sample));
    }
    let described = source.stacks()?.into_iter().filter(|row| stacks.contains(&row.stack)).map(Event::Stack);
    batch.extend(described);
    batch.extend(source.tracks().iter().filter(|row| tracks.contains(&row.track)).cloned().map(Event::Track));
    batch.extend(source.objects().iter().filter(|row| objects.contains(&row.object)).cloned().map(Event::Object));
    batch.extend(source.hosts().iter().cloned().map(Event::Host));
    let aligned = |clock: &Clock| Event::Clock(Clock { from_ns: from_ns.max(clock.from_ns), offset_ns: 0, drift_ppb: 0, ..*clock });
    batch.extend(source.clocks().iter().map(aligned));
    writer.take(&mut batch);
    let end = Time::from_monotonic_ns(meta.end.map_or(last_ns, Time::ns).min(to_ns));
    writer.finish(Ending { exit_code: meta.exit_code, ..Ending::at(end) })
}
