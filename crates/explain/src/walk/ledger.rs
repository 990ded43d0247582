//! The ledger: every instant the walk passes, charged once. Entries are summed by cause and place; the
//! path is kept in order of time, exactly as long as it is short, and after that in steps so fine that
//! neither a picture nor the cause of a gap can show.

use crate::cause::{Activity, Cause, End};
use crate::limits::walk as limits;
use crate::observe::index::NONE;
use crate::observe::quantile::Lengths;
use crate::observe::tables::{Object, Tables};
use crate::rule::RuleId;
use crate::walk::why::{Piece, StandsIn, Why};
use std::collections::HashMap;
use thalweg_trace::{ObjectKind, SpanKind};

/// What a thread was doing at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
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
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Polls in a sleep loop; what for is not known.
    Looking,
}

/// Where time is charged, before it is put into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
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
    /// The far end of a connection of which only one end was recorded.
    FarEnd {
        /// The label of those who see it.
        seen_by: u32,
        /// The connection, or [`NONE`].
        connection: u32,
    },
    /// A thread that was not recorded then, or not at all.
    Unseen {
        /// Its label.
        label: u32,
    },
    /// A thread that was in no wait, and that no sample found running.
    Hole {
        /// Its label.
        label: u32,
    },
    /// A lock that a thread (a track, no label) holds.
    Held {
        /// The label of those who wait for it.
        waiter: u32,
        /// Whose work or sleep it is that they wait for.
        holder: u32,
        /// What it did meanwhile: slept or ran.
        what: What,
        /// On what, or [`NONE`].
        object: u32,
    },
    /// A lock that another client of the same server has.
    HeldElsewhere {
        /// The client that waits for it: any track with its label.
        waiter: u32,
        /// Whose work or sleep it is that they wait for: a track, or [`NONE`] where nothing was recorded of it.
        holder: u32,
        /// The connection over which it was given back, where the holder is not known.
        connection: u32,
        /// What it did meanwhile.
        what: What,
        /// On what, or [`NONE`].
        object: u32,
    },
}

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
    /// How much of it lay on some thread, and not on the wire.
    pub on_thread: bool,
    /// Of a run queue: the labels of those who held the processor, and for how long.
    pub holders: Vec<(u32, u64)>,
    /// The labels of threads of the same process that waited for this one directly (a lock that it had, a queue that it filled), and for how long.
    pub waiters: Vec<(u32, u64)>,
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
    last: Option<((Cause, Place, bool), u32)>,
    /// The path, latest first.
    pub path: Vec<Run>,
    /// How often it left the client.
    pub away: Away,
    /// Whether the stretch away from the client that the walk is on has been counted.
    counted: bool,
    servers: Vec<bool>,
    has_servers: bool,
    current: Option<Run>,
    wall_ns: i64,
    step_ns: i64,
    /// For each actor the lowest actor with the same end and label.
    labels: Vec<u32>,
    /// For each actor the lowest actor at the same end of the same machine: they queue for the same processors.
    queues: Vec<u32>,
    /// By object: whether a wait on it is named by it.
    waited_on: Vec<bool>,
}

impl Ledger {
    /// An empty one for an interval of this length.
    pub(crate) fn new(tables: &Tables, wall_ns: i64) -> Ledger {
        let mut first: HashMap<(bool, &str), u32> = HashMap::new();
        let labels = tables.actors.iter().enumerate();
        let labels = labels.map(|(i, a)| *first.entry((a.end == End::Server, &a.label)).or_insert(i as u32)).collect();
        let mut first: HashMap<(bool, u32), u32> = HashMap::new();
        let queues = tables.actors.iter().enumerate();
        let queues = queues.map(|(i, a)| *first.entry((a.end == End::Server, a.machine)).or_insert(i as u32)).collect();
        Ledger {
            entries: Vec::new(),
            why: None,
            within: StandsIn { span: 0, kind: SpanKind::CpuRun, track: NONE },
            index: HashMap::new(),
            last: None,
            path: Vec::new(),
            away: Away::default(),
            counted: false,
            servers: tables.actors.iter().map(|a| a.end == End::Server).collect(),
            has_servers: tables.has_servers,
            current: None,
            wall_ns,
            step_ns: 0,
            labels,
            queues,
            waited_on: tables.objects.iter().map(|t| t.kind == ObjectKind::Cgroup || waited_on(t).is_some()).collect(),
            inferred: false,
        }
    }

