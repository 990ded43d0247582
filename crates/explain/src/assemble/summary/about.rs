//! What a run was, in its own terms: bytes and a rate, entries and the time for each, transactions a second.

use super::Of;
use super::names::base;
use crate::document::{RoundTrips, Trip};
use crate::limits::summary as limits;
use std::collections::HashMap;
use thalweg_trace::Meta;
use thalweg_trace::numbers::{bit_rate, byte_rate, count, duration, size};

/// Signals by number, as Linux has them.
const SIGNALS: [(i32, &str); 12] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
];

/// How it ended, where not with exit code 0.
pub(super) fn ended(meta: &Meta) -> Option<String> {
    let code = meta.exit_code.filter(|code| *code != 0)?;
    let signal = SIGNALS.iter().find(|(number, _)| code == 128 + number);
    Some(match (signal, code) {
        (Some((_, name)), _) => format!("killed by {name}"),
        (None, 126) => "failed with exit code 126 (cannot be run)".to_owned(),
        (None, 127) => "failed with exit code 127 (not found)".to_owned(),
        (None, code) => format!("failed with exit code {code}"),
    })
}

/// The command with its paths cut to their last part, control characters aside.
pub(super) fn short_command(command: &[String]) -> String {
    let mut words = command.iter();
    let program = words.next().map(|word| base(word).to_owned());
    program.into_iter().chain(words.map(|word| short_word(word))).collect::<Vec<_>>().join(" ")
}

fn short_word(word: &str) -> String {
    if let Some((scheme, rest)) = word.split_once("://") {
        let path = rest.split(['?', '#']).next().unwrap_or(rest);
        return match path.split_once('/') {
            Some((host, path)) if !path.is_empty() => format!("{scheme}://{host}/{}", base(path)),
            _ => format!("{scheme}://{path}"),
        };
    }
    match word.split_once('=') {
        Some((flag, value)) if value.starts_with('/') && !flag.contains(char::is_whitespace) => format!("{flag}={}", base(value)),
        // A script's text is no path.
        None if word.starts_with(['/', '.']) && !word.contains(char::is_whitespace) => base(word).to_owned(),
        _ => word.to_owned(),
    }
}

/// What it did, how long that took, and at which rate.
pub(super) fn about(of: &Of<'_>) -> String {
    let wall_s = of.parts.wall_s();
    let took = duration(wall_s);
    let per_s = |n: u64| rate_per_s(n as f64 / wall_s.max(1e-9));
    if let Some((n, what)) = transactions(of) {
        return format!("{} {what} in {took}, {}", count(n), per_s(n));
    }
    if let Some(said) = of.round_trips.and_then(|trips| of_entries(trips, wall_s)) {
        return said;
    }
    let Some(bytes) = of.size_bytes.filter(|&bytes| bytes >= limits::LEAST_BYTES) else { return took };
    let rate = if of.verdict.cause.is_network() { bit_rate } else { byte_rate };
    let rate = rate(bytes as f64 / wall_s.max(1e-9));
    // How many files there were only a program that says so knows: of small files, recorders keep some together.
    if of.transfers >= limits::TREE_FILES && !of.parts.seen.asked.is_empty() {
        let each = duration(wall_s / of.transfers as f64);
        return format!("{} files, {} in {took}, {rate}, {each} each", count(of.transfers), size(bytes));
    }
    format!("{} in {took}, {rate}", size(bytes))
}

fn rate_per_s(rate: f64) -> String {
    if rate < 9.95 { format!("{rate:.1} a second") } else { format!("{} a second", count(rate.round() as u64)) }
}

/// A walk: its entries, and what each took.
fn of_entries(trips: &RoundTrips, wall_s: f64) -> Option<String> {
    let took = duration(wall_s);
    match &trips.per_entry {
        Some(entry) => {
            let trips = match entry.round_trips {
                n if n >= 0.05 => format!(" and {n:.1} round trips").replace(".0 ", " "),
                _ => String::new(),
            };
            let trips = if trips == " and 1 round trips" { " and 1 round trip".to_owned() } else { trips };
            let entries = if entry.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", count(entry.entries)) };
            Some(format!("{entries} in {took}, {}{trips} each", duration(wall_s / entry.entries.max(1) as f64)))
        }
        None => {
            let what = match trips.of {
                Trip::Calls => "calls",
                Trip::Exchanges => "messages",
                // A disk's requests are not the program's.
                Trip::Disk => return None,
            };
            let order = if trips.in_a_row as f64 >= trips.count as f64 * 0.95 { ", one after the other" } else { "" };
            Some(format!("{} {what} in {took}, {} each{order}", count(trips.count), duration(wall_s / trips.count.max(1) as f64)))
        }
    }
}

/// The transactions of a database that keeps a rollback journal (SQLite): each syncs the journal and then the database, in turns. Of any other load
/// of syncs, the waits.
fn transactions(of: &Of<'_>) -> Option<(u64, &'static str)> {
    let mut syncs: HashMap<&str, (u64, u64)> = HashMap::new();
    for (&object, &(waits, turns)) in &of.parts.seen.syncs.of {
        if let Some(object) = of.parts.tables.objects.get(object as usize) {
            let sum = syncs.entry(&object.name).or_default();
            *sum = (sum.0 + waits, sum.1 + turns);
        }
    }
    let has_journal = |name: &str| syncs.contains_key(format!("{name}-journal").as_str());
    let journalled: u64 = syncs.iter().filter(|(name, _)| has_journal(name)).map(|(_, (_, turns))| turns).sum();
    let waits: u64 = syncs.values().map(|(waits, _)| waits).sum();
    let waits = if of.size_bytes.unwrap_or(0) / waits.max(1) <= limits::MOST_BYTES_EACH { waits } else { 0 };
    [(journalled, "transactions"), (waits, "waits for stable storage")].into_iter().find(|(n, _)| *n >= limits::LOAD_SYNCS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_short_and_still_itself() {
        let short = |words: &[&str]| short_command(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert_eq!(short(&["/usr/bin/cp", "-r", "/data/run/", "../big"]), "cp -r run/ big");
        assert_eq!(short(&["nfs-cp", "big", "nfs://127.0.0.1/srv/files/big?version=3"]), "nfs-cp big nfs://127.0.0.1/big");
        assert_eq!(short(&["dd", "if=/data/a", "of=/tmp/b", "bs=1M"]), "dd if=a of=b bs=1M");
        assert_eq!(short(&["sh", "-c", "/bin/a | /bin/b"]), "sh -c /bin/a | /bin/b");
        assert_eq!(short(&[]), "");
    }
}
