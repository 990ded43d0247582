//! Other users of the device that was waited for: which part of those very waits it served others, by name.
//!
//! It is contention, rather than a slow device, only if a request takes longer while others are in flight; if that cannot be seen, the
//! users are named without a conclusion.

use crate::cause::Cause;
use crate::limits::assemble as limits;
use crate::observe::index::NONE;
use crate::observe::lives::{Beginning, Life};
use crate::observe::observation::{Observation, each_within};
use crate::observe::served::{Queueing, Requests, Stretch};
use crate::observe::tables::{Actor, Tables};
use crate::path::ledger::{Entry, Ledger};
use crate::waits::place::{Place, What};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use thalweg_base::numbers::whole_percent;
use thalweg_trace::{ObjectKind, Role};

/// Recorders' name for the track of page cache writeback.
const WRITEBACK: &str = "writeback";

/// The owner of a device's requests, relative to the waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequestOwner {
    /// The waiter.
    Own,
    /// Another process of the command.
    Command,
    /// Another program.
    Program,
    /// The page cache, for others' writes.
    Writeback,
    /// The page cache, possibly for the recorded programs' writes.
    OwnWriteback,
    /// Another kernel thread.
    Kernel,
    /// The recorder.
    Recorder,
    /// Unknown.
    Unknown,
}

impl RequestOwner {
    /// Whether the owner is unrelated to the recorded run.
    fn is_others(self) -> bool {
        matches!(self, RequestOwner::Program | RequestOwner::Writeback)
    }
}

/// One user of a device.
#[derive(Clone, Debug, PartialEq)]
struct Served {
    whose: RequestOwner,
    name: String,
    /// Process numbers; empty if unknown.
    processes: BTreeSet<u32>,
    /// Its part of the waits.
    part: f64,
}

impl Served {
    /// `` `dd` (process 812) ``.
    fn words(&self) -> String {
        let processes: Vec<&u32> = self.processes.iter().collect();
        match (self.whose, processes.as_slice()) {
            (RequestOwner::Own, _) => "its own requests".to_owned(),
            (RequestOwner::Writeback | RequestOwner::OwnWriteback, _) => "the page cache's writeback".to_owned(),
            (RequestOwner::Kernel, _) => format!("the kernel's {}", self.name),
            (RequestOwner::Recorder, _) => "the recorder".to_owned(),
            (RequestOwner::Unknown, _) => "unknown programs".to_owned(),
            (whose, numbers) => {
                let own = if whose == RequestOwner::Command { "the command's own " } else { "" };
                let which = match numbers {
                    [] => String::new(),
                    [one] => format!(" (process {one})"),
                    several => format!(" ({} processes)", several.len()),
                };
                format!("{own}`{}`{which}", self.name)
            }
        }
    }
}

/// A device's users while it was waited for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sharing {
    device: String,
    /// The users, most first.
    served: Vec<Served>,
    /// Whether the device's requests wait for each other.
    queueing: Queueing,
}

impl Sharing {
    fn part(&self, of: impl Fn(RequestOwner) -> bool) -> f64 {
        self.served.iter().filter(|served| of(served.whose)).map(|served| served.part).sum()
    }

    /// Whether others' part is mentioned first.
    pub(crate) fn is_worth_saying(&self) -> bool {
        self.queueing != Queueing::AtOnce && self.part(RequestOwner::is_others) >= limits::SHARED_NAMED_FIRST
    }

    /// Whether others had most of it, so that it is contention and not a slow device.
    pub(crate) fn is_contention(&self) -> bool {
        matches!(self.queueing, Queueing::InTurns(_)) && self.part(RequestOwner::is_others) >= limits::SHARED_LARGER
    }

    /// The unrelated program with more than half of it, and its part.
    pub(crate) fn most_of_another(&self) -> Option<(&str, f64)> {
        let most = self.others().next().filter(|other| other.whose == RequestOwner::Program && other.part > limits::SHARED_LARGER)?;
        Some((&most.name, most.part))
    }

    /// The phrase after what was waited for, if others' part is mentioned: `while loop2 served `dd` (process 812) 61 % of the time`.
    pub(crate) fn words(&self) -> String {
        let more = self.others().skip(1).any(|other| other.part >= limits::SHARED_WORTH_SAYING);
        let part = self.others().take(if more { usize::MAX } else { 1 }).map(|served| served.part).sum();
        let (who, more) = (self.others_name(), if more { " and others" } else { "" });
        format!("while {} served {who}{more} {} of the time", self.device, whole_percent(part))
    }

