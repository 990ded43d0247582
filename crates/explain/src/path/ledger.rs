//! The ledger: every instant the path passes, charged once. Entries are summed by cause and place; the
//! path is kept in order of time, exactly as long as it is short, and after that in steps so fine that
//! neither a picture nor the cause of a gap can show.

use crate::cause::{Activity, Cause, End};
use crate::limits::path as limits;
use crate::observe::index::NONE;
use crate::observe::quantile::Lengths;
use crate::observe::tables::Tables;
use crate::path::pauses::{Part, Paused, Pauses, Stretch};
use crate::path::why::{Piece, StandsIn, Why};
use crate::rule::RuleId;
use crate::waits::place::{Labels, Place, SleptFor, What};
use crate::waits::rules::is_on_files;
use foldhash::{HashMap, HashMapExt};
use thalweg_trace::SpanKind;

/// One line of the ledger.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The cause.
    pub cause: Cause,
    /// The place.
    pub place: Place,
    /// Whether a rule inferred it: the recording does not say it.
    pub inferred: bool,
    /// The intervals charged.
    pub runs: Lengths,
    /// Of a run queue: the labels of those who held the processor, and for how long.
    pub holders: Vec<(u32, u64)>,
    /// The labels of threads of the same process that waited for this one directly (a lock that it had, a queue that it filled), and for how long.
    pub waiters: Vec<(u32, u64)>,
    /// Of sleeps: what they were for, and for how long.
    pub slept: Vec<(SleptFor, u64)>,
}

impl Entry {
    /// Whether it lay on some thread, and not on the wire.
    pub(crate) fn is_on_thread(&self) -> bool {
        matches!(self.place, Place::Thread { .. } | Place::Held { .. })
    }
}

/// A stretch of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Where it begins.
    pub start: i64,
    /// Where it ends.
    pub end: i64,
    /// The entry.
    pub entry: u32,
    /// The track walked on, or [`NONE`].
    pub track: u32,
}

/// How often the path left the client's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Away {
    /// For a server (where none was recorded: the wire, or its far end), and came back. A stretch on the wire alone is no such
    /// trip where servers were recorded: its bytes had been sent while the client did something else.
    pub from_client: u64,
    /// For a client's wait for a file's device.
    pub from_disk: u64,
}

/// Where a stretch of the path lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    Client,
    Disk,
    Wire,
    Server,
}

/// The ledger of one walk.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The entries, in order of first charge.
    pub entries: Vec<Entry>,
    /// By which rules and on which spans the entries rest, where that was asked for.
    pub why: Option<Why>,
    /// Where the walk stands.
    pub within: StandsIn,
    /// Whether what is charged now rests on a rule that infers what the recording does not say.
    pub inferred: bool,
    index: HashMap<(Cause, Place, bool), u32>,
    /// The path, latest first.
    pub path: Vec<Run>,
    /// How often it left the client.
    pub away: Away,
    /// Whether the stretch away from the client that the walk is on has been counted.
    counted: bool,
    pauses: Pauses,
    /// Whether the run under way is a pause.
    paused: Option<Paused>,
    servers: Vec<bool>,
    has_servers: bool,
    current: Option<Run>,
    wall_ns: i64,
    step_ns: i64,
    /// What places are called by.
    pub labels: Labels,
}

impl Ledger {
    /// An empty one for an interval of this length.
    pub(crate) fn new(tables: &Tables, wall_ns: i64) -> Ledger {
        Ledger {
            entries: Vec::new(),
            why: None,
            within: StandsIn { span: 0, kind: SpanKind::CpuRun, track: NONE },
            index: HashMap::new(),
            path: Vec::new(),
            away: Away::default(),
            counted: false,
            pauses: Pauses::default(),
            paused: None,
            servers: tables.actors.iter().map(|a| a.end == End::Server).collect(),
            has_servers: tables.has_servers,
            current: None,
            wall_ns,
            step_ns: 0,
            labels: Labels::of(tables),
            inferred: false,
        }
    }

    /// The time that it is of, in seconds.
    pub(crate) fn wall_s(&self) -> f64 {
        self.wall_ns as f64 / 1e9
    }

