//! A run in its own terms: bytes and a rate, entries and the time for each, transactions per second.

use super::files::{self, Done, each};
use super::of::Of;
use crate::cause::End;
use crate::document::RoundTrips;
use crate::facts::ending::Why;
use crate::facts::names::base;
use crate::limits::{numbers, summary as limits};
use crate::observe::observation::Way;
use crate::observe::overlap::together_ns;
use std::collections::HashMap;
use thalweg_base::numbers::{bit_rate, byte_rate, count, duration, size};
use thalweg_trace::Meta;
use thalweg_trace::linux::signal_name;

/// How the command ended, unless with exit code 0, and why, if known.
pub(super) fn ended(meta: &Meta, why: Option<&Why>) -> Option<String> {
    let code = meta.exit_code.filter(|code| *code != 0)?;
    if is_answer(meta, code) {
        return Some("exit code 1".to_owned());
    }
    let signal = code.checked_sub(128).and_then(|number| signal_name(number.into()));
    let signal = signal.filter(|_| !why.is_some_and(|why| why.of_another));
    let said = match (signal, code) {
        (Some(name), _) => format!("killed by {name}"),
        (None, 126) => "failed with exit code 126 (cannot be run)".to_owned(),
        (None, 127) => "failed with exit code 127 (not found)".to_owned(),
        (None, code) => format!("failed with exit code {code}"),
    };
    Some(match why.and_then(|why| why.words.as_ref()) {
        Some(words) => format!("{said}: {words}"),
        None => said,
    })
}

/// Whether an exit code is an answer: what was searched for is missing, or differs.
fn is_answer(meta: &Meta, code: i32) -> bool {
    let program = meta.command.first().map(|program| base(program)).unwrap_or_default();
    code == 1 && limits::ANSWER_BY_CODE.contains(&program)
}

/// The failure as a sentence, which precedes any cause: `It failed with exit code 2.` An answer is no failure.
pub(crate) fn failure(meta: &Meta, why: Option<&Why>) -> Option<String> {
    meta.exit_code.filter(|&code| !is_answer(meta, code))?;
    let ended = ended(meta, why)?;
    let was = if ended.starts_with("killed") { "was " } else { "" };
    Some(format!("It {was}{}.", ended.trim_end_matches('.')))
}

/// The first line: the run's activity, duration and rate: in bytes, unless it was about files and names, transactions or answers.
pub(super) fn about(of: &Of<'_>) -> String {
    let wall_s = of.parts.wall_s();
    let took = duration(wall_s);
    if let Some(said) = of.round_trips.and_then(|trips| of_entries(trips, wall_s)) {
        return said;
    }
    let synced = synced(of);
    let loads = [(synced.transactions, "transactions"), (synced.log, "log syncs")];
    if let Some((n, what)) = loads.into_iter().find(|(n, _)| *n >= limits::LOAD_SYNCS) {
        return each(n, what, wall_s);
    }
    let bytes = of_interest(of);
    if let Some((n, what, one_by_one)) = requests(of, bytes) {
        return if one_by_one && is_mean_of_each(of) {
            each(n, what, wall_s)
        } else {
            format!("{} {what} in {took}, {}", count(n), rate_per_s(n as f64 / wall_s.max(1e-9)))
        };
    }
    if synced.asked >= limits::LOAD_SYNCS {
        return each(synced.asked, "syncs", wall_s);
    }
    if let Some(done) = files(of) {
        return done.words(bytes, wall_s);
    }
    if bytes < limits::LEAST_BYTES {
        return match through_a_pipe(of) {
            Some(bytes) => format!("{} through a pipe in {took}, {}", size(bytes), byte_rate(bytes as f64 / wall_s.max(1e-9))),
            None => took,
        };
    }
    let rate = if of.verdict.cause.is_network() { bit_rate } else { byte_rate };
    let rate = rate(bytes as f64 / wall_s.max(1e-9));
    if is_own(of) {
        let each = duration(wall_s / of.transfers as f64);
        return format!("{} files, {} in {took}, {rate}, {each} each", count(of.transfers), size(bytes));
    }
    format!("{} in {took}, {rate}", size(bytes))
}

/// Whether the program itself records which files it moves, which is the best count: recorders merge small files.
pub(super) fn is_own(of: &Of<'_>) -> bool {
    of.transfers >= limits::TREE_FILES && !of.parts.seen.asked.is_empty()
}

