//! The ledger: every instant the walk passes, charged once. Entries are summed by cause and place; the
//! path is kept in order of time, exactly as long as it is short, and after that in steps so fine that
//! neither a picture nor the cause of a gap can tell.

use crate::cast::Cast;
use crate::cause::{Cause, End};
use crate::index::NONE;
use crate::quantile::Lengths;
use std::collections::HashMap;
use thalweg_trace::{ObjectKind, SpanKind};

/// What a thread was doing at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// Running within a span of this kind.
    Running(SpanKind),
    /// Running between spans.
    OwnWork,
    /// Runnable and not running.
    Runnable,
    /// Blocked within a span of this kind.
    Blocked(SpanKind),
    /// Neither running, nor runnable, nor waiting for anything.
    Still(SpanKind),
}

/// Where time is charged, before it is put into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A kind of thread, what it did, and on which object (or [`NONE`]).
    Thread {
        /// Any track with the label.
        label: u32,
        /// What it did.
        what: What,
        /// On what, or [`NONE`].
        object: u32,
    },
    /// Between two kinds of threads: the labels of the sender's and the receiver's.
    Wire(u32, u32),
    /// The far end of a connection of which only one end was recorded, seen by this label.
    FarEnd(u32),
}

/// One line of the ledger.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The cause.
    pub cause: Cause,
    /// The place.
    pub place: Place,
    /// The intervals charged.
    pub runs: Lengths,
    /// How much of it lay on some thread, and not on the wire.
    pub on_thread: bool,
}

/// A stretch of the path.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Where it begins.
    pub start: i64,
    /// Where it ends.
    pub end: i64,
    /// The entry.
    pub entry: u32,
    /// The track walked on, or [`NONE`].
    pub track: u32,
}

/// How many runs of the path are kept exactly.
const EXACT_RUNS: usize = 1 << 18;

/// The ledger of one walk.
#[derive(Debug)]
pub struct Ledger {
    /// The entries, in order of first charge.
    pub entries: Vec<Entry>,
    index: HashMap<(Cause, Place), u32>,
    last: Option<((Cause, Place), u32)>,
    /// The path, latest first.
    pub path: Vec<Run>,
    current: Option<Run>,
    wall_ns: i64,
    step_ns: i64,
    /// For each actor the lowest actor with the same end and label.
    labels: Vec<u32>,
    /// For each actor the lowest actor at the same end of the same machine: they queue for the same processors.
    queues: Vec<u32>,
}

impl Ledger {
    /// An empty one for an interval of this length.
    pub fn new(cast: &Cast, wall_ns: i64) -> Ledger {
        let mut first: HashMap<(bool, &str), u32> = HashMap::new();
        let labels = cast.actors.iter().enumerate();
        let labels = labels.map(|(i, a)| *first.entry((a.end == End::Server, &a.label)).or_insert(i as u32)).collect();
        let mut first: HashMap<(bool, u32), u32> = HashMap::new();
        let queues = cast.actors.iter().enumerate();
        let queues = queues.map(|(i, a)| *first.entry((a.end == End::Server, a.machine)).or_insert(i as u32)).collect();
        Ledger {
            entries: Vec::new(),
            index: HashMap::new(),
            last: None,
            path: Vec::new(),
            current: None,
            wall_ns,
            step_ns: 0,
            labels,
            queues,
        }
    }

    /// The place of a thread's doing. A run queue is a machine's, whichever thread waits in it.
    pub fn thread_place(&self, track: u32, what: What, object: u32) -> Place {
        let label = match what {
            What::Runnable => self.queues.get(track as usize).copied().unwrap_or(track),
            _ => self.label(track),
        };
        let object = match what {
            What::Running(kind) | What::Blocked(kind) if kind.name().starts_with("file.") => object,
            _ => NONE,
        };
        Place::Thread { label, what, object }
    }

    /// The label of a track.
    pub fn label(&self, track: u32) -> u32 {
        self.labels.get(track as usize).copied().unwrap_or(track)
    }

    /// Charges the interval from `start` to `end`, which ends where the last one began.
    pub fn charge(&mut self, cause: Cause, place: Place, start: i64, end: i64, track: u32) {
        if start >= end {
            return;
        }
        let entry = self.entry(cause, place);
        match &mut self.current {
            Some(run) if run.entry == entry && run.start == end => run.start = start,
            _ => {
                self.finish_run();
                self.current = Some(Run { start, end, entry, track });
            }
        }
    }

