//! Makes a fixture from a recording: `fixture FROM.thw TO OLD=NEW...` copies it, replacing each OLD in a name, word or attribute by NEW,
//! calling unrelated programs `other`, and dropping what only describes the machine or the recorder. With `--stacks` before FROM, the
//! stacks of its samples are kept (locks that are waited for by running are recognised by them); without, only those of waits.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use thalweg_trace::{
    CounterName, CounterOf, Ending, Event, Meta, Recording, RecordingWriter, Role, Sink, Source, Span, SpanKind, TrackId, TrackKind,
};

/// Attributes that explanations use.
const KEPT: &[&str] = &[
    "asked.",
    "ended.",
    "memory.",
    "answered.",
    "looks.",
    "tier",
    "not_seen",
    "class.",
    "cgroup.",
    "command.pid",
    "mount.",
    "ceiling.",
    "cpus.",
    "resolution_ns",
    "wakers",
    "switches",
    "walk.",
];

/// A program keeps its name if it made at least this many hundredths of a device's requests: it is relevant there.
const ASKS_HUNDREDTHS: u64 = 10;

/// Numbers of requests by issuer, by device.
#[derive(Default)]
struct Asked(HashMap<TrackId, HashMap<Option<TrackId>, u64>>);

impl Asked {
    fn note(&mut self, span: &Span) {
        if matches!(span.kind, SpanKind::DiskRead | SpanKind::DiskWrite | SpanKind::DiskFlush) {
            *self.0.entry(span.track).or_default().entry(span.waker_track).or_default() += 1;
        }
    }

    /// Whether a thread made a fair part of a device's requests.
    fn matters(&self, track: TrackId) -> bool {
        self.0.values().any(|by| {
            let all: u64 = by.values().sum();
            by.get(&Some(track)).is_some_and(|own| own * 100 >= all * ASKS_HUNDREDTHS)
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let sampled = words.first().is_some_and(|word| word == "--stacks");
    words.drain(..usize::from(sampled));
    let [from, to, renames @ ..] = words.as_slice() else { return Err("fixture [--stacks] FROM.thw TO OLD=NEW...".into()) };
    let renames: Vec<(&str, &str)> = renames.iter().filter_map(|word| word.split_once('=')).collect();
    let plain = |name: &str| renames.iter().fold(name.to_owned(), |name, (old, new)| name.replace(old, new));
    let recording = Recording::open(Path::new(from))?;
    let meta = recording.meta();
    let kept = meta.attributes.iter().filter(|(name, _)| KEPT.iter().any(|kept| name.starts_with(kept)));
    let made = Meta {
        command: meta.command.iter().map(|word| plain(word)).collect(),
        attributes: kept.map(|(name, value)| (plain(name), plain(value))).collect(),
        ..meta.clone()
    };
    let writer = RecordingWriter::create(Path::new(to), made.clone())?;
    let mut asked = Asked::default();
    let (mut batch, mut tracks, mut objects, mut stacks) = (Vec::new(), HashSet::new(), HashSet::new(), HashSet::new());
    for spans in recording.spans_backward() {
        let spans = spans?;
        for span in (0..spans.len()).filter_map(|row| spans.row(row)) {
            tracks.extend([Some(span.track), span.waker_track].into_iter().flatten());
            objects.extend(span.object);
            stacks.extend(span.stack);
            asked.note(&span);
            batch.push(Event::Span(span));
        }
        writer.take(&mut batch);
    }
    batch.extend(recording.marks()?.into_iter().map(|mark| {
        objects.extend(mark.object);
        Event::Mark(mark)
    }));
    for &name in CounterName::ALL {
        for counter in recording.counters(name)? {
            match counter.of {
                CounterOf::Track(track) => drop(tracks.insert(track)),
                CounterOf::Object(object) => drop(objects.insert(object)),
            }
            batch.push(Event::Counter(counter));
        }
    }
    batch.extend(recording.samples()?.into_iter().map(|sample| {
        tracks.extend(sample.track);
        let stack = sample.stack.filter(|_| sampled);
        stacks.extend(stack);
        Event::Sample(thalweg_trace::Sample { stack, ..sample })
    }));
    for stack in recording.stacks()?.into_iter().filter(|stack| stacks.contains(&stack.stack)) {
        let frames = stack.frames.iter().map(|frame| plain(frame)).collect();
        batch.push(Event::Stack(thalweg_trace::Stack { frames, ..stack }));
    }
    for track in recording.tracks().iter().filter(|row| tracks.contains(&row.track)) {
        let stranger = track.role == Role::None && track.kind == TrackKind::Thread && !asked.matters(track.track);
        let name = if stranger { "other".to_owned() } else { plain(&track.name) };
        batch.push(Event::Track(thalweg_trace::Track { name, ..track.clone() }));
    }
    for object in recording.objects().iter().filter(|row| objects.contains(&row.object)) {
        let attributes = object.attributes.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
        batch.push(Event::Object(thalweg_trace::Object { name: plain(&object.name), attributes, ..object.clone() }));
    }
    batch.extend(machines(&recording));
    writer.take(&mut batch);
    let end = meta.end.ok_or("the recording was never finished")?;
    writer.finish(Ending { exit_code: meta.exit_code, attributes: Vec::new(), dropped_events: meta.dropped_events, ..Ending::at(end) })?;
    Ok(())
}

/// Machines without their names, and the errors of their clocks.
fn machines(recording: &Recording) -> Vec<Event> {
    let host = |host: &thalweg_trace::Host| thalweg_trace::Host {
        name: "here".into(),
        node: "here".into(),
        kernel: String::new(),
        ..host.clone()
    };
    let mut found: Vec<Event> = recording.hosts().iter().map(|row| Event::Host(host(row))).collect();
    // The recording is on the reference host's axis already: only the clocks' errors remain.
    let clocks = recording.clocks().iter().map(|clock| thalweg_trace::Clock {
        from_ns: clock.from_ns.saturating_add(clock.offset_ns),
        offset_ns: 0,
        drift_ppb: 0,
        ..*clock
    });
    found.extend(clocks.map(Event::Clock));
    found
}
