//! The ledger: every instant of the path, charged once. Entries are summed by cause and place; the path is kept in order of time, exactly
//! while it is short, and then in steps too fine to show in a picture or in the cause of a gap.

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
    /// Whether a rule inferred it, instead of the recording showing it.
    pub inferred: bool,
    /// The intervals charged.
    pub runs: Lengths,
    /// For a run queue: labels of the processor's holders, and for how long.
    pub holders: Vec<(u32, u64)>,
    /// Labels of threads of the same process that waited for this one directly (a lock it held, a queue it filled), and for how long.
    pub waiters: Vec<(u32, u64)>,
    /// For sleeps: their purposes, and for how long.
    pub slept: Vec<(SleptFor, u64)>,
}

impl Entry {
    /// Whether the time lay on a thread, not on the wire.
    pub(crate) fn is_on_thread(&self) -> bool {
        matches!(self.place, Place::Thread { .. } | Place::Held { .. })
    }
}

/// A stretch of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Start.
    pub start: i64,
    /// End.
    pub end: i64,
    /// The entry.
    pub entry: u32,
    /// The track walked on, or [`NONE`].
    pub track: u32,
}

/// How often the path left the client's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Away {
    /// To a server (or, without recorded servers, to the wire or its far end), and back. A stretch on the wire alone does not count if
    /// servers were recorded: its bytes had been sent while the client did something else.
    pub from_client: u64,
    /// To wait for a file's device.
    pub from_disk: u64,
}

/// The location of a stretch of the path.
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
    /// Rules and spans behind the entries, if requested.
    pub why: Option<Why>,
    /// The innermost span of the walk's thread.
    pub within: StandsIn,
    /// Whether current charges rest on an inference.
    pub inferred: bool,
    index: HashMap<(Cause, Place, bool), u32>,
    /// The path, latest first.
    pub path: Vec<Run>,
    /// How often the path left the client.
    pub away: Away,
    /// Whether the current stretch away from the client has been counted.
    counted: bool,
    pauses: Pauses,
    /// The pause that the open run is, if any.
    paused: Option<Paused>,
    servers: Vec<bool>,
    has_servers: bool,
    current: Option<Run>,
    wall_ns: i64,
    step_ns: i64,
    /// The names of places.
    pub labels: Labels,
}

impl Ledger {
    /// An empty ledger for an interval of this length.
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

    /// Length of its interval, in seconds.
    pub(crate) fn wall_s(&self) -> f64 {
        self.wall_ns as f64 / 1e9
    }

    /// Charges the interval from `start` to `end`, which must end where the last one began, by a rule.
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

    /// Notes another thread's part in the last charge, and for how long: as a holder of the processor, or a direct waiter.
    pub(crate) fn note(&mut self, label: u32, ns: i64, among: impl Fn(&mut Entry) -> &mut Vec<(u32, u64)>) {
        let Some(entry) = self.current.and_then(|run| self.entries.get_mut(run.entry as usize)) else { return };
        add(among(entry), label, ns);
    }

    /// Notes the purpose of the last charged sleep.
    pub(crate) fn note_sleep(&mut self, what_for: SleptFor, ns: i64) {
        let Some(entry) = self.current.and_then(|run| self.entries.get_mut(run.entry as usize)) else { return };
        add(&mut entry.slept, what_for, ns);
    }

    /// Notes that the last charge was a pause of a process, which next acted at an instant.
    pub(crate) fn note_pause(&mut self, paused: Paused) {
        if self.current.is_some() {
            self.paused.get_or_insert(paused);
        }
    }

    /// The location of the last charge.
    pub(super) fn last_place(&self) -> Option<Place> {
        self.current.map(|run| self.entries[run.entry as usize].place)
    }

    /// Whether the purpose is known for half of all sleeps, by their time.
    pub(crate) fn knows_why_it_slept(&self) -> bool {
        let (mut known, mut unknown) = (0, 0);
        for (what_for, ns) in self.entries.iter().flat_map(|entry| &entry.slept) {
            *(if what_for.is_others() { &mut unknown } else { &mut known }) += ns;
        }
        known >= unknown
    }

    /// Whether servers slept more than once, and mostly not before an answer: a sleep before an answer is part of the answer's time.
    pub(crate) fn servers_sleep_in_steps(&self) -> bool {
        let of_servers = || self.entries.iter().filter(|entry| entry.cause == Cause::ServerThink);
        let slept = || of_servers().flat_map(|entry| &entry.slept);
        let answers_ns: u64 = slept().filter(|(what_for, _)| *what_for == SleptFor::Answer).map(|(_, ns)| ns).sum();
        let all_ns: u64 = slept().map(|(_, ns)| ns).sum();
        2 * answers_ns < all_ns.max(1) && of_servers().map(|entry| entry.runs.count).sum::<u64>() != 1
    }

    /// Whether voluntary sleeps took at least as long as timeouts for peers' answers.
    pub(crate) fn slept_by_choice(&self) -> bool {
        let (mut limits_ns, mut slept_ns) = (0, 0);
        for entry in self.entries.iter().filter(|entry| matches!(entry.cause, Cause::ClientThink | Cause::ServerThink)) {
            *(if matches!(entry.place, Place::TimeLimit { .. }) { &mut limits_ns } else { &mut slept_ns }) += entry.runs.total_ns;
        }
        slept_ns >= limits_ns
    }

    /// Decides, once all threads are known, which of the time under [`Place::Held`] was a lock's. If `is_lock` denies it, the holder worked
    /// for the waiters, and the time is charged as its own activity.
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

    /// Closes the open run and pause at the end of the walk.
    pub(crate) fn finish(&mut self) {
        self.finish_run();
        let parts = self.pauses.finish();
        self.count(parts);
    }

    /// Adds each part of a pause to its entry; the entry with most of it counts the pause.
    fn count(&mut self, parts: Vec<Part>) {
        for Part { entry, ns, whole_ns } in parts {
            let runs = &mut self.entries[entry as usize].runs;
            match whole_ns {
                Some(whole_ns) => runs.add_part(ns, whole_ns),
                None => runs.total_ns += ns,
            }
        }
    }

    /// Closes the open run.
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

    /// The ledger of an interval. Entries keep their indices; those that the path does not touch there have no time.
    pub(crate) fn within(&self, from: i64, until: i64) -> Ledger {
        let clip = |run: &Run| Run { start: run.start.max(from), end: run.end.min(until), ..*run };
        let path: Vec<Run> = self.path.iter().map(clip).filter(|run| run.start < run.end).collect();
        let mut entries = self.entries.clone();
        entries.iter_mut().for_each(|entry| entry.runs = Lengths::default());
        path.iter().for_each(|run| entries[run.entry as usize].runs.add((run.end - run.start) as u64));
        // Holders are known for whole entries: each gets the same fraction of the remainder.
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

/// Adds time to one of a few sums: a label's, or a purpose's.
fn add<T: PartialEq>(times: &mut Vec<(T, u64)>, whose: T, ns: i64) {
    let ns = u64::try_from(ns).unwrap_or(0);
    match times.iter().position(|(known, _)| *known == whose) {
        Some(known) => times[known].1 += ns,
        None if times.len() < limits::MOST_LABELS => times.push((whose, ns)),
        None => {}
    }
}

/// Merges neighbours until each run is at least `step_ns` long. The entry of a step that is owed most stands for all: each is owed its
/// time, and paid with the steps that bear its name. So shares are kept over any stretch of many steps; taking each step's largest entry
/// would distort them.
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