    fn entry(&mut self, cause: Cause, place: Place) -> u32 {
        if let Some((key, entry)) = self.last
            && key == (cause, place)
        {
            return entry;
        }
        let next = self.entries.len() as u32;
        let entry = *self.index.entry((cause, place)).or_insert(next);
        if entry == next {
            let on_thread = matches!(place, Place::Thread { .. });
            self.entries.push(Entry { cause, place, runs: Lengths::default(), on_thread });
        }
        self.last = Some(((cause, place), entry));
        entry
    }

    /// Closes the run under way; called once more at the end of the walk.
    pub fn finish_run(&mut self) {
        let Some(run) = self.current.take() else { return };
        self.entries[run.entry as usize].runs.add((run.end - run.start) as u64);
        self.path.push(run);
        if self.path.len() >= 2 * EXACT_RUNS {
            self.step_ns = (self.step_ns * 2).max(self.wall_ns / EXACT_RUNS as i64);
            self.path = coarsen(&self.path, self.step_ns);
        }
    }

    /// The path in steps of at least `step_ns`, latest first.
    pub fn path_in_steps(&self, step_ns: i64) -> Vec<Run> {
        coarsen(&self.path, step_ns)
    }

    /// What a place is called.
    pub fn name(&self, cast: &Cast, place: Place, name_objects: bool) -> String {
        match place {
            Place::Thread { label, what, object } => {
                let who = thread_name(cast, label);
                match what {
                    What::Running(kind) => format!("{who}: {}", work_name(cast, kind, object, name_objects, true)),
                    What::OwnWork => format!("{who}: its own work"),
                    What::Runnable => queue_name(cast, label),
                    What::Blocked(kind) => format!("{who}: {}", work_name(cast, kind, object, name_objects, false)),
                    What::Still(kind) => format!("{who}: standing still in {}", kind.name()),
                }
            }
            Place::Wire(from, to) => format!("{} > {}", end_name(cast, from), end_name(cast, to)),
            Place::FarEnd(seen_by) => format!("the far end of {}", thread_name(cast, seen_by)),
        }
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

/// Which end, and which kind of thread there: `client request`, `server io0`.
fn thread_name(cast: &Cast, actor: u32) -> String {
    let Some(actor) = cast.actors.get(actor as usize) else { return "a thread".to_owned() };
    let label = &actor.label;
    match actor.end {
        End::Server => {
            let label = label.strip_suffix(" connection").unwrap_or(label);
            if label.starts_with("server") { label.to_owned() } else { format!("server {label}") }
        }
        End::Client if actor.role == thalweg_trace::Role::Client => {
            if label.starts_with("client") {
                label.clone()
            } else {
                format!("client {label}")
            }
        }
        End::Client => label.clone(),
    }
}

/// The processors that an actor's end queues for.
fn queue_name(cast: &Cast, actor: u32) -> String {
    let machine = cast.actors.get(actor as usize).and_then(|a| cast.machines.get(a.machine as usize));
    match machine {
        Some(machine) if machine.cpus == 1 => format!("the processor of {}", machine.name),
        Some(machine) => format!("the {} processors of {}", machine.cpus, machine.name),
        None => "the processors".to_owned(),
    }
}

/// One end of a wire.
fn end_name(cast: &Cast, actor: u32) -> String {
    match cast.actors.get(actor as usize) {
        Some(a) if a.end == End::Server => thread_name(cast, actor),
        Some(_) => "client".to_owned(),
        None => "the far end".to_owned(),
    }
}

fn work_name(cast: &Cast, kind: SpanKind, object: u32, name_objects: bool, running: bool) -> String {
    let mut name = kind.name().to_owned();
    if let Some(thing) = cast.things.get(object as usize)
        && name_objects
        && thing.kind == ObjectKind::File
    {
        name.push(' ');
        name.push_str(thing.name.rsplit('/').next().unwrap_or(&thing.name));
    }
    if running && matches!(kind, SpanKind::FileRead | SpanKind::FileWrite) {
        name.push_str(" (page cache)");
    }
    name
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