    /// The phrase for the evidence: all its users, if there were any besides the waiter.
    pub(crate) fn evidence(&self) -> Option<String> {
        let besides = |served: &&Served| served.whose != RequestOwner::Own && served.part >= limits::SHARED_WORTH_SAYING;
        let others: Vec<&Served> = self.served.iter().filter(besides).take(limits::SHARED_NAMED).collect();
        if others.iter().all(|served| served.whose == RequestOwner::Unknown) {
            return None;
        }
        let own = self.part(|whose| whose == RequestOwner::Own);
        let mut named: Vec<String> = others.iter().map(|served| format!("{} {}", served.words(), whole_percent(served.part))).collect();
        named.push(format!("its own requests {}", whole_percent(own)));
        let so = match self.queueing {
            _ if self.part(RequestOwner::is_others) < limits::SHARED_WORTH_SAYING => "",
            Queueing::InTurns(_) if self.is_contention() => ": contention, not a slow disk",
            Queueing::InTurns(_) => "",
            Queueing::AtOnce => " (it serves many at a time)",
            Queueing::DoesNotShow => " (whether they delayed its own requests is not known)",
        };
        Some(format!("meanwhile {} served {}{so}", self.device, named.join(", ")))
    }

    /// The users unrelated to the recorded run, most first.
    fn others(&self) -> impl Iterator<Item = &Served> {
        self.served.iter().filter(|served| served.whose.is_others())
    }

    /// The name of the largest of them.
    fn others_name(&self) -> String {
        self.others().next().map_or_else(|| "others".to_owned(), Served::words)
    }
}

/// The key of waits: cause, machine and device (a track; [`NONE`] for the busiest one).
type Key = (Cause, u32, u32);

/// A device's time for programs that were not recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign {
    /// Stretches, earliest first, with the cumulative time before each.
    stretches: Vec<(i64, i64, f64)>,
    /// The part of a stretch that counts: how far requests wait for each other there.
    in_turns: f64,
    /// The users, for a sentence.
    pub who: String,
}

impl Foreign {
    /// Its time within an interval, in nanoseconds.
    pub(crate) fn within(&self, from: i64, to: i64) -> f64 {
        (self.before(to) - self.before(from)).max(0.0) * self.in_turns
    }

    fn before(&self, at: i64) -> f64 {
        match self.stretches.partition_point(|stretch| stretch.0 < at) {
            0 => 0.0,
            n => {
                let (start, end, before) = self.stretches[n - 1];
                before + (at.min(end) - start) as f64
            }
        }
    }
}

/// The sharing of all devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sharings {
    of: HashMap<Key, Sharing>,
    /// By machine and name of a device.
    pub foreign: HashMap<(u32, String), Foreign>,
}

/// A device's work in the whole recording.
struct DeviceRecord {
    stretches: Vec<Stretch>,
    queueing: Queueing,
    /// Whether the device's writeback is for others' writes.
    foreign_writeback: bool,
}

/// Waits with one key.
#[derive(Default)]
struct Waits {
    intervals: Vec<(i64, i64)>,
    processes: BTreeSet<u32>,
    programs: BTreeSet<String>,
}

