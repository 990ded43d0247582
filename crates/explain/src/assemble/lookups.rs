//! Names that were asked for while the run waited: of whom, which, and what came back.
//!
//! A lookup lasts from its question to its answer. One that got none lasts until its process asked again (the next server, the next try, the next name); the
//! last of them as long as the stretch of the critical path that began with it. What of the path lies in lookups was name resolution, whoever was charged: a
//! time limit, a server of names that was not recorded, or one that was.

use crate::ExplainError;
use crate::limits::assemble as limits;
use crate::observe::index::NONE;
use crate::observe::tables::Tables;
use crate::path::ledger::{Ledger, Run};
use std::collections::{HashMap, HashSet};
use thalweg_trace::lookup::CUT;
use thalweg_trace::{MarkKind, Source};

/// A question for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// The thread that asked.
    pub track: u32,
    /// The name, as it was asked of one server.
    pub object: u32,
    /// What was asked for, as RFC 1035 numbers it.
    pub kind: i64,
    /// When it was asked.
    pub start: i64,
    /// When it was answered, or given up.
    pub end: i64,
    /// What came back ([`thalweg_trace::lookup`]); `None`: nothing.
    pub outcome: Option<i64>,
}

/// All of them, by when they were asked.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    all: Vec<Lookup>,
    /// When any was under way, earliest first.
    under_way: Vec<(i64, i64)>,
    /// By entry of the ledger: how much of the path was charged there while one was, in nanoseconds.
    of_entry: Vec<u64>,
}

impl Lookups {
    /// Those of a recording.
    pub(crate) fn read(source: &dyn Source, tables: &mut Tables, ledger: &Ledger) -> Result<Lookups, ExplainError> {
        let mut all = asked(source, tables)?;
        give_up(&mut all, tables, &ledger.path);
        let mut found = Lookups { under_way: joined(&all), all, of_entry: vec![0; ledger.entries.len()] };
        let askers: HashSet<u32> = found.all.iter().map(|lookup| lookup.track).collect();
        let processes: HashSet<_> = askers.iter().map(|&track| tables.process(track)).collect();
        // A thread beside the one that asked does something else.
        let waits = |run: &Run| run.track == NONE || askers.contains(&run.track) || !processes.contains(&tables.process(run.track));
        let mut runs = ledger.path.iter().rev().peekable();
        for &(from, to) in &found.under_way {
            while runs.peek().is_some_and(|run| run.end <= from) {
                runs.next();
            }
            for run in runs.clone().take_while(|run| run.start < to).filter(|run| waits(run)) {
                found.of_entry[run.entry as usize] += (run.end.min(to) - run.start.max(from)).max(0).unsigned_abs();
            }
        }
        Ok(found)
    }

    /// How much of these entries was charged while a name was asked for, in nanoseconds.
    pub(crate) fn ns_of(&self, entries: &[usize]) -> u64 {
        entries.iter().map(|&entry| self.of_entry.get(entry).copied().unwrap_or(0)).sum()
    }

    /// Those that the run can have waited for: asked of the one server whose lookups lasted longest. Where a program of this machine asks on for others, that is the
    /// server that it asks.
    pub(crate) fn of_slowest<'t>(&self, tables: &'t Tables) -> Option<(&'t str, Vec<Lookup>)> {
        let mut by_server: HashMap<&str, Vec<Lookup>> = HashMap::new();
        for lookup in &self.all {
            by_server.entry(server(tables, lookup.object)?).or_default().push(*lookup);
        }
        let lasted = |of: &[Lookup]| joined(of).iter().map(|(from, to)| to - from).sum::<i64>();
        let longest = by_server.values().map(|of| lasted(of)).max()?;
        let is_long = |of: &[Lookup]| lasted(of) as f64 >= longest as f64 * limits::ASKED_ON_PART;
        let asks_on = |of: &[Lookup]| of.iter().any(|lookup| tables.actors.get(lookup.track as usize).is_some_and(|actor| actor.reached));
        by_server.into_iter().filter(|(_, of)| is_long(of)).max_by_key(|(server, of)| (asks_on(of), lasted(of), std::cmp::Reverse(*server)))
    }
}

/// The server that a name was asked of: `10.0.0.1:53`.
fn server(tables: &Tables, object: u32) -> Option<&str> {
    tables.objects.get(object as usize)?.attribute("server")
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
            all.push(Lookup { track, object, kind: value, start: at, end: i64::MAX, outcome: None });
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
fn joined(of: &[Lookup]) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> = of.iter().map(|lookup| (lookup.start, lookup.end)).collect();
    spans.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}
