//! More questions under way at a time, for walks that ask, wait for the answer, and ask the next: with so many, and with
//! the attributes of many entries in one answer.
//!
//! A walk of our own client is simulated ([`super::walk`]). Of any other program, questions of different entries are made
//! independent: the time they take together is that of one after the other over the window, or the busiest stage's, and a little more than
//! either where they are near each other.

use super::walk::WINDOWS;
use super::{By, Proposal, Run};
use crate::document::Trip;

/// Questions of which fewer than this part wait for the one before them are under way together already.
const SERIAL: f64 = 0.5;

/// How sharp the bend is between the two.
const SHARPNESS: f64 = 4.0;

/// Bytes of names and attributes in an answer, and for each entry, where a server gives attributes with names (NFS: READDIRPLUS).
const PAGE_BYTES: f64 = 32768.0;
const ENTRY_BYTES: f64 = 200.0;

/// Which part of the server's work is left where one question brings many entries: looking them up, not taking questions.
const WORK_LEFT: f64 = 0.1;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let Some(trips) = run.trips.filter(|trips| trips.of != Trip::Disk) else { return Vec::new() };
    if let Some(walk) = &run.walk {
        return walk.proposals(run.replayed_ns, run.meta);
    }
    if (trips.in_a_row as f64) < trips.count as f64 * SERIAL {
        return Vec::new();
    }
    // What lies before the first question over the connection that carried most of them, and after the last answer, stays.
    let exchanges = run.graph.exchanges.span_ns;
    let asking = if exchanges > 0.0 { exchanges } else { trips.asking_s * 1e9 }.min(run.replayed_ns);
    let busiest = run.stages.bottleneck(run.graph).min(asking);
    let at_once = trips.count as f64 / trips.in_a_row as f64;
    let around = run.replayed_ns - asking;
    let bent = |a: f64, b: f64| (a.powf(SHARPNESS) + b.powf(SHARPNESS)).powf(1.0 / SHARPNESS);
    let mut proposals: Vec<Proposal> = WINDOWS
        .iter()
        .map(|&(id, window)| Proposal {
            id,
            change: format!("{window} questions under way at a time"),
            how: format!("a client that asks ahead, or {window} programs that each walk a part (xargs -P {window})"),
            flags: Vec::new(),
            by: By::Stages((around + bent(busiest, asking * at_once / f64::from(window))).min(run.replayed_ns)),
        })
        .collect();
    // Where it is not known how many entries there were, each was looked up and asked about.
    let entries = trips.per_entry.as_ref().map_or(trips.count / 2, |e| e.entries) as f64;
    let pages = (entries * ENTRY_BYTES / PAGE_BYTES).ceil();
    let served: f64 =
        run.graph.programs.iter().zip(&run.stages.run).filter(|(p, _)| p.end == crate::cause::End::Server).map(|(_, ns)| ns).sum();
    proposals.push(Proposal {
        id: "walk.readdirplus",
        change: "attributes with the names, those of many entries in one answer".to_owned(),
        how: "a client that lists with attributes (NFS: READDIRPLUS; mounts: without nordirplus)".to_owned(),
        flags: Vec::new(),
        by: By::Stages((around + pages * trips.each_s * 1e9 + served * WORK_LEFT).min(run.replayed_ns)),
    });
    proposals
}
