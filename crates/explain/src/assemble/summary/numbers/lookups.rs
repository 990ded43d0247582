//! Names looked up, the servers asked, and their answers.

use super::super::groups::Group;
use super::raise::Behind;
use super::run::Run;
use super::words::number;
use crate::document::{Number, NumberKind};
use crate::facts::lookups::Lookup;
use crate::facts::names::brief;
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use crate::observe::tables::Tables;
use std::collections::HashSet;
use thalweg_base::numbers::{count, duration};
use thalweg_trace::lookup::{CUT, NO_RECORD, NO_SUCH_NAME, NOBODY_LISTENS, POINTER, REFUSED, SERVER_FAILED};

/// The port of multicast DNS.
const MDNS: &str = ":5353";
/// Advice against multicast lookups, where no server can be made to answer.
const OF_MDNS: &str = "an entry in /etc/hosts, or no `mdns` in /etc/nsswitch.conf";

/// The outcome of lookups, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Silence,
    NobodyListens,
    Failed,
    Refused,
    NoSuchName,
    Other,
    Found,
}

/// The lookups that the run waited for: the names, the servers, and the answers. If many names are all found, the run is about lookups, and
/// how many are in flight says more ([`many`] applies if nothing does).
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let mut lookups = run.of.parts.around.lookups.of(&group.members).into_iter().flat_map(|(_, lookups, _)| lookups);
    let (are_found, count) =
        lookups.try_fold(0, |n, lookup| if fate(lookup) >= Fate::Other { Ok(n + 1) } else { Err(()) }).map_or((false, 0), |n| (true, n));
    many(run, group).filter(|_| !are_found || count < limits::LEAST_ITEMS)
}

/// The lookups that the run waited for, however many.
pub(super) fn many(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let ns = group.lookups_within(run.of)?;
    let tables = run.of.parts.tables;
    let servers = run.of.parts.around.lookups.of(&group.members);
    let (first, lookups, longest_ns) = *servers.first()?;
    // Servers that alternate within one wait are named together.
    let is_said = |(_, _, waited_ns): &&(&str, &[Lookup], u64)| *waited_ns as f64 >= longest_ns as f64 * limits::SECOND_SERVER;
    let shown: Vec<&(&str, &[Lookup], u64)> = servers.iter().filter(is_said).take(2).collect();
    let clauses: Vec<String> = shown.iter().map(|(server, lookups, _)| format!("{} {}", host(server), fates(tables, lookups).0)).collect();
    let sentence = format!("Name resolution: {}.", clauses.join("; "));
    let made = Number { count: Some(lookups.len() as u64), each_s: Some(mean_s(lookups)), ..number(NumberKind::NameLookups, sentence) };
    let (change, gained_ns) = match shown.len() {
        1 if first.ends_with(MDNS) => ("immediate answers by mDNS".to_owned(), longest_ns.min(ns)),
        1 => (format!("immediate answers from {}", host(first)), longest_ns.min(ns)),
        _ => ("immediate answers to all lookups".to_owned(), ns),
    };
    let how = if first.ends_with(MDNS) { OF_MDNS } else { how(fates(tables, lookups).1, lookups) };
    Some(made.raised_by(Raise { id: "names_at_once", change, how, gained_ns: gained_ns as f64 }))
}

/// The outcomes of a server's lookups, in words, and the worst of them.
fn fates(tables: &Tables, lookups: &[Lookup]) -> (String, Fate) {
    let mut fates: Vec<Fate> = lookups.iter().map(fate).collect();
    fates.sort_unstable();
    fates.dedup();
    // Beside failures, successes do not matter.
    let said: Vec<Fate> = if fates.len() > 1 { fates.iter().copied().filter(|fate| *fate < Fate::Other).collect() } else { fates };
    let said = if said.is_empty() { vec![Fate::Found] } else { said };
    let of = |fate: Fate| lookups.iter().copied().filter(move |lookup| self::fate(lookup) == fate || counts_as_found(fate, lookup));
    let clauses: Vec<String> = said.iter().take(2).map(|&fate| clause(tables, fate, &of(fate).collect::<Vec<_>>())).collect();
    (clauses.join("; it "), said[0])
}

fn counts_as_found(fate: Fate, lookup: &Lookup) -> bool {
    fate == Fate::Found && self::fate(lookup) == Fate::Other
}

fn fate(lookup: &Lookup) -> Fate {
    match lookup.outcome {
        None => Fate::Silence,
        Some(NOBODY_LISTENS) => Fate::NobodyListens,
        Some(SERVER_FAILED) => Fate::Failed,
        Some(REFUSED) => Fate::Refused,
        Some(NO_SUCH_NAME) => Fate::NoSuchName,
        Some(0) => Fate::Found,
        Some(_) => Fate::Other,
    }
}

/// The clause for one outcome, with the server as its subject.
fn clause(tables: &Tables, fate: Fate, of: &[Lookup]) -> String {
    if of.iter().all(|lookup| lookup.kind.is_none()) {
        let times = if of.len() == 1 { "once".to_owned() } else { format!("{} times", count(of.len() as u64)) };
        return format!("was asked {times} (for which names was not recorded), the longest {}", duration(longest_s(of)));
    }
    let (names, several) = names(tables, of);
    let each = format!("{}{}", duration(mean_s(of)), if of.len() > 1 { " each" } else { "" });
    let asked = match of.len() {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{} times", count(n as u64)),
    };
    match fate {
        Fate::Silence => format!("did not answer, asked {asked} for {names}"),
        Fate::NobodyListens => format!("was asked {asked} for {names}, and nothing listens there"),
        Fate::Failed => format!("failed (SERVFAIL), asked {asked} for {names}, {each}"),
        Fate::Refused => format!("refused (REFUSED), asked {asked} for {names}, {each}"),
        Fate::NoSuchName => format!("says {names} {} (NXDOMAIN), {each}", if several { "do not exist" } else { "does not exist" }),
        Fate::Other | Fate::Found if of.iter().any(|lookup| lookup.outcome == Some(CUT)) => {
            format!("answered for {names}, truncated and repeated over TCP, {each}")
        }
        Fate::Other | Fate::Found if of.iter().all(|lookup| lookup.outcome == Some(NO_RECORD)) => {
            format!("has no record of {names}, {each}")
        }
        Fate::Other | Fate::Found => format!("answered for {names}, {each}"),
    }
}

