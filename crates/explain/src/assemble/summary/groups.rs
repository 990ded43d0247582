//! Charges grouped by cause and program.

use super::of::Of;
use super::peers;
use crate::assemble::behind::{Behind, behind};
use crate::cause::{Cause, End};
use crate::facts::names::{device, file, processors, program, stem};
use crate::limits::summary as limits;
use crate::observe::index::NONE;
use crate::observe::quantile::Lengths;
use crate::observe::tables::Tables;
use crate::path::ledger::Entry;
use crate::waits::place::{Place, What};
use std::collections::HashMap;
use std::hash::Hash;

/// The charges of one cause and one program.
pub(super) struct Group<'a> {
    /// The cause.
    pub cause: Cause,
    /// Its share of the wall time.
    pub share: f64,
    /// Its time, summed over the entries.
    pub ns: u64,
    /// The part of it within gaps of the channel.
    pub idle: f64,
    /// Its ledger entries, by index, ascending.
    pub members: Vec<usize>,
    /// The entry with most time.
    pub largest: &'a Entry,
    /// The programs, most time first.
    pub names: Vec<String>,
    /// Files waited for, with the time.
    pub files: Vec<(String, u64)>,
    /// Devices, or servers of files, with the time.
    pub devices: Vec<(String, u64)>,
    /// The device behind it, if its places name none.
    pub behind: Option<Behind>,
    /// The longest interval.
    pub longest_ns: u64,
    /// Approximately the shortest of the counted intervals.
    shortest_ns: u64,
    /// Number of intervals, without short ones of another kind.
    pub count: u64,
    /// Total time of the counted intervals.
    counted_ns: u64,
    /// Whether the group is a path whose sender, the server, is named first.
    server_is_first: bool,
}

impl Group<'_> {
    /// Whether the group contains a ledger entry; called for each stretch of the path.
    pub(super) fn has(&self, entry: u32) -> bool {
        self.members.binary_search(&(entry as usize)).is_ok()
    }

    /// Whether threads were stopped by a signal.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.largest.place, Place::Thread { what: What::Stopped, .. })
    }

    /// Its program, or the first of several with their number.
    pub(super) fn who(&self) -> String {
        match self.names.as_slice() {
            [] => "a program".to_owned(),
            [one] => one.clone(),
            [first, rest @ ..] => with_others(first, rest.len()),
        }
    }

    /// Whether the group has several programs.
    pub(super) fn is_several(&self) -> bool {
        self.names.len() > 1
    }

    /// The two ends of a path, or the program, for a sentence; `at` is the server's address.
    pub(super) fn ends(&self, at: &str) -> String {
        let first = self.names.first().map_or("", String::as_str);
        match first.split_once(" > ") {
            Some((from, to)) if from == to && at.is_empty() => format!("client and server (both {from}){}", self.and_others()),
            Some((from, to)) if from == to => format!("client and server (both {from}, the server{at}){}", self.and_others()),
            Some((from, to)) if self.server_is_first => format!("{from}{at} and {to}{}", self.and_others()),
            Some((from, to)) => format!("{from} and {to}{at}{}", self.and_others()),
            None => with_others(first, self.names.len().saturating_sub(1)),
        }
    }

    /// The direction of bytes: `from nginx to curl`; `at` is the server's address.
    pub(super) fn way(&self, at: &str) -> String {
        match self.names.first().and_then(|first| first.split_once(" > ")) {
            Some((from, to)) if from != to && self.server_is_first => format!("from {from}{at} to {to}{}", self.and_others()),
            Some((from, to)) if from != to => format!("from {from} to {to}{at}{}", self.and_others()),
            _ => format!("between {}", self.ends(at)),
        }
    }

    fn and_others(&self) -> String {
        match self.names.len() {
            0 | 1 => String::new(),
            2 => " and on 1 other path".to_owned(),
            n => format!(" and on {} other paths", n - 1),
        }
    }

    /// The longest interval, if it has most of the time, or is far longer than another of few, so that the mean describes none of them.
    pub(super) fn outlier_s(&self) -> Option<f64> {
        let has_most = self.longest_ns as f64 >= self.ns as f64 * limits::MOST_OF_ALL;
        let unequal = self.count <= limits::FEW && self.longest_ns > 2 * self.shortest_ns;
        (self.count > 1 && (has_most || unequal)).then_some(self.longest_ns as f64 / 1e9)
    }

    /// The time of name resolution in it, in nanoseconds, if that was most of it.
    pub(super) fn lookups_within(&self, of: &Of<'_>) -> Option<u64> {
        use Cause as C;
        let works = matches!(
            self.cause,
            C::ClientCpu
                | C::ClientRead
                | C::ClientWrite
                | C::ClientSync
                | C::ClientMetadata
                | C::ClientMemory
                | C::ClientRunqueue
                | C::Recorder
        );
        let ns = of.parts.around.lookups.ns_of(&self.members);
        (!works && ns as f64 >= self.ns as f64 * limits::OF_LOOKUPS && ns > 0).then_some(ns)
    }

    /// Mean length of an interval, in seconds.
    pub(super) fn mean_s(&self) -> f64 {
        self.counted_ns as f64 / 1e9 / self.count.max(1) as f64
    }

    /// The file, if there was only one.
    pub(super) fn file(&self) -> Option<&str> {
        only(&self.files, self.ns)
    }

    /// The device, if there was only one.
    pub(super) fn device(&self) -> Option<&str> {
        only(&self.devices, self.ns)
    }
}

