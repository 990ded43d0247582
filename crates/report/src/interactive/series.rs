//! What is drawn beside spans: marks, counters and samples, at most as many as a screen can use.

use super::collected::Stop;
use super::labels;
use super::lanes::Slots;
use crate::Result;
use crate::picture::marks::signal_name;
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use thalweg_explain::profile::SampledStacks;
use thalweg_trace::{CounterName, CounterOf, Mark, MarkKind, Meta, ObjectId, Source};

/// The kind of a mark where a signal stopped a thread; other signals are marks of the recording.
const STOPPED: &str = "signal.stop";
/// Most marks.
const MAX_MARKS: usize = 500_000;
/// Most values of all counters of one name.
const MAX_VALUES: usize = 200_000;
/// Most counters: a plane numbers them in 16 bits.
const MAX_COUNTERS: usize = 0xffff;
/// Most samples.
const MAX_SAMPLES: usize = 1_000_000;
/// Marks that a sample is in no class.
const NO_CLASS: u8 = 0xff;

/// A mark to draw.
pub(super) struct MarkRow {
    pub(super) slot: u32,
    pub(super) at_ns: i64,
    /// Its number in [`Series::mark_kinds`].
    pub(super) kind: u8,
    pub(super) value: u32,
}

/// A value of a counter.
pub(super) struct CounterRow {
    /// Its number in [`Series::counters`].
    pub(super) of: u16,
    pub(super) at_ns: i64,
    pub(super) value: f64,
}

/// A sample to draw.
pub(super) struct SampleRow {
    /// Its slot; `None` if its thread is not known.
    pub(super) slot: Option<u32>,
    pub(super) at_ns: i64,
    /// Its number in [`Series::sample_classes`].
    pub(super) class: u8,
    /// Number of the stack in the recording, if it is a profile's; 0: none.
    pub(super) stack: u32,
}

/// A kind of mark, as the header lists it.
#[derive(Serialize)]
pub(super) struct MarkEntry {
    kind: &'static str,
    label: String,
}

/// A counter.
pub(super) struct Counter {
    pub(super) name: CounterName,
    /// Its slot, if it has one.
    pub(super) slot: Option<u32>,
    /// The object it counts for, if that has no slot.
    pub(super) object: Option<ObjectId>,
}

impl Counter {
    fn new(name: CounterName, of: CounterOf, slots: &Slots<'_>) -> Counter {
        match of {
            CounterOf::Track(track) => Counter { name, slot: slots.track(track.number()), object: None },
            CounterOf::Object(object) => {
                let slot = slots.connection(object.number());
                Counter { name, slot, object: Some(object).filter(|_| slot.is_none()) }
            }
        }
    }
}

/// Everything beside spans.
pub(super) struct Series {
    pub(super) marks: Vec<MarkRow>,
    pub(super) mark_kinds: Vec<MarkEntry>,
    pub(super) values: Vec<CounterRow>,
    pub(super) counters: Vec<Counter>,
    pub(super) samples: Vec<SampleRow>,
    pub(super) sample_classes: Vec<String>,
    /// What was left out, in sentences.
    pub(super) notes: Vec<String>,
}

impl Series {
    /// Reads marks, counters and samples of a recording.
    pub(super) fn read(source: &dyn Source, slots: &Slots<'_>, marks: &[Mark], stacks: &SampledStacks<'_>) -> Result<Series> {
        let mut series = Series {
            marks: Vec::new(),
            mark_kinds: Vec::new(),
            values: Vec::new(),
            counters: Vec::new(),
            samples: Vec::new(),
            sample_classes: Vec::new(),
            notes: Vec::new(),
        };
        series.add_marks(slots, marks);
        series.add_counters(source, slots)?;
        series.add_samples(source, slots, stacks)?;
        Ok(series)
    }

    fn add_marks(&mut self, slots: &Slots<'_>, marks: &[Mark]) {
        let mut numbers: HashMap<MarkKind, u8> = HashMap::new();
        let every = self.every(marks.len(), MAX_MARKS, "marks");
        for mark in marks.iter().step_by(every) {
            let Some(slot) = slots.track(mark.track.number()) else { continue };
            let kinds = &mut self.mark_kinds;
            let kind = *numbers.entry(mark.kind).or_insert_with(|| {
                kinds.push(MarkEntry { kind: mark.kind.name(), label: labels::mark(mark.kind).to_owned() });
                (kinds.len() - 1) as u8
            });
            let value = mark.value.map_or(0, |value| u32::try_from(value.max(0)).unwrap_or(u32::MAX));
            self.marks.push(MarkRow { slot, at_ns: mark.at.ns(), kind, value });
        }
    }