/// The action on many files or names, if the run was about that and not about bytes.
pub(super) fn files(of: &Of<'_>) -> Option<Done> {
    let largest = of.listed.iter().map(|transfer| transfer.size_bytes).max().unwrap_or(0);
    let counted = of.parts.around.files.as_ref().filter(|_| !is_own(of))?;
    files::about(counted, (of_interest(of), largest))
}

/// Whether the time per request of the command is the time one request took: one in flight, and none far slower than the others.
fn is_mean_of_each(of: &Of<'_>) -> bool {
    let under_way = of.parts.seen.questions.under_way(End::Client, of.parts.tables);
    under_way.is_none_or(|own| own.average < numbers::MEAN_OF_ONE && own.slow.is_none())
}

fn rate_per_s(rate: f64) -> String {
    if rate < limits::FEW_A_SECOND { format!("{rate:.1} a second") } else { format!("{} a second", count(rate.round() as u64)) }
}

/// Bytes moved, without what programs read at startup. 0 if more were read of unrecorded files: the known bytes are then no measure of the
/// run.
pub(super) fn of_interest(of: &Of<'_>) -> u64 {
    let is_above = |word: &str, path: &str| word.len() > 1 && word.starts_with('/') && path.starts_with(word.trim_end_matches('/'));
    let named = |path: &str| of.meta.command.iter().any(|word| is_above(word, path));
    let of_system =
        |path: &str| limits::OWN.iter().any(|own| path.contains(own)) || limits::SYSTEM.iter().any(|system| path.starts_with(system));
    let own = of.listed.iter().filter(|transfer| transfer.to.is_none() && of_system(&transfer.from) && !named(&transfer.from));
    let known = of.size_bytes.unwrap_or(0).saturating_sub(own.map(|transfer| transfer.size_bytes).sum());
    let reads = of.parts.seen.stream(Way::ClientReads);
    let seen: u64 = reads.by_object.iter().flatten().map(|read| read.bytes).sum();
    if reads.all.bytes.saturating_sub(seen) > known { 0 } else { known }
}

/// Bytes through the busiest pipe, if many. (What one program passes on to the next is one stream of bytes.)
pub(super) fn through_a_pipe(of: &Of<'_>) -> Option<u64> {
    let written = of.parts.tables.objects.iter().filter_map(|object| object.attribute("written_bytes")?.parse::<u64>().ok());
    written.max().filter(|bytes| *bytes >= limits::LEAST_PIPED)
}

/// Answered requests, if there were many with few bytes: how many, their name, and whether they were sequential.
pub(super) fn requests(of: &Of<'_>, bytes: u64) -> Option<(u64, &'static str, bool)> {
    let asking = &of.parts.seen.asking;
    let exchanged = asking.exchanged();
    let (n, what) = match (asking.calls.count(), dialogues(of), exchanged.turns) {
        (calls, ..) if calls >= limits::FEWEST_REQUESTS => (calls, "requests"),
        (_, Some(dialogues), _) => (dialogues, "connections"),
        // With one send per answer it is a request; where a request takes several sends, or sends continue meanwhile, only the answers are
        // known. (They are no round trips: the program's own time may be most of one.)
        (.., turns) if turns * 10 >= exchanged.sends * 9 => (turns, "requests"),
        (.., turns) => (turns, "answers"),
    };
    let small = exchanged.bytes.max(bytes) / n.max(1) <= limits::MOST_BYTES_ANSWERED;
    let away = of.parts.ledger.away.from_client;
    let in_a_row = if asking.calls.count() >= limits::FEWEST_REQUESTS { away } else { away.max(exchanged.rounds()) };
    let one_by_one = in_a_row * 5 >= n * 4;
    // A few that did not wait for each other belong to the program: a connection being opened, a session starting.
    let enough = n >= if one_by_one { limits::FEWEST_REQUESTS } else { limits::LOAD_REQUESTS };
    (enough && small).then_some((n, what, one_by_one))
}

