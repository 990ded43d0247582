//! Counts the samples of a recording: one pass, with each stack's answers looked up.

use super::bins::Bins;
use super::classify::{Stacks, Verdict};
use super::rules::{BuiltInClasses, ClassId};
use super::times::Times;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use thalweg_trace::{HostId, Role, Sample, Source};

/// The owner of a thread's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum CodeOwner {
    /// The command, or a server named for recording.
    Own,
    /// Another program.
    Other,
    /// The recorder.
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
    /// By index of the stack and by program: each pair once, in order.
    pub(super) stacks: Vec<((u32, ProgramId), Weight)>,
    /// The processes of each program that have samples.
    pub(super) processes: BTreeSet<(ProgramId, Option<u32>)>,
    /// By class: time in each bin.
    pub(super) over_time: Vec<Vec<u64>>,
    /// Time of all classes in each bin.
    pub(super) all_over_time: Vec<u64>,
}

/// The number of a program: its index in [`Programs::all`].
pub(super) type ProgramId = u32;

/// A program: all processes and threads of one name and role.
#[derive(Debug)]
pub(super) struct Program<'a> {
    pub(super) name: &'a str,
    pub(super) role: Role,
    pub(super) whose: CodeOwner,
}

/// The program of each track.
pub(super) struct Programs<'a> {
    pub(super) all: Vec<Program<'a>>,
    of_tracks: HashMap<u64, (ProgramId, Option<u32>)>,
    /// The program of unknown tracks.
    unknown: ProgramId,
}

impl<'a> Programs<'a> {
    pub(super) fn of(source: &'a dyn Source) -> Programs<'a> {
        // If no program was named, none counts as another.
        let all_are_own = !source.tracks().iter().any(|track| matches!(track.role, Role::Client | Role::Server));
        let whose = |role| match role {
            Role::Recorder => CodeOwner::Recorder,
            Role::Client | Role::Server | Role::Kernel => CodeOwner::Own,
            Role::None if all_are_own => CodeOwner::Own,
            Role::None => CodeOwner::Other,
        };
        let mut programs = Programs { all: Vec::new(), of_tracks: HashMap::new(), unknown: 0 };
        let mut known: HashMap<(&str, Role), ProgramId> = HashMap::new();
        let mut number = |name: &'a str, role: Role, all: &mut Vec<Program<'a>>| {
            *known.entry((name, role)).or_insert_with(|| {
                all.push(Program { name, role, whose: whose(role) });
                all.len() as ProgramId - 1
            })
        };
        programs.unknown = number("unknown", Role::None, &mut programs.all);
        for track in source.tracks() {
            // The part before the thread's own name.
            let name = track.name.split('/').next().unwrap_or(&track.name);
            let program = number(name, track.role, &mut programs.all);
            programs.of_tracks.insert(track.track.number(), (program, track.pid));
        }
        programs
    }

    pub(super) fn of_track(&self, track: u64) -> (ProgramId, Option<u32>) {
        self.of_tracks.get(&track).copied().unwrap_or((self.unknown, None))
    }
}

/// The class and the purpose of a stack, given its owner.
pub(super) fn answers(verdict: &Verdict, whose: CodeOwner, known: &BuiltInClasses) -> (ClassId, ClassId) {
    match whose {
        CodeOwner::Recorder => (known.recorder, known.recorder),
        CodeOwner::Other if verdict.is_user => (known.others, known.others),
        _ => (verdict.class, verdict.purpose),
    }
}

/// The interval in which each machine has samples of a profile.
pub(super) fn sampled(samples: &[Sample]) -> BTreeMap<HostId, (i64, i64)> {
    let mut sampled: BTreeMap<HostId, (i64, i64)> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.profiled().is_some()) {
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
    programs: &Programs<'_>,
    times: &BTreeMap<HostId, Times>,
    (known, classes): (&BuiltInClasses, usize),
) -> BTreeMap<HostId, Gathered> {
    let fresh = |times: &Times| {
        let bins = Bins::new(times.start_ns, times.end_ns);
        let over_time = vec![Vec::new(); classes];
        Gathered {
            bins,
            busy: Weight::default(),
            stacks: Vec::new(),
            processes: BTreeSet::new(),
            over_time,
            all_over_time: vec![0; bins.count],
        }
    };
    let mut all: BTreeMap<HostId, Gathered> = times.iter().map(|(host, times)| (*host, fresh(times))).collect();
    let mut last: Option<(u64, ProgramId)> = None;
    for sample in samples {
        let Some(place) = sample.profiled().and_then(|stack| stacks.place(stack)) else { continue };
        let Some(gathered) = all.get_mut(&sample.host) else { continue };
        let track = sample.track.map_or(0, thalweg_trace::TrackId::number);
        let program = match last {
            Some((same, program)) if same == track => program,
            _ => {
                let (program, pid) = programs.of_track(track);
                gathered.processes.insert((program, pid));
                program
            }
        };
        last = Some((track, program));
        let (class, _) = answers(&stacks.verdicts[place], programs.all[program as usize].whose, known);
        if class == known.idle {
            // Its time is counted as idle already.
            continue;
        }
        gathered.busy.add(sample.weight_ns);
        gathered.stacks.push(((place as u32, program), Weight { samples: 1, ns: sample.weight_ns }));
        let bin = gathered.bins.at(sample.at.ns());
        gathered.all_over_time[bin] = gathered.all_over_time[bin].saturating_add(sample.weight_ns);
        let of_class = &mut gathered.over_time[class as usize];
        if of_class.is_empty() {
            of_class.resize(gathered.bins.count, 0);
        }
        of_class[bin] = of_class[bin].saturating_add(sample.weight_ns);
    }
    all.values_mut().for_each(|gathered| together(&mut gathered.stacks));
    all
}

/// Merges weights of one stack and program. Sorted rather than looked up individually: of a million samples many are the first of theirs.
fn together(stacks: &mut Vec<((u32, ProgramId), Weight)>) {
    stacks.sort_unstable_by_key(|(key, _)| *key);
    stacks.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1.plus(next.1);
        }
        same
    });
}
