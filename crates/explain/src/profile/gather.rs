//! The samples of a recording, counted: one pass, each stack's answers looked up.

use super::bins::Bins;
use super::classify::{Stacks, Verdict};
use super::rules::{ClassId, Known};
use super::times::Times;
use std::collections::{BTreeMap, HashMap};
use thalweg_trace::{HostId, Role, Sample, Source, Track};

/// Whose code a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Whose {
    /// The command's, or a server's that was asked for.
    Own,
    /// Somebody else's.
    Other,
    /// The recorder's.
    Recorder,
}

/// Samples, and the time they stand for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    pub(super) samples: u64,
    pub(super) ns: u64,
}

impl Weight {
    fn add(&mut self, ns: u64) {
        self.samples += 1;
        self.ns = self.ns.saturating_add(ns);
    }

    pub(super) fn plus(&mut self, other: Weight) {
        self.samples += other.samples;
        self.ns = self.ns.saturating_add(other.ns);
    }
}

/// The samples of one machine.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) bins: Bins,
    pub(super) busy: Weight,
    /// By place of the stack, and by track (0: not known).
    pub(super) stacks: HashMap<(u32, u64), Weight>,
    /// Of each class, the time in each bin.
    pub(super) over_time: Vec<Vec<u64>>,
    /// The same for all classes.
    pub(super) all_over_time: Vec<u64>,
}

/// Whose each track is, and which program.
pub(super) struct Tracks<'a> {
    by_number: HashMap<u64, &'a Track>,
    all_are_own: bool,
}

impl<'a> Tracks<'a> {
    pub(super) fn of(source: &'a dyn Source) -> Tracks<'a> {
        let by_number: HashMap<u64, &Track> = source.tracks().iter().map(|track| (track.track.number(), track)).collect();
        // Where nothing was asked for, no program is another one.
        let all_are_own = !source.tracks().iter().any(|track| matches!(track.role, Role::Client | Role::Server));
        Tracks { by_number, all_are_own }
    }

    pub(super) fn get(&self, track: u64) -> Option<&'a Track> {
        self.by_number.get(&track).copied()
    }

    pub(super) fn whose(&self, track: u64) -> Whose {
        match self.get(track).map(|track| track.role) {
            Some(Role::Recorder) => Whose::Recorder,
            Some(Role::Client | Role::Server | Role::Kernel) => Whose::Own,
            Some(Role::None) | None if self.all_are_own => Whose::Own,
            Some(Role::None) | None => Whose::Other,
        }
    }
}

/// The class and the purpose of a stack of somebody.
pub(super) fn answers(verdict: &Verdict, whose: Whose, known: &Known) -> (ClassId, ClassId) {
    match whose {
        Whose::Recorder => (known.recorder, known.recorder),
        Whose::Other if verdict.is_user => (known.others, known.others),
        _ => (verdict.class, verdict.purpose),
    }
}

/// From when to when each machine has samples of a profile.
pub(super) fn sampled(samples: &[Sample]) -> BTreeMap<HostId, (i64, i64)> {
    let mut sampled: BTreeMap<HostId, (i64, i64)> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.stack.is_some()) {
        let at = sample.at.ns();
        let ends = sampled.entry(sample.host).or_insert((at, at));
        *ends = (ends.0.min(at), ends.1.max(at.saturating_add(i64::try_from(sample.weight_ns).unwrap_or(0))));
    }
    sampled
}

/// Counts the samples of all machines.
pub(super) fn gather(
    samples: &[Sample],
    stacks: &Stacks,
    tracks: &Tracks<'_>,
    times: &BTreeMap<HostId, Times>,
    (known, classes): (&Known, usize),
) -> BTreeMap<HostId, Gathered> {
    let fresh = |times: &Times| {
        let bins = Bins::new(times.start_ns, times.end_ns);
        let over_time = vec![Vec::new(); classes];
        Gathered { bins, busy: Weight::default(), stacks: HashMap::new(), over_time, all_over_time: vec![0; bins.count] }
    };
    let mut all: BTreeMap<HostId, Gathered> = times.iter().map(|(host, times)| (*host, fresh(times))).collect();
    let mut last: Option<(u64, Whose)> = None;
    for sample in samples {
        let Some(place) = sample.stack.and_then(|stack| stacks.place(stack)) else { continue };
        let Some(gathered) = all.get_mut(&sample.host) else { continue };
        let track = sample.track.map_or(0, thalweg_trace::TrackId::number);
        let whose = match last {
            Some((same, whose)) if same == track => whose,
            _ => tracks.whose(track),
        };
        last = Some((track, whose));
        let (class, _) = answers(&stacks.verdicts[place], whose, known);
        if class == known.idle {
            // Its time is counted as idle already.
            continue;
        }
        gathered.busy.add(sample.weight_ns);
        gathered.stacks.entry((place as u32, track)).or_default().add(sample.weight_ns);
        let bin = gathered.bins.at(sample.at.ns());
        gathered.all_over_time[bin] = gathered.all_over_time[bin].saturating_add(sample.weight_ns);
        let of_class = &mut gathered.over_time[class as usize];
        if of_class.is_empty() {
            of_class.resize(gathered.bins.count, 0);
        }
        of_class[bin] = of_class[bin].saturating_add(sample.weight_ns);
    }
    all
}