/// The names in order of lookup, with the record types; and whether there are several.
fn names(tables: &Tables, of: &[Lookup]) -> (String, bool) {
    let mut seen = HashSet::new();
    let name = |lookup: &Lookup| tables.objects.get(lookup.object as usize).map(|object| object.name.as_str());
    let names: Vec<&str> = of.iter().filter_map(name).filter(|name| seen.insert(*name)).collect();
    let shown = if names.len() > limits::NAMES_SHOWN { limits::NAMES_SHOWN - 1 } else { names.len() };
    let mut said: Vec<String> = names[..shown].iter().map(|name| spoken(name)).collect();
    if names.len() > shown {
        said.push(format!("{} more", count((names.len() - shown) as u64)));
    }
    let last = said.pop().unwrap_or_default();
    let list = if said.is_empty() { last } else { format!("{} and {last}", said.join(", ")) };
    let mut kinds: Vec<i64> = of.iter().filter_map(|lookup| lookup.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kinds: Vec<String> = kinds.into_iter().filter(|kind| *kind != POINTER).map(record).collect();
    let kinds = if kinds.is_empty() || kinds.len() > 3 { String::new() } else { format!(" ({})", kinds.join(", ")) };
    (list + &kinds, names.len() > 1)
}

/// A name as people write it; a reverse name as its address.
fn spoken(name: &str) -> String {
    let reversed = name.strip_suffix(".in-addr.arpa").map(|parts| parts.split('.').rev().collect::<Vec<_>>().join("."));
    match reversed.filter(|address| address.parse::<std::net::Ipv4Addr>().is_ok()) {
        Some(address) => format!("the name of {address}"),
        None if name.ends_with(".ip6.arpa") => "the name of an IPv6 address".to_owned(),
        None => brief(name),
    }
}

/// The name of a record type.
fn record(kind: i64) -> String {
    match kind {
        1 => "A".to_owned(),
        2 => "NS".to_owned(),
        5 => "CNAME".to_owned(),
        6 => "SOA".to_owned(),
        15 => "MX".to_owned(),
        16 => "TXT".to_owned(),
        28 => "AAAA".to_owned(),
        33 => "SRV".to_owned(),
        64 => "SVCB".to_owned(),
        65 => "HTTPS".to_owned(),
        255 => "ANY".to_owned(),
        other => format!("type {other}"),
    }
}

/// A server's address without the usual port.
fn host(server: &str) -> String {
    match server.strip_suffix(MDNS) {
        Some(host) => format!("mDNS ({host})"),
        None => server.strip_suffix(":53").unwrap_or(server).to_owned(),
    }
}

fn longest_s(of: &[Lookup]) -> f64 {
    of.iter().map(|lookup| (lookup.end - lookup.start) as f64 / 1e9).fold(0.0, f64::max)
}

fn mean_s(of: &[Lookup]) -> f64 {
    of.iter().map(|lookup| (lookup.end - lookup.start) as f64).sum::<f64>() / 1e9 / of.len().max(1) as f64
}

/// The remedy for the worst outcome.
fn how(worst: Fate, lookups: &[Lookup]) -> &'static str {
    if lookups.iter().all(|lookup| lookup.kind.is_none()) {
        return "see what the resolver itself asks; /etc/nsswitch.conf has the order of its sources";
    }
    let reverse = lookups.iter().filter(|lookup| lookup.kind == Some(POINTER)).count() * 2 > lookups.len();
    match worst {
        _ if reverse => "`UseDNS no` or `-n`: no names of addresses; an entry in /etc/hosts",
        // 1 s is the least that resolv.conf can set.
        Fate::Silence if longest_s(lookups) > limits::SHORTEST_TIMEOUT_S => {
            "a name server that answers first in /etc/resolv.conf; `options timeout:1`"
        }
        Fate::Silence | Fate::NobodyListens => "a name server that answers first in /etc/resolv.conf",
        // With `ndots:1` a name with a dot is first tried as it is: one more lookup if it is in a search domain.
        Fate::NoSuchName => "fewer `search` domains, or the whole name with a dot at its end",
        Fate::Failed | Fate::Refused => "a name server that can answer first in /etc/resolv.conf, or /etc/hosts",
        Fate::Other | Fate::Found => "an entry in /etc/hosts, or a cache (systemd-resolved, nscd, dnsmasq)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_addresses_are_said_by_the_address() {
        assert_eq!(spoken("2.0.0.10.in-addr.arpa"), "the name of 10.0.0.2");
        assert_eq!(spoken("lb.0.0.10.in-addr.arpa"), "lb.0.0.10.in-addr.arpa");
        assert_eq!([1, 28, 12345].map(record), ["A", "AAAA", "type 12345"]);
        assert_eq!([host("10.0.0.1:53"), host("224.0.0.251:5353")], ["10.0.0.1", "mDNS (224.0.0.251)"]);
    }
}
