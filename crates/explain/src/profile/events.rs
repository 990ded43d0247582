//! Counts of the processors' event counters, by class: cycles, instructions, cache misses.
//!
//! A processor's counter has a value at each sample taken there. The increase since the previous sample belongs to the sample's class, like
//! the time between the two. The idle task's counts are not separated: they are in the next sample's.

use super::classify::Stacks;
use super::document::{ClassCount, EventCounts, Rate};
use super::gather::{Programs, answers};
use super::rules::Rules;
use super::times::text;
use crate::ExplainError;
use std::collections::{BTreeMap, HashMap};
use thalweg_trace::{CounterName, CounterOf, HostId, Sample, Source, TrackId};

/// Counters of events, by their number.
const NAMES: [CounterName; 6] =
    [CounterName::Event0, CounterName::Event1, CounterName::Event2, CounterName::Event3, CounterName::Event4, CounterName::Event5];

/// Values of a counter of one processor, in order of time.
type Series = Vec<(i64, i64)>;

/// The counts of each machine, in the order in which the events were requested.
pub(super) fn events(
    source: &dyn Source,
    samples: &[Sample],
    (stacks, programs, rules): (&Stacks, &Programs<'_>, &Rules),
    rates: &BTreeMap<HostId, Vec<Rate>>,
) -> Result<BTreeMap<HostId, Vec<EventCounts>>, ExplainError> {
    let cpus: HashMap<u64, (HostId, u32)> =
        source.tracks().iter().filter_map(|t| Some((t.track.number(), (t.host, t.name.strip_prefix("cpu")?.parse().ok()?)))).collect();
    let mut all: BTreeMap<HostId, Vec<EventCounts>> = BTreeMap::new();
    for (number, counter) in NAMES.into_iter().enumerate() {
        let mut series: HashMap<(HostId, u32), Series> = HashMap::new();
        for counter in source.counters(counter)? {
            if let CounterOf::Track(track) = counter.of
                && let Some(cpu) = cpus.get(&track.number())
            {
                series.entry(*cpu).or_default().push((counter.at.ns(), counter.value));
            }
        }
        if series.is_empty() {
            continue;
        }
        for (host, classes) in by_class(samples, series, (stacks, programs, rules)) {
            let event = text(source.meta(), host, &format!("event.{number}")).map_or_else(|| format!("event {number}"), str::to_owned);
            let bytes = rates.get(&host).and_then(|rates| rates.first()).map(|rate| rate.bytes as f64).filter(|bytes| *bytes > 0.0);
            let per_byte = |count: u64| bytes.map(|bytes| count as f64 / bytes);
            let row =
                |(class, count): (usize, u64)| ClassCount { class: rules.classes[class].name.clone(), count, per_byte: per_byte(count) };
            let count = classes.iter().sum();
            let classes = classes.into_iter().enumerate().filter(|(_, count)| *count > 0).map(row).collect();
            all.entry(host).or_default().push(EventCounts { event, count, per_byte: per_byte(count), classes });
        }
    }
    Ok(all)
}

/// Charges the increase between two values to the sample at the second.
fn by_class(
    samples: &[Sample],
    series: HashMap<(HostId, u32), Series>,
    (stacks, programs, rules): (&Stacks, &Programs<'_>, &Rules),
) -> BTreeMap<HostId, Vec<u64>> {
    let ahead = |(cpu, values): (_, Series)| (cpu, (values.into_iter().peekable(), 0));
    let mut left: HashMap<(HostId, u32), _> = series.into_iter().map(ahead).collect();
    let mut counts: BTreeMap<HostId, Vec<u64>> = BTreeMap::new();
    for sample in samples {
        let Some(place) = sample.profiled().and_then(|stack| stacks.place(stack)) else { continue };
        let Some((values, before)) = left.get_mut(&(sample.host, sample.cpu)) else { continue };
        let at = sample.at.ns();
        // The first value is the counter's start.
        while let Some((_, value)) = values.next_if(|(when, _)| *when < at) {
            *before = value;
        }
        let Some((_, value)) = values.next_if(|(when, _)| *when == at) else { continue };
        let program = programs.of_track(sample.track.map_or(0, TrackId::number)).0;
        let (class, _) = answers(&stacks.verdicts[place], programs.all[program as usize].whose, &rules.known);
        let of_host = counts.entry(sample.host).or_insert_with(|| vec![0; rules.classes.len()]);
        of_host[class as usize] += value.saturating_sub(*before).max(0) as u64;
        *before = value;
    }
    counts
}
