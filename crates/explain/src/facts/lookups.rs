//! Names that were asked for while the run waited: of whom, which, and what came back.
//!
//! A lookup lasts from its question to its answer. One that got none lasts until its process asked again (the next server, the next try, the next name); the
//! last of them as long as the stretch of the critical path that began with it. What of the path lies in lookups was name resolution, charged to anybody: a
//! time limit, a server of names that was not recorded, or one that was.

use crate::ExplainError;
use crate::limits::assemble as limits;
use crate::observe::index::NONE;
use crate::observe::resolvers::Resolvers;
use crate::observe::tables::Tables;
use crate::path::ledger::{Ledger, Run};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use thalweg_base::ranges;
use thalweg_trace::lookup::CUT;
use thalweg_trace::{MarkKind, Source};

/// A question for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// The thread that asked.
    pub track: u32,
    /// The name, as it was asked of one server.
    pub object: u32,
    /// What was asked for, as RFC 1035 numbers it; `None`: which name and what of it was not recorded (a program of this machine was asked, over a socket).
    pub kind: Option<i64>,
    /// When it was asked.
    pub start: i64,
    /// When it was answered, or given up.
    pub end: i64,
    /// What came back ([`thalweg_trace::lookup`]); `None`: nothing.
    pub outcome: Option<i64>,
}

/// Those of one server.
#[derive(Debug)]
struct OfServer {
    /// Its address, or the path of its socket.
    server: String,
    /// By when they were asked.
    lookups: Vec<Lookup>,
    /// Whether a program of this machine that resolves names for others asked.
    asks_on: bool,
    /// By entry of the ledger: how much of the path was charged there while any was under way, in nanoseconds.
    of_entry: Vec<u64>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    servers: Vec<OfServer>,
    /// By entry of the ledger: the same while any of any server was.
    of_entry: Vec<u64>,
}

impl Lookups {
    /// Those of a recording.
    pub(crate) fn read(source: &dyn Source, tables: &mut Tables, ledger: &Ledger, resolvers: &Resolvers) -> Result<Lookups, ExplainError> {
        let mut all = asked(source, tables)?;
        let of_wait =
            |&(track, object, start, end): &(u32, u32, i64, i64)| Lookup { track, object, kind: None, start, end, outcome: Some(0) };
        all.extend(resolvers.waits.iter().map(of_wait));
        if all.is_empty() {
            return Ok(Lookups::default());
        }
        all.sort_by_key(|lookup| lookup.start);
        give_up(&mut all, tables, &ledger.path);
        let mut by_server: BTreeMap<String, Vec<Lookup>> = BTreeMap::new();
        for lookup in &all {
            if let Some(server) = server(tables, lookup.object) {
                by_server.entry(server.to_owned()).or_default().push(*lookup);
            }
        }
        let is_reached = |lookup: &Lookup| tables.actors.get(lookup.track as usize).is_some_and(|actor| actor.reached);
        let of_server = |(server, lookups): (String, Vec<Lookup>)| OfServer {
            server,
            asks_on: lookups.iter().any(is_reached),
            of_entry: charged_within(&lookups, &all, tables, ledger),
            lookups,
        };
        Ok(Lookups { servers: by_server.into_iter().map(of_server).collect(), of_entry: charged_within(&all, &all, tables, ledger) })
    }

    /// How much of these entries was charged while a name was asked for, in nanoseconds.
    pub(crate) fn ns_of(&self, entries: &[usize]) -> u64 {
        sum_of(&self.of_entry, entries)
    }

    /// The servers that these entries' time was waited for, the one with most of it first, what was asked of each, and for how long in nanoseconds. Where a
    /// program of this machine asks on for others, they are those that it asks.
    pub(crate) fn of(&self, entries: &[usize]) -> Vec<(&str, &[Lookup], u64)> {
        let waited = |of: &OfServer| sum_of(&of.of_entry, entries);
        let longest = self.servers.iter().map(waited).max().unwrap_or(0);
        let is_long = |of: &&OfServer| waited(of) as f64 >= longest as f64 * limits::ASKED_ON_PART;
        let asks_on = self.servers.iter().filter(is_long).any(|of| of.asks_on);
        let mut found: Vec<&OfServer> = self.servers.iter().filter(|of| of.asks_on == asks_on && waited(of) > 0).collect();
        found.sort_by_key(|of| std::cmp::Reverse(waited(of)));
        found.into_iter().map(|of| (of.server.as_str(), of.lookups.as_slice(), waited(of))).collect()
    }
}