    /// Charges the interval from `start` to `end`, which ends where the last one began, by a rule.
    pub(crate) fn charge(&mut self, rule: RuleId, cause: Cause, place: Place, (start, end): (i64, i64), track: u32) {
        if start >= end {
            return;
        }
        let entry = self.entry(cause, place);
        if let Some(why) = &mut self.why {
            why.add(entry, Piece { rule, within: self.within, start, end });
        }
        match &mut self.current {
            Some(run) if run.entry == entry && run.start == end && run.track == track => run.start = start,
            _ => {
                self.finish_run();
                self.current = Some(Run { start, end, entry, track });
            }
        }
    }

    fn entry(&mut self, cause: Cause, place: Place) -> u32 {
        let key = (cause, place, self.inferred);
        let is_same = |entry: &Entry| (entry.cause, entry.place, entry.inferred) == key;
        if let Some(run) = self.current.filter(|run| is_same(&self.entries[run.entry as usize])) {
            return run.entry;
        }
        let next = self.entries.len() as u32;
        let entry = *self.index.entry(key).or_insert(next);
        if entry == next {
            let (inferred, runs) = (self.inferred, Lengths::default());
            self.entries.push(Entry { cause, place, inferred, runs, holders: Vec::new(), waiters: Vec::new(), slept: Vec::new() });
        }
        entry
    }

    /// Remembers who else was part of what was charged last, and for how long: among those who held the processor, or waited for it directly.
    pub(crate) fn note(&mut self, label: u32, ns: i64, among: impl Fn(&mut Entry) -> &mut Vec<(u32, u64)>) {
        let Some(entry) = self.current.and_then(|run| self.entries.get_mut(run.entry as usize)) else { return };
        add(among(entry), label, ns);
    }

    /// Remembers what a sleep that was charged last was for.
    pub(crate) fn note_sleep(&mut self, what_for: SleptFor, ns: i64) {
        let Some(entry) = self.current.and_then(|run| self.entries.get_mut(run.entry as usize)) else { return };
        add(&mut entry.slept, what_for, ns);
    }

    /// Remembers that what was charged last was a pause of a process, which next did something at an instant.
    pub(crate) fn note_pause(&mut self, paused: Paused) {
        if self.current.is_some() {
            self.paused.get_or_insert(paused);
        }
    }

    /// Where what was charged last lies.
    pub(super) fn last_place(&self) -> Option<Place> {
        self.current.map(|run| self.entries[run.entry as usize].place)
    }

    /// Whether it is known of half of all sleeps, by their time, what they were for.
    pub(crate) fn knows_why_it_slept(&self) -> bool {
        let (mut known, mut unknown) = (0, 0);
        for (what_for, ns) in self.entries.iter().flat_map(|entry| &entry.slept) {
            *(if what_for.is_others() { &mut unknown } else { &mut known }) += ns;
        }
        known >= unknown
    }

    /// Whether servers slept more than once, and mostly for something else than one answer: a sleep before an answer is what the answer took.
    pub(crate) fn servers_sleep_in_steps(&self) -> bool {
        let of_servers = || self.entries.iter().filter(|entry| entry.cause == Cause::ServerThink);
        let slept = || of_servers().flat_map(|entry| &entry.slept);
        let answers_ns: u64 = slept().filter(|(what_for, _)| *what_for == SleptFor::Answer).map(|(_, ns)| ns).sum();
        let all_ns: u64 = slept().map(|(_, ns)| ns).sum();
        2 * answers_ns < all_ns.max(1) && of_servers().map(|entry| entry.runs.count).sum::<u64>() != 1
    }

    /// Whether what was slept by choice is at least as long as what time limits for a peer's answer took.
    pub(crate) fn slept_by_choice(&self) -> bool {
        let (mut limits_ns, mut slept_ns) = (0, 0);
        for entry in self.entries.iter().filter(|entry| matches!(entry.cause, Cause::ClientThink | Cause::ServerThink)) {
            *(if matches!(entry.place, Place::TimeLimit { .. }) { &mut limits_ns } else { &mut slept_ns }) += entry.runs.total_ns;
        }
        slept_ns >= limits_ns
    }

