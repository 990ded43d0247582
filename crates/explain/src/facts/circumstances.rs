//! Samples of the running threads and processor quotas, related to the charged time.

use super::ending::Why;
use super::file_counts::FileCounts;
use super::hottest::Hottest;
use super::links::Links;
use super::lookups::Lookups;
use super::set_limits::SetLimits;
use super::waiting::Waiting;
use crate::ExplainError;
use crate::cause::End;
use crate::limits::assemble as limits;
use crate::observe::feed::StackedWait;
use crate::observe::index::NONE;
use crate::observe::tables::Tables;
use crate::path::ledger::Ledger;
use std::collections::HashMap;
use thalweg_trace::{CounterName, CounterOf, Sample, Source};

/// Samples, quotas and other circumstances, read after the walk.
#[derive(Debug, Default)]
pub(crate) struct Circumstances {
    /// Sampled time by class, by ledger entry.
    sampled: HashMap<u32, HashMap<u16, u64>>,
    /// Names of classes of code.
    classes: HashMap<u16, String>,
    /// Effects of a processor quota, by end.
    quotas: [Quota; 2],
    /// Part of a track's running samples in calls that make data durable, if there are enough.
    syncing: HashMap<u32, Syncing>,
    /// Functions in which the path ran, if there is a profile.
    pub(crate) hottest: Hottest,
    /// Where its longest waits waited, if there is a profile.
    pub(crate) waiting: Waiting,
    /// Limits that were set, and reached.
    pub(crate) limits: SetLimits,
    /// Why the command failed, if it did and the reason is known.
    pub(crate) why_failed: Option<Why>,
    /// Bytes that others moved over links.
    pub(crate) links: Links,
    /// Name lookups during the run's waits.
    pub(crate) lookups: Lookups,
    /// Files and names used by the command; `None` if not counted.
    pub(crate) files: Option<FileCounts>,
}

/// The effect of a processor quota on an end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Quota {
    /// Time it stopped threads, in ns.
    pub stopped_ns: u64,
    /// Number of processors it allows, if recorded.
    pub processors: Option<f64>,
}

/// A track's samples, in nanoseconds: all; in calls that only make data durable; in writes that are durable before they return.
#[derive(Clone, Copy, Debug, Default)]
struct Syncing {
    all: f64,
    calls: f64,
    writes: f64,
}

impl Circumstances {
    /// Reads them for the charged path.
    pub(crate) fn read(
        source: &dyn Source,
        (samples, profiled): (&[Sample], &[Sample]),
        waits: &[StackedWait],
        tables: &mut Tables,
        ledger: &Ledger,
    ) -> Result<Circumstances, ExplainError> {
        let mut known = Circumstances { quotas: quotas(source, tables)?, ..Circumstances::default() };
        known.hottest = Hottest::read(source, if profiled.is_empty() { samples } else { profiled }, tables, ledger)?;
        known.waiting = Waiting::read(source, waits, tables, ledger)?;
        known.files = FileCounts::read(source, tables)?;
        known.links = Links::read(source, tables)?;
        let wall_s = ledger.wall_s();
        known.limits = SetLimits::read(source, tables, wall_s)?;
        for (name, value) in &source.meta().attributes {
            if let Some(number) = name.strip_prefix("class.").and_then(|n| n.parse().ok()) {
                known.classes.insert(number, value.clone());
            }
        }
        let class = |wanted: &str| known.classes.iter().find(|(_, name)| *name == wanted).map(|(&class, _)| class);
        let (sync, synced_write) = (class("sync"), class("sync.write"));
        let mut syncing: HashMap<u32, Syncing> = HashMap::new();
        let mut path = ledger.path.iter().rev().peekable();
        for sample in samples {
            let at = sample.at.ns();
            while path.peek().is_some_and(|run| run.end <= at) {
                path.next();
            }
            let track = sample.track.map_or(NONE, |t| tables.tracks.get(t.number()));
            if track == NONE {
                continue;
            }
            let syncing = syncing.entry(track).or_default();
            let weight = sample.weight_ns as f64;
            syncing.all += weight;
            syncing.calls += if Some(sample.class) == sync { weight } else { 0.0 };
            syncing.writes += if Some(sample.class) == synced_write { weight } else { 0.0 };
            if let Some(run) = path.peek()
                && run.start <= at
                && run.track == track
            {
                *known.sampled.entry(run.entry).or_default().entry(sample.class).or_default() += sample.weight_ns;
            }
        }
        if sync.is_some() {
            syncing.retain(|_, syncing| syncing.all >= limits::ENOUGH_SAMPLED_NS as f64);
            known.syncing = syncing;
        }
        Ok(known)
    }