/// Number of sequential connections that all went through the same few turns: key exchange, greeting and login come before the actual
/// request, so the turns are not requests.
fn dialogues(of: &Of<'_>) -> Option<u64> {
    let exchanges = &of.parts.seen.exchanges.of;
    let mut turns: Vec<u64> = exchanges.values().map(|exchange| exchange.turns).filter(|turns| *turns > 0).collect();
    let n = turns.len() as u64;
    if n < numbers::MANY_CONNECTIONS {
        return None;
    }
    turns.sort_unstable();
    let usual = turns[turns.len() / 2];
    let alike = turns.iter().filter(|turns| **turns == usual).count() as u64;
    let used: Vec<(i64, i64)> = exchanges.values().filter(|e| e.turns > 0).map(|e| (e.first, e.last)).collect();
    let used_ns: i64 = used.iter().map(|(first, last)| last - first).sum();
    let in_turn = used_ns as f64 <= together_ns(used) as f64 * numbers::IN_TURN;
    let is_dialogue = usual > 1 && usual as f64 <= numbers::TURNS_TO_SET_UP && alike as f64 >= n as f64 * limits::ALIKE;
    (is_dialogue && in_turn).then_some(n)
}

/// The phrase for a walk: its entries, and the time of each.
fn of_entries(trips: &RoundTrips, wall_s: f64) -> Option<String> {
    let took = duration(wall_s);
    match &trips.per_entry {
        Some(entry) => {
            let trips = match entry.round_trips {
                n if n >= limits::LEAST_ROUND_TRIPS => format!(" and {n:.1} round trips").replace(".0 ", " "),
                _ => String::new(),
            };
            let trips = if trips == " and 1 round trips" { " and 1 round trip".to_owned() } else { trips };
            let entries = if entry.entries == 1 { "1 entry".to_owned() } else { format!("{} entries", count(entry.entries)) };
            Some(format!("{entries} in {took}, {}{trips} each", duration(wall_s / entry.entries.max(1) as f64)))
        }
        None => None,
    }
}

/// Syncs, if the run was about them.
pub(super) struct Synced {
    /// Transactions of a database with a rollback journal (SQLite): each syncs the journal and then the database, alternately.
    pub(super) transactions: u64,
    /// Syncs of a database's write-ahead log: each for one transaction, or a few together.
    pub(super) log: u64,
    /// Syncs of any file.
    pub(super) calls: u64,
    /// Syncs that the command can have been about: not for bulk data, and of servers only if they were waited for. Servers' background
    /// syncs do not count.
    asked: u64,
}

pub(super) fn synced(of: &Of<'_>) -> Synced {
    let mut syncs: HashMap<&str, (u64, u64)> = HashMap::new();
    let mut asked = 0;
    let were_waited_for = of.verdict.cause.is_sync();
    for (&object, synced) in &of.parts.seen.syncs.of {
        if let Some(object) = of.parts.tables.objects.get(object as usize) {
            let (calls, turns) = syncs.entry(&object.name).or_default();
            *calls += synced.calls();
            *turns += synced.turns;
            asked += if were_waited_for || !synced.of_servers { synced.calls() } else { 0 };
        }
    }
    let has_journal = |name: &str| syncs.contains_key(format!("{name}-journal").as_str());
    let all: u64 = syncs.values().map(|(calls, _)| calls).sum();
    let is_data = of.size_bytes.unwrap_or(0) / all.max(1) > limits::MOST_BYTES_EACH;
    Synced {
        transactions: syncs.iter().filter(|(name, _)| has_journal(name)).map(|(_, (_, turns))| turns).sum(),
        log: syncs.iter().filter(|(name, _)| is_log(base(name))).map(|(_, (calls, _))| calls).sum(),
        calls: all,
        asked: if is_data { 0 } else { asked },
    }
}

/// Whether a file is a database's log, by its name: PostgreSQL's segments, SQLite's and Redis's, InnoDB's.
fn is_log(name: &str) -> bool {
    let of_postgres = name.len() == 24 && name.bytes().all(|b| b.is_ascii_hexdigit());
    of_postgres || name.ends_with("-wal") || name.ends_with(".aof") || name.starts_with("ib_logfile") || name.starts_with("#ib_redo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_known_by_their_names() {
        assert!(["000000010000000000000001", "base.db-wal", "appendonly.aof.1.incr.aof", "ib_logfile0"].into_iter().all(is_log));
        assert!(!["000000010000000000000001.tar", "base.db", "base.db-journal", "wal"].into_iter().any(is_log));
    }
}
