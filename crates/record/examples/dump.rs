//! Prints a recording as text: tracks, objects, and each track's spans in order of time, with a sum per kind.
//! `dump NAME.thw [--spans] [--track SUBSTRING] [--counters] [--marks]`.

use std::collections::BTreeMap;
use std::path::Path;
use thalweg_trace::{CounterName, Recording, Source, Span};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|w| w == flag);
    let wanted = words.iter().position(|w| w == "--track").and_then(|at| words.get(at + 1));
    let path = words.first().ok_or("dump NAME.thw [--spans] [--track SUBSTRING] [--counters] [--marks]")?;
    let recording = Recording::open(Path::new(path))?;
    let meta = recording.meta();
    let zero = meta.start.ns();
    let wall = meta.end.map_or(0, |end| end.ns() - zero);
    println!("command {:?} wall {:.6} s, exit {:?}, dropped {}", meta.command, wall as f64 / 1e9, meta.exit_code, meta.dropped_events);
    for (name, value) in &meta.attributes {
        println!("  {name} = {value}");
    }
    let objects: BTreeMap<u64, String> = recording
        .objects()
        .iter()
        .map(|o| (o.object.number(), format!("{} {}", o.name, o.attributes.iter().map(|(n, v)| format!("{n}={v} ")).collect::<String>())))
        .collect();
    let tracks: BTreeMap<u64, String> =
        recording.tracks().iter().map(|t| (t.track.number(), format!("{} [{:?} {:?}]", t.name, t.tid.unwrap_or(0), t.role))).collect();
    let mut spans: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
    let mut count = 0;
    for batch in recording.spans_backward() {
        let batch = batch?;
        for row in 0..batch.len() {
            if let Some(span) = batch.row(row) {
                count += 1;
                spans.entry(span.track.number()).or_default().push(span);
            }
        }
    }
    println!("{count} spans, {} tracks, {} objects", tracks.len(), objects.len());
    for (track, name) in &tracks {
        if wanted.is_some_and(|w| !name.contains(w.as_str())) {
            continue;
        }
        println!("== {name}");
        let Some(own) = spans.get_mut(track) else { continue };
        own.sort_by_key(|s| (s.start.ns(), s.duration_ns));
        let mut sums: BTreeMap<(String, String), (u64, u64, u64, u64)> = BTreeMap::new();
        for span in own.iter() {
            let object = span.object.map_or(String::new(), |o| objects.get(&o.number()).cloned().unwrap_or_default());
            let waker = span.waker_track.and_then(|t| tracks.get(&t.number())).cloned().unwrap_or_default();
            if has("--spans") {
                let at = span.start.ns() - zero;
                println!(
                    "{:>13.3} us +{:>11.3} {:<14} x{} {} off {:?} size {:?} result {:?} cpu {:?} rq {:?} parent {:?} waker {} {:?}",
                    at as f64 / 1e3,
                    span.duration_ns as f64 / 1e3,
                    span.kind.name(),
                    span.count,
                    object,
                    span.offset_bytes,
                    span.size_bytes,
                    span.result,
                    span.cpu_ns,
                    span.runqueue_ns,
                    span.parent.map(|p| p.number() & 0xff_ffff_ffff),
                    waker,
                    span.waker_context
                );
            }
            let how = if span.size_bytes.is_some() { "" } else { "(wait)" };
            let context = span.waker_context.map_or(String::new(), |c| c.name().to_owned());
            let key = (format!("{}{how}", span.kind.name()), format!("{object} < {waker} {context}"));
            let sum = sums.entry(key).or_default();
            *sum = (sum.0 + 1, sum.1 + span.duration_ns, sum.2 + u64::from(span.count), sum.3 + span.size_bytes.unwrap_or(0));
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|s| std::cmp::Reverse(s.1.1));
        for ((kind, object), (spans, ns, calls, bytes)) in sums.into_iter().take(40) {
            println!("  {kind:<20} {spans:>7} spans {calls:>8} calls {:>12.3} ms {bytes:>12} B  {object}", ns as f64 / 1e6);
        }
    }
    if has("--marks") {
        for mark in recording.marks()? {
            println!("mark {:?} {} {:?}", mark.kind, mark.at.ns() - zero, mark.value);
        }
    }
    if has("--counters") {
        for name in CounterName::ALL {
            let values = recording.counters(*name)?;
            if let (Some(first), Some(last)) = (values.first(), values.last()) {
                let most = values.iter().map(|c| c.value).max().unwrap_or(0);
                println!("{:<28} {:>7} values, first {}, last {}, most {most}", name.name(), values.len(), first.value, last.value);
            }
        }
    }
    let samples = recording.samples()?;
    let mut classes: BTreeMap<u16, usize> = BTreeMap::new();
    samples.iter().for_each(|s| *classes.entry(s.class).or_default() += 1);
    println!("samples {classes:?}");
    Ok(())
}