    /// The place of a thread's doing. A run queue is a machine's, whichever thread waits in it.
    pub(crate) fn thread_place(&self, track: u32, what: What, object: u32) -> Place {
        let label = match what {
            What::Runnable => self.queues.get(track as usize).copied().unwrap_or(track),
            _ => self.label(track),
        };
        let object = match what {
            What::Running(kind) | What::Blocked(kind) if kind.name().starts_with("file.") || kind == SpanKind::WaitDisk => object,
            // A quota's control group; a pipe, a terminal.
            What::Runnable | What::Blocked(_) if self.waited_on.get(object as usize).is_some_and(|named| *named) => object,
            _ => NONE,
        };
        Place::Thread { label, what, object }
    }

    /// The label of a track.
    pub(crate) fn label(&self, track: u32) -> u32 {
        self.labels.get(track as usize).copied().unwrap_or(track)
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
        if let Some((last, entry)) = self.last
            && last == key
        {
            return entry;
        }
        let next = self.entries.len() as u32;
        let entry = *self.index.entry(key).or_insert(next);
        if entry == next {
            let on_thread = matches!(place, Place::Thread { .. } | Place::Held { .. });
            self.entries.push(Entry {
                cause,
                place,
                inferred: self.inferred,
                runs: Lengths::default(),
                on_thread,
                holders: Vec::new(),
                waiters: Vec::new(),
            });
        }
        self.last = Some((key, entry));
        entry
    }

    /// Remembers who held the processor during what was charged last.
    pub(crate) fn note_holder(&mut self, holder: u32, ns: i64) {
        let label = self.label(holder);
        let Some(entry) = self.current.and_then(|run| self.entries.get_mut(run.entry as usize)) else { return };
        add(&mut entry.holders, label, ns);
    }

