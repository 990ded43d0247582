//! Processes that ran until another one killed them.
//!
//! If the path was in such a process at that moment, its command took as long as that process was allowed to run: no change of its work is
//! known to shorten it. A server that was stopped when its work was done does not count: the path was elsewhere.

use crate::cause::End;
use crate::facts::Parts;
use crate::limits::assemble as limits;
use crate::observe::ended::{Ended, is_by};
use crate::observe::index::NONE;
use crate::observe::tables::Tables;
use crate::waits::place::Place;

/// By ledger entry, the time charged while such a process ran, in ns. Waits for a peer that did not answer do not count: an answer would
/// shorten them.
pub(crate) fn until_killed_ns(parts: &Parts<'_>) -> Vec<u64> {
    let mut ns = vec![0; parts.ledger.entries.len()];
    let lives: Vec<(i64, i64)> = parts.facts.ended.iter().filter_map(|ended| life(parts, ended)).collect();
    for run in &parts.ledger.path {
        let is_limit = matches!(parts.ledger.entries[run.entry as usize].place, Place::TimeLimit { .. });
        let within = |&(from, until): &(i64, i64)| (run.end.min(until) - run.start.max(from)).max(0) as u64;
        // One such process may have run within another's lifetime.
        let most = lives.iter().map(within).max().filter(|_| !is_limit);
        ns[run.entry as usize] += most.unwrap_or(0);
    }
    ns
}

/// The lifetime of a killed process, if the path was in it or in a process that it had started.
fn life(parts: &Parts<'_>, ended: &Ended) -> Option<(i64, i64)> {
    let tables = parts.tables;
    let own = tables.process(ended.leader)?;
    let by = &tables.objects.get(ended.sender as usize)?.name;
    let is_its = |track: u32| tables.actors.get(track as usize).is_some_and(|actor| actor.end == End::Client && is_by(by, actor.pid));
    if is_by(by, own.1) {
        return None;
    }
    let mut before = parts.ledger.path.iter().filter(|run| run.start < ended.at && run.track != NONE);
    let was_in = before.find(|run| !is_its(run.track))?.track;
    let from = parts.facts.lives[ended.leader as usize].floor().max(parts.start);
    descends(parts, was_in, own).then_some((from, ended.at))
}

/// Whether a thread belongs to a process or one of its descendants.
fn descends(parts: &Parts<'_>, track: u32, from: (u32, u32)) -> bool {
    let tables: &Tables = parts.tables;
    let mut at = track;
    for _ in 0..limits::GENERATIONS {
        let Some(process) = tables.process(at) else { return false };
        if process == from {
            return true;
        }
        let leader =
            (0..tables.actors.len() as u32).find(|&other| tables.actors[other as usize].leads() && tables.process(other) == Some(process));
        match leader.and_then(|leader| parts.facts.lives[leader as usize].made()) {
            Some((_, by)) if by != NONE => at = by,
            _ => return false,
        }
    }
    false
}
