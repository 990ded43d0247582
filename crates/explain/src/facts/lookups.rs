//! Name lookups while the run waited: the servers, the names, and the answers.
//!
//! A lookup lasts from its request to its answer. One without an answer lasts until its process asked again (the next server, the next try,
//! the next name); the last of them as long as the stretch of the critical path that began with it. The path's time within lookups counts as
//! name resolution, also where the time is charged to a timeout or to a name server.

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

/// A name lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// The thread that asked.
    pub track: u32,
    /// The name, as asked of one server.
    pub object: u32,
    /// Record type by RFC 1035; `None` if name and type were not recorded (a program of this machine was asked, over a socket).
    pub kind: Option<i64>,
    /// Time of the request.
    pub start: i64,
    /// Time of the answer, or of giving up.
    pub end: i64,
    /// The answer's code ([`thalweg_trace::lookup`]); `None` if there was none.
    pub outcome: Option<i64>,
}

/// The lookups of one server.
#[derive(Debug)]
struct OfServer {
    /// Its address, or the path of its socket.
    server: String,
    /// By time of request.
    lookups: Vec<Lookup>,
    /// Whether a resolver of this machine asked, on behalf of other programs.
    asks_on: bool,
    /// By ledger entry: time charged while any was in progress, in nanoseconds.
    of_entry: Vec<u64>,
}

/// All lookups.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    servers: Vec<OfServer>,
    /// By ledger entry: time charged while any lookup of any server was in progress, in nanoseconds.
    of_entry: Vec<u64>,
}

impl Lookups {
    /// Reads the lookups of a recording.
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

    /// Time of these entries during lookups, in nanoseconds.
    pub(crate) fn ns_of(&self, entries: &[usize]) -> u64 {
        sum_of(&self.of_entry, entries)
    }

    /// The servers that these entries waited for, most time first, with their lookups and the time in nanoseconds. If a resolver of this
    /// machine asks others, those servers.
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

/// By ledger entry: time charged while any of these was in progress. Another thread of the asking process does something else.
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

/// The server a name was asked of: `10.0.0.1:53`, or the path of a socket of this machine.
fn server(tables: &Tables, object: u32) -> Option<&str> {
    let object = tables.objects.get(object as usize)?;
    object.attribute("server").or_else(|| object.name.strip_prefix("unix:"))
}

/// Every request, with its answer if any. Answers do not have the record type: they are assigned to the requests for their name in order.
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
            // Everything asked together is asked again by other means.
            open.drain(..).for_each(|number| (all[number].end, all[number].outcome) = (at, Some(value)));
        } else if !open.is_empty() {
            let lookup = &mut all[open.remove(0)];
            (lookup.end, lookup.outcome) = (at, Some(value));
        }
    }
    Ok(all)
}

/// Ends the lookups without answers. `path` has the latest run first.
fn give_up(all: &mut [Lookup], tables: &Tables, path: &[Run]) {
    let mut next: HashMap<(u32, u32), Vec<i64>> = HashMap::new();
    for at in (0..all.len()).rev() {
        let Lookup { track, start, outcome, .. } = all[at];
        let later = next.entry(tables.process(track).unwrap_or((0, 0))).or_default();
        if outcome.is_none() {
            // Simultaneous requests are one question for several record types.
            let again = later.iter().rev().find(|at| **at - start >= limits::ASKED_TOGETHER_NS).copied();
            all[at].end = again.unwrap_or_else(|| stretch_after(path, start)).max(start);
        }
        later.push(start);
    }
}

/// The end of the longest stretch of the path that began about when a request was sent, or covered it.
fn stretch_after(path: &[Run], at: i64) -> i64 {
    let near = path.iter().filter(|run| run.start <= at + limits::ASKED_TOGETHER_NS && run.end > at);
    near.max_by_key(|run| (run.end - run.start, run.end)).map_or(at, |run| run.end)
}

/// The intervals in which any of these was in progress, earliest first.
fn joined(of: &[Lookup]) -> Vec<Range<i64>> {
    let mut spans: Vec<Range<i64>> = of.iter().map(|lookup| lookup.start..lookup.end).collect();
    ranges::merge(&mut spans);
    spans
}