impl Sharings {
    /// Computes the sharing for the charges.
    pub(crate) fn of(tables: &Tables, ledger: &Ledger, seen: &Observation, lives: &[Life]) -> Sharings {
        if !seen.devices.values().any(|did| did.of_whom.says_who()) {
            return Sharings::default();
        }
        let keys: Vec<Option<Key>> = ledger.entries.iter().map(|entry| key(tables, entry)).collect();
        let mut waits: BTreeMap<Key, Waits> = BTreeMap::new();
        for run in ledger.path.iter().rev() {
            let Some(key) = keys[run.entry as usize] else { continue };
            let of = waits.entry(key).or_default();
            of.intervals.push((run.start, run.end));
            if let Some(actor) = tables.actors.get(run.track as usize) {
                of.processes.insert(actor.pid);
                of.programs.insert(actor.program().to_owned());
            }
        }
        let mut made = Sharings::default();
        let mut devices: HashMap<u32, DeviceRecord> = HashMap::new();
        for (key, waits) in waits {
            let (_, machine, device) = key;
            let device =
                if device == NONE { seen.busiest(tables, machine, &waits.intervals).map(|(device, ..)| device) } else { Some(device) };
            let Some((device, requests)) = device.and_then(|device| Some((device, &seen.devices.get(&device)?.of_whom))) else { continue };
            if !requests.says_who() {
                continue;
            }
            let did = devices.entry(device).or_insert_with(|| DeviceRecord {
                stretches: requests.served(),
                queueing: requests.queueing(),
                foreign_writeback: foreign_writeback(tables, seen, device, requests),
            });
            let whose = |by: u32| whose(tables, lives, &waits, machine, did.foreign_writeback, by);
            let sharing = Sharing {
                device: tables.actors[device as usize].name.clone(),
                served: meanwhile(tables, &did.stretches, &waits.intervals, whose),
                queueing: did.queueing,
            };
            made.note_foreign(tables, (machine, &sharing), did);
            made.of.insert(key, sharing);
        }
        made
    }

    /// The sharing of the waits that an entry belongs to.
    pub(crate) fn of_entry(&self, tables: &Tables, entry: &Entry) -> Option<&Sharing> {
        if self.of.is_empty() {
            return None;
        }
        self.of.get(&key(tables, entry)?)
    }

    /// Notes a device's time that was not for recorded programs and delayed those.
    fn note_foreign(&mut self, tables: &Tables, (machine, sharing): (u32, &Sharing), did: &DeviceRecord) {
        let name = (machine, sharing.device.clone());
        let Queueing::InTurns(in_turns) = sharing.queueing else { return };
        if self.foreign.contains_key(&name) {
            return;
        }
        let is_foreign = |by: u32| {
            tables.actors.get(by as usize).is_some_and(|a| match a.role {
                Role::None => a.thread,
                Role::Kernel => did.foreign_writeback && is_writeback(a),
                _ => false,
            })
        };
        let mut foreign = Foreign { in_turns, who: sharing.others_name(), ..Foreign::default() };
        let mut before = 0.0;
        for stretch in did.stretches.iter().filter(|stretch| is_foreign(stretch.by)) {
            foreign.stretches.push((stretch.start, stretch.end, before));
            before += (stretch.end - stretch.start) as f64;
        }
        if !foreign.stretches.is_empty() {
            self.foreign.insert(name, foreign);
        }
    }
}

fn is_writeback(actor: &Actor) -> bool {
    actor.role == Role::Kernel && actor.pid == 0 && actor.name == WRITEBACK
}

/// The key of an entry's waits; `None` if they are for no device.
fn key(tables: &Tables, entry: &Entry) -> Option<Key> {
    use Cause as C;
    let Place::Thread { label, what: What::Blocked(_), object } = entry.place else { return None };
    let machine = tables.actors.get(label as usize)?.machine;
    let object = tables.objects.get(object as usize);
    let device = match object {
        Some(object) if object.kind == ObjectKind::Device => Some(object.name.as_str()),
        Some(object) if object.served_by().is_some() => return None,
        Some(object) => object.attribute("device").filter(|name| !name.is_empty()),
        None => None,
    };
    let on_device = matches!(entry.cause, C::ClientRead | C::ServerRead | C::ClientWrite | C::ServerWrite | C::ClientSync | C::ServerSync);
    let perhaps = matches!(entry.cause, C::ClientMetadata | C::ServerMetadata | C::ClientMemory | C::ServerMemory);
    match device {
        Some(name) if on_device || perhaps => {
            let of_that_name = |actor: &Actor| !actor.thread && actor.machine == machine && actor.name == name;
            let track = tables.actors.iter().position(of_that_name)?;
            Some((entry.cause, machine, track as u32))
        }
        None if perhaps => Some((entry.cause, machine, NONE)),
        _ => None,
    }
}