    /// Decides, when all is known of all threads, which of the time under [`Place::Held`] was a lock's. Where `is_lock`
    /// says no, the holder worked for those who waited, and it is charged as its own doing.
    pub(crate) fn settle_locks(&mut self, tables: &Tables, is_lock: impl Fn(u32, bool) -> bool) {
        for (number, entry) in self.entries.iter_mut().enumerate() {
            let Place::Held { holder, what, object, .. } = entry.place else { continue };
            let asleep = matches!(what, What::Blocked(_));
            if is_lock(holder, asleep) {
                continue;
            }
            if let Some(why) = &mut self.why {
                why.settle(number, RuleId::LockWork);
            }
            let activity = if asleep { Activity::Think } else { Activity::Cpu };
            entry.cause = activity.at(tables.actors[holder as usize].end);
            let label = self.labels.label(holder);
            entry.place = Place::Thread { label, what, object };
        }
    }

    /// Closes the run under way, and all that goes on: the walk is at its end.
    pub(crate) fn finish(&mut self) {
        self.finish_run();
        let parts = self.pauses.finish();
        self.count(parts);
    }

    /// Each entry has its part of a pause, and the one with most of it is where the pause is counted.
    fn count(&mut self, parts: Vec<Part>) {
        for Part { entry, ns, whole_ns } in parts {
            let runs = &mut self.entries[entry as usize].runs;
            match whole_ns {
                Some(whole_ns) => runs.add_part(ns, whole_ns),
                None => runs.total_ns += ns,
            }
        }
    }

    /// Closes the run under way.
    fn finish_run(&mut self) {
        let Some(run) = self.current.take() else { return };
        if let Some(paused) = self.paused.take() {
            let parts = self.pauses.piece(Stretch { entry: run.entry, start: run.start, end: run.end }, paused);
            self.count(parts);
        } else {
            let entry = &mut self.entries[run.entry as usize];
            entry.runs.add((run.end - run.start) as u64);
            if !matches!(entry.cause, Cause::ClientRunqueue | Cause::ServerRunqueue | Cause::Recorder) {
                self.pauses.worked(run.end - run.start);
            }
        }
        match self.whereabouts(self.entries[run.entry as usize].place) {
            Whereabouts::Client => self.counted = false,
            Whereabouts::Disk => (self.counted, self.away.from_disk) = (false, self.away.from_disk + 1),
            Whereabouts::Server if !self.counted => (self.counted, self.away.from_client) = (true, self.away.from_client + 1),
            Whereabouts::Server | Whereabouts::Wire => {}
        }
        self.path.push(run);
        if self.path.len() >= 2 * limits::EXACT_RUNS {
            self.step_ns = (self.step_ns * 2).max(self.wall_ns / limits::EXACT_RUNS as i64);
            self.path = coarsen(&self.path, self.step_ns);
        }
    }

    fn whereabouts(&self, place: Place) -> Whereabouts {
        let serves = |actor: u32| self.servers.get(actor as usize).copied().unwrap_or(false);
        match place {
            Place::Wire(..) if self.has_servers => Whereabouts::Wire,
            Place::Wire(..) | Place::FarEnd { .. } | Place::HeldElsewhere { .. } => Whereabouts::Server,
            Place::Unseen { track: actor }
            | Place::TimeLimit { waiter: actor, .. }
            | Place::Given { by: actor, .. }
            | Place::Hole { label: actor }
            | Place::Thread { label: actor, .. }
            | Place::Held { holder: actor, .. }
                if serves(actor) =>
            {
                Whereabouts::Server
            }
            Place::Thread { what: What::Blocked(kind), .. } if is_on_files(kind) => Whereabouts::Disk,
            _ => Whereabouts::Client,
        }
    }

