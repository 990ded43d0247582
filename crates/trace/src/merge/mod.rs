//! Merges several recordings of one run (the client's, the servers') into one, on one time axis.
//!
//! **In:** recordings. **Out:** one recording. The first recording's first host is the reference, and its interval is
//! the one explained. The others' clocks are put on its axis: recordings of one boot of one machine share a clock
//! (apart from offsets of time namespaces); others are aligned by the bytes that both ends of their connections saw
//! ([`crate::align()`]); failing that, by wall clocks, with an error bar that says so. If clocks of one name would
//! have bytes received before they were sent, they are different clocks, and the bytes decide. A recording that
//! shares neither bytes nor time with the others is refused.
//!
//! Identifiers are assigned anew ([`identities`]). A thread, device or end of a connection that two recordings of one
//! machine saw becomes one row; its spans are those of the first recording that has any. In every recording but the
//! first, a process with the accepting end of a connection is a server.
//!
//! Spans are streamed twice: once to find the threads that have any and their ends of connections, once to copy them.
//! Marks, counters, samples and stacks pass through memory one table at a time, as [`crate::Source`] yields them.

mod identities;
mod part;
mod place;

use crate::{Clock, CounterName, Ending, Event, HostId, Meta, RecordingWriter, Sink, Source, TraceError, secrets};
use identities::{Identities, Pass};
use part::last_instant;
pub use part::{ClockFrom, Part};
use place::Placed;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

/// How one recording was merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedPart {
    /// The recording's name.
    pub name: String,
    /// How its clock was aligned.
    pub clock: ClockFrom,
    /// Start of the interval, on its own clock, for which the alignment holds: where connections were seen, else all
    /// of it.
    pub from_ns: i64,
    /// End of that interval.
    pub to_ns: i64,
    /// Offset added to its clock at `from_ns`.
    pub offset_ns: i64,
    /// Drift: how slow its clock is, in parts per 10⁹.
    pub drift_ppb: i64,
    /// Half the width of the uncertainty.
    pub error_ns: u64,
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Each recording, in the given order.
    pub parts: Vec<MergedPart>,
    /// Notes for the user, a sentence each; also in the recording's `notes`.
    pub notes: Vec<String>,
}

