//! More requests in flight, for walks that ask, wait for the answer, and ask again: with a window, and with the attributes of many entries
//! in one answer.
//!
//! For a walk of this project's client, the gain is computed from the cost of its turns ([`super::walk`]). For any other program, the run
//! is replayed with a window of requests in flight. Attributes that come with names are different requests, which no edit of the recorded
//! ones expresses: the least remaining time is a bound.

use super::proposal::{By, Proposal, Run};
use super::requests::chains;
use super::walk::Walk;
use crate::cause::End;
use crate::document::{RoundTrips, Trip};
use crate::limits::replay as limits;
use crate::replay::edit::in_flight;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let Some(trips) = run.trips.filter(|trips| trips.of != Trip::Disk) else { return Vec::new() };
    if let Some(walk) = &run.walk {
        return ahead(walk, run);
    }
    if (trips.in_a_row as f64) < trips.count as f64 * limits::SERIAL {
        return Vec::new();
    }
    let now = run.under_way();
    let windowed = |&(id, window): &(&'static str, u32)| {
        let graph = in_flight(run.graph, chains(now.filter(|&now| now < window as usize)?, window as usize))?;
        let how = format!("a client that asks ahead, or {window} programs that each walk a part (xargs -P {window})");
        Some(Proposal::requests(run, id, format!("{window} requests in flight"), how, graph))
    };
    limits::WINDOWS.iter().filter_map(windowed).chain(attributes_with_names(run, trips)).collect()
}

/// The gain of windows for a walk of this project's client.
fn ahead(walk: &Walk, run: &Run<'_>) -> Vec<Proposal> {
    // The run as it was: each entry alone, and the names listed before.
    let scale = run.replayed_ns / (walk.around_ns + walk.alone_ns * walk.entries).max(1.0);
    let proposal = |&(id, window): &(&'static str, u32)| {
        let change = format!("ask {window} entries ahead: attributes and sizes, many in one message");
        let how = format!("ask {window} entries ahead");
        Proposal::new(id, change, how, By::Turns(walk.ns(window) * scale)).with_knob(run.meta, "window", window as usize)
    };
    limits::WINDOWS.iter().map(proposal).collect()
}

fn attributes_with_names(run: &Run<'_>, trips: &RoundTrips) -> Option<Proposal> {
    // If the number of entries is unknown, each was looked up and requested.
    let entries = trips.per_entry.as_ref().map_or(trips.count / 2, |e| e.entries) as f64;
    let pages = (entries * limits::ENTRY_BYTES / limits::PAGE_BYTES).ceil();
    // The time before the first request and after the last answer stays.
    let around = run.replayed_ns - (trips.asking_s * 1e9).min(run.replayed_ns);
    let ns = around + pages * trips.each_s * 1e9 + run.ran_ns(End::Server) * limits::WORK_LEFT;
    let change = "attributes with the names, those of many entries in one answer";
    let how = "a client that lists with attributes (NFS: READDIRPLUS; mounts: without nordirplus)";
    run.support.lists.then(|| Proposal::new("walk.readdirplus", change, how, By::Bound(ns.min(run.replayed_ns))))
}