    /// What was charged from one instant to another. Entries keep their numbers; those that the path does not touch there have no time.
    pub(crate) fn within(&self, from: i64, until: i64) -> Ledger {
        let clip = |run: &Run| Run { start: run.start.max(from), end: run.end.min(until), ..*run };
        let path: Vec<Run> = self.path.iter().map(clip).filter(|run| run.start < run.end).collect();
        let mut entries = self.entries.clone();
        entries.iter_mut().for_each(|entry| entry.runs = Lengths::default());
        path.iter().for_each(|run| entries[run.entry as usize].runs.add((run.end - run.start) as u64));
        // Who held what was waited for is known for all of an entry: each has the same part of what is left of it.
        for (entry, whole) in entries.iter_mut().zip(&self.entries) {
            let part = entry.runs.total_ns as f64 / whole.runs.total_ns.max(1) as f64;
            let part_of = |ns: &mut u64| *ns = (*ns as f64 * part) as u64;
            entry.holders.iter_mut().chain(&mut entry.waiters).for_each(|(_, ns)| part_of(ns));
            entry.slept.iter_mut().for_each(|(_, ns)| part_of(ns));
        }
        let (why, away) = (self.why.clone(), Away::default());
        Ledger {
            entries,
            why,
            within: self.within,
            inferred: false,
            index: HashMap::new(),
            path,
            away,
            counted: false,
            pauses: Pauses::default(),
            paused: None,
            servers: self.servers.clone(),
            has_servers: self.has_servers,
            current: None,
            wall_ns: until - from,
            step_ns: self.step_ns,
            labels: self.labels.clone(),
        }
    }

    /// The path in steps of at least `step_ns`, latest first.
    pub(crate) fn path_in_steps(&self, step_ns: i64) -> Vec<Run> {
        coarsen(&self.path, step_ns)
    }
}

/// Adds time to one of a few: a label's, or a reason's.
fn add<T: PartialEq>(times: &mut Vec<(T, u64)>, whose: T, ns: i64) {
    let ns = u64::try_from(ns).unwrap_or(0);
    match times.iter().position(|(known, _)| *known == whose) {
        Some(known) => times[known].1 += ns,
        None if times.len() < limits::MOST_LABELS => times.push((whose, ns)),
        None => {}
    }
}

/// Merges neighbours until each run is at least `step_ns` long. Of the entries within a step the one that is
/// owed most stands for all: each is owed what it took, and paid with the steps that bear its name. So the
/// path keeps the shares it had, over any stretch of many steps; the largest of each step would take all.
fn coarsen(path: &[Run], step_ns: i64) -> Vec<Run> {
    let mut coarse = Vec::new();
    let mut owed_ns: HashMap<u32, i64> = HashMap::new();
    let mut parts: Vec<(u32, u32, i64)> = Vec::new();
    let mut bounds: Option<(i64, i64)> = None;
    for (i, run) in path.iter().enumerate() {
        let (_, end) = bounds.unwrap_or((run.start, run.end));
        bounds = Some((run.start, end));
        match parts.iter_mut().find(|p| p.0 == run.entry) {
            Some(part) => part.2 += run.end - run.start,
            None => parts.push((run.entry, run.track, run.end - run.start)),
        }
        if end - run.start >= step_ns || i + 1 == path.len() {
            for part in &parts {
                *owed_ns.entry(part.0).or_default() += part.2;
            }
            let &(entry, track, _) = parts.iter().max_by_key(|p| owed_ns[&p.0]).expect("a run is in it");
            *owed_ns.entry(entry).or_default() -= end - run.start;
            coarse.push(Run { start: run.start, end, entry, track });
            parts.clear();
            bounds = None;
        }
    }
    coarse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_path_keeps_the_shares() {
        // Three entries take 50, 30 and 20 of every 100 ns; in steps of 1,000 the first is always largest.
        let mut path = Vec::new();
        for period in (0..10_000_i64).rev() {
            for (entry, from, to) in [(2, 80, 100), (1, 50, 80), (0, 0, 50)] {
                path.push(Run { start: period * 100 + from, end: period * 100 + to, entry, track: NONE });
            }
        }
        let coarse = coarsen(&path, 1_000);
        assert!(coarse.len() <= 1_000);
        assert!(coarse.windows(2).all(|w| w[0].start == w[1].end), "steps touch");
        for (entry, share) in [(0, 0.5), (1, 0.3), (2, 0.2)] {
            let ns: i64 = coarse.iter().filter(|r| r.entry == entry).map(|r| r.end - r.start).sum();
            assert!((ns as f64 / 1e6 - share).abs() < 0.01, "entry {entry}: {ns}");
        }
    }
}