    /// Remembers which thread of its process waited directly for what was charged last.
    pub(crate) fn note_waiter(&mut self, waiter: u32, ns: i64) {
        let label = self.label(waiter);
        let Some(entry) = self.current.and_then(|run| self.entries.get_mut(run.entry as usize)) else { return };
        add(&mut entry.waiters, label, ns);
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
            let label = self.labels.get(holder as usize).copied().unwrap_or(holder);
            entry.place = Place::Thread { label, what, object };
        }
    }

    /// Closes the run under way; called once more at the end of the walk.
    pub(crate) fn finish_run(&mut self) {
        let Some(run) = self.current.take() else { return };
        self.entries[run.entry as usize].runs.add((run.end - run.start) as u64);
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
            Place::Unseen { label } if serves(label) => Whereabouts::Server,
            Place::Hole { label } if serves(label) => Whereabouts::Server,
            Place::Unseen { .. } | Place::Hole { .. } => Whereabouts::Client,
            Place::Thread { label: actor, .. } | Place::Held { holder: actor, .. } if serves(actor) => Whereabouts::Server,
            Place::Thread { what: What::Blocked(kind), .. } if kind.name().starts_with("file.") || kind == SpanKind::WaitDisk => {
                Whereabouts::Disk
            }
            Place::Thread { .. } | Place::Held { .. } => Whereabouts::Client,
        }
    }

    /// The path in steps of at least `step_ns`, latest first.
    pub(crate) fn path_in_steps(&self, step_ns: i64) -> Vec<Run> {
        coarsen(&self.path, step_ns)
    }

    /// What a place is called; `named` says which files it may name.
    pub(crate) fn name(&self, tables: &Tables, place: Place, named: impl Fn(u32) -> bool) -> String {
        match place {
            Place::Thread { label, what, object } => {
                let who = thread_name(tables, label);
                match what {
                    What::Running(SpanKind::FileRead) if is_mount(tables, label) => format!("{who}: taking requests from the kernel"),
                    What::Running(SpanKind::FileWrite) if is_mount(tables, label) => format!("{who}: answering the kernel"),
                    What::Running(kind) => format!("{who}: {}", work_name(tables, kind, object, named(object), true)),
                    What::OwnWork => format!("{who}: its own work"),
                    What::Runnable => queue_name(tables, label, object),
                    What::Blocked(SpanKind::WaitTimer) if is_mount(tables, label) => format!("{who}: waiting for requests"),
                    What::Blocked(_) if let Some(on) = tables.objects.get(object as usize).and_then(waited_on) => format!("{who}: {on}"),
                    What::Blocked(SpanKind::WaitTimer) => format!("{who}: asleep"),
                    What::Blocked(SpanKind::WaitNetwork) => format!("{who}: asleep in a poll"),
                    What::Blocked(kind) => format!("{who}: {}", work_name(tables, kind, object, named(object), false)),
                    What::Still(kind) => format!("{who}: standing still in {}", kind.name()),
                    What::Stopped => format!("{who}: stopped"),
                    What::Looking => format!("{who}: polling in a sleep loop; target unknown"),
                }
            }
            Place::Wire(from, to) => format!("{} > {}", end_name(tables, from), end_name(tables, to)),
            Place::FarEnd { seen_by, connection } => far_end_name(tables, seen_by, connection),
            Place::Unseen { label } => unseen_name(tables, label),
            Place::Hole { label } => format!("{}: not known whether it ran or waited", thread_name(tables, label)),
            Place::HeldElsewhere { waiter, holder: NONE, connection, .. } => {
                let client =
                    tables.connections.get(connection as usize).and_then(|name| name.split_once(" > ")).map_or("somewhere", |n| n.0);
                format!("{}: a lock that the client at {client} holds", thread_name(tables, waiter))
            }
            Place::HeldElsewhere { waiter, holder, what, .. } | Place::Held { waiter, holder, what, .. } => {
                let doing = if matches!(what, What::Blocked(_)) { "sleeps" } else { "works" };
                format!("{}: a lock that {} holds while it {doing}", thread_name(tables, waiter), thread_name(tables, holder))
            }
        }
    }
}

impl Place {
    /// Whether it is a control group's processor quota.
    pub(crate) fn is_quota(self, tables: &Tables) -> bool {
        matches!(self, Place::Thread { what: What::Runnable, object, .. } if tables.objects.get(object as usize).is_some())
    }
}