/// The owner of a request.
fn whose(tables: &Tables, lives: &[Life], waits: &Waits, machine: u32, foreign_writeback: bool, by: u32) -> RequestOwner {
    let Some(actor) = tables.actors.get(by as usize) else { return RequestOwner::Unknown };
    let life = lives.get(by as usize).and_then(|life| life.from);
    match actor.role {
        Role::Recorder => RequestOwner::Recorder,
        Role::Kernel if is_writeback(actor) && foreign_writeback => RequestOwner::Writeback,
        Role::Kernel if is_writeback(actor) => RequestOwner::OwnWriteback,
        Role::Kernel => RequestOwner::Kernel,
        _ if actor.machine == machine && actor.pid != 0 && waits.processes.contains(&actor.pid) => RequestOwner::Own,
        _ if actor.pid == 0 && waits.programs.contains(actor.program()) => RequestOwner::Own,
        // A process that existed before and was named for recording is recorded, but not the command's.
        Role::Client if !actor.reached && !matches!(life, Some((_, Beginning::Seen))) => RequestOwner::Command,
        Role::Client if tables.actors.get(tables.main as usize).is_some_and(|main| main.pid == actor.pid) => RequestOwner::Command,
        _ => RequestOwner::Program,
    }
}

/// Whether at least half of a device's writeback is for others: recorded programs cannot account for more than they wrote and did not write
/// through.
fn foreign_writeback(tables: &Tables, seen: &Observation, device: u32, requests: &Requests) -> bool {
    let name = tables.actors[device as usize].name.as_str();
    let there = |object: usize| {
        let object = &tables.objects[object];
        object.kind == ObjectKind::File && object.attribute("device").is_none_or(|on| on == name)
    };
    let handed_over: u64 = seen
        .moved
        .iter()
        .flat_map(|by_object| by_object.iter().enumerate())
        .filter(|(object, _)| there(*object))
        .map(|(_, [_, out])| out.bytes)
        .sum();
    let (mut written_back, mut at_once) = (0, 0);
    for request in requests.iter().filter(|request| request.writes) {
        match tables.actors.get(request.by as usize) {
            Some(actor) if is_writeback(actor) => written_back += request.bytes,
            Some(actor) if matches!(actor.role, Role::Client | Role::Server) => at_once += request.bytes,
            _ => {}
        }
    }
    handed_over.saturating_sub(at_once) * limits::FOREIGN_WRITEBACK < written_back
}

/// The device's users in these waits (both earliest first), most first.
fn meanwhile(tables: &Tables, stretches: &[Stretch], waits: &[(i64, i64)], whose: impl Fn(u32) -> RequestOwner) -> Vec<Served> {
    let mut ns: HashMap<u32, i64> = HashMap::new();
    each_within(
        stretches,
        |stretch| (stretch.start, stretch.end),
        waits,
        |stretch, within_ns| *ns.entry(stretch.by).or_default() += within_ns,
    );
    let all: i64 = waits.iter().map(|(from, to)| to - from).sum();
    let mut served: BTreeMap<(RequestOwner, String), Served> = BTreeMap::new();
    for (by, ns) in ns {
        let whose = whose(by);
        let actor = tables.actors.get(by as usize);
        let name = actor.map_or("", Actor::program).to_owned();
        let one = served.entry((whose, name.clone())).or_insert_with(|| Served { whose, name, processes: BTreeSet::new(), part: 0.0 });
        one.processes.extend(actor.map(|actor| actor.pid).filter(|pid| *pid != 0));
        one.part += ns as f64 / all.max(1) as f64;
    }
    let mut served: Vec<Served> = served.into_values().collect();
    served.sort_by(|a, b| b.part.total_cmp(&a.part));
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(whose: RequestOwner, part: f64) -> Served {
        Served { whose, name: "fio".to_owned(), processes: BTreeSet::from([7]), part }
    }

    /// The device serves many simultaneously, so no contention is concluded, but its largest user is known.
    #[test]
    fn who_had_more_than_half_of_a_device_is_named_without_a_conclusion() {
        let of =
            |first| Sharing { device: "vda".to_owned(), served: vec![first, served(RequestOwner::Own, 0.3)], queueing: Queueing::AtOnce };
        let most = of(served(RequestOwner::Program, 0.69));
        assert_eq!(most.most_of_another(), Some(("fio", 0.69)));
        assert!(!most.is_contention() && !most.is_worth_saying());
        assert_eq!(of(served(RequestOwner::Program, 0.5)).most_of_another(), None);
        assert_eq!(of(served(RequestOwner::Command, 0.69)).most_of_another(), None);
    }
}