fn sum_of(by_entry: &[u64], entries: &[usize]) -> u64 {
    entries.iter().map(|&entry| by_entry.get(entry).copied().unwrap_or(0)).sum()
}

/// By entry of the ledger: how much of the path was charged there while any of these was under way. A thread of a process that asks, beside the one that
/// does, does something else.
fn charged_within(lookups: &[Lookup], all: &[Lookup], tables: &Tables, ledger: &Ledger) -> Vec<u64> {
    let askers: HashSet<u32> = all.iter().map(|lookup| lookup.track).collect();
    let processes: HashSet<_> = askers.iter().map(|&track| tables.process(track)).collect();
    let waits = |run: &Run| run.track == NONE || askers.contains(&run.track) || !processes.contains(&tables.process(run.track));
    let mut charged = vec![0; ledger.entries.len()];
    let mut runs = ledger.path.iter().rev().peekable();
    for Range { start: from, end: to } in joined(lookups) {
        while runs.peek().is_some_and(|run| run.end <= from) {
            runs.next();
        }
        for run in runs.clone().take_while(|run| run.start < to).filter(|run| waits(run)) {
            charged[run.entry as usize] += (run.end.min(to) - run.start.max(from)).max(0).unsigned_abs();
        }
    }
    charged
}

/// The server that a name was asked of: `10.0.0.1:53`, or the path of a socket of this machine.
fn server(tables: &Tables, object: u32) -> Option<&str> {
    let object = tables.objects.get(object as usize)?;
    object.attribute("server").or_else(|| object.name.strip_prefix("unix:"))
}

/// Every question, with its answer where there was one. Answers do not say which kind of record they are about: they are dealt to the questions for their
/// name in the order in which these were asked.
fn asked(source: &dyn Source, tables: &mut Tables) -> Result<Vec<Lookup>, ExplainError> {
    let mut all: Vec<Lookup> = Vec::new();
    let mut open: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
    let mut marks: Vec<_> =
        source.marks()?.into_iter().filter(|mark| matches!(mark.kind, MarkKind::NameAsked | MarkKind::NameAnswered)).collect();
    marks.sort_by_key(|mark| (mark.at, mark.kind == MarkKind::NameAnswered));
    for mark in marks {
        let track = tables.tracks.get(mark.track.number());
        let object = mark.object.map_or(NONE, |object| tables.object_rows.get(object.number()));
        if track == NONE || object == NONE {
            continue;
        }
        let (at, value) = (mark.at.ns(), mark.value.unwrap_or(0));
        let open = open.entry((track, object)).or_default();
        if mark.kind == MarkKind::NameAsked {
            open.push(all.len());
            all.push(Lookup { track, object, kind: Some(value), start: at, end: i64::MAX, outcome: None });
        } else if value == CUT {
            // All that was asked together is asked for again, by other means.
            open.drain(..).for_each(|number| (all[number].end, all[number].outcome) = (at, Some(value)));
        } else if !open.is_empty() {
            let lookup = &mut all[open.remove(0)];
            (lookup.end, lookup.outcome) = (at, Some(value));
        }
    }
    Ok(all)
}

/// Ends those that got no answer. `path`: latest first.
fn give_up(all: &mut [Lookup], tables: &Tables, path: &[Run]) {
    let mut next: HashMap<(u32, u32), Vec<i64>> = HashMap::new();
    for at in (0..all.len()).rev() {
        let Lookup { track, start, outcome, .. } = all[at];
        let later = next.entry(tables.process(track).unwrap_or((0, 0))).or_default();
        if outcome.is_none() {
            // What is asked at once is one question for several kinds of record.
            let again = later.iter().rev().find(|at| **at - start >= limits::ASKED_TOGETHER_NS).copied();
            all[at].end = again.unwrap_or_else(|| stretch_after(path, start)).max(start);
        }
        later.push(start);
    }
}

/// The end of the longest of the stretches of the path that began about when something was asked, or lay over that.
fn stretch_after(path: &[Run], at: i64) -> i64 {
    let near = path.iter().filter(|run| run.start <= at + limits::ASKED_TOGETHER_NS && run.end > at);
    near.max_by_key(|run| (run.end - run.start, run.end)).map_or(at, |run| run.end)
}

/// When any of these was under way, earliest first.
fn joined(of: &[Lookup]) -> Vec<Range<i64>> {
    let mut spans: Vec<Range<i64>> = of.iter().map(|lookup| lookup.start..lookup.end).collect();
    ranges::merge(&mut spans);
    spans
}