/// Adds time to a label's, of a few labels.
fn add(times: &mut Vec<(u32, u64)>, label: u32, ns: i64) {
    let ns = u64::try_from(ns).unwrap_or(0);
    match times.iter().position(|(l, _)| *l == label) {
        Some(known) => times[known].1 += ns,
        None if times.len() < limits::MOST_LABELS => times.push((label, ns)),
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

fn is_mount(tables: &Tables, actor: u32) -> bool {
    tables.actors.get(actor as usize).is_some_and(|actor| actor.mount)
}

/// Which end, and which kind of thread there: `client request`, `server io0`.
fn thread_name(tables: &Tables, actor: u32) -> String {
    let Some(actor) = tables.actors.get(actor as usize) else { return "a thread".to_owned() };
    let label = &actor.label;
    match actor.end {
        End::Server => {
            let label = label.strip_suffix(" connection").or_else(|| served_by(label)).unwrap_or(label);
            if label.starts_with("server") { label.to_owned() } else { format!("server {label}") }
        }
        End::Client if actor.mount => label.clone(),
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

/// What a wait was on that is neither a file nor a connection, in words.
fn waited_on(object: &Object) -> Option<String> {
    let name = &object.name;
    Some(match object.kind {
        ObjectKind::Terminal => format!("waiting for somebody at terminal {name}"),
        ObjectKind::Pipe => format!("waiting at {name}"),
        ObjectKind::Socket => format!("waiting for an answer at {name}"),
        ObjectKind::Lock => format!("waiting for {name}"),
        ObjectKind::Process => format!("waiting for {name} to end"),
        _ => return None,
    })
}

/// The server whose thread this is, where the process has threads of several: `COMMAND/io0 serve` → `io0`.
fn served_by(label: &str) -> Option<&str> {
    label.strip_suffix(" serve").map(|label| label.rsplit('/').next().unwrap_or(label))
}

/// Who is at the end that was not recorded: the address of its server, where the connection says.
fn far_end_name(tables: &Tables, seen_by: u32, connection: u32) -> String {
    let seen_from = tables.actors.get(seen_by as usize).map_or(End::Client, |a| a.end);
    match tables.connections.get(connection as usize).and_then(|name| name.split_once(" > ")) {
        Some((_, server)) if seen_from == End::Client => format!("the server at {server}"),
        Some((client, _)) => format!("the client at {}", client.rsplit_once(':').map_or(client, |(host, _)| host)),
        None => format!("the far end of {}", thread_name(tables, seen_by)),
    }
}

/// Who was not recorded, by name and process.
fn unseen_name(tables: &Tables, actor: u32) -> String {
    match tables.actors.get(actor as usize) {
        Some(a) if a.role == thalweg_trace::Role::None && a.pid != 0 => format!("`{}` (process {}), not recorded", a.name, a.pid),
        Some(a) if a.role == thalweg_trace::Role::None => format!("`{}`, not recorded", a.name),
        _ => format!("{}, before it was recorded", thread_name(tables, actor)),
    }
}

/// The processors that an actor's end queues for, or the control group whose quota holds it back.
fn queue_name(tables: &Tables, actor: u32, group: u32) -> String {
    if let Some(group) = tables.objects.get(group as usize) {
        return format!("the processor quota of cgroup {}", group.name);
    }
    let machine = tables.actors.get(actor as usize).and_then(|a| tables.machines.get(a.machine as usize));
    match machine {
        Some(machine) if machine.cpus == 1 => format!("the processor of {}", machine.name),
        Some(machine) => format!("the {} processors of {}", machine.cpus, machine.name),
        None => "the processors".to_owned(),
    }
}

/// One end of a wire.
fn end_name(tables: &Tables, actor: u32) -> String {
    match tables.actors.get(actor as usize) {
        Some(a) if a.end == End::Server => thread_name(tables, actor),
        Some(a) if a.mount => a.label.split('/').next().unwrap_or("mount").to_owned(),
        Some(_) => "client".to_owned(),
        None => "the far end".to_owned(),
    }
}

fn work_name(tables: &Tables, kind: SpanKind, object: u32, named: bool, running: bool) -> String {
    let mut name = kind.name().to_owned();
    let file = tables.objects.get(object as usize).filter(|t| t.kind == ObjectKind::File);
    let object = tables.objects.get(object as usize);
    let device = file.and_then(|t| t.attribute("device"));
    let device = device.or_else(|| object.filter(|t| t.kind == ObjectKind::Device).map(|t| t.name.as_str()));
    if let Some(file) = file.filter(|_| named) {
        // A file of a known device is named in full; a store's datafile by what distinguishes it from the others.
        let whole = device.is_some() || file.name.ends_with('/');
        name.push(' ');
        name.push_str(if whole { &file.name } else { file.name.rsplit('/').next().unwrap_or(&file.name) });
    }
    if let Some((kind, file)) = file.and_then(|file| Some((file.served_by()?, file))) {
        match file.attribute("device") {
            Some(device) => name.push_str(&format!(", which {kind} ({device}) serves")),
            None => name.push_str(&format!(", which is served by {kind}")),
        }
        return name;
    }
    if let Some(device) = device.filter(|_| !running) {
        name.push_str(&format!(" on {device}"));
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