/// A name, and the number of others: `cc1 and 2 others`.
pub(super) fn with_others(first: &str, others: usize) -> String {
    match others {
        0 => first.to_owned(),
        1 => format!("{first} and 1 other"),
        n => format!("{first} and {n} others"),
    }
}

/// The only name; or the first, if it had nearly all of the time.
fn only(names: &[(String, u64)], all_ns: u64) -> Option<&str> {
    if let [(name, _)] = names {
        return Some(name);
    }
    names.first().filter(|(_, ns)| *ns as f64 >= all_ns as f64 * limits::NEARLY_ALL).map(|(name, _)| name.as_str())
}

/// Makes the groups, largest first.
pub(super) fn groups<'a>(of: &'a Of<'_>) -> Vec<Group<'a>> {
    let entries = &of.parts.ledger.entries;
    let mut made: HashMap<(Cause, String), Vec<usize>> = HashMap::new();
    for (number, charge) in of.charges.list.iter().enumerate() {
        let members = &of.charges.made_of[number].0;
        let Some(&largest) = members.iter().max_by_key(|&&i| entries[i].runs.total_ns) else { continue };
        let name = who(of, &entries[largest]);
        made.entry((charge.cause, stem(&name).to_owned())).or_default().push(number);
    }
    let mut groups: Vec<Group<'a>> = made.into_iter().filter_map(|((cause, _), charges)| group(of, cause, &charges)).collect();
    groups.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.cause.cmp(&b.cause)).then_with(|| a.names.cmp(&b.names)));
    groups
}

fn group<'a>(of: &'a Of<'_>, cause: Cause, charges: &[usize]) -> Option<Group<'a>> {
    let entries = &of.parts.ledger.entries;
    let mut members: Vec<usize> = charges.iter().flat_map(|&c| of.charges.made_of[c].0.iter().copied()).collect();
    members.sort_unstable();
    members.dedup();
    let largest = members.iter().map(|&i| &entries[i]).max_by_key(|e| e.runs.total_ns)?;
    let share: f64 = charges.iter().map(|&c| of.charges.list[c].share).sum();
    let idle: f64 = charges.iter().map(|&c| of.charges.list[c].share * of.charges.made_of[c].1).sum();
    let each = || members.iter().map(|&i| &entries[i]);
    let tables = of.parts.tables;
    let mut runs = Lengths::default();
    each().for_each(|e| runs.add_all(&e.runs));
    let sleeps = matches!(cause, Cause::ClientThink | Cause::ServerThink);
    let (count, counted_ns) = if sleeps { runs.without_short() } else { (runs.count, runs.total_ns) };
    Some(Group {
        cause,
        share,
        ns: runs.total_ns,
        idle: idle / share.max(f64::MIN_POSITIVE),
        largest,
        names: most_first(each().map(|e| (who(of, e), e.runs.total_ns))).into_iter().map(|(name, _)| name).collect(),
        files: most_first(each().filter_map(|e| Some((file(tables, &e.place)?.name.clone(), e.runs.total_ns)))),
        devices: most_first(each().filter_map(|e| Some((device(tables, &e.place)?, e.runs.total_ns)))),
        behind: behind(of.parts, cause, &members),
        count,
        counted_ns,
        longest_ns: runs.longest_ns,
        shortest_ns: runs.quantile_ns((runs.count - count) as f64 / runs.count.max(1) as f64 + f64::EPSILON),
        server_is_first: cause != Cause::NetworkLatency
            && matches!(largest.place, Place::Wire(from, to) if serves(tables, from) && !serves(tables, to)),
        members,
    })
}

/// Sums times by name, most first.
pub(super) fn most_first<T: Eq + Hash + Ord + Clone>(times: impl Iterator<Item = (T, u64)>) -> Vec<(T, u64)> {
    let mut sums: HashMap<T, u64> = HashMap::new();
    times.for_each(|(name, ns)| *sums.entry(name).or_default() += ns);
    let mut sums: Vec<(T, u64)> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}

fn serves(tables: &Tables, actor: u32) -> bool {
    tables.actors.get(actor as usize).is_none_or(|actor| actor.end == End::Server)
}

/// Whether `from` to `to` is the return path of a round trip, which counts as both directions.
fn is_both_ways(tables: &Tables, cause: Cause, from: u32, to: u32) -> bool {
    cause == Cause::NetworkLatency && serves(tables, from) && !serves(tables, to)
}

/// The subject of an entry: a program, the processors it queued for, or the two ends of a path.
fn who(of: &Of<'_>, entry: &Entry) -> String {
    let (tables, meta) = (of.parts.tables, of.meta);
    let name = |actor: u32| program(tables, meta, actor);
    match entry.place {
        Place::Thread { label, what: What::Runnable, object } => match tables.objects.get(object as usize) {
            Some(group) => format!("cgroup {}", group.name),
            None => processors(tables, label),
        },
        Place::Wire(from, to) => {
            let end = |actor: u32| if actor == NONE { peers::unrecorded(of) } else { name(actor) };
            if is_both_ways(tables, entry.cause, from, to) {
                format!("{} > {}", end(to), end(from))
            } else {
                format!("{} > {}", end(from), end(to))
            }
        }
        Place::FarEnd { connection, .. } => crate::facts::names::far_end(tables, connection).unwrap_or("the far end").to_owned(),
        Place::Thread { label, .. } | Place::Unseen { track: label } | Place::Given { label, .. } | Place::Hole { label } => name(label),
        Place::Held { waiter, .. } | Place::HeldElsewhere { waiter, .. } | Place::TimeLimit { waiter, .. } => name(waiter),
    }
}