    /// Adds a mark for each time that a signal stopped a thread, at most as many kinds as a plane can number.
    pub(super) fn add_stops(&mut self, slots: &Slots<'_>, stops: &[Stop]) {
        let mut numbers: HashMap<i64, u8> = HashMap::new();
        for stop in stops {
            let Some(slot) = slots.track(stop.track) else { continue };
            let kind = match numbers.get(&stop.signal) {
                Some(kind) => *kind,
                None if self.mark_kinds.len() > usize::from(u8::MAX) => continue,
                None => {
                    let label = format!("the thread was stopped by {}", signal_name(stop.signal));
                    self.mark_kinds.push(MarkEntry { kind: STOPPED, label });
                    *numbers.entry(stop.signal).or_insert((self.mark_kinds.len() - 1) as u8)
                }
            };
            let value = u32::try_from(stop.signal).unwrap_or(u32::MAX);
            self.marks.push(MarkRow { slot, at_ns: stop.at_ns, kind, value });
        }
        self.marks.sort_by_key(|mark| mark.at_ns);
    }

    fn add_counters(&mut self, source: &dyn Source, slots: &Slots<'_>) -> Result<()> {
        let mut all = source.every_counter()?;
        all.sort_by_key(|value| value.name);
        for values in all.chunk_by(|a, b| a.name == b.name) {
            let name = values[0].name;
            let every = self.every(values.len(), MAX_VALUES, name.name());
            let mut numbers: HashMap<CounterOf, (u16, usize)> = HashMap::new();
            let first = self.values.len();
            for value in values {
                let of = match numbers.entry(value.of) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(_) if self.counters.len() == MAX_COUNTERS => continue,
                    Entry::Vacant(new) => {
                        self.counters.push(Counter::new(name, value.of, slots));
                        new.insert((self.counters.len() as u16 - 1, 0))
                    }
                };
                if of.1.is_multiple_of(every) {
                    self.values.push(CounterRow { of: of.0, at_ns: value.at.ns(), value: value.value as f64 });
                }
                of.1 += 1;
            }
            self.values[first..].sort_by_key(|value| value.of);
        }
        Ok(())
    }

    fn add_samples(&mut self, source: &dyn Source, slots: &Slots<'_>, stacks: &SampledStacks<'_>) -> Result<()> {
        let samples = source.samples()?;
        let every = self.every(samples.len(), MAX_SAMPLES, "samples");
        let mut numbers: HashMap<(Option<usize>, u16), u8> = HashMap::new();
        for sample in samples.iter().step_by(every) {
            let classes = &mut self.sample_classes;
            // A profile's samples are in the classes of its functions, others in those of the recorder.
            let profiled = stacks.class(sample);
            let of = if profiled.is_some() { 0 } else { sample.class };
            let class = *numbers.entry((profiled, of)).or_insert_with(|| {
                if classes.len() == usize::from(NO_CLASS) {
                    return NO_CLASS;
                }
                classes.push(profiled.map_or_else(|| class_name(source.meta(), sample.class), |class| stacks.classes[class].clone()));
                (classes.len() - 1) as u8
            });
            let slot = sample.track.and_then(|track| slots.track(track.number()));
            self.samples.push(SampleRow { slot, at_ns: sample.at.ns(), class, stack: sample.profiled().unwrap_or(0) });
        }
        Ok(())
    }

    /// Returns the step at which at most `most` of `count` are kept, and notes it.
    fn every(&mut self, count: usize, most: usize, what: &str) -> usize {
        let every = count.div_ceil(most).max(1);
        if every > 1 {
            self.notes.push(format!("Of {count} values ({what}), one of {every} is drawn."));
        }
        every
    }
}

/// Returns the name of a class of samples.
fn class_name(meta: &Meta, class: u16) -> String {
    let key = format!("class.{class}");
    meta.attributes.iter().find(|(name, _)| *name == key).map_or(key.clone(), |(_, value)| value.clone())
}