    /// The effect of a processor quota on an end.
    pub(crate) fn quota_of(&self, end: End) -> Quota {
        self.quotas[end as usize]
    }

    /// The part of a track's running, `ran_ns` in all, that made data durable; 0 if samples are too few. `written` bytes are copied in any
    /// case.
    pub(crate) fn syncing(&self, track: u32, ran_ns: f64, written: u64) -> f64 {
        let Some(syncing) = self.syncing.get(&track) else { return 0.0 };
        let copying = written as f64 * limits::COPIED_NS_PER_BYTE / ran_ns.max(1.0);
        syncing.calls / syncing.all + (syncing.writes / syncing.all - copying).max(0.0)
    }

    /// The part of these entries' running samples in calls on names and attributes, and the calls, most first; `None` if samples are too
    /// few.
    pub(crate) fn on_names(&self, members: &[usize]) -> Option<(f64, Vec<(&str, f64)>)> {
        let mut sums: HashMap<u16, u64> = HashMap::new();
        for sampled in members.iter().filter_map(|&i| self.sampled.get(&(i as u32))) {
            sampled.iter().for_each(|(&class, &ns)| *sums.entry(class).or_default() += ns);
        }
        let all: u64 = sums.values().sum();
        let call = |class: &u16| self.classes.get(class).and_then(|name| name.strip_prefix("metadata."));
        let mut calls: Vec<(&str, f64)> = sums.iter().filter_map(|(class, &ns)| Some((call(class)?, ns as f64 / all as f64))).collect();
        calls.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        (all >= limits::ENOUGH_SAMPLED_NS).then(|| (calls.iter().map(|(_, part)| part).sum(), calls))
    }

    /// The class of code with most samples of these entries, calls on names and attributes aside: its name, its time, and the time of all.
    pub(crate) fn most_sampled(&self, members: &[usize]) -> Option<(&str, u64, u64)> {
        let mut sums: HashMap<u16, u64> = HashMap::new();
        for sampled in members.iter().filter_map(|&i| self.sampled.get(&(i as u32))) {
            let names = |class: &u16| self.classes.get(class).is_some_and(|name| name.starts_with("metadata."));
            sampled.iter().filter(|(class, _)| !names(class)).for_each(|(&class, &ns)| *sums.entry(class).or_default() += ns);
        }
        let (&class, &most) = sums.iter().max_by_key(|&(&class, &ns)| (ns, std::cmp::Reverse(class)))?;
        Some((self.classes.get(&class)?, most, sums.values().sum()))
    }

    /// The part of these entries' samples in the wanted classes of code.
    pub(crate) fn part_sampled(&self, members: &[usize], wanted: impl Fn(&str) -> bool) -> f64 {
        let samples = || members.iter().filter_map(|&i| self.sampled.get(&(i as u32))).flatten();
        let is_wanted = |class: &u16| self.classes.get(class).is_some_and(|name| wanted(name));
        let all: u64 = samples().map(|(_, ns)| ns).sum();
        samples().filter(|(class, _)| is_wanted(class)).map(|(_, ns)| ns).sum::<u64>() as f64 / all.max(1) as f64
    }
}

/// The effect of quotas on each end, summed over its processes.
fn quotas(source: &dyn Source, tables: &mut Tables) -> Result<[Quota; 2], ExplainError> {
    let quota = source.meta().attributes.iter().find(|(n, _)| n == "cgroup.cpu_quota").and_then(|(_, v)| v.parse().ok());
    let mut ends = [Quota { processors: quota, ..Quota::default() }, Quota::default()];
    let mut values: HashMap<u32, (i64, i64)> = HashMap::new();
    for counter in source.counters(CounterName::CpuThrottledNs)? {
        if let CounterOf::Track(track) = counter.of {
            let range = values.entry(tables.tracks.get(track.number())).or_insert((counter.value, counter.value));
            *range = (range.0.min(counter.value), range.1.max(counter.value));
        }
    }
    for (track, (least, most)) in values {
        let Some(actor) = tables.actors.get(track as usize) else { continue };
        ends[actor.end as usize].stopped_ns += most.abs_diff(least);
    }
    Ok(ends)
}