/// Merges recordings into one at `out`, which must not exist or be an empty directory.
///
/// # Errors
/// Fewer than two recordings; a recording without a host; one made at a different time from the others, with no bytes
/// in common; one that shares no connection with the others and has no wall clock (the message lists each one's
/// connections); a recording that cannot be read; `out` cannot be written.
pub fn merge(parts: &[Part<'_>], out: &Path) -> Result<Merged, TraceError> {
    if parts.len() < 2 {
        return Err(TraceError::new(out, "merging needs at least two recordings"));
    }
    let placed = place::place(parts)?;
    let mut identities = Identities::default();
    let mut passes = Vec::with_capacity(parts.len());
    for (number, (part, placed)) in parts.iter().zip(&placed).enumerate() {
        passes.push(identities.add(part.source, number == 0, placed.apart)?);
    }
    let mut notes = place::notes(parts, &placed);
    notes.extend(identities.notes());
    let existed = out.exists();
    let writer = RecordingWriter::create(out, merged_meta(parts))?;
    let written = write(parts, &placed, &mut identities, &passes, writer.as_ref());
    let ending = ending(parts, &notes);
    let done = written.and_then(|()| match writer.lost_events() {
        0 => writer.finish(ending),
        lost => Err(TraceError::new(out, format!("cannot be written: the disk lost {lost} events"))),
    });
    if let Err(error) = done {
        // An incomplete merged recording would be taken for a complete one.
        writer.discard(!existed);
        return Err(error);
    }
    Ok(Merged { parts: parts.iter().zip(&placed).map(|(part, placed)| merged_part(part, placed)).collect(), notes })
}

fn merged_part(part: &Part<'_>, placed: &Placed) -> MergedPart {
    let meta = part.source.meta();
    let whole = meta.start.ns()..meta.end.map_or(meta.start, |end| end).ns();
    let holds = placed.bounded.clone().unwrap_or(whole);
    let (from_ns, to_ns) = (holds.start, holds.end.max(holds.start + 1));
    let (first, last) = (placed.to_axis(from_ns) - from_ns, placed.to_axis(to_ns) - to_ns);
    let drift_ppb = (i128::from(last - first) * 1_000_000_000 / i128::from(to_ns - from_ns)) as i64;
    let (name, clock) = (part.name.clone(), placed.by.clone());
    MergedPart { name, clock, from_ns, to_ns, offset_ns: first, drift_ppb, error_ns: placed.error_ns() }
}

/// Merges the metadata: the first recording's, plus what the others add.
fn merged_meta(parts: &[Part<'_>]) -> Meta {
    let first = parts[0].source.meta();
    let recorders: BTreeSet<&str> = parts.iter().map(|part| part.source.meta().recorder.as_str()).collect();
    // If one recording kept its words, the merged one is marked as keeping them; the others' secrets were cut before.
    let kept = |part: &Part<'_>| part.source.meta().attributes.iter().find(|(name, _)| name == secrets::KEPT).cloned();
    let attributes = parts.iter().find_map(kept).into_iter().collect();
    Meta { recorder: recorders.into_iter().collect::<Vec<_>>().join("+"), dropped_events: 0, attributes, ..first.clone() }
}

/// Attributes that are sentences: all recordings' are kept, without repeats.
const SENTENCES: [&str; 2] = ["not_seen", "notes"];

fn ending(parts: &[Part<'_>], notes: &[String]) -> Ending {
    let first = parts[0].source.meta();
    // `lost` marks are copied and counted again; losses outside them are passed on.
    let elsewhere = |source: &dyn Source| {
        let marks = source.marks().unwrap_or_default();
        let marked: u64 = marks.iter().filter(|m| m.kind == crate::MarkKind::Lost).filter_map(|m| u64::try_from(m.value?).ok()).sum();
        source.meta().dropped_events.saturating_sub(marked)
    };
    let dropped_events = parts.iter().map(|part| elsewhere(part.source)).fold(0, u64::saturating_add);
    Ending {
        end: first.end.unwrap_or_else(|| last_instant(parts[0].source)),
        exit_code: first.exit_code,
        dropped_events,
        attributes: attributes(parts, notes),
    }
}

fn attributes(parts: &[Part<'_>], notes: &[String]) -> Vec<(String, String)> {
    let mut merged: BTreeMap<String, String> = BTreeMap::new();
    let mut sentences: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (number, part) in parts.iter().enumerate() {
        for (name, value) in &part.source.meta().attributes {
            match SENTENCES.iter().find(|sentence| *sentence == name) {
                Some(name) => {
                    let whose = |line: &str| if number == 0 { line.to_owned() } else { format!("{}: {line}", part.name) };
                    sentences.entry(name).or_default().extend(value.lines().map(whose));
                }
                None if name.starts_with("class.") => {}
                // Where both have an attribute, the first's is the run's; the others' are kept under their number.
                None if merged.contains_key(name) && merged[name] != *value => {
                    drop(merged.insert(format!("{number}.{name}"), value.clone()))
                }
                None if name == "realtime_ns" && number > 0 => {}
                None => drop(merged.insert(name.clone(), value.clone())),
            }
        }
    }
    let mut known = HashSet::new();
    sentences.entry("notes").or_default().extend(notes.iter().cloned());
    for (name, mut sentences) in sentences {
        sentences.retain(|sentence| !sentence.is_empty() && known.insert(sentence.clone()));
        if !sentences.is_empty() {
            merged.insert(name.to_owned(), sentences.join("\n"));
        }
    }
    merged.insert("merged".to_owned(), parts.iter().map(|part| part.name.clone()).collect::<Vec<_>>().join(", "));
    merged.into_iter().chain(classes(parts).into_iter().map(|(name, number)| (format!("class.{number}"), name))).collect()
}

/// Numbers the classes of samples by name, the same for all recordings.
fn classes(parts: &[Part<'_>]) -> BTreeMap<String, u16> {
    let mut classes = BTreeMap::new();
    for part in parts {
        for (name, value) in &part.source.meta().attributes {
            if name.starts_with("class.") && !classes.contains_key(value) {
                let next = classes.len() as u16;
                classes.insert(value.clone(), next);
            }
        }
    }
    classes
}

fn write(parts: &[Part<'_>], placed: &[Placed], identities: &mut Identities, passes: &[Pass], sink: &dyn Sink) -> Result<(), TraceError> {
    let mut batch: Vec<Event> = identities.rows();
    sink.take(&mut batch);
    let classes = classes(parts);
    let mut first_stack = 0;
    for ((part, placed), pass) in parts.iter().zip(placed).zip(passes) {
        let source = part.source;
        batch.extend(clock_rows(source, placed, pass).into_iter().map(Event::Clock));
        for spans in source.spans_backward() {
            let spans = spans?;
            let copied = (0..spans.len()).filter_map(|row| pass.span(identities, spans.row(row)?, first_stack));
            batch.extend(copied.map(Event::Span));
            sink.take(&mut batch);
        }
        batch.extend(source.marks()?.into_iter().filter_map(|mark| pass.mark(mark)).map(Event::Mark));
        for &name in CounterName::ALL {
            batch.extend(source.counters(name)?.into_iter().filter_map(|counter| pass.counter(counter)).map(Event::Counter));
            sink.take(&mut batch);
        }
        let class = |number: u16| {
            let key = format!("class.{number}");
            let name = source.meta().attributes.iter().find(|(name, _)| *name == key).map(|(_, value)| value);
            name.and_then(|name| classes.get(name)).copied().unwrap_or(number)
        };
        let of_number: std::collections::HashMap<u16, u16> = (0..64).map(|number| (number, class(number))).collect();
        for sample in source.samples()? {
            let class = of_number.get(&sample.class).copied().unwrap_or(sample.class);
            batch.push(Event::Sample(pass.sample(crate::Sample { class, ..sample }, first_stack)));
        }
        sink.take(&mut batch);
        let mut last_stack = first_stack;
        for stack in source.stacks()? {
            let number = stack.stack.saturating_add(first_stack);
            last_stack = last_stack.max(number);
            batch.push(Event::Stack(crate::Stack { stack: number, ..stack }));
        }
        first_stack = last_stack.saturating_add(1);
        sink.take(&mut batch);
    }
    Ok(())
}

/// Returns the clocks of a recording's hosts. Its times are on its own reference axis, so all relate to the merged
/// axis as that axis does; each clock's own uncertainty is kept.
fn clock_rows(source: &dyn Source, placed: &Placed, pass: &Pass) -> Vec<Clock> {
    let mut rows = Vec::new();
    for host in source.hosts() {
        let of_host = source.clocks().iter().filter(|clock| clock.host == host.host);
        let unknown_ns = of_host.map(|clock| clock.error_ns).max().unwrap_or(0);
        let number = pass.host(host.host);
        if number == HostId(0) || pass.knows_host_from_before(host.host) {
            continue;
        }
        if placed.clocks.is_empty() && unknown_ns > 0 {
            let from_ns = source.meta().start.ns();
            rows.push(Clock { host: number, from_ns, offset_ns: 0, drift_ppb: 0, error_ns: unknown_ns });
        }
        rows.extend(placed.clocks.iter().map(|c| Clock { host: number, error_ns: c.error_ns.saturating_add(unknown_ns), ..*c }));
    }
    rows
}
